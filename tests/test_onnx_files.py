"""`Forest.save("model.onnx")`, run by onnxruntime."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import glasswood
from tests.example_forests import with_models
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows
from tests.strategies import Options, full_forest, random_forest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 4)), 2)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(0, 12, 300)
    return X, np.nan_to_num(X[:, 0]) + (X[:, 3] % 3) * np.nan_to_num(X[:, 1], nan=1.0)


def run(forest, X, path):
    forest.save(path)
    onnx.checker.check_model(onnx.load(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(forest.ensemble.threshold.dtype)}), strict=True))


def check(forest, rows, tmp_path, limit=None):
    X = adversarial_rows(forest, rows, max_rows=4000, allow_nan=forest.ensemble.nan_allowed)
    if forest.ensemble.is_categorical:  # codes are whole numbers
        sets = np.unique(forest.ensemble.feature[forest.ensemble.category_set >= 0])
        whole = np.isnan(X[:, sets]) | ((np.floor(X[:, sets]) == X[:, sets]) & (np.abs(X[:, sets]) < 2**24))
        X = X[(whole & ~(X[:, sets] < 0)).all(axis=1)]
    if limit:
        X = X[(np.nan_to_num(np.abs(X)) < limit).all(axis=1)]
    assert len(X) > 300
    with np.errstate(over="ignore"):
        X = X.astype(forest.ensemble.threshold.dtype)
    plain = glasswood.Forest(dataclasses.replace(forest.ensemble, categories=None, result_dtype="float64"))
    found = run(plain, X, tmp_path / "model.onnx")
    bound = evaluate.summation_bound(plain, X.astype(float), 2.0**-53)
    expected = plain.predict(X, output="margin").reshape(found["margin"].shape)
    assert (np.abs(found["margin"] - expected) <= 4 * bound).all()
    if "response" in found:
        output = "probability" if forest.classes else "prediction"
        if forest.classes or forest.ensemble.prediction == "response":
            np.testing.assert_allclose(np.squeeze(found["response"]), plain.predict(X, output=output), atol=1e-9)
    assert_read_back(plain, X, tmp_path / "model.onnx")
    if "label" in found:
        decided = (np.abs(expected - forest.ensemble.prediction_offset) > 1e-9).all(axis=1)
        np.testing.assert_array_equal(found["label"][decided], plain.predict(X)[decided])
    return found


def assert_read_back(forest, X, path):
    """What glasswood reads of its own file predicts as the forest, to the bit."""
    if forest.ensemble.has_linear_leaves:
        with pytest.raises(NotImplementedError, match="linear leaves"):
            glasswood.load(path)
        return
    again = glasswood.load(path)
    assert (again.feature_names, again.objective) == (forest.feature_names, forest.objective)
    for output in ("margin", "prediction", *["probability"] * bool(forest.classes)):
        np.testing.assert_array_equal(again.predict(X, output=output), forest.predict(X, output=output))
    if not forest.ensemble.categories:
        glasswood.load(onnx.load(path), check=X[:50])


MODELS = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=6, max_depth=4),
    "xgboost, poisson": lambda: xgboost.XGBRegressor(n_estimators=6, objective="count:poisson"),
    "xgboost, classes": lambda: xgboost.XGBClassifier(n_estimators=6),
    "xgboost, marker": lambda: xgboost.XGBRegressor(n_estimators=6, missing=-1.0),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=6, verbose=-1),
    "lightgbm, zeros": lambda: lightgbm.LGBMRegressor(n_estimators=6, verbose=-1, zero_as_missing=True),
    "lightgbm, classes": lambda: lightgbm.LGBMClassifier(n_estimators=6, verbose=-1),
    "lightgbm, linear": lambda: lightgbm.LGBMRegressor(n_estimators=6, verbose=-1, linear_tree=True),
    "forest": lambda: ensemble.RandomForestRegressor(n_estimators=4),
    "forest, classes": lambda: ensemble.RandomForestClassifier(n_estimators=4),
    "hist": lambda: ensemble.HistGradientBoostingRegressor(max_iter=5),
    "hist, classes": lambda: ensemble.HistGradientBoostingClassifier(max_iter=5),
    "boosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=5),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("labels", ["numbers", "two", "three", "text"])
def test_models(name, labels, data, tmp_path):
    X, y = data
    is_classifier = "classes" in name
    if is_classifier == (labels == "numbers") or (name.startswith("xgboost") and labels == "text"):
        pytest.skip("no such model")
    targets = {"numbers": np.abs(y), "two": y > 1, "three": np.digitize(y, [0.5, 2]),
               "text": np.where(y > 1, "yes", "no")}  # fmt: skip
    rows = np.nan_to_num(X) if name == "boosting" else X
    forest = glasswood.load(MODELS[name]().fit(rows, targets[labels]))
    check(forest, rows, tmp_path, limit=1e6 if forest.ensemble.has_linear_leaves else None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_random_forests(seed, row_type, tmp_path):
    options = Options(n_trees=4, n_features=4, n_outputs=1 + seed % 3, row_type=row_type, categorical=seed > 2)
    forest = dataclasses.replace(random_forest(seed, options), missing=math.nan, link="identity", classes=())
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 4))
    if forest.ensemble.is_categorical:
        for feature in np.unique(forest.ensemble.feature[forest.ensemble.category_set >= 0]):
            rows[:, feature] = rng.integers(0, 70, 200)
    check(dataclasses.replace(forest, prediction="response"), rows, tmp_path)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_equations(row_type, missing, tmp_path):
    options = Options(n_trees=3, n_features=4, row_type=row_type, n_outputs=2)
    forest = with_models(random_forest(2, options), 3, -1.0, 1.5)
    if missing:
        forest = dataclasses.replace(forest, leaf_missing=np.arange(forest.n_leaves) / 3)
    rng = np.random.default_rng(0)
    repeated = np.repeat(np.arange(len(forest.ensemble.linear_feature)), 2)
    forest = dataclasses.replace(
        forest,
        link="identity", classes=(), prediction="response", missing=math.nan,
        linear_offsets=2 * forest.ensemble.linear_offsets,
        linear_feature=forest.ensemble.linear_feature[repeated],
        linear_category=np.resize([-1, -2, -3], len(repeated)).astype(np.int32),
        linear_coefficient=rng.normal(size=len(repeated)),
        linear_mean=rng.uniform(size=len(repeated)),
    )  # fmt: skip
    # -1, -2 and -3, which mark numbers, missing values and logarithms among categories, are numbers of rows as others.
    rows = np.concatenate([rng.normal(size=(200, 4)), rng.integers(-4, 4, size=(100, 4))])
    check(forest, rows, tmp_path, limit=1e6)


def test_grown_trees(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 3))
    X[::9, 0] = np.nan
    y = np.where(X[:, 0] > 0, 2 * X[:, 1] + 1, -X[:, 2])
    forest = glasswood.ModelTreeRegressor(generations=20, random_state=0).fit(X, y).forest_
    found = run(forest, X, tmp_path / "model.onnx")["margin"][:, 0]
    np.testing.assert_allclose(found, forest.predict(X), rtol=1e-13, atol=1e-13)


def test_vectors_and_weights_are_read_back(tmp_path):
    options = Options(n_trees=5, n_features=4, n_outputs=3, vector_leaves=True, weights="dart", row_type="float64")
    forest = dataclasses.replace(random_forest(1, options), missing=math.nan, link="softmax")
    check(forest, np.random.default_rng(0).normal(size=(200, 4)), tmp_path)
    assert glasswood.load(tmp_path / "model.onnx").n_trees == 15


def test_a_graph_that_was_changed_is_read_as_anyones(tmp_path):
    """Metadata of another graph would say what its operators no longer do."""
    path = tmp_path / "model.onnx"
    full_forest(0, n_trees=2, depth=2, n_features=3).save(path)
    model = onnx.load(path)
    assert glasswood.load(model).source == "ONNX"
    model.graph.node[-1].name = "renamed"
    with pytest.raises(NotImplementedError, match="before they reach the trees"):
        glasswood.load(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda note: note | {"version": 2}, "a later glasswood wrote it"),
        (lambda note: note | {"base_score": []}, "glasswood noted 0 base scores"),
        (lambda note: note | {"base_score": 3}, "what glasswood noted in it is damaged"),
        (lambda _: [], "what glasswood noted in it is damaged"),
        (lambda note: note | {"zero_missing": [True]}, "zero_missing has 1 entries"),
        (lambda note: note | {"fields": note["fields"] | {"link": "circular"}}, "link is 'circular'"),
    ],
)
def test_notes_that_do_not_fit_are_refused(change, message, tmp_path):
    path = tmp_path / "model.onnx"
    full_forest(0, n_trees=2, depth=2, n_features=3).save(path)
    model = onnx.load(path)
    (entry,) = model.metadata_props
    entry.value = json.dumps(change(json.loads(entry.value)))
    with pytest.raises((NotImplementedError, ValueError), match=message):
        glasswood.load(model)


def test_what_onnx_does_not_have_is_refused(tmp_path):
    forest = full_forest(0, n_trees=2, depth=2, n_features=3)
    for change, message in (({"link": "sorted"}, "the link 'sorted'"), ({"transform": abs}, "computed from others")):
        with pytest.raises(NotImplementedError, match=message):
            dataclasses.replace(forest, **change).save(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_signalling_nans_are_refused_without_a_warning(tmp_path):
    seed = Path(__file__).parent / "fuzz" / "seeds" / "onnx-regressor.onnx"
    data, value = seed.read_bytes(), glasswood.load(seed).ensemble.leaf_value[0].astype("<f4").tobytes()
    assert data.count(value) == 1
    (tmp_path / "model.onnx").write_bytes(data.replace(value, bytes.fromhex("0100a07f")))
    with pytest.raises(ValueError, match="NaN or infinity"):
        glasswood.load(tmp_path / "model.onnx")
