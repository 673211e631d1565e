"""Values against background rows, by tables and by patterns."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from glasswood import Explainer
from glasswood.explain.background import mean
from glasswood.plans import plan_of
from tests.explain.tolerance import assert_close
from tests.oracles import evaluate, interventional
from tests.strategies import Options, chain_forest, forests_and_rows, full_forest, random_forest, random_rows

DTYPES = ("float32", "float64")
BUDGETS = {"tables": 2**28, "patterns": 0}


@pytest.fixture(params=list(BUDGETS))
def table_bytes(request):
    return BUDGETS[request.param]


def check(forest, X, background, weight=None, **options):
    expected = interventional.values_by_pair(forest, X, background, weight)
    for dtype in DTYPES:
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, **options)
        first = explainer.shap_values(X)
        assert_close(first, expected, forest, dtype)
        np.testing.assert_array_equal(explainer.shap_values(X), first)  # which few rows build nothing for
        mean = interventional.expected_value(forest, background, weight)
        scale = np.abs(forest.ensemble.base_score) + np.abs(evaluate.tree_values(forest, background)).sum(axis=0).max(
            axis=0
        )
        assert (np.abs(np.atleast_1d(explainer.expected_value) - mean) <= 1e-14 * scale).all()
    return explainer


@pytest.mark.parametrize("table_bytes", BUDGETS.values(), ids=BUDGETS)
@given(example=forests_and_rows(min_rows=1))
def test_values_of_any_forest(table_bytes, example):
    forest, X = example
    background = X[len(X) // 2 :]
    check(forest, X, background, 1.0 + np.arange(len(background)) % 3, table_bytes=table_bytes)


@pytest.mark.parametrize("table_bytes", BUDGETS.values(), ids=BUDGETS)
@given(example=forests_and_rows(min_rows=1, max_rows=8, n_features=4))
def test_interactions_of_any_forest(table_bytes, example):
    forest, X = example
    background = X[len(X) // 2 :]
    weight = 1.0 + np.arange(len(background)) % 3
    expected = interventional.interactions(forest, X, background, weight)
    for dtype in DTYPES:
        explainer = Explainer(forest, background, background_weight=weight, dtype=dtype, table_bytes=table_bytes)
        first = explainer.shap_interaction_values(X)
        assert_close(first, expected, forest, dtype)
        np.testing.assert_array_equal(explainer.shap_interaction_values(X), first)


def wide_forest(n_outputs=1, vector_leaves=False):
    """More features than a vector has lanes, categories and missing values among them."""
    options = Options(
        n_trees=25, n_features=60, n_outputs=n_outputs, vector_leaves=vector_leaves, categorical=True, missing="zeros"
    )
    return random_forest(3, options)


@pytest.mark.parametrize(("n_outputs", "vector_leaves"), [(1, False), (3, False), (3, True)])
def test_values_of_a_wide_forest(table_bytes, n_outputs, vector_leaves):
    forest = wide_forest(n_outputs, vector_leaves)
    X = random_rows(4, forest, 60)
    check(forest, X[:20], X[20:], table_bytes=table_bytes)


@pytest.mark.parametrize(("n_outputs", "vector_leaves"), [(1, False), (3, True)])
def test_interactions_of_a_wide_forest(n_outputs, vector_leaves):
    """By tables, by patterns, and by tables of which a budget holds some: rows of interactions sum to values."""
    forest = wide_forest(n_outputs, vector_leaves)
    X = random_rows(4, forest, 60)
    values = interventional.values_by_pair(forest, X[:20], X[20:])
    exact = Explainer(forest, X[20:], table_bytes=0, dtype="float64").shap_interaction_values(X[:20])
    assert_close(exact.sum(axis=2), values, forest, "float64")
    for dtype in DTYPES:
        for table_bytes in (2**28, 2**22):
            explainer = Explainer(forest, X[20:], table_bytes=table_bytes, dtype=dtype)
            assert_close(explainer.shap_interaction_values(X[:20]), exact.reshape(20, 60, 60, n_outputs), forest, dtype)
            few = explainer.shap_interaction_values(X[:20], features=[7, 3])
            np.testing.assert_array_equal(few, explainer.shap_interaction_values(X[:20])[:, [7, 3]])


def test_tables_and_patterns_agree_on_trained_sizes():
    forest = full_forest(2, n_trees=6, depth=8, n_features=9)
    X = np.random.default_rng(1).normal(size=(200, 9))
    exact = interventional.values_by_pair(forest, X[:5], X[5:])
    for dtype in DTYPES:
        for table_bytes in BUDGETS.values():
            explainer = Explainer(forest, X[5:], table_bytes=table_bytes, dtype=dtype)
            assert_close(explainer.shap_values(X[:5]), exact, forest, dtype)


@pytest.mark.parametrize("d", [9, 70, 200])
def test_deep_paths_of_many_features(d):
    """More features on a path than a word has bits: no tables at all."""
    forest = chain_forest(d, 1e-3)
    rng = np.random.default_rng(0)
    X = (rng.random((30, d)) < 0.97).astype(float)
    explainer = check(forest, X[:10], X[10:])
    assert explainer.algorithm_ == ("tables" if d == 9 else "patterns")


@pytest.mark.parametrize("n_rows", [1, 40])
def test_a_first_call_of_few_rows_keeps_no_tables(n_rows):
    forest = full_forest(1, n_trees=12, depth=6, n_features=6)
    X = np.random.default_rng(1).normal(size=(2000, 6))
    few = Explainer(forest, X[:50])
    first = few.shap_values(X[:n_rows])
    assert plan_of(few).n_bytes == 0
    np.testing.assert_array_equal(few.shap_values(X[:n_rows]), first)
    assert plan_of(few).n_bytes > 0
    many = Explainer(forest, X[:50])
    np.testing.assert_array_equal(many.shap_values(X)[:n_rows], first)
    assert plan_of(many).n_bytes == plan_of(few).n_bytes


def test_a_small_budget_leaves_trees_to_the_patterns():
    forest = full_forest(0, n_trees=12, depth=6, n_features=8)
    X = np.random.default_rng(1).normal(size=(60, 8))
    whole = plan_of(Explainer(forest, X).prepare()).n_bytes
    for share in (2, 6):
        explainer = check(forest, X[:20], X[20:], table_bytes=whole // share)
        assert 0 < plan_of(explainer).n_bytes <= whole // share


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("weight", [None, 0.3])
def test_tables_beyond_the_budget_are_built_a_batch_at_a_time(n_outputs, weight):
    """4 MB hold half of 26 trees, one of whose subtrees after the other takes the rest."""
    forest = full_forest(0, n_trees=26, depth=9, n_features=9)
    forest = dataclasses.replace(
        forest,
        base_score=np.zeros(n_outputs),
        tree_output=(np.arange(forest.n_trees) % n_outputs).astype(np.int32),
    )
    X = np.random.default_rng(1).normal(size=(900, 9))
    options = {"background_weight": None if weight is None else np.full(600, weight), "n_jobs": 2}
    whole = Explainer(forest, X[:600], dtype="float64", **options)
    for dtype in DTYPES:
        some = Explainer(forest, X[:600], dtype=dtype, table_bytes=2**22, **options).prepare()
        assert plan_of(some).whole_tables is None
        assert plan_of(some).tables("values").rest is None
        assert plan_of(some).n_bytes < 2**22
        found, exact = some.shap_values(X), whole.shap_values(X)
        assert_close(found, exact.reshape(*found.shape[:2], -1), forest, dtype)
        for size in (1, 7, 300):  # of few rows, only the states that they are in are built
            np.testing.assert_array_equal(some.shap_values(X[-size:]), found[-size:], err_msg=f"{size} rows")
            fresh = Explainer(forest, X[:600], dtype=dtype, table_bytes=2**22, **options)
            np.testing.assert_array_equal(fresh.shap_values(X[-size:]), found[-size:], err_msg=f"first, {size} rows")
            assert size > 7 or plan_of(fresh).n_bytes == 0
        np.testing.assert_array_equal(some.row()(X[3]), found[3])


@pytest.mark.parametrize("n", [2**16 - 1, 2**16])
def test_counts_of_more_than_16_bits(n):
    """A background of equal rows is that of one of them, to the bit: their share is 1."""
    forest = full_forest(0, n_trees=4, depth=5, n_features=6)
    X = np.random.default_rng(1).normal(size=(300, 6))
    one, many = (Explainer(forest, np.repeat(X[:1], times, axis=0)) for times in (1, n))
    for rows in (X[:2], X):  # the first builds nothing
        np.testing.assert_array_equal(many.shap_values(rows), one.shap_values(rows))


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_any_share_and_order(table_bytes, dtype):
    """Threads, batches and the order of background rows decide nothing, weighted or not."""
    forest = full_forest(0, n_trees=20, depth=5, n_features=7)
    rng = np.random.default_rng(1)
    X, background, weight = rng.normal(size=(700, 7)), rng.normal(size=(600, 7)), rng.random(600)
    first = Explainer(forest, background, background_weight=weight, dtype=dtype, table_bytes=table_bytes, n_jobs=1)
    expected = first.shap_values(X)
    for n_jobs in (1, 2, 3):
        order = rng.permutation(600)
        explainer = Explainer(
            forest,
            background[order],
            background_weight=weight[order],
            dtype=dtype,
            table_bytes=table_bytes,
            n_jobs=n_jobs,
        )
        assert explainer.expected_value == first.expected_value
        for size in (1, 41, 512, 700):
            found = np.concatenate(
                [explainer.shap_values(X[at : at + size]) for at in range(0, min(700, 3 * size), size)]
            )
            np.testing.assert_array_equal(found, expected[: len(found)], err_msg=f"{n_jobs} threads, batches of {size}")


def test_weights_are_copies_of_rows(table_bytes):
    forest = full_forest(0, n_trees=5, depth=5, n_features=4)
    rng = np.random.default_rng(1)
    X, background, copies = rng.normal(size=(20, 4)), rng.normal(size=(30, 4)), rng.integers(4, size=30)
    repeated = Explainer(forest, np.repeat(background, copies, axis=0), table_bytes=table_bytes)
    for unit in (1, 1e-3, 1e300):
        weighted = Explainer(forest, background, background_weight=copies * unit, table_bytes=table_bytes)
        np.testing.assert_allclose(weighted.shap_values(X), repeated.shap_values(X), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(weighted.expected_value, repeated.expected_value, rtol=1e-14)


def test_one_row_and_many_background_rows(table_bytes):
    forest = full_forest(0, n_trees=8, depth=6, n_features=5)
    rng = np.random.default_rng(1)
    X, background = rng.normal(size=(4, 5)), rng.normal(size=(70_000, 5))
    explainer = Explainer(forest, background, dtype="float64", table_bytes=table_bytes)
    np.testing.assert_array_equal(explainer.row()(X[0]), explainer.shap_values(X)[0])
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, evaluate.margins(forest, X)[:, 0], atol=1e-12)


def gradient_boosting(X, y, n_classes):
    import sklearn.ensemble

    kind = sklearn.ensemble.GradientBoostingClassifier if n_classes == 2 else sklearn.ensemble.GradientBoostingRegressor
    return kind(n_estimators=6, max_depth=4, random_state=0).fit(X, y)


def random_forest_of_sklearn(X, y, n_classes):
    import sklearn.ensemble

    kind = sklearn.ensemble.RandomForestClassifier if n_classes else sklearn.ensemble.RandomForestRegressor
    return kind(n_estimators=6, max_depth=5, random_state=0).fit(X, y)


def of_xgboost(X, y, n_classes):
    xgboost = pytest.importorskip("xgboost")
    objective = {0: "reg:squarederror", 2: "binary:logistic", 3: "multi:softprob"}[n_classes]
    settings = {"objective": objective, "max_depth": 5, "base_score": 0.5} | (
        {"num_class": 3} if n_classes == 3 else {}
    )
    return xgboost.train(settings, xgboost.DMatrix(X, y), 6)


def of_lightgbm(X, y, n_classes):
    lightgbm = pytest.importorskip("lightgbm")
    objective = {0: "regression", 2: "binary", 3: "multiclass"}[n_classes]
    settings = {"objective": objective, "num_leaves": 20, "verbose": -1, "num_threads": 1}
    return lightgbm.train(settings | ({"num_class": 3} if n_classes == 3 else {}), lightgbm.Dataset(X, y), 6)


def of_catboost(X, y, n_classes):
    catboost = pytest.importorskip("catboost")
    kind = catboost.CatBoostClassifier if n_classes else catboost.CatBoostRegressor
    return kind(iterations=6, depth=4, verbose=False, thread_count=1, allow_writing_files=False).fit(X, y)


def of_hist_gradient_boosting(X, y, n_classes):
    import sklearn.ensemble as e

    kind = e.HistGradientBoostingClassifier if n_classes else e.HistGradientBoostingRegressor
    return kind(max_iter=6, max_depth=4, random_state=0).fit(X, y)


def extra_trees(X, y, n_classes):
    import sklearn.ensemble

    kind = sklearn.ensemble.ExtraTreesClassifier if n_classes else sklearn.ensemble.ExtraTreesRegressor
    return kind(n_estimators=6, max_depth=5, random_state=0).fit(X, y)


def single_tree(X, y, n_classes):
    import sklearn.tree

    kind = sklearn.tree.DecisionTreeClassifier if n_classes else sklearn.tree.DecisionTreeRegressor
    return kind(max_depth=5, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("train", "n_classes"),
    [
        (of_xgboost, 0),
        (of_xgboost, 2),
        (of_xgboost, 3),
        (of_lightgbm, 0),
        (of_lightgbm, 2),
        (of_catboost, 0),
        (of_catboost, 2),
        (of_hist_gradient_boosting, 0),
        (of_hist_gradient_boosting, 2),
        (extra_trees, 0),
        (extra_trees, 3),
        (single_tree, 0),
        (single_tree, 3),
        (gradient_boosting, 0),
        (gradient_boosting, 2),
        (random_forest_of_sklearn, 0),
        (random_forest_of_sklearn, 3),
    ],
)
def test_values_are_those_of_shap(train, n_classes):
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)  # midpoints of rounded values are ties that shap rounds
    score = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes)) if n_classes else score
    model = train(X, y, n_classes)
    rows, background = X[:20], X[300:]
    theirs = shap.TreeExplainer(model, background, feature_perturbation="interventional")
    ours = Explainer(model, background)
    np.testing.assert_allclose(ours.shap_values(rows), theirs.shap_values(rows), atol=2e-5)
    left_out = model.get_scale_and_bias()[1] if train is of_catboost else 0.0
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value + left_out, atol=1e-4)


def test_covers_do_not_matter():
    forest = full_forest(0, n_trees=4, depth=4, n_features=5)
    X = np.random.default_rng(1).normal(size=(20, 5))
    strange = dataclasses.replace(forest, cover=np.full(forest.n_nodes, -1.0))
    for table_bytes in BUDGETS.values():
        found, expected = (Explainer(f, X, table_bytes=table_bytes).shap_values(X) for f in (strange, forest))
        np.testing.assert_array_equal(found, expected)


def test_a_background_is_kept_as_it_was():
    forest = full_forest(0, n_trees=4, depth=4, n_features=5)
    X = np.random.default_rng(1).normal(size=(20, 5))
    background = X.copy()
    explainer = Explainer(forest, background)
    background[:] = 0
    expected = Explainer(forest, X).shap_values(X)
    np.testing.assert_array_equal(explainer.shap_values(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(explainer)).shap_values(X), expected)
    assert "background=<20 rows>" in repr(explainer)


@pytest.mark.parametrize(
    ("background", "options", "error", "message"),
    [
        (np.zeros((3, 4)), {}, ValueError, r"has 4 columns"),
        (np.zeros((0, 5)), {}, ValueError, "background has no rows"),
        (np.zeros((3, 5)), {"background_weight": [1, 2]}, ValueError, r"shape \(2,\), expected \(3,\)"),
        (np.zeros((3, 5)), {"background_weight": [1, -2, 0]}, ValueError, "-2.0 for row 1, expected finite numbers"),
        (np.zeros((3, 5)), {"background_weight": [1, 2, np.nan]}, ValueError, "nan for row 2, expected finite"),
        (np.zeros((3, 5)), {"background_weight": [0, 0, 0]}, ValueError, "0 for every row"),
        (np.zeros((3, 5)), {"background_weight": ["a", "b", "c"]}, TypeError, "expected numbers"),
        (np.zeros((3, 5)), {"background_weight": [[1], [1, 2]]}, ValueError, "holds lists of different lengths"),
        (np.zeros((3, 5)), {"algorithm": np.zeros(2)}, ValueError, "algorithm is array"),
        (np.zeros((3, 5)), {"output": np.zeros(2)}, ValueError, "output is array"),
        (np.zeros((3, 5)), {"dtype": np.zeros(2)}, ValueError, "dtype is array"),
        (None, {"background_weight": [1, 2, 3]}, ValueError, "pass background too"),
        (np.zeros((3, 5)), {"algorithm": "quadrature"}, ValueError, "leave algorithm='auto'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(background, options, error, message):
    with pytest.raises(error, match=message):
        Explainer(full_forest(0, n_trees=2, depth=2, n_features=5), background, **options)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("spread", [0, 3, 300])
def test_means_are_the_exact_ones_rounded_once(spread, is_weighted):
    rng = np.random.default_rng(spread)
    for n in (1, 2, 1000):
        values = rng.normal(size=n) * 10.0 ** rng.uniform(-spread, min(spread, 280), n)
        weight = rng.integers(1, 2**62 // n, n) if is_weighted else np.ones(n, np.int64)
        exact = sum(Fraction(v) * int(w) for v, w in zip(values.tolist(), weight.tolist(), strict=True))
        assert mean(values, weight) == float(exact / int(weight.sum()))
    assert mean(np.zeros(5), np.ones(5, np.int64)) == 0
    tiny = np.array([5e-324, 5e-324, 1e308, -1e308])
    assert mean(tiny, np.ones(4, np.int64)) == 0  # half the least number rounds to even
