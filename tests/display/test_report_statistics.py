"""Reports of CatBoost's models with target statistics are about the columns, with CatBoost's own values."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page
from tests.display.test_report import content

catboost = pytest.importorskip("catboost")
pandas = pytest.importorskip("pandas")

CATEGORIES = ["city", "code"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "</script>Köln", "Oslo", "Rome", "Ulm"], 600)
    frame = pandas.DataFrame({"size": rng.normal(size=600), "city": city, "code": rng.integers(0, 7, 600)})
    return frame.assign(age=np.where(rng.random(600) < 0.1, np.nan, rng.integers(18, 90, 600)))


@pytest.fixture(scope="module")
def model(frame):
    quiet = {"allow_writing_files": False, "verbose": False, "thread_count": 1}
    together = frame.city.isin(["Bern", "Ulm"]) ^ (frame.code % 2 == 0)
    margin = frame["size"] + 4 * together - 3 + frame.age.fillna(90) / 90
    y = (margin > np.random.default_rng(1).normal(size=600)).astype(int)
    model = catboost.CatBoostClassifier(iterations=30, depth=4, max_ctr_complexity=2, **quiet).fit(
        frame, y, cat_features=CATEGORIES
    )
    assert any(
        len(columns) > 1 for columns in glasswood.load(model).ensemble.transform.source_columns
    )  # combinations, too
    return model, y


def unpacked(packed):
    if "columns" in packed:
        return np.column_stack([unpacked(column).astype(np.float64) for column in packed["columns"]])
    values = np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"])
    return values.reshape(packed["shape"])


def shown_values(data):
    """Columns of the report's rows as a reader sees them: its numbers, and the texts of its codes."""
    for feature, values in zip(data["rows"]["features"], unpacked(data["rows"]["values"]).T, strict=True):
        entry = data["features"][feature]
        texts = entry.get("categories")
        yield entry["name"], [texts[str(int(value))] for value in values] if texts else values


def test_values_are_catboosts(model, frame, tmp_path, limits):
    """Where values of probabilities would take too long, they are those of the log-odds."""
    limits(report_operations=0)
    fitted, y = model
    data = content(glasswood.report(fitted, frame, y, tmp_path / "report.html"))
    names = [feature["name"] for feature in data["features"]]
    assert names == list(frame.columns)
    assert [bool(feature.get("categories")) for feature in data["features"]] == [False, True, True, False]
    pool = catboost.Pool(frame, cat_features=CATEGORIES)
    expected = fitted.get_feature_importance(pool, "ShapValues", shap_mode="UsePreCalc")[:, :-1]
    np.testing.assert_allclose(data["importance"], np.abs(expected).mean(axis=0)[:, None], rtol=1e-4)
    at, order = data["rows"]["index"], data["rows"]["features"]
    np.testing.assert_allclose(unpacked(data["rows"]["phi"])[:, :, 0], expected[at][:, order], atol=1e-5)
    shown = dict(shown_values(data))
    for name in frame.columns:
        column = frame[name].iloc[at]
        wanted = column.astype(str).tolist() if name in CATEGORIES else column.astype(np.float32).tolist()
        np.testing.assert_array_equal(shown[name], wanted)
    assert data["model"] is None
    assert data["trees"] is None
    assert "passed" in data["card"]["Explanation"]["additivity"]
    first = data["pairs"][0]
    assert first["strength"] > 0
    assert max(first["first"], first["second"]) < len(names)


def test_dependence_is_that_of_changed_columns(model, frame, tmp_path):
    fitted, _ = model
    data = content(glasswood.report(fitted, frame, path=tmp_path / "report.html"))
    rows = frame.iloc[np.array(data["rows"]["index"])[np.linspace(0, 599, 500).astype(int)]]
    assert {entry["feature"] for entry in data["dependence"]} == {0, 1, 2, 3}
    for entry in data["dependence"]:
        name = frame.columns[entry["feature"]]
        assert entry["isText"] == (name in CATEGORIES)
        for value, mean in list(zip(entry["grid"], entry["average"][0], strict=True))[::7]:
            changed = rows.assign(**{name: int(value) if name == "code" else value})
            assert fitted.predict_proba(changed)[:, 1].mean() == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("form", ["renamed", "reordered", "array", "polars", "file"])
def test_rows_of_other_forms_make_the_same_report(model, frame, form, tmp_path):
    fitted, y = model
    given = frame
    if form == "renamed":
        given = frame.set_axis(list("abcd"), axis=1)
        fitted = glasswood.load(fitted, columns="position")
    elif form == "reordered":
        given = frame[frame.columns[::-1]]
    elif form == "array":
        given = frame.to_numpy(dtype=object)
    elif form == "polars":
        given = pytest.importorskip("polars").from_pandas(frame)
    else:
        fitted.save_model(str(tmp_path / "model.cbm"))
        fitted = tmp_path / "model.cbm"
    found = content(glasswood.report(fitted, given, y, tmp_path / "a.html"))
    expected = content(glasswood.report(model[0], frame, y, tmp_path / "b.html"))
    for key in ("features", "importance", "order", "dependence", "pairs"):
        if key == "features":  # codes are in the order in which the frame's library meets the texts
            found[key], expected[key] = ([one["name"] for one in page[key]] for page in (found, expected))
        if key == "dependence":
            for page in (found, expected):
                page[key] = [dict(sorted(zip(one["grid"], one["average"][0], strict=True))) for one in page[key]]
        assert found[key] == expected[key], key


def test_redacted_pages_name_no_rare_categories(model, frame, tmp_path):
    fitted, y = model
    rare = frame.copy()
    rare.loc[0, "city"] = "nobody else's"
    path = glasswood.report(fitted, rare, y, tmp_path / "report.html", redact=True)
    assert "nobody else" not in path.read_text(encoding="utf-8")
    assert content(path)["rows"] is None


def test_the_page(browser, model, frame, tmp_path):
    fitted, y = model
    shown = Page(browser, glasswood.report(fitted, frame, y, tmp_path / "report.html"))
    assert "</script>Köln" in shown.page.locator("main").inner_text()
    assert "computes its features from statistics of the columns" in shown.page.locator("#what-if").inner_text()
    assert shown.page.locator("#what-if input").count() == 0
    shown.close()
