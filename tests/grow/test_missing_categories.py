"""A missing or unseen category in an equation is the leaf's mean: in predictions, exports and explanations."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
import pandas as pd

import glasswood
from tests.display.runners import call_c, code_columns, compile_c, run_duckdb, run_python, run_sqlite
from tests.native import COMPILER

FAST = {"n_iter_no_change": 5, "n_jobs": 1, "time_limit": None}


def frame(n_levels, share, n=600, seed=0):
    """Categories of uneven frequency with an effect each, a number, and rows that lack the category."""
    rng = np.random.default_rng([seed, n_levels])
    p = np.arange(n_levels, 0, -1.0)
    codes = rng.choice(n_levels, n, p=p / p.sum())
    X = pd.DataFrame({"c": [f"k{code:02}" for code in codes], "x": rng.normal(size=n)})
    y = 5.0 * rng.permutation(n_levels)[codes] + X["x"].to_numpy() + 0.1 * rng.normal(size=n)
    X.loc[rng.random(n) < share, "c"] = None
    return X, y


def lacking(x=0.3):
    return [pd.DataFrame({"c": [c], "x": [x]}, dtype=object).astype({"x": float}) for c in (None, "never seen")]


def trees(n_levels, share):
    X, y = frame(n_levels, share)
    yield X, glasswood.ModelTreeRegressor(max_leaves=1, **FAST).fit(X, y)
    yield X, glasswood.ModelTreeRegressor(max_leaves=4, smoothing="auto", **FAST).fit(X, y)
    odds = (y - y.mean()) / y.std()  # moderate ones, which no limit confines
    is_one = np.random.default_rng(1).random(len(y)) < 1 / (1 + np.exp(-odds))
    yield X, glasswood.ModelTreeClassifier(max_leaves=1, **FAST).fit(X, is_one)


@pytest.mark.parametrize("n_levels", [2, 3, 8, 15, 40])
def test_one_leaf_has_its_mean(n_levels):
    X, _ = frame(n_levels, 0)
    for _, model in trees(n_levels, 0):
        if model.n_leaves_ > 1:
            continue
        predict = model.forest_.predict
        mean = predict(X.assign(x=0.3), "margin").mean()
        for row in lacking():
            assert predict(row, "margin")[0] == pytest.approx(mean, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("n_levels", [3, 15])
@pytest.mark.parametrize("share", [0.004, 0.1, 0.5])
def test_rows_that_lack_it_are_fitted_as_they_are_predicted(n_levels, share):
    X, y = frame(n_levels, share)
    far = y + 40 * X["c"].isna()
    tree = glasswood.ModelTreeRegressor(max_leaves=1, **FAST).fit(X, far)
    absent = X["c"].isna().to_numpy()
    if absent.sum() >= 5:  # then a column of their own tells them apart
        assert abs(tree.predict(X)[absent].mean() - far[absent].mean()) < 0.05
    else:
        present = tree.predict(X.assign(x=0.3))[~absent].mean()
        assert tree.predict(lacking()[0])[0] == pytest.approx(present, rel=0.02)
    assert tree.predict(X).mean() == pytest.approx(far.mean(), rel=1e-9)
    assert tree.predict(lacking()[0])[0] == pytest.approx(tree.predict(lacking()[1])[0], rel=1e-12)


@pytest.mark.parametrize(("n_levels", "share"), [(2, 0), (4, 0), (4, 0.1), (15, 0.1)])
def test_exports_and_explanations_agree(n_levels, share, tmp_path):
    for X, model in trees(n_levels, share):
        rows = pd.concat([X.iloc[:40], *lacking(), *lacking(-2.0)], ignore_index=True)
        forest, expected = model.forest_, model.forest_.predict(rows, "margin")
        response = forest.predict(rows, "probability")[:, 1] if forest.classes else forest.predict(rows)
        python = run_python(glasswood.export_python(model, "evaluate"), rows, "evaluate")
        np.testing.assert_allclose(python, response, rtol=1e-9)
        np.testing.assert_allclose(run_sqlite(glasswood.export_sql(model, dialect="sqlite"), rows), response, rtol=1e-9)
        np.testing.assert_allclose(run_duckdb(glasswood.export_sql(model), rows), response, rtol=1e-9)
        if COMPILER is not None:
            folder = tmp_path / f"{type(model).__name__}{model.n_leaves_}{len(list(tmp_path.iterdir()))}"
            folder.mkdir()  # a library of the same path would not be loaded again
            function = compile_c(glasswood.export_c(model, "evaluate"), folder).evaluate
            np.testing.assert_allclose(call_c(function, code_columns(forest, rows)), response, rtol=1e-9)
        explainer = glasswood.Explainer(model, dtype="float64")
        total = explainer.expected_value + explainer.shap_values(rows).sum(axis=1)
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)
        margins = forest.predict(X, "margin")
        if model.n_leaves_ == 1:
            assert explainer.expected_value == pytest.approx(margins.mean(), rel=1e-3, abs=1e-3)


def test_onnx_has_the_mean(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = frame(4, 0)
    tree = glasswood.ModelTreeRegressor(max_leaves=1, **FAST).fit(X, y)
    path = tmp_path / "tree.onnx"
    tree.forest_.save(path)
    session = onnxruntime.InferenceSession(path.read_bytes())
    name, kind = session.get_inputs()[0].name, session.get_inputs()[0].type
    rows = np.array([[0, 0.3], [3, 0.3], [np.nan, 0.3]], np.float32 if "float" in kind else np.float64)
    found = np.ravel(session.run(None, {name: rows})[0])
    labels = pd.DataFrame({"c": ["k00", "k03", None], "x": np.float32(0.3)})
    np.testing.assert_allclose(found, tree.predict(labels), rtol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_splits_of_derived_columns_part_missing_values_as_their_features_do(seed):
    """Logarithms and columns of categories lack what their features lack, and the search may part rows by that."""
    rng = np.random.default_rng(seed)
    n = 400
    frame = pd.DataFrame(np.exp(1.5 * rng.normal(size=(n, 2))), columns=["a", "b"])
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    target = 3.0 * frame["a"].isna() * (frame["b"] > 1) + 2 * frame["b"].isna()
    if seed % 2:
        frame["k"] = np.where(rng.random(n) < 0.4, None, rng.choice(list("pqr"), n))
        target += 2 * (frame["k"].isna() & (frame["a"] > 1)) + frame["k"].eq("p")
    y = target + 0.3 * rng.normal(size=n)
    settings = {"log_terms": True, "generations": 40, "max_leaves": 6, "n_jobs": 1, "verbose": False}
    model = glasswood.ModelTreeRegressor(random_state=seed, time_limit=None, **settings).fit(frame, y)
    forest = model.forest_.ensemble
    np.testing.assert_array_equal(np.bincount(model.apply(frame)), forest.cover[forest.feature < 0])
