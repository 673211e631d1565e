"""What leaves glasswood of a model that was fitted with exposures is a rate, and says so."""

import json
import re

import numpy as np
import pytest

import glasswood
from tests.display.runners import call_c, compile_c, run_duckdb, run_python, run_sqlite
from tests.display.spreadsheet import results

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

SAID = "Predictions are for one unit of exposure: multiply them by the exposure."
FAST = {"n_jobs": 1, "verbose": False, "alternatives": 0}


@pytest.fixture(scope="module", params=["poisson", "gamma", "tweedie"])
def fitted(request):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"age": rng.uniform(18, 90, 600), "power": rng.uniform(40, 200, 600)})
    years = rng.uniform(0.2, 4, 600)
    rate = np.where(X["age"] < 30, 0.8, 0.3) * np.exp(0.004 * X["power"])
    y = {"poisson": rng.poisson(years * rate).astype(float), "gamma": years * rate * rng.gamma(4, 0.25, 600)}
    y["tweedie"] = np.array([rng.gamma(2, 0.5, n).sum() for n in rng.poisson(years * rate)])
    model = glasswood.ModelTreeRegressor(loss=request.param, generations=20, max_leaves=4, **FAST)
    return X, years, y[request.param], model.fit(X, y[request.param], exposure=years)


def test_databases_multiply_what_they_are_told_to(fitted):
    duckdb = pytest.importorskip("duckdb")
    X, years, _, model = fitted
    rows, expected = X.head(50), model.predict(X.head(50), exposure=years[:50])
    expression = glasswood.export_sql(model, dialect="duckdb")
    assert expression.startswith(f"/* {SAID} */ ")
    np.testing.assert_allclose(run_duckdb(expression, rows), model.predict(rows), rtol=1e-12)
    np.testing.assert_allclose(
        run_sqlite(glasswood.export_sql(model, dialect="sqlite"), rows), model.predict(rows), rtol=1e-12
    )
    query = glasswood.export_sql(model, dialect="duckdb", table="policies", keep=["years"])
    assert query.startswith(f"/* {SAID} */ WITH ")
    policies = rows.assign(years=years[:50])
    with duckdb.connect() as connection:
        connection.register("policies", policies)
        found = connection.execute(f"SELECT years, prediction * years FROM ({query})").fetchnumpy()
    order = np.argsort(years[:50])
    values = list(found.values())
    np.testing.assert_allclose(values[1][np.argsort(values[0])], expected[order], rtol=1e-12)


def test_code_says_so(fitted, tmp_path):
    X, _, _, model = fitted
    source = glasswood.export_python(model)
    assert SAID in " ".join(source.split())
    rows = X.head(20)
    np.testing.assert_allclose(run_python(source, rows), model.predict(rows), rtol=1e-12)
    source = glasswood.export_c(model)
    assert SAID in " ".join(source.split())
    compiled = compile_c(source, tmp_path)
    np.testing.assert_allclose(call_c(compiled.predict, rows.to_numpy()), model.predict(rows), rtol=1e-12)


def test_workbooks_say_so(fitted, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    X, _, _, model = fitted
    row = X.iloc[0].to_dict()
    glasswood.export_excel(model, tmp_path / "model.xlsx", row=row)
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    assert SAID in book["Inputs"]["A1"].value
    [found] = results([tmp_path / "model.xlsx"], tmp_path)
    assert float(found) == pytest.approx(model.predict(X.iloc[[0]])[0], rel=1e-12)


def test_graphs_say_so(fitted, tmp_path):
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X, _, _, model = fitted
    model.forest_.save(tmp_path / "model.onnx")
    written = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(written)
    assert written.doc_string == SAID
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X.to_numpy()}), strict=True))
    np.testing.assert_allclose(found["response"].ravel(), model.predict(X), rtol=1e-12)


def test_files_texts_and_facts_keep_the_word(fitted, tmp_path):
    X, _, _, model = fitted
    model.forest_.save(tmp_path / "model.glasswood")
    again = glasswood.load(tmp_path / "model.glasswood")
    assert glasswood.export_text(again).count(SAID) == 1
    assert "for one unit of exposure" in again._repr_html_()
    assert SAID in model._repr_mimebundle_()["text/html"]
    page = glasswood.report(model, X, path=tmp_path / "report.html").read_text()
    assert page.count(SAID) >= 2, "beside the tree, and where the report says what the model is"
    page = glasswood.report(model, X, path=tmp_path / "bericht.html", language="de").read_text()
    assert "für eine Einheit der Exposition" in page


def test_reasons_and_shap_values_are_those_of_rates(fitted):
    X, years, _, model = fitted
    explainer = glasswood.Explainer(model)
    sentences = explainer.sentences(X.head(3))
    for i, said in enumerate(sentences):
        shown = re.match(r"Prediction for one unit of exposure: (\d+\.\d+)", " ".join(said))
        assert shown is not None, said
        assert float(shown[1]) == pytest.approx(model.predict(X.iloc[[i]])[0], rel=0.02)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    expected = np.log(model.predict(X, exposure=years) / years)
    np.testing.assert_allclose(total, expected, atol=1e-5)


def test_models_without_exposures_say_nothing(fitted, tmp_path):
    X, _, y, model = fitted
    again = glasswood.ModelTreeRegressor(**{**model.get_params(), "generations": 3}).fit(X, y, exposure=np.ones(600))
    assert SAID in glasswood.export_text(again)
    again.fit(X, y)
    assert SAID not in glasswood.export_text(again)
    assert "/*" not in glasswood.export_sql(again)
    assert again.forest_.objective in {"poisson", "gamma", "tweedie 1.5"}
    again.forest_.save(tmp_path / "model.onnx")
    assert json.dumps(SAID)[1:-1].encode() not in (tmp_path / "model.onnx").read_bytes()


@pytest.mark.parametrize("kind", ["mean", "boosted", "curves"])
def test_ensembles_and_curves_say_so(kind):
    rng = np.random.default_rng(0)
    X, years = rng.uniform(0, 1, (300, 2)), rng.uniform(0.2, 4, 300)
    y = rng.poisson(years * np.exp(X[:, 0])).astype(float)
    options = {"loss": "poisson", "n_jobs": 1}
    step = glasswood.ModelTreeRegressor(max_leaves=3, generations=2, n_jobs=1)
    model = {
        "mean": glasswood.ModelTreeEnsembleRegressor(step, n_estimators=2, **options),
        "boosted": glasswood.ModelTreeEnsembleRegressor(method="boosting", n_estimators=1, max_trees=3, **options),
        "curves": glasswood.AdditiveRegressor(**options),
    }[kind].fit(X, y, exposure=years)
    assert SAID in glasswood.export_text(model)
    if kind == "mean":
        assert SAID in glasswood.export_text(model.estimators_[0])
