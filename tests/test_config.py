"""Threads and device of the process and of ``with`` blocks: nested, of threads, tasks and generators."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import threading

import numpy as np
import pytest

import glasswood
from glasswood import _core, config_context, get_config, set_config
from glasswood.base import config
from glasswood.base.parallel import beside, n_threads, side_by_side
from tests.strategies import full_forest


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Options of a new process."""
    monkeypatch.setattr(config, "_process", {})


def in_thread(call):
    """What a call returns on a new thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_options_of_the_process_count_everywhere():
    assert get_config() == {"n_jobs": -1, "device": "auto"}
    set_config(n_jobs=3)
    set_config(device="cpu")
    assert get_config() == in_thread(get_config) == {"n_jobs": 3, "device": "cpu"}
    assert n_threads(None) == in_thread(lambda: n_threads(None)) == 3
    assert n_threads(2) == 2
    assert n_threads(-1) == _core.max_threads()
    set_config()
    assert get_config() == {"n_jobs": 3, "device": "cpu"}


def test_what_get_config_returns_changes_nothing():
    get_config()["n_jobs"] = 7
    assert get_config()["n_jobs"] == -1


def test_blocks_nest_and_give_back_after_errors():
    set_config(n_jobs=4)
    with config_context(n_jobs=1, device="cpu"):
        with config_context(n_jobs=2):
            assert get_config() == {"n_jobs": 2, "device": "cpu"}
        with pytest.raises(ValueError, match="output"), config_context(device="auto"):
            full_forest(0, n_trees=1, depth=1, n_features=1).predict(np.zeros((1, 1)), "no output")
        assert get_config() == {"n_jobs": 1, "device": "cpu"}
        set_config(n_jobs=5)
        assert get_config()["n_jobs"] == 1
    assert get_config() == {"n_jobs": 5, "device": "auto"}


def test_a_block_is_a_decorator_of_every_call():
    @config_context(n_jobs=1)
    def threads():
        return n_threads(None)

    assert [threads(), threads()] == [1, 1]
    assert get_config()["n_jobs"] == -1


def test_other_threads_do_not_see_a_block_unless_they_take_it_along():
    with config_context(n_jobs=1):
        assert in_thread(get_config)["n_jobs"] == -1
        context = contextvars.copy_context()
    with config_context(n_jobs=2):
        assert in_thread(lambda: context.run(get_config))["n_jobs"] == -1  # its block has ended
        inside = contextvars.copy_context()
        assert in_thread(lambda: inside.run(get_config))["n_jobs"] == 2


def test_threads_with_blocks_of_their_own():
    barrier = threading.Barrier(2)

    def seen(n_jobs, found):
        with config_context(n_jobs=n_jobs):
            barrier.wait()
            found.append(get_config()["n_jobs"])
            barrier.wait()

    found = [[], []]
    threads = [threading.Thread(target=seen, args=(n + 1, found[n])) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[1], [2]]


def test_tasks_of_asyncio():
    async def seen(n_jobs):
        with config_context(n_jobs=n_jobs):
            await asyncio.sleep(0)
            return get_config()["n_jobs"]

    async def both():
        return await asyncio.gather(seen(1), seen(2))

    assert in_thread(lambda: asyncio.run(both())) == [1, 2]  # another test may have left a loop on this thread


def test_generators_that_end_after_the_callers_block():
    """Each exit ends its own block only, in whatever order and on whatever thread."""

    def rows(n_jobs):
        with config_context(n_jobs=n_jobs):
            yield get_config()["n_jobs"]

    first, second = rows(1), rows(2)
    assert [next(first), next(second)] == [1, 2]
    with config_context(device="cpu"):
        first.close()
        assert get_config() == {"n_jobs": 2, "device": "cpu"}
        in_thread(second.close)
        assert get_config() == {"n_jobs": -1, "device": "cpu"}
    assert get_config() == {"n_jobs": -1, "device": "auto"}


def test_own_threads_have_the_options_of_the_caller():
    with config_context(n_jobs=3, device="cpu"):
        seen = side_by_side(lambda _: (get_config(), threading.get_ident()), 8, 2)
        seen += beside(lambda: (get_config(), 0), lambda: (get_config(), threading.get_ident()), 2)
    assert all(options == {"n_jobs": 3, "device": "cpu"} for options, _ in seen)
    assert threading.get_ident() not in {thread for _, thread in seen}
    side_by_side(lambda _: None, 2, 2)
    assert get_config()["n_jobs"] == -1


def test_members_of_an_ensemble_grow_with_the_options_of_the_caller(monkeypatch):
    pytest.importorskip("sklearn")
    owner = glasswood.ModelTreeEnsembleRegressor
    seen, alone = [], owner._alone

    def noting(self, *arguments):
        seen.append((get_config()["device"], threading.get_ident()))
        return alone(self, *arguments)

    monkeypatch.setattr(owner, "_alone", noting)
    X = np.random.default_rng(0).normal(size=(60, 2))
    tree = glasswood.ModelTreeRegressor(generations=2, max_leaves=2)
    with config_context(device="cpu", n_jobs=2):
        glasswood.ModelTreeEnsembleRegressor(tree, n_estimators=3).fit(X, X[:, 0])
    assert [device for device, _ in seen] == ["cpu"] * 3
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_unknown_options_are_refused():
    for call in (set_config, config_context):
        with pytest.raises(ValueError, match="n_jobs is 0, expected None, -1"):
            with_block(call(n_jobs=0))
        with pytest.raises(TypeError, match="n_jobs is 'two'"):
            with_block(call(n_jobs="two"))
        with pytest.raises(ValueError, match="device is 'tpu', expected"):
            with_block(call(device="tpu"))
        with pytest.raises(TypeError):
            call(1)
    assert get_config() == {"n_jobs": -1, "device": "auto"}


def with_block(made):
    """Enter what a call made, if it is a block."""
    if made is not None:
        with made:
            pass


def test_calls_follow():
    forest = full_forest(0, n_trees=3, depth=3, n_features=4)
    X = np.random.default_rng(0).normal(size=(9, 4))
    before = glasswood.Explainer(forest, n_jobs=2)
    with config_context(device="cpu", n_jobs=1):
        explainer = glasswood.Explainer(forest)
        assert (explainer.settings.device, before.settings.device) == ("cpu", "auto")
        assert (explainer.settings.n_jobs, before.settings.n_jobs) == (None, 2)
        np.testing.assert_array_equal(explainer.shap_values(X), before.shap_values(X))
    with config_context(device="cuda:7"):
        with pytest.raises(glasswood.base.device.DeviceError):
            forest.predict(X)
        with pytest.raises(glasswood.base.device.DeviceError):
            glasswood.Explainer(forest).shap_values(X)
        np.testing.assert_array_equal(
            forest.predict(X, device="cpu"), forest.predict(X, algorithm="serial", device="cpu")
        )


def test_mappers_take_one_thread_and_the_cpu_unless_the_options_say_more():
    forest = full_forest(0, n_trees=3, depth=3, n_features=4)
    explainer = glasswood.Explainer(forest)
    for made in (forest.mapper, explainer.mapper):
        assert made()._n_jobs == 1
        with config_context(n_jobs=3, device="cpu"):
            mapper = pickle.loads(pickle.dumps(made()))
        assert mapper._n_jobs == 3
        with config_context(n_jobs=-1):
            assert made()._n_jobs == -1
    assert forest.mapper()._device == "cpu"
    with config_context(device="auto"):
        assert forest.mapper()._device == "auto"
