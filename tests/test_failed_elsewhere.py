"""docs/guide/failed.md: the lines of each section run on a real model and give what the section says.

What another tool says is checked too, where the version that the page names is installed.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glasswood

pandas = pytest.importorskip("pandas")
sklearn_ensemble = pytest.importorskip("sklearn.ensemble")

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "failed.md"
pytestmark = pytest.mark.filterwarnings("ignore")  # other tools warn before they fail


def sections() -> dict[str, str]:
    """Python lines of the page by the heading above them."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    found = [(part.split("\n", 1)[0], re.findall(r"^```python\n(.*?)^```", part, re.S | re.M)) for part in parts]
    return {heading.strip("`"): code[0] for heading, code in found if code}


def run(heading: str, **names: object) -> dict[str, object]:
    """Run the lines of a section; return its variables."""
    scope = {"glasswood": glasswood, **names}
    exec(sections()[heading], scope)
    return scope


def only_in(package: str, version: str) -> None:
    """Skip the rest of a test where another version of the other tool is installed."""
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if not installed.startswith(version):
        pytest.skip(f"the page tells of {package} {version}")


@pytest.fixture(scope="module")
def adult():
    """Rows with categories, and whether the income is high."""
    X, y = glasswood.datasets.adult()
    texts = X.select_dtypes(exclude="number").columns
    return X[:1000].astype(dict.fromkeys(texts, "category")), np.asarray(y[:1000] == ">50K")


@pytest.fixture(scope="module")
def houses():
    X, y = glasswood.datasets.california()
    return X[:500], np.asarray(y)[:500]


@pytest.fixture(scope="module")
def by_categories(adult):
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    return xgboost.XGBClassifier(enable_categorical=True, n_estimators=10, max_depth=4).fit(*adult)


@pytest.fixture(scope="module")
def of_lightgbm(adult):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(*adult)


@pytest.fixture(scope="module")
def deep():
    """A tree of depth 92 on sparse noise, of shap's issue 4042."""
    rng = np.random.default_rng(123456)
    X = rng.normal(size=(165, 100))
    X.ravel()[rng.choice(X.size, int(X.size * 0.95), replace=False)] = 0
    y = rng.integers(0, 2, 165)
    model = sklearn_ensemble.ExtraTreesClassifier(n_estimators=1, random_state=123456).fit(X, y)
    return model, X


@pytest.fixture(scope="module")
def many_nodes():
    """A tree that knows each of 17,000 rows apart."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(17000, 5)), rng.normal(size=17000)
    model = sklearn_ensemble.RandomForestRegressor(1, bootstrap=False, random_state=0).fit(X, y)
    assert model.estimators_[0].tree_.node_count > 32767
    return model, X


def test_every_section_has_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    assert [heading for heading in sections() if source.count(heading) == 0] == []
    assert len(sections()) == 11


def test_lines_are_short_enough_to_read():
    assert [line for code in sections().values() for line in code.splitlines() if len(line) > 66] == []


def test_base_score_in_brackets(houses):
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    X, y = houses
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=4).fit(X, y)
    assert re.search(rb'"base_score":"\[', model.get_booster().save_raw("json"))
    lines = run("could not convert string to float: '[5E-1]'", model=model, X=X)
    sums = lines["values"].sum(1) + lines["explainer"].expected_value
    np.testing.assert_allclose(sums, model.predict(X), rtol=1e-4)


def test_key_cats(adult, by_categories, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_categories.save_model("model.json")
    assert b'"cats":' in Path("model.json").read_bytes()
    backwards = adult[0].copy()
    for name in backwards.select_dtypes("category"):
        backwards[name] = backwards[name].cat.set_categories(list(backwards[name].cat.categories)[::-1])
    lines = run('key "cats" is not recognized!', X=backwards)
    np.testing.assert_allclose(lines["predictions"], by_categories.predict_proba(adult[0])[:, 1], rtol=1e-5)


def test_treelite_refuses_tables_of_categories(by_categories, tmp_path):
    only_in("treelite", "4.8.1")
    import treelite

    by_categories.save_model(tmp_path / "model.json")
    with pytest.raises(treelite.TreeliteError, match="does not yet support XGBoost models with categorical encoder"):
        treelite.frontend.load_xgboost_model(str(tmp_path / "model.json"))


def test_additivity(deep):
    model, X = deep
    assert model.estimators_[0].get_depth() == 92
    lines = run("Additivity check failed in TreeExplainer!", model=model, X=X)
    sums = lines["values"].sum(1) + lines["explainer"].expected_value
    np.testing.assert_allclose(sums, model.predict_proba(X), rtol=0, atol=1e-15)


def test_shap_does_not_add_up(deep):
    only_in("shap", "0.51.")
    import shap

    with pytest.raises(Exception, match=r"Additivity check failed in TreeExplainer!.*was -18\.8"):
        shap.TreeExplainer(deep[0]).shap_values(deep[1])


def test_more_nodes_than_16_bits_count(many_nodes):
    model, X = many_nodes
    lines = run("Segmentation fault (core dumped)", model=model, X=X[:20])
    sums = lines["values"].sum(1) + lines["explainer"].expected_value
    np.testing.assert_allclose(sums, model.predict(X[:20]), atol=1e-5)


def test_90000_columns():
    X = np.random.default_rng(0).integers(0, 2, (3, 90000)).astype(float)
    model = sklearn_ensemble.RandomForestClassifier(10, random_state=0).fit(X, [0, 1, 1])
    lines = run("Segmentation fault (core dumped)", model=model, X=X)
    sums = lines["values"].sum(1) + lines["explainer"].expected_value
    np.testing.assert_allclose(sums, model.predict_proba(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems end a process otherwise")
def test_shap_ends_the_process():
    only_in("shap", "0.51.")
    code = (
        "import numpy, shap; from sklearn.tree import DecisionTreeRegressor\n"
        "rng = numpy.random.default_rng(0); X = rng.normal(size=(40000, 5)); y = rng.normal(size=40000)\n"
        "shap.TreeExplainer(DecisionTreeRegressor(random_state=0).fit(X, y), X[:20]).shap_values(X[:20])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


CATEGORICAL = (
    'TreeExplainer can only handle models with categorical splits when feature_perturbation="tree_path_dependent"'
)


@pytest.fixture(scope="module")
def of_scikit_learn(adult):
    made = sklearn_ensemble.HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
    return made.fit(*adult)


@pytest.mark.parametrize("library", ["by_categories", "of_lightgbm", "of_scikit_learn"])
def test_categories_with_a_background(library, adult, request):
    model, X = request.getfixturevalue(library), adult[0][:50]
    lines = run(CATEGORICAL, model=model, X=X)
    margins = glasswood.load(model).predict(X, output="margin")
    np.testing.assert_allclose(lines["values"].sum(1) + lines["explainer"].expected_value, margins, atol=1e-5)
    odds = glasswood.Explainer(model, background=X, output="probability")
    sums = odds.shap_values(X).sum(1) + odds.expected_value
    np.testing.assert_allclose(sums.reshape(50, -1)[:, -1], model.predict_proba(X)[:, 1], atol=1e-5)


def test_shap_refuses_categories_with_a_background(adult, by_categories, of_lightgbm, of_scikit_learn):
    only_in("shap", "0.51.")
    import shap

    X = adult[0][:50]
    with pytest.raises(Exception, match=CATEGORICAL):
        shap.TreeExplainer(of_lightgbm, X).shap_values(X)
    with pytest.raises(TypeError, match=r"Cannot cast array data from dtype\('O'\) to dtype\('float64'\)"):
        shap.TreeExplainer(by_categories, X).shap_values(X)
    with pytest.raises(ValueError, match="could not convert string to float: 'Private'"):
        shap.TreeExplainer(of_scikit_learn).shap_values(X)


@pytest.fixture(scope="module")
def of_vectors(houses):
    xgboost = pytest.importorskip("xgboost", minversion="2.0")
    X, y = houses
    made = xgboost.XGBRegressor(n_estimators=10, max_depth=4, multi_strategy="multi_output_tree")
    return made.fit(X, np.column_stack([y, -(y**2)]))


def test_vector_leaves(houses, of_vectors):
    X = houses[0]
    lines = run("vector-leaf is not yet supported.", model=of_vectors, X=X)
    assert lines["values"].shape == (len(X), X.shape[1], 2)
    sums = lines["values"].sum(1) + lines["explainer"].expected_value
    np.testing.assert_allclose(sums, of_vectors.predict(X), rtol=1e-4, atol=1e-4)


def test_shap_and_xgboost_refuse_vector_leaves(houses, of_vectors):
    only_in("shap", "0.51.")
    import shap
    import xgboost

    with pytest.raises(ValueError, match="vector-leaf is not yet supported"):
        shap.TreeExplainer(of_vectors)
    if xgboost.__version__.startswith("3.2."):
        with pytest.raises(xgboost.core.XGBoostError, match="support for multi-target tree is not yet implemented"):
            of_vectors.get_booster().predict(xgboost.DMatrix(houses[0]), pred_contribs=True)


def test_nothing_is_compiled(many_nodes, monkeypatch):
    def refuse(*_args, **_named):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "system", refuse)
    model, X = many_nodes
    lines = run("gcc: internal compiler error: Killed (program cc1)", model=model, X=X)
    np.testing.assert_allclose(lines["predictions"], model.predict(X), rtol=1e-12)
    assert lines["forest"].predictor()(X[0]) == pytest.approx(model.predict(X[:1])[0])


@pytest.mark.parametrize("library", ["by_categories", "of_lightgbm", "of_scikit_learn"])
def test_onnx_with_categories(library, adult, request, tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    X, model = adult[0], request.getfixturevalue(library)
    run("ONNX without categories", model=model)
    session = onnxruntime.InferenceSession("model.onnx")
    kind = np.float64 if session.get_inputs()[0].type == "tensor(double)" else np.float32
    columns = [X[name].cat.codes.replace(-1, np.nan) if X[name].dtype == "category" else X[name] for name in X]
    rows = np.column_stack(columns).astype(kind)
    found = session.run(["response"], {session.get_inputs()[0].name: rows})[0]
    np.testing.assert_allclose(found[:, 1], model.predict_proba(X)[:, 1], atol=1e-6)


def test_other_writers_of_onnx(adult, by_categories, tmp_path):
    catboost = pytest.importorskip("catboost")
    X, y = adult
    names = list(X.select_dtypes("category"))
    texts = X.astype(dict.fromkeys(names, str))
    made = catboost.CatBoostClassifier(5, cat_features=names, verbose=0, allow_writing_files=False).fit(texts, y)
    with pytest.raises(catboost.CatBoostError, match="ONNX-ML format export does yet not support categorical features"):
        made.save_model(tmp_path / "model.onnx", format="onnx")
    only_in("onnxmltools", "1.16.")
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    with pytest.raises(RuntimeError, match="feature names should follow pattern 'f%d'"):
        onnxmltools.convert_xgboost(by_categories, initial_types=[("X", FloatTensorType([None, X.shape[1]]))])
    only_in("skl2onnx", "1.20.")
    import skl2onnx

    codes = np.column_stack([X[name].cat.codes if name in names else X[name] for name in X]).astype(np.float32)
    places = [X.columns.get_loc(name) for name in names]
    hist = sklearn_ensemble.HistGradientBoostingClassifier(categorical_features=places, max_iter=3).fit(codes, y)
    with pytest.raises(ValueError, match="Unable to create node 'TreeEnsembleClassifier'"):
        skl2onnx.to_onnx(hist, codes[:1])


@pytest.mark.parametrize("kind", ["Enum", "Categorical"])
@pytest.mark.parametrize("library", ["by_categories", "of_lightgbm"])
def test_categories_of_polars(kind, library, adult, request):
    polars = pytest.importorskip("polars")
    X, model = adult[0], request.getfixturevalue(library)
    names = list(X.select_dtypes("category"))
    frame = polars.from_pandas(X.astype(dict.fromkeys(names, "object")))
    types = {
        name: polars.Enum(list(X[name].cat.categories)[::-1]) if kind == "Enum" else polars.Categorical
        for name in names
    }
    lines = run("Unsupported Arrow type: dictionary", model=model, frame=frame.cast(types))
    np.testing.assert_array_equal(lines["predictions"], model.predict(X))


@pytest.mark.slow
def test_lightgbm_refuses_categories_of_polars():
    only_in("lightgbm", "4.7.")
    pytest.importorskip("polars")
    code = (  # in a process of its own, because it may end
        "import lightgbm, polars; rng = __import__('numpy').random.default_rng(0)\n"
        "X = polars.DataFrame({'a': rng.choice(['u', 'v'], 99)}).cast(polars.Enum(['u', 'v']))\n"
        "lightgbm.LGBMRegressor().fit(X, rng.normal(size=99))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Unsupported Arrow type: dictionary" in done.stdout + done.stderr


def test_explainer_in_mlflow(by_categories, adult, tmp_path, monkeypatch):
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run() as current:
            run("Unsupported encoder type found: None", model=by_categories)
        [logged] = mlflow.search_logged_models(experiment_ids=[current.info.experiment_id], output_format="list")
        loaded = glasswood.mlflow.load_model(logged.model_uri)
    finally:
        mlflow.set_tracking_uri(before)
    expected = glasswood.Explainer(by_categories).shap_values(adult[0])
    np.testing.assert_array_equal(loaded.shap_values(adult[0]), expected)


def test_shap_does_not_load_what_it_saved(houses):
    only_in("shap", "0.51.")
    import shap

    X, y = houses
    file = io.BytesIO()
    shap.TreeExplainer(sklearn_ensemble.RandomForestRegressor(2, max_depth=3).fit(X, y)).save(file)
    file.seek(0)
    with pytest.raises(ValueError, match="Unsupported encoder type found: None"):
        shap.TreeExplainer.load(file)


def test_pictures_without_graphviz(by_categories, adult, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    run("failed to execute PosixPath('dot')", model=by_categories, X=adult[0])
    assert Path("tree.png").stat().st_size > 10000
