"""Processes that fork while another thread is about to lay a forest out."""

from __future__ import annotations

import dataclasses
import os
import threading
import time

import numpy as np
import pytest

from glasswood import Explainer, _core
from glasswood.base.parallel import cached_property
from glasswood.explain import tables
from glasswood.plans import plan_of
from tests.strategies import full_forest, random_rows

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]
SECONDS = 30


@pytest.fixture
def forest():
    return full_forest(0, 20, 5, 6)


def while_another_thread(does, began, release, child):
    """Exit code of `child` in a process that forks while a thread `does` something until released."""
    thread = threading.Thread(target=does)
    thread.start()
    try:
        assert began.wait(SECONDS)
        process = os.fork()
        if process == 0:
            code = 1
            try:
                child()
                code = 0
            finally:
                os._exit(code)
        return wait_for(process)
    finally:
        release.set()
        thread.join()


def wait_for(process):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    os.kill(process, 9)
    os.waitpid(process, 0)
    return "hangs"


def halting(function, began, release):
    """The function, which the parent process ends only when it is released."""
    parent = os.getpid()

    def halted(*arguments):
        if os.getpid() == parent:
            began.set()
            release.wait()
        return function(*arguments)

    return halted


def test_tables_that_another_thread_plans(forest, monkeypatch):
    began, release = threading.Event(), threading.Event()
    X = random_rows(1, forest, 40)
    expected = Explainer(dataclasses.replace(forest)).shap_values(X)  # another, which shares no plan
    explainer = Explainer(forest)
    monkeypatch.setitem(tables.TABLES, "float32", halting(tables.TABLES["float32"], began, release))

    def child():
        np.testing.assert_array_equal(explainer.shap_values(X), expected)

    thread_values = []
    assert while_another_thread(lambda: thread_values.append(explainer.shap_values(X)), began, release, child) == 0
    np.testing.assert_array_equal(thread_values[0], expected)


def test_layouts_that_another_thread_makes(forest, monkeypatch):
    """Of another forest: the lock of functools.cached_property was the class's until Python 3.12."""
    began, release = threading.Event(), threading.Event()
    X = random_rows(1, forest, 40)
    monkeypatch.setattr(_core, "EvaluatePlan", halting(_core.EvaluatePlan, began, release))
    other = full_forest(1, 3, 3, 6)

    def first_use():
        forest.predict(X, algorithm="by_sample", device="cpu")

    def child():
        other.predict(X, algorithm="by_sample", device="cpu")

    assert while_another_thread(first_use, began, release, child) == 0


def test_threads_that_ask_first_get_the_same_value():
    barrier = threading.Barrier(4, timeout=SECONDS)

    class Asked:
        @cached_property
        def value(self):
            """A value."""
            barrier.wait()
            return object()

    asked, found = Asked(), []
    threads = [threading.Thread(target=lambda: found.append(asked.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(map(id, found)) == {id(asked.value)}
    assert Asked.value.__doc__ == "A value."


def test_forked_processes_keep_tables_that_are_built(forest):
    explainer = Explainer(forest).prepare()
    built = plan_of(explainer).tables("values")
    process = os.fork()
    if process == 0:
        os._exit(not built.is_built)
    assert wait_for(process) == 0
