"""The paper's evaluation on a GPU: the bits of the cores, on an emulated GPU and on a real one."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood.grow.data.rows import STORAGES
from tests.cuda.growing import check_loss, on_gpu
from tests.grow import oracle
from tests.grow.engines import engine_of, given, piecewise, single_leaf, stump

STRUCTURE = ("feature", "threshold", "missing_left", "n_rows", "model", "node_error")
PROCEDURES = {
    "transfer", "redistribute", "separate", "reorganise", "calc_models", "estimate_errors", "reduction"
}  # fmt: skip


@pytest.fixture
def qr_engine(gpu_engine):
    """An engine whose trees a GPU evaluates as the paper does."""
    kept = []

    def make(X, y, weight=None, **changes):
        engine, borrowed = gpu_engine(X, y, weight, qr=1, **changes)
        kept.append(borrowed)
        return engine

    yield make
    kept.clear()


def check_same(found, expected):
    for name in STRUCTURE:
        np.testing.assert_array_equal(found[name], expected[name])
    assert (found["fitness"], found["error"]) == (expected["fitness"], expected["error"])


def check_tree(qr_engine, X, y, tree, weight=None, **changes):
    """One tree has the bits of the cores and the error of the oracle."""
    cores, rows = engine_of(X, y, weight, qr=1, **changes)
    expected, found = (
        engine.apply("evaluate_by_qr", tree, 0, None, 0, 0)[0] for engine in (cores, qr_engine(X, y, weight, **changes))
    )
    check_same(found, expected)
    assert found["error"] == pytest.approx(oracle.stored_error(found, X, rows), rel=1e-9)
    if rows.z.dtype == float:
        error = oracle.tree_error(found, X, y, np.ones(len(y)) if weight is None else weight)
        assert found["error"] == pytest.approx(error, rel=1e-9)


def random_tree(X, n_leaves, seed=0):
    """Splits at random, in preorder, with random models."""
    rng = np.random.default_rng(seed)
    n_features = X.shape[1]
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in X.T])
    nodes = []

    def grow(rows, n):
        at = len(nodes)
        nodes.append([-1, 0, -1, -1, rng.random(n_features) < 0.7])
        if n == 1:
            return at
        attribute = int(rng.integers(n_features))
        share = int(rng.integers(1, n))
        cut = int(np.sort(ranks[attribute][rows])[len(rows) * share // n])
        left = ranks[attribute][rows] < cut
        nodes[at][:2] = attribute, cut
        nodes[at][2] = grow(rows[left], share)
        nodes[at][3] = grow(rows[~left], n - share)
        return at

    grow(np.arange(len(X)), n_leaves)
    columns = list(zip(*nodes, strict=True))
    return {
        "feature": np.array(columns[0], np.int32),
        "threshold": np.array(columns[1], np.int32),
        "missing_left": np.ones(len(nodes), np.uint8),
        "left": np.array(columns[2], np.int32),
        "right": np.array(columns[3], np.int32),
        "model": np.array(columns[4], np.uint8).reshape(-1),
    }


@pytest.mark.parametrize("n_features", [2, 9, 45])
def test_leaves_of_any_size(qr_engine, n_features):
    """One tile, several tiles, several parts."""
    X, y = piecewise(10_000 if n_features < 5 else 2000, n_features)
    for cut in (40, 1100):
        check_tree(qr_engine, X, y, stump(1, cut, n_features))
    check_tree(qr_engine, X, y, single_leaf(n_features))


@pytest.mark.parametrize("n_leaves", [20, 300])
def test_many_leaves(qr_engine, n_leaves):
    """More than 256 are sorted in two passes."""
    X, y = piecewise(5000, 3)
    tree = random_tree(X, n_leaves)
    check_tree(qr_engine, X, y, tree, max_leaves=512)


@pytest.mark.parametrize("storage", STORAGES)
def test_missing_values_and_weights(qr_engine, storage):
    rng = np.random.default_rng(3)
    X, y = piecewise(1500, 3)
    X[rng.random(X.shape) < 0.2] = np.nan
    check_tree(qr_engine, X, y, stump(0, 500, 3), rng.uniform(0.5, 2, len(y)), storage=storage)


def test_attributes_that_depend_on_others(qr_engine):
    """The pivot rule of the cores: copies, sums, constants within a leaf."""
    X, _ = piecewise(1500, 5)
    X[:, 2] = 3 * X[:, 1] - 1
    X[:, 3] = X[:, 0] + X[:, 1]
    X[:, 4] = X[:, 0] > np.sort(X[:, 0])[500]
    y = X @ [1.0, -2, 0.5, 1, 3] + 0.1 * np.random.default_rng(0).standard_normal(len(X))
    check_tree(qr_engine, X, y, stump(0, 500, 5))


def test_constant_models(qr_engine):
    X, y = piecewise(1500, 2)
    tree = stump(0, 500, 2, models=0)
    check_tree(qr_engine, X, y, tree)


def test_small_leaves_are_cut_off(qr_engine):
    X, y = piecewise(1500, 2)
    found = qr_engine(X, y).apply("evaluate_by_qr", stump(0, 3, 2), 0, None, 0, 0)[0]
    assert len(found["feature"]) == 1
    check_tree(qr_engine, X, y, stump(0, 3, 2))


@pytest.mark.parametrize(("n_threads", "storage"), [(1, "float64"), (3, "float64"), (3, "float32")])
def test_a_run_grows_the_trees_of_the_cores(qr_engine, n_threads, storage):
    """On any data; sweeps and choices of models, whose sums depend on the machine, rest."""
    X, y = piecewise(1500, 3)
    changes = {"storage": storage, "population": 12, "search_threshold": 0, "change_model": 0}
    cores, _ = engine_of(X, y, qr=1, **changes)
    engine = qr_engine(X, y, n_threads=n_threads, **changes)
    for e in (cores, engine):
        e.initialise([])
    assert engine.step(5, 100, 0.0, 1e9) == cores.step(5, 100, 0.0, 1e9)
    for found, expected in zip(engine.population(), cores.population(), strict=True):
        check_same(found, expected)


def test_exact_data_grow_the_same_trees_with_all_operators(qr_engine):
    rng = np.random.default_rng(0)
    X = np.stack([rng.permutation(np.repeat([-1.0, 1.0], 512)) for _ in range(6)], axis=1)
    y = rng.permutation(np.repeat([-1.0, 1.0], 512))
    cores, _ = engine_of(X, y, qr=1, population=12)
    engine = qr_engine(X, y, population=12)
    for e in (cores, engine):
        e.initialise([])
        e.step(6, 100, 0.0, 1e9)
    for found, expected in zip([*engine.population(), engine.best()], [*cores.population(), cores.best()], strict=True):
        check_same(found, expected)


def test_every_tree_has_the_fitness_of_the_sums(qr_engine):
    X, y = piecewise(1500, 3)
    engine = qr_engine(X, y, population=12)
    sums, _ = engine_of(X, y)
    engine.initialise([])
    engine.step(4, 100, 0.0, 1e9)
    for tree in engine.population():
        again = sums.apply("evaluate", given(tree), 0, None, 0, 0)[0]
        assert tree["fitness"] == pytest.approx(again["fitness"], rel=1e-9)


def test_each_procedure_is_timed(qr_engine):
    X, y = piecewise(1500, 3)
    engine = qr_engine(X, y, population=12)
    engine.initialise([])
    assert set(engine.procedure_seconds) == PROCEDURES
    assert all(engine.procedure_seconds[name] > 0 for name in PROCEDURES - {"transfer"})


def test_offspring_that_are_evaluated_beside_each_other_are_timed(qr_engine):
    X, y = piecewise(1500, 3)
    engine = qr_engine(X, y, population=12, crossover=1.0, mutation=0.0)
    engine.initialise([])
    before = engine.procedure_seconds
    engine.step(2, 100, 0.0, 1e9)
    assert all(engine.procedure_seconds[name] > before[name] for name in PROCEDURES - {"transfer"})


def test_a_lost_gpu_leaves_the_best_tree(four_gpus):
    X, y = piecewise(1500, 3)
    engine, _kept = on_gpu(X, y, qr=1, population=10)
    check_loss(engine, four_gpus, 20)


@pytest.mark.usefixtures("four_gpus")
def test_more_leaves_than_the_buffers_hold_are_refused():
    X, y = piecewise(1500, 3)
    engine, _kept = on_gpu(X, y, qr=1, max_leaves=2)
    with pytest.raises(ValueError, match="more leaves than the buffers on the GPU hold"):
        engine.apply("evaluate_by_qr", random_tree(X, 200), 0, None, 0, 0)
