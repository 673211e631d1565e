"""`Explainer.row`: single rows give the bits of `shap_values` where tables are kept, and else its values."""

from __future__ import annotations

import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.ensemble import ExtraTreesRegressor

from glasswood import Explainer, load
from glasswood.plans import plan_of
from tests.array_forest import ArrayForest
from tests.explain.tolerance import assert_close
from tests.oracles import shapley
from tests.strategies import chain_forest, forests_and_rows, full_forest

DTYPES = ("float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@given(example=forests_and_rows())
def test_rows_give_the_bits_of_batches(dtype, example):
    forest, X = example
    explainer = Explainer(forest, algorithm="tables", dtype=dtype)
    row, expected = explainer.row(), explainer.shap_values(X)
    for x, phi in zip(X, expected, strict=True):
        found = row(np.ascontiguousarray(x))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, phi)


@pytest.mark.parametrize("n_features", [4, 12, 30, 33, 64, 70, 97, 128, 130])
@pytest.mark.parametrize("row_type", DTYPES)
def test_rows_of_large_forests(n_features, row_type):
    """Blocks of 32 subtrees, columns that fill one register, two, four and more."""
    forest = full_forest(0, n_trees=40, depth=6, n_features=n_features, row_type=row_type)
    X = np.random.default_rng(1).normal(size=(20, n_features)).astype(row_type)
    explainer = Explainer(forest, algorithm="tables")
    row = explainer.row()
    assert plan_of(explainer).whole_tables is not None
    np.testing.assert_array_equal([row(x) for x in X], explainer.shap_values(X))
    np.testing.assert_array_equal([row(x[None]) for x in X], explainer.shap_values(X))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_have_tables_where_batches_are_walked(dtype):
    """Of many features, whose tables gain batches nothing; a budget that they exceed leaves some trees to a walk."""
    forest = full_forest(0, n_trees=30, depth=5, n_features=64)
    X = np.random.default_rng(1).normal(size=(20, 64))
    explainer = Explainer(forest, dtype=dtype).prepare()
    row = explainer.row()
    plan = plan_of(explainer)
    assert plan.whole_tables is None
    tables, trees = plan.row_parts
    assert trees is None
    assert plan.n_bytes == tables.n_bytes > 0
    exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X)
    assert_close(np.array([row(x) for x in X]), exact[:, :, None], forest, dtype)
    of_tables = Explainer(forest, algorithm="tables", dtype=dtype).row()
    np.testing.assert_array_equal([row(x) for x in X], [of_tables(x) for x in X])
    n_nodes, n_bytes = forest.ensemble.n_nodes, plan.n_bytes
    for budget, has_tables in ((n_bytes - 1, n_bytes > 512 * n_nodes), (511 * n_nodes, False), (0, False)):
        small = Explainer(forest, dtype=dtype, table_bytes=budget)
        walked = small.row()
        assert (plan_of(small).row_parts[0] is not None) == has_tables
        assert plan_of(small).n_bytes <= budget
        assert_close(np.array([walked(x) for x in X]), exact[:, :, None], forest, dtype)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_trees_in_part_are_sums_of_tables_and_a_walk(dtype, n_outputs):
    """A chain of more features than keys count has tables for some of its leaves, or none."""
    whole, chain = full_forest(0, n_trees=30, depth=5, n_features=64).ensemble, chain_forest(40, 1e-3).ensemble
    parts = {
        field.name: np.concatenate([getattr(whole, field.name), getattr(chain, field.name)])
        for field in dataclasses.fields(whole)
        if field.name in {"feature", "threshold", "left", "default_left", "cover", "leaf_value", "leaf_id"}
    }
    offsets = np.concatenate([whole.tree_offsets, whole.tree_offsets[-1] + chain.tree_offsets[1:]])
    outputs = (np.arange(31) % n_outputs).astype(np.int32)
    more = {"tree_offsets": offsets, "tree_output": outputs, "tree_weight": np.ones(31)}
    forest = ArrayForest(dataclasses.replace(whole, **parts, **more, base_score=np.zeros(n_outputs)))
    explainer = Explainer(forest, dtype=dtype)
    row, X = explainer.row(), np.random.default_rng(1).normal(size=(20, 64))
    assert None not in plan_of(explainer).row_parts
    exact = shapley.values_by_leaf(forest, shapley.sides(forest, X))
    assert_close(np.array([row(x) for x in X]), exact, forest, dtype)
    again = pickle.loads(pickle.dumps(row))
    np.testing.assert_array_equal(again(X[0]), row(X[0]))


@pytest.mark.parametrize("forest", [chain_forest(60, 1e-3), full_forest(0, 20, 6, 5)], ids=["walked", "tables"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("top", [1, 3, 1000])
def test_the_strongest_features(forest, n_outputs, top):
    outputs = (np.arange(forest.n_trees) % n_outputs).astype(np.int32)
    forest = dataclasses.replace(forest, base_score=np.zeros(n_outputs), tree_output=outputs)
    x = np.random.default_rng(1).normal(size=forest.n_features)
    explainer = Explainer(forest)
    phi = explainer.row()(x)
    features, values = explainer.row(top=top)(x)
    n = min(top, forest.n_features)
    assert features.shape == values.shape == ((n,) if n_outputs == 1 else (n, n_outputs))
    assert features.dtype == np.int32
    np.testing.assert_array_equal(values, np.take_along_axis(phi, features.astype(np.int64), axis=0))
    assert (np.diff(np.abs(values), axis=0) <= 0).all()
    np.testing.assert_array_equal(np.sort(-np.abs(phi), axis=0)[:n], -np.abs(values))
    ties = np.flatnonzero(np.diff(np.abs(values.reshape(n, -1)[:, 0])) == 0)
    assert (np.diff(features.reshape(n, -1)[:, 0])[ties] > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(example=forests_and_rows())
def test_rows_without_tables_are_right(dtype, example):
    """By blocks of leaves."""
    forest, X = example
    row = Explainer(forest, algorithm="quadrature", dtype=dtype).row()
    expected = shapley.values(forest, shapley.sides(forest, X))
    for x, phi in zip(X, expected, strict=True):
        assert_close(row(np.ascontiguousarray(x))[None], phi[None], forest, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "forest",
    [
        full_forest(0, 5, 7, 3),
        full_forest(3, 3, 9, 12),
        full_forest(1, 3, 9, 16),
        full_forest(2, 20, 6, 70),
        chain_forest(60, 1e-3),
    ],
    ids=["few features", "some", "too many for blocks", "more than bits", "more points than lanes"],
)
def test_rows_without_tables_beside_batches(forest, dtype):
    X = np.random.default_rng(1).normal(size=(20, forest.n_features))
    X[::3, 0] = np.nan
    groups = {"both": [0, 1]}
    for options in ({}, {"groups": groups}):
        explainer = Explainer(forest, algorithm="quadrature", dtype=dtype, **options)
        row = explainer.row()
        exact = Explainer(forest, algorithm="quadrature", dtype="float64", **options).shap_values(X)
        assert_close(np.array([row(x) for x in X]), exact[:, :, None], forest, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@given(example=forests_and_rows(n_features=40))
def test_walked_rows_of_every_kind(dtype, example):
    """Trees of more than 12 features, too many for the oracle: beside the walk of batches."""
    forest, X = example
    row = Explainer(forest, algorithm="quadrature", dtype=dtype).row()
    exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(X)
    for x, phi in zip(X, exact.reshape(len(X), 40, forest.n_outputs), strict=True):
        assert_close(row(np.ascontiguousarray(x))[None], phi[None], forest, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [2, 5, 8, 9, 12, 13])
def test_rows_of_trees_of_full_depth(n_features, dtype):
    """Blocks of subtrees of many sizes, of leaves that are one number and of vectors."""
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(700, n_features)).astype(np.float32)
    y = np.column_stack([X[:, 0] * X[:, 1] + rng.normal(size=700), rng.normal(size=700), X.sum(1)])
    rows = np.where(rng.random((30, n_features)) < 0.1, np.nan, X[:30])
    for target in (y[:, 0], y):
        forest = load(ExtraTreesRegressor(5, random_state=0).fit(X, target))
        row = Explainer(forest, algorithm="quadrature", dtype=dtype).row()
        exact = Explainer(forest, algorithm="quadrature", dtype="float64").shap_values(rows)
        found = np.array([row(x) for x in rows])
        assert_close(found, exact.reshape(30, n_features, -1), forest, dtype)


def test_threads_do_not_change_the_bits_of_rows_without_tables():
    """80,000 splits: groups of trees that threads share out."""
    forest = full_forest(0, 20, 12, 6)
    X = np.random.default_rng(1).normal(size=(10, 6))
    one, three = (Explainer(forest, algorithm="quadrature", n_jobs=n_jobs).row() for n_jobs in (1, 3))
    np.testing.assert_array_equal([one(x) for x in X], [three(x) for x in X])


def test_rows_with_the_forests_own_mark_of_missing_values():
    forest = dataclasses.replace(full_forest(0, 20, 5, 4), missing=-1.0)
    explainer = Explainer(forest)
    x = np.array([-1.0, 0.3, -1.0, 2.0])
    walked = Explainer(forest, algorithm="quadrature")
    for kind in DTYPES:
        expected = explainer.shap_values(x[None].astype(kind))
        np.testing.assert_array_equal(explainer.row()(x.astype(kind)), expected[0])
        assert_close(walked.row()(x.astype(kind))[None], expected[:, :, None].astype(float), forest, "float32")


def test_rows_of_several_threads_and_of_a_pickle():
    forest = full_forest(0, 30, 6, 5)
    X = np.random.default_rng(1).normal(size=(200, 5))
    explainer = Explainer(forest)
    row = pickle.loads(pickle.dumps(explainer.row()))
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(row, X)), explainer.shap_values(X))
    top = pickle.loads(pickle.dumps(explainer.row(top=2)))
    assert len(top(X[0])[0]) == 2


@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
def test_wrong_rows_are_refused(algorithm):
    row = Explainer(full_forest(0, 3, 3, 5), algorithm=algorithm).row()
    with pytest.raises(
        (ValueError, TypeError), match=r"the row has 4 values, expected 5|expected an array of 5 values"
    ):
        row(np.zeros(4))
    with pytest.raises((ValueError, TypeError), match="the row"):
        row("five")


@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
def test_rows_of_a_matrix_in_column_order(algorithm):
    row = Explainer(full_forest(0, 5, 4, 5), algorithm=algorithm).row()
    X = np.random.default_rng(1).normal(size=(6, 5))
    np.testing.assert_array_equal(row(np.asfortranarray(X)[3]), row(X[3]))


@pytest.mark.parametrize(("top", "error"), [(0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError)])
def test_wrong_numbers_of_features_are_refused(top, error):
    with pytest.raises(error, match=f"top is {top}"):
        Explainer(full_forest(0, 3, 3, 5)).row(top=top)


@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
@pytest.mark.parametrize("bad", [np.zeros(5, np.int64), np.zeros(5, object), [0.0] * 5])
def test_rows_of_other_types_are_refused(algorithm, bad):
    """By rows that are looked up, and by those that are walked."""
    with pytest.raises(TypeError, match="float32 or float64"):
        Explainer(full_forest(0, 20, 6, 5), algorithm=algorithm).row()(bad)


@pytest.mark.parametrize("top", [None, 2])
def test_rows_with_texts_of_categories(top):
    categories = (np.array(["no", "yes"], object), None, np.array(["a", "b"], object), None)
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source="CatBoost")
    row = np.array(["yes", 0.1, "new", 3.0], object)
    explainer = Explainer(forest)
    found = explainer.row(top)(row)
    phi = explainer.shap_values(row[None])[0]
    np.testing.assert_array_equal(found if top is None else found[1], phi if top is None else phi[found[0]])


@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
@pytest.mark.parametrize("source", ["CatBoost", "XGBoost 3.2"])
def test_rows_by_name(algorithm, source):
    categories = (np.array(["no", "yes"], object), None, np.array([5, 7]), None)
    names = ("a", "b", "c", "d")
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source=source, feature_names=names)
    explainer = Explainer(forest, algorithm=algorithm)
    row = {"a": "yes", "b": None, "c": 7, "d": 0.5}
    phi = explainer.row(names=True)(row)
    batch = explainer.shap_values(pd.DataFrame([row]).astype({"b": float}))[0]
    assert_close(phi[None], batch[None, :, None].astype(float), forest, "float32")
    for form in (row, tuple(row.values()), forest.encoder()(row)):
        np.testing.assert_array_equal(explainer.row(names=True)(form), phi)
    order = np.argsort(-np.abs(phi), kind="stable")[:2]
    expected = [(names[i], row[names[i]], phi[i]) for i in order]
    reasons = explainer.row(2, names=True)
    assert reasons(row) == pickle.loads(pickle.dumps(reasons))(row) == expected
    assert [reason.feature for reason in reasons(forest.encoder()(row))] == [names[i] for i in order]


def test_reasons_of_groups_and_of_several_outputs():
    outputs = {"tree_output": np.arange(9, dtype=np.int32) % 2, "base_score": np.zeros(2)}
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), feature_names=("a", "b", "c", "d"), **outputs)
    explainer = Explainer(forest, groups={"both": ["a", "c"]})
    found = explainer.row(3, names=True)({"a": 1, "b": 2, "c": 3, "d": 4})
    features, effects = explainer.row(3)(np.array([1.0, 2, 3, 4]))
    values = {"both": (1, 3), "b": 2, "d": 4}
    for output, reasons in enumerate(found):
        wanted = [explainer.players[player] for player in features[:, output]]
        assert [reason.feature for reason in reasons] == wanted
        assert [reason.value for reason in reasons] == [values[name] for name in wanted]
        assert [reason.effect for reason in reasons] == effects[:, output].tolist()
