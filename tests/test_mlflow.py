"""Models of MLflow, as its own flavours are tested: saved, logged, loaded, served, with signatures and requirements."""

import dataclasses
import os

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, random_forest

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install mlflow-skinny")
pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow warns of its own imports


@pytest.fixture(scope="module")
def X():  # noqa: N802
    return pandas.DataFrame(np.random.default_rng(0).normal(size=(8, 4)), columns=list("abcd"), index=range(10, 18))


@pytest.fixture(scope="module")
def forest():
    made = random_forest(0, Options(n_trees=4, n_features=4))
    about = {"feature_names": tuple("abcd"), "prediction": "response", "link": "identity"}
    return glasswood.Forest(dataclasses.replace(made.ensemble, **about))


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


@pytest.mark.parametrize("kind", ["forest", "explainer"])
def test_save_load_predict_explain(kind, forest, X, tmp_path):
    explainer = glasswood.Explainer(forest, background=X)
    model = forest if kind == "forest" else explainer
    glasswood.mlflow.save_model(model, tmp_path / "model", signature=None)
    loaded = glasswood.mlflow.load_model(str(tmp_path / "model"))
    assert type(loaded) is type(model)
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(served.predict(X), forest.predict(X))
    expected = (glasswood.Explainer(forest) if kind == "forest" else explainer).shap_values(X)
    values = glasswood.mlflow._load_pyfunc(str(tmp_path / "model" / "data")).predict(X, {"output": "values"})
    np.testing.assert_array_equal(values, expected)
    assert list(values) == list("abcd")
    assert values.index.equals(X.index)


def test_signature_with_a_parameter(forest, X, tmp_path):
    signature = mlflow.models.infer_signature(X, forest.predict(X), params={"output": "prediction"})
    glasswood.mlflow.save_model(forest, tmp_path / "model", signature=signature, input_example=X[:2])
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(served.predict(X), forest.predict(X))
    values = served.predict(X, params={"output": "values"})
    np.testing.assert_array_equal(values, glasswood.Explainer(forest).shap_values(X))
    margins = served.predict(X, params={"output": "margin"})
    np.testing.assert_array_equal(np.ravel(margins), forest.predict(X, "margin"))


def test_what_is_said_of_a_model(forest, tmp_path):
    glasswood.mlflow.save_model(forest, tmp_path / "model", metadata={"author": "somebody"})
    described = mlflow.models.Model.load(str(tmp_path / "model"))
    assert described.flavors["glasswood"] == {"glasswood_version": glasswood.__version__, "kind": "forest"}
    assert described.flavors["python_function"]["loader_module"] == "glasswood.mlflow"
    assert described.metadata == {"author": "somebody"}
    assert f"glasswood=={glasswood.__version__}" in (tmp_path / "model" / "requirements.txt").read_text()


def test_log_and_load_from_a_run(forest, X):
    with mlflow.start_run():
        info = glasswood.mlflow.log_model(glasswood.Explainer(forest), name="trees")
    loaded = glasswood.mlflow.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.shap_values(X), glasswood.Explainer(forest).shap_values(X))
