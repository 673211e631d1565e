"""SciPy's sparse rows: as the source libraries predict them, and as their dense twins are explained."""

from __future__ import annotations

import tracemalloc

import catboost
import lightgbm
import numpy as np
import pytest
import scipy.sparse
import xgboost
from sklearn.ensemble import BaggingRegressor, GradientBoostingClassifier, RandomForestRegressor, VotingRegressor

import glasswood
from glasswood import Explainer
from tests.example_forests import with_models
from tests.strategies import Options, full_forest, random_forest

N_ROWS, N_FEATURES = 300, 40


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((N_ROWS, N_FEATURES)) < 0.2, np.round(rng.normal(size=(N_ROWS, N_FEATURES)), 2), 0)
    X[rng.random(X.shape) < 0.02] = -1e-40
    return scipy.sparse.csr_array(X), X[:, 0] + 2 * (X[:, 1] == 0) - X[:, 2] ** 2


def with_zeros(X):
    """Zeros that are stored."""
    result = X.copy()
    result.data[::5] = 0
    return result


def with_missing(X):
    result = X.copy()
    result.data[::7] = np.nan
    return result


def unsorted_twice(X):
    """Entries in falling order, each stored as two halves."""
    dense = X.tocoo()
    order = np.argsort(-dense.col, kind="stable")
    order = order[np.argsort(dense.row[order], kind="stable")]
    row, column, value = (np.repeat(part[order], 2) for part in (dense.row, dense.col, dense.data / 2))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=X.shape[0]))])
    result = scipy.sparse.csr_array((value, column, indptr), shape=X.shape)
    assert not result.has_canonical_format
    return result


FORMS = {
    "csr": lambda X: X,
    "csc": lambda X: X.tocsc(),
    "coo": lambda X: X.tocoo(),
    "zeros": with_zeros,
    "twice": unsorted_twice,
    "float32": lambda X: X.astype(np.float32),
    "matrix": scipy.sparse.csr_matrix,
}


@pytest.mark.parametrize("form", [*FORMS, "missing"])
def test_xgboost_takes_absent_entries_for_missing(form, data):
    X, y = data
    rows = with_missing(X) if form == "missing" else FORMS[form](X)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=4).fit(X, y)
    canonical = scipy.sparse.csr_matrix(rows.tocsr().copy())
    canonical.sum_duplicates()
    expected = model.get_booster().predict(xgboost.DMatrix(canonical))
    np.testing.assert_allclose(glasswood.load(model).predict(rows), expected, rtol=1e-5, atol=1e-6)
    leaves = model.get_booster().predict(xgboost.DMatrix(canonical), pred_leaf=True)
    np.testing.assert_array_equal(glasswood.load(model).predict(rows, output="leaf"), leaves)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("missing", [False, True])
def test_lightgbm_takes_absent_entries_for_zero(form, missing, data):
    X, y = data
    rows = FORMS[form](with_missing(X) if missing and form != "twice" else X)
    for options in ({}, {"zero_as_missing": True}, {"linear_tree": True}):
        dataset = lightgbm.Dataset(X.toarray(), y)
        model = lightgbm.train({"verbose": -1, "num_leaves": 7, **options}, dataset, 10)
        canonical = scipy.sparse.csr_matrix(rows.tocsr().copy())
        canonical.sum_duplicates()
        forest = glasswood.load(model)
        np.testing.assert_array_equal(
            forest.predict(rows, output="leaf"), model.predict(canonical, pred_leaf=True).astype(np.int32)
        )
        np.testing.assert_allclose(forest.predict(rows), model.predict(canonical), rtol=0, atol=1e-13)


def test_others_take_absent_entries_for_zero(data):
    X, y = data
    models = [
        RandomForestRegressor(n_estimators=5, random_state=0).fit(X, y),
        GradientBoostingClassifier(n_estimators=5).fit(X, np.digitize(y, [-0.5, 1])),
        catboost.CatBoostRegressor(iterations=5, verbose=0, allow_writing_files=False).fit(X.toarray(), y),
    ]
    for model in models:
        given = scipy.sparse.csr_matrix(X) if isinstance(model, catboost.CatBoost) else X
        np.testing.assert_allclose(glasswood.load(model).predict(X), model.predict(given), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("joined", ["voting", "bagging", "voting of bagging"])
def test_joined_models_take_absent_entries_as_their_members_do(kind, joined, data):
    X, y = data
    rows = scipy.sparse.csr_matrix(X)
    member = {
        "xgboost": xgboost.XGBRegressor(n_estimators=5, max_depth=4),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, num_leaves=7, verbose=-1),
    }[kind]
    bagging = BaggingRegressor(member, n_estimators=2, max_features=0.7, random_state=0)
    model = {
        "voting": VotingRegressor([("one", member), ("two", member)]),
        "bagging": bagging,
        "voting of bagging": VotingRegressor([("one", bagging)]),
    }[joined].fit(rows, y)
    forest = glasswood.load(model)
    np.testing.assert_allclose(forest.predict(rows), model.predict(rows), rtol=1e-5, atol=1e-6)
    if kind == "xgboost":
        assert np.abs(forest.predict(rows.toarray()) - model.predict(rows)).max() > 0.01
    explainer = Explainer(forest)
    total = explainer.shap_values(rows).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(rows), rtol=0, atol=1e-5)


@pytest.mark.parametrize("output", ["margin", "probability", "leaf", "prediction"])
def test_every_output_is_that_of_the_dense_rows(output, data):
    X, y = data
    forest = glasswood.load(GradientBoostingClassifier(n_estimators=3).fit(X, np.digitize(y, [-0.5, 1])))
    np.testing.assert_array_equal(forest.predict(X, output=output), forest.predict(X.toarray(), output=output))
    assert forest.predict(X[:0], output=output).shape == forest.predict(X.toarray()[:0], output=output).shape


@pytest.mark.parametrize("kind", ["path", "background", "linear"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_explanations_are_those_of_the_dense_rows(kind, n_outputs, data):
    X, y = data
    if kind == "linear":
        forest = with_models(full_forest(1, n_trees=3, depth=3, n_features=N_FEATURES), 0)
    else:
        target = y if n_outputs == 1 else np.digitize(y, [-0.5, 1])
        maker = lightgbm.LGBMRegressor if n_outputs == 1 else lightgbm.LGBMClassifier
        forest = glasswood.load(maker(n_estimators=6, num_leaves=6, verbose=-1).fit(X, target))
    explainer = Explainer(forest, X.toarray()[:20] if kind == "background" else None)
    expected = explainer.shap_values(X.toarray())
    found = explainer.shap_values(X, check_additivity=True)
    np.testing.assert_array_equal(found, expected)
    out = np.full(expected.shape, 7, np.float32)
    assert explainer.shap_values(X.tocsc(), out=out) is out
    np.testing.assert_array_equal(out, expected)
    sparse = explainer.shap_values(X, sparse_output=True)
    of_dense = explainer.shap_values(X.toarray(), sparse_output=True)
    for each in (sparse, of_dense):
        parts = each if isinstance(each, list) else [each]
        assert all(part.format == "csr" and part.dtype == np.float32 for part in parts)
        dense = np.stack([part.toarray() for part in parts], axis=-1).reshape(expected.shape)
        np.testing.assert_array_equal(dense, expected)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_has_sparse_values_of_all_outputs(n_outputs):
    forest = random_forest(2, Options(n_trees=4, n_features=5, n_outputs=n_outputs))
    row = np.random.default_rng(0).normal(size=5)
    explainer = Explainer(forest)
    found = explainer.shap_values(row, sparse_output=True)
    parts = found if n_outputs > 1 else [found]
    assert [(part.format, part.shape) for part in parts] == [("csr", (1, 5))] * n_outputs
    dense = np.concatenate([part.toarray() for part in parts]).T
    np.testing.assert_array_equal(dense, explainer.shap_values(row).reshape(5, n_outputs))


def test_wide_rows_are_never_dense(data, monkeypatch):
    monkeypatch.setattr("glasswood.inputs.sparse.CHUNK_BYTES", 2**16)
    rng = np.random.default_rng(0)
    n, width, each = 20_000, 10_000, 20
    entries = (rng.normal(size=n * each), rng.integers(0, width, n * each), np.arange(n + 1) * each)
    wide = scipy.sparse.csr_array(entries, shape=(n, width))
    target = wide[:, [0]].toarray()[:, 0] + rng.normal(size=n)
    forest = glasswood.load(xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(wide[:3000], target[:3000]))
    explainer = Explainer(forest)
    tracemalloc.start()
    forest.predict(wide)
    values = explainer.shap_values(wide, sparse_output=True)
    assert tracemalloc.get_traced_memory()[1] < 60e6  # all of it would take 800 MB
    tracemalloc.stop()
    assert values.shape == wide.shape
    np.testing.assert_allclose(
        values.sum(axis=1) + explainer.expected_value, forest.predict(wide, output="margin"), atol=1e-4
    )
    del data


def test_what_does_not_fit_is_refused(data):
    X, y = data
    forest = glasswood.load(RandomForestRegressor(n_estimators=2, random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="X has 39 columns, the forest was trained on 40"):
        forest.predict(X[:, :39])
    with pytest.raises(TypeError, match="X holds complex128"):
        forest.predict(X.astype(complex))
    explainer = Explainer(forest)
    with pytest.raises(ValueError, match="out is dense"):
        explainer.shap_values(X, out=np.zeros(X.shape, np.float32), sparse_output=True)
    with pytest.raises(ValueError, match=r"shape \(1, 2\), expected float32 of shape \(300, 40\)"):
        explainer.shap_values(X, out=np.zeros((1, 2), np.float32))
    for dtype in (np.int64, np.float16, np.float64):
        with pytest.raises(ValueError, match=rf"out is {np.dtype(dtype)} of .*, expected float32"):
            explainer.shap_values(X, out=np.zeros(X.shape, dtype))
    with pytest.raises(TypeError, match="out is a list, expected a NumPy array"):
        explainer.shap_values(X, out=[])


def test_numbers_beyond_float32_are_infinite(data):
    """As in dense rows of float64: splits compare float32."""
    forest = full_forest(0, 3, 3, N_FEATURES)
    rows = data[0].copy()
    rows.data[::3] = 1e300
    np.testing.assert_array_equal(forest.predict(rows), forest.predict(rows.toarray()))
