"""Subtree tables: budget, choice, memory; that values are right is tested with the walk's (test_values)."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from glasswood import Explainer
from glasswood.explain import checks
from glasswood.plans import plan_of
from tests.example_forests import with_linear_leaves
from tests.explain.tolerance import assert_close
from tests.oracles import shapley
from tests.strategies import Node, Options, chain_forest, flatten, full_forest, random_forest, random_rows

DTYPES = ("float32", "float64")


def wide_forest(n_outputs=1, vector_leaves=False):
    """More features than a vector has lanes, categories and missing values among them."""
    options = Options(
        n_trees=25, n_features=60, n_outputs=n_outputs, vector_leaves=vector_leaves, categorical=True, missing="zeros"
    )
    return random_forest(3, options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_values_of_a_wide_forest_of_several_outputs(dtype, vector_leaves):
    forest = wide_forest(3, vector_leaves)
    X = random_rows(4, forest, 700)
    expected = shapley.values_by_leaf(forest, shapley.sides(forest, X))
    explainer = Explainer(forest, algorithm="tables", dtype=dtype)
    assert_close(explainer.shap_values(X), expected, forest, dtype)
    assert explainer.algorithm_ == "tables"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [4, 12, 30])
def test_same_bits_for_any_share_of_the_rows(dtype, n_features):
    """Tiles of 512 rows, blocks of thousands, chunks that are fetched ahead: sums keep one order."""
    forest = full_forest(0, n_trees=40, depth=5, n_features=n_features)
    X = np.random.default_rng(1).normal(size=(3000, n_features))
    expected = Explainer(forest, algorithm="tables", dtype=dtype, n_jobs=1).shap_values(X)
    for n_jobs in (1, 2, 3):
        explain = Explainer(forest, algorithm="tables", dtype=dtype, n_jobs=n_jobs).shap_values
        for size in (1, 40, 511, 1024, 3000):
            found = np.concatenate(
                [explain(X[start : start + size]) for start in range(0, min(len(X), 4 * size), size)]
            )
            np.testing.assert_array_equal(found, expected[: len(found)], err_msg=f"{n_jobs} threads, batches of {size}")


def test_tables_and_walk_agree_on_trained_sizes():
    forest = full_forest(2, n_trees=30, depth=8, n_features=9)
    X = np.random.default_rng(1).normal(size=(200, 9))
    exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X)
    for dtype in DTYPES:
        assert_close(
            Explainer(forest, algorithm="tables", dtype=dtype).shap_values(X), exact[:, :, None], forest, dtype
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [9, 16, 17])
def test_subtrees_of_few_features_beside_those_of_many(dtype, n_features):
    """Most have vectors of 8 lanes, each set of features a chunk of its own: hundreds of them."""
    forest = full_forest(3, n_trees=150, depth=4, n_features=n_features)
    X = np.random.default_rng(1).normal(size=(40, n_features))
    expected = shapley.values_by_leaf(forest, shapley.sides(forest, X))
    explainer = Explainer(forest, algorithm="tables", dtype=dtype)
    found = explainer.shap_values(X)
    assert_close(found, expected, forest, dtype)
    row = explainer.row()
    np.testing.assert_array_equal(np.stack([row(x) for x in X]), found)


def test_a_small_budget_leaves_trees_to_the_walk():
    forest = full_forest(0, n_trees=30, depth=6, n_features=8)
    X = np.random.default_rng(1).normal(size=(50, 8))
    expected = shapley.values(forest, shapley.sides(forest, X))
    whole = plan_of(Explainer(forest, algorithm="tables").prepare()).n_bytes
    for table_bytes in (whole // 3, whole // 30, 100):
        explainer = Explainer(forest, table_bytes=table_bytes, algorithm="tables").prepare()
        assert plan_of(explainer).n_bytes <= table_bytes
        assert_close(explainer.shap_values(X), expected, forest, "float32")
    assert explainer.algorithm_ == "quadrature"
    assert "tables" not in repr(Explainer(forest, table_bytes=100).prepare())


def rebuilt_forest(n_trees, depth, n_features, n_outputs):
    forest = full_forest(0, n_trees=n_trees, depth=depth, n_features=n_features)
    return dataclasses.replace(
        forest,
        tree_output=(np.arange(n_trees) % n_outputs).astype(np.int32),
        base_score=np.zeros(n_outputs),
        tree_weight=np.linspace(0.5, 2, n_trees),
    )


@pytest.mark.parametrize(
    ("dtype", "n_features", "n_outputs"), [("float32", 8, 1), ("float64", 7, 2), ("float32", 12, 3), ("float32", 25, 2)]
)
def test_tables_beyond_the_budget_are_built_for_each_call(dtype, n_features, n_outputs):
    """Some trees keep their tables, some are built in batches, whose size follows the threads; bits do not."""
    forest = rebuilt_forest(14, 10, n_features, n_outputs)
    X = np.random.default_rng(1).normal(size=(1100, n_features))
    explainer = Explainer(forest, algorithm="tables", dtype=dtype, table_bytes=2**24, n_jobs=1)
    expected = explainer.shap_values(X)
    tables = plan_of(explainer).tables("values").compiled
    assert tables.n_rebuilt > 0
    assert plan_of(explainer).n_bytes <= 2**24
    assert explainer.algorithm_ == "tables"
    walked = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X[:50])
    assert_close(expected[:50], walked.reshape(50, n_features, n_outputs), forest, dtype)
    for n_jobs, size in ((1, 1), (2, 600), (3, 1100), (2, 37)):
        explain = Explainer(forest, algorithm="tables", dtype=dtype, table_bytes=2**24, n_jobs=n_jobs).shap_values
        found = np.concatenate([explain(X[start : start + size]) for start in range(0, min(len(X), 3 * size), size)])
        np.testing.assert_array_equal(found, expected[: len(found)])


def test_rows_beyond_a_block_build_tables_again():
    """60 features of 10 outputs: 64 MB hold the totals of some 13,000 rows."""
    forest = rebuilt_forest(20, 8, 60, 10)
    explainer = Explainer(forest, algorithm="tables", table_bytes=2**24, n_jobs=2)
    X = np.random.default_rng(1).normal(size=(500, 60)).astype(np.float32)
    expected = explainer.shap_values(X)
    assert plan_of(explainer).tables("values").compiled.n_rebuilt
    found = explainer.shap_values(np.tile(X, (50, 1)))
    np.testing.assert_array_equal(found, np.tile(expected, (50, 1, 1)))


def test_auto_builds_tables_for_each_call_where_few_thousand_rows_gain():
    forest = rebuilt_forest(40, 11, 6, 1)
    explainer = Explainer(forest, table_bytes=2**25).prepare()
    assert plan_of(explainer).tables("values").compiled.n_rebuilt
    assert plan_of(explainer).whole_tables is None
    assert plan_of(Explainer(forest, table_bytes=2**20).prepare()).whole_tables is None
    row = np.random.default_rng(1).normal(size=6)
    expected = explainer.shap_values(row[None])[:, :, None].astype(float)
    assert_close(explainer.row()(row)[None], expected, forest, "float32")


def test_no_budget_is_the_walk():
    forest = full_forest(0, n_trees=10, depth=5, n_features=4)
    X = np.random.default_rng(1).normal(size=(50, 4))
    explainer = Explainer(forest, table_bytes=0)
    assert explainer.algorithm_ == "quadrature"
    np.testing.assert_array_equal(explainer.shap_values(X), Explainer(forest, algorithm="quadrature").shap_values(X))


def test_auto_takes_tables_where_they_pay():
    """A tree of few features has few states; 200 features on one path have too many."""
    assert Explainer(full_forest(0, n_trees=20, depth=8, n_features=6)).algorithm_ == "tables"
    assert Explainer(chain_forest(200, 1e-3)).algorithm_ == "quadrature"


def test_prepare_builds_once_and_repr_says_the_size():
    explainer = Explainer(full_forest(0, n_trees=20, depth=8, n_features=6))
    assert "MB of tables" not in repr(explainer)
    assert explainer.prepare() is explainer
    tables = plan_of(explainer).tables("values").compiled
    assert f"{tables.n_bytes / 1e6:.1f} MB of tables" in repr(explainer)
    explainer.prepare()
    assert plan_of(explainer).tables("values").compiled is tables


def test_pickles_carry_the_forest_only():
    forest = full_forest(0, n_trees=20, depth=8, n_features=6)
    explainer = Explainer(forest)
    before = len(pickle.dumps(explainer))
    X = np.random.default_rng(1).normal(size=(50, 6))
    expected = explainer.shap_values(X)
    assert len(pickle.dumps(explainer)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), expected)


def test_without_memory_the_walk_stays(monkeypatch):
    class Starved:
        n_bytes, plan_bytes, n_subtrees, n_rebuilt = 10**12, 0, 5, 0
        walked_trees, cut_nodes = np.zeros(0, np.int32), np.zeros(0, np.int64)

        def __init__(self, *_):
            pass

        def like(self):
            return self

        def build(self, _):
            raise MemoryError

    forest = full_forest(0, n_trees=10, depth=5, n_features=4)
    X = np.random.default_rng(1).normal(size=(50, 4))
    expected = Explainer(forest, algorithm="quadrature").shap_values(X)
    monkeypatch.setattr("glasswood.explain.tables.TABLES", {"float32": Starved})
    explainer = Explainer(forest)
    with pytest.warns(RuntimeWarning, match=r"no memory for 1,000,000,000,000 bytes of tables"):
        found = explainer.shap_values(X)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)
    assert explainer.algorithm_ == "quadrature"


@pytest.mark.parametrize(
    ("table_bytes", "error", "message"),
    [
        (-1, ValueError, "table_bytes is -1, expected a number of bytes"),
        (2**64, ValueError, "expected a number of bytes"),
        (1e9, TypeError, "table_bytes is 1000000000.0"),
        (True, TypeError, "table_bytes is True"),
        (0, ValueError, "algorithm='tables' needs memory"),
    ],
)
def test_wrong_budgets_are_refused(table_bytes, error, message):
    with pytest.raises(error, match=message):
        Explainer(full_forest(0, 2, 2, 2), algorithm="tables", table_bytes=table_bytes)


def test_what_tables_cannot_do_is_refused_by_name():
    forest = full_forest(0, n_trees=2, depth=3, n_features=4)
    with pytest.raises(NotImplementedError, match="linear leaves are not supported yet in algorithm='tables'"):
        Explainer(with_linear_leaves(forest), algorithm="tables")
    assert "tables" in checks.ALGORITHMS


def test_half_precision_rows_are_explained_as_single():
    forest = full_forest(0, n_trees=5, depth=4, n_features=4)
    X = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float16)
    explain = Explainer(forest, algorithm="tables").shap_values
    np.testing.assert_array_equal(explain(X), explain(X.astype(np.float32)))


def test_one_feature_with_a_thousand_thresholds():
    """A column of more intervals than a state's byte holds is cut into several subtrees."""

    def balanced(low, high):
        if high - low == 1:
            return Node(1.0, value=np.sin(low))
        middle = (low + high) // 2
        children = (balanced(low, middle), balanced(middle, high))
        return Node(float(high - low), feature=0, threshold=float(middle), children=children)

    forest = flatten([balanced(0, 1000)], n_features=1)
    X = np.arange(-1, 1001)[:, None] + 0.5
    explainer = Explainer(forest, algorithm="tables", dtype="float64")
    assert explainer.algorithm_ == "tables"
    assert plan_of(explainer).tables("values").compiled.n_subtrees >= 4
    assert_close(explainer.shap_values(X), shapley.values(forest, shapley.sides(forest, X)), forest, "float64")


def test_forests_whose_sums_cost_more_than_the_tables_gain_are_walked():
    """Splits on features at random: each subtree's sums go to totals of their own."""
    wide, narrow = (full_forest(0, n_trees=40, depth=6, n_features=n_features) for n_features in (200, 6))
    assert (Explainer(wide).algorithm_, Explainer(narrow).algorithm_) == ("quadrature", "tables")
    assert Explainer(wide, algorithm="tables").algorithm_ == "tables"


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_trees_are_planned_in_parts(dtype):
    """Trees of 4,095 nodes: states below a node are found among the thresholds there and on the path to it."""
    forest = full_forest(3, n_trees=3, depth=11, n_features=6)
    X = np.random.default_rng(1).normal(size=(300, 6))
    X[::7, 2] = np.nan
    explainer = Explainer(forest, algorithm="tables", dtype=dtype)
    assert explainer.algorithm_ == "tables"
    exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X)
    assert_close(explainer.shap_values(X), exact[:, :, None], forest, dtype)


def test_features_of_more_thresholds_than_a_code_holds():
    """82,000 thresholds of one feature: trees share columns of 16-bit codes."""
    n_trees, n_features = 45, 2
    forest = full_forest(4, n_trees, 12, n_features)
    assert np.unique(forest.ensemble.threshold[forest.ensemble.feature == 0]).size > 2**16
    X = np.random.default_rng(1).normal(size=(60, n_features))
    explainer = Explainer(forest, algorithm="tables")
    exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X)
    assert_close(explainer.shap_values(X), exact[:, :, None], forest, "float32")
    assert plan_of(explainer).tables("values").rest is None
