"""The HTML report, in a real browser."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page
from tests.strategies import full_forest

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

HOSTILE = ["</script><script>alert(1)</script>", "\"quotes'&amp;`${1}", "שלום مرحبا", "<img src=x onerror=alert(2)>"]
SECTIONS = ["summary", "performance", "what-if", "features", "score", "scatter", "pairs", "dependence", "rows", "card"]


def housing(n=400):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(n, 3)), columns=["size", "age", "light"])
    frame["kind"] = pandas.Categorical(rng.choice(["flat", "house", "barn"], n))
    frame.loc[::17, "age"] = np.nan
    y = (
        np.where(frame["size"] < 0, 2 * frame.light, 5 - frame["size"])
        + (frame.kind == "barn")
        + 0.01 * rng.normal(size=n)
    )
    return frame, y


@pytest.fixture(scope="module")
def tree():
    return glasswood.ModelTreeRegressor(max_leaves=5, n_iter_no_change=10, n_jobs=1).fit(*housing())


@pytest.fixture(scope="module")
def report_of_tree(tree, tmp_path_factory):
    """Path of the page about the tree and its rows."""
    return glasswood.report(tree, *housing(), tmp_path_factory.mktemp("tree") / "report.html")


@pytest.fixture(scope="module")
def report_of_forest(tmp_path_factory):
    """A boosted forest that is too large to be drawn, its rows, and the path of the page about them."""
    X, y = housing(3000)
    X = X.drop(columns="kind")
    model = boosted(X, y, n=150)
    return model, X, y, glasswood.report(model, X, y, tmp_path_factory.mktemp("forest") / "report.html", title="Houses")


def boosted(X, y, **settings):
    xgboost = pytest.importorskip("xgboost")
    kind = xgboost.XGBClassifier if np.asarray(y).dtype.kind in "iubO" else xgboost.XGBRegressor
    return kind(n_estimators=settings.pop("n", 40), max_depth=settings.pop("depth", 6), n_jobs=1, **settings).fit(X, y)


def content(path):
    """What the page has as data, as a browser reads it."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_sections_of_a_forest(browser, report_of_forest):
    model, numeric, y, path = report_of_forest
    shown = Page(browser, path)
    page = shown.page
    assert page.title() == "Houses"
    assert page.eval_on_selector_all("section", "all => all.map(one => one.id)") == SECTIONS
    assert page.locator("svg").count() > 6
    assert page.locator("nav a").count() == len(SECTIONS)
    figures = page.locator("#summary").inner_text()
    prediction = glasswood.load(model).predict(numeric)
    assert f"{1 - np.mean((y - prediction) ** 2) / np.var(y):.4f}" in figures
    assert "passed" in page.locator("#card").inner_text()
    shown.close()


def test_rows_are_looked_up_and_explained(browser, report_of_forest):
    model, numeric, _, path = report_of_forest
    shown = Page(browser, path)
    page = shown.page
    row = int(page.locator("#rows .two tbody button").nth(3).inner_text())
    page.fill('#rows input[type="search"]', str(row))
    page.locator("#rows .two tbody button").first.press("Enter")
    caption = page.locator("#rows figcaption").inner_text()
    prediction = glasswood.load(model).predict(numeric.iloc[[row]])[0]
    assert caption.startswith(f"Row {row}: prediction ")
    found = float(caption.split("prediction ")[1].split(",")[0].replace("−", "-"))
    assert found == pytest.approx(prediction, rel=1e-4)
    page.locator("#rows figure details").first.locator("summary").click()
    cells = page.locator("#rows figure td").all_inner_texts()
    contributions = [float(cell.replace("−", "-").replace("+", "")) for cell in cells[1::2]]
    expected = glasswood.Explainer(model).expected_value
    assert expected + sum(contributions) == pytest.approx(prediction, abs=2e-3)
    page.fill('#rows input[type="search"]', "nothing like it")
    assert page.locator("#rows .two tbody button").count() == 0
    shown.close()


def put(page, feature, value):
    """Type a value into the page's field, or choose a category; None is a missing value."""
    box = page.locator(f"#what-{feature}")
    if box.locator("select").count():
        box.locator("select").select_option(label=value or "missing")
    elif value is None:
        box.locator('input[type="checkbox"]').check()
    else:
        if box.locator('input[type="checkbox"]').is_checked():
            box.locator('input[type="checkbox"]').uncheck()
        box.locator('input[type="number"]').fill(repr(float(value)))


def test_sliders_are_predict(browser, tree, report_of_tree):
    X, _ = housing()
    shown = Page(browser, report_of_tree)
    page = shown.page
    some = X.iloc[[0, 5, 17, 34, 60]].copy()
    some.loc[5, "kind"] = np.nan
    for (_, row), expected in zip(some.iterrows(), tree.predict(some), strict=True):
        for feature, name in enumerate(X.columns):
            if page.locator(f"#what-{feature}").count():
                value = row[name]
                put(page, feature, None if value != value else value)
        found = json.loads(page.locator("#answer").get_attribute("data-responses"))[0]
        assert found == pytest.approx(expected, abs=1e-9)
    slider = page.locator('#what-0 input[type="range"]')
    slider.focus()
    slider.press("ArrowRight")
    moved = some.iloc[[-1]].assign(size=float(page.locator('#what-0 input[type="number"]').input_value()))
    found = json.loads(page.locator("#answer").get_attribute("data-responses"))[0]
    assert found == pytest.approx(tree.predict(moved)[0], abs=1e-9)
    shown.close()


def of_logarithms(forest):
    """The same tree, with logarithms for numbers, which some rows lack."""
    kinds = np.full(len(forest.ensemble.linear_feature), -3, np.int32)
    return glasswood.Forest(dataclasses.replace(forest.ensemble, linear_category=kinds))


SMALL = {
    "xgboost": lambda X, y: boosted(X, y, n=8, depth=3),
    "xgboost, two classes": lambda X, y: boosted(X, np.asarray(y > 2, int), n=8, depth=3),
    "xgboost, three classes": lambda X, y: boosted(X, np.digitize(y, [1, 4]), n=8, depth=3),
    "xgboost, categories": lambda X, y: boosted(X, y, n=8, depth=3, enable_categorical=True),
    "lightgbm": lambda X, y: pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=8, verbose=-1).fit(X, y),
    "lightgbm, zero_as_missing": lambda X, y: (
        pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=8, verbose=-1, zero_as_missing=True).fit(X, y)
    ),
    "lightgbm, linear leaves": lambda X, y: (
        pytest.importorskip("lightgbm")
        .LGBMRegressor(n_estimators=4, num_leaves=5, verbose=-1, linear_tree=True)
        .fit(X, y)
    ),
    "linear leaves, logarithms": lambda X, y: of_logarithms(
        glasswood.ModelTreeRegressor(max_leaves=3, n_iter_no_change=5, n_jobs=1).fit(X, y).forest_
    ),
    "histogram boosting": lambda X, y: (
        pytest.importorskip("sklearn.ensemble")
        .HistGradientBoostingRegressor(max_iter=8, categorical_features="from_dtype")
        .fit(X, y)
    ),
    "forest": lambda X, y: (
        pytest.importorskip("sklearn.ensemble").RandomForestClassifier(5, max_depth=4).fit(X, np.digitize(y, [1, 4]))
    ),
    "classes of model trees": lambda X, y: glasswood.ModelTreeClassifier(
        max_leaves=3, n_iter_no_change=5, n_jobs=1
    ).fit(X, np.array(["low", "middle", "high"])[np.digitize(y, [1, 4])]),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_page_predicts_as_glasswood_does(browser, name, tmp_path):
    X, y = housing()
    if "linear" in name or not any(word in name for word in ("categories", "lightgbm", "histogram", "trees")):
        X = X.drop(columns="kind")
    if "zero" in name:
        X.loc[::3, "light"] = 0.0
    model = SMALL[name](X, y)
    forest = glasswood.load(model)
    path = glasswood.report(model, X, path=tmp_path / "report.html")
    shown = Page(browser, path)
    rows = shown.page.evaluate("() => [...Array(rows.length).keys()].map((i) => window.glasswood.predict(rows.all(i)))")
    at = content(path)["rows"]["index"]
    output = "probability" if forest.classes else "prediction"
    expected = forest.predict(X.iloc[at], output=output).reshape(len(at), -1)
    turned = [str(label) for label in (*forest.ensemble.classes, [])[0]] == content(path)["classes"][::-1]
    expected = expected[:, ::-1] if turned and len(forest.ensemble.classes) else expected
    tolerance = 1e-9 if forest.ensemble.result_dtype == "float64" else 1e-6  # the source's own responses are float32
    np.testing.assert_allclose(rows, expected, rtol=0, atol=tolerance)
    margins = shown.page.evaluate("() => [...Array(rows.length).keys()].map((i) => margins(rows.all(i)))")
    exact = glasswood.Forest(dataclasses.replace(forest.ensemble, result_dtype="float64"))
    sign = -1 if turned and forest.ensemble.classes and forest.n_outputs == 1 else 1
    expected = sign * exact.predict(X.iloc[at], "margin").reshape(len(at), -1)
    np.testing.assert_allclose(margins, expected, rtol=0, atol=1e-9)
    shown.close()


def test_a_row_lights_its_path(browser, tree, report_of_tree):
    X, _ = housing()
    shown = Page(browser, report_of_tree)
    page = shown.page
    for place in (2, 7):
        button = page.locator("#rows .two tbody button").nth(place)
        row = int(button.inner_text())
        button.click()
        lit = page.locator(".tree li.lit > .node .test").all_inner_texts()
        assert lit[-1].endswith(f"leaf {tree.apply(X.iloc[[row]])[0]}")
        assert lit[0].strip() == "All rows"
    assert "leaf's equation" in page.locator("#rows").inner_text()
    parts = page.evaluate("() => contributions(state.row)")
    sums = [sum(part[name] for part in parts) for name in ("phi", "leaf")]
    prediction, leaf = tree.predict(X.iloc[[row]])[0], tree.apply(X.iloc[[row]])[0]
    assert glasswood.Explainer(tree).expected_value + sums[0] == pytest.approx(prediction, abs=1e-4)
    assert sums[1] == pytest.approx(prediction - tree.forest_.ensemble.leaf_value[leaf, 0], abs=1e-9)
    shown.close()


def test_keyboard_and_screen_readers(browser, report_of_tree):
    shown = Page(browser, report_of_tree)
    page = shown.page
    page.locator('[role="tree"] > li').focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
    if page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false":  # a leaf
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-level')") == "1"
    page.keyboard.press("Enter")
    assert page.locator('[role="tree"] > li').get_attribute("aria-expanded") == "false"
    unnamed = "all => all.filter((one) => !(one.labels?.length || one.getAttribute('aria-label'))).length"
    assert page.eval_on_selector_all("input, select", unnamed) == 0
    assert page.eval_on_selector_all("svg", "all => all.filter((one) => !one.getAttribute('aria-label')).length") == 0
    headings = page.eval_on_selector_all("h1, h2, h3", "all => all.map((one) => Number(one.tagName[1]))")
    assert headings[0] == 1
    assert max(np.diff(headings)) <= 1
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    shown.close()


def test_hostile_names_and_values_stay_text(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(200, 2)), columns=HOSTILE[:2])
    X[HOSTILE[2]] = pandas.Categorical(rng.choice([HOSTILE[0], HOSTILE[3], "\u2028"], 200))
    labels = np.where(X.iloc[:, 0] > 0, HOSTILE[3], HOSTILE[0])
    for model, y in (
        (
            glasswood.ModelTreeRegressor(max_leaves=3, n_iter_no_change=3, n_jobs=1),
            X.iloc[:, 0] * (X.iloc[:, 2] == HOSTILE[0]),
        ),
        (glasswood.ModelTreeClassifier(max_leaves=3, n_iter_no_change=3, n_jobs=1), labels),
    ):
        path = glasswood.report(model.fit(X, y), X, y, tmp_path / "report.html", title=HOSTILE[0])
        shown = Page(browser, path)
        assert shown.page.title() == HOSTILE[0]
        assert shown.page.locator("h1").inner_text() == HOSTILE[0]
        assert shown.page.locator("img").count() == 0
        assert shown.page.locator("script").count() == 2
        shown.page.locator("#rows .two tbody button").nth(1).click()
        shown.close()


@pytest.mark.parametrize(("n_features", "n_outputs"), [(200, 1), (6, 50), (1, 1)])
def test_sizes(browser, n_features, n_outputs, tmp_path):
    forest = full_forest(0, 100, 5, n_features)
    if n_outputs > 1:
        forest = dataclasses.replace(
            forest,
            tree_output=(np.arange(100) % n_outputs).astype(np.int32),
            base_score=np.zeros(n_outputs),
            link="softmax",
            classes=(np.array([f"class {i}" for i in range(n_outputs)]),),
            prediction="argmax",
            is_estimator=True,
        )
    X = np.random.default_rng(0).normal(size=(5000, n_features))
    y = forest.predict(X)
    path = glasswood.report(forest, X, y, tmp_path / "report.html")
    assert path.stat().st_size < 2e6
    for width in (1280, 390):
        shown = Page(browser, path, width)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        if n_outputs > 1:
            shown.page.locator("header select").select_option("49")
            assert "class 49" in shown.page.locator("#rows figcaption").inner_text()
        shown.close()


def test_redacted_reports_hold_no_rows(browser, tree, tmp_path):
    X, y = housing()
    X.loc[7, "light"] = secret = 123.456
    path = glasswood.report(tree, X, y, tmp_path / "report.html", redact=True)
    found = content(path)
    assert found["rows"] is None
    assert all(not entry["lines"] and entry["local"] is None for entry in found["dependence"])
    assert str(secret) not in path.read_text()
    assert all(count >= 10 for node in found["trees"][0]["nodes"] if "curve" in node for count in node["curve"]["n"])
    shown = Page(browser, path)
    assert shown.page.locator("#rows").count() == 0
    assert shown.page.locator("#what-if").count() == 1
    assert "redacted" in shown.page.locator("#card").inner_text()
    shown.close()


def test_columns_of_one_value_in_most_rows_have_no_accumulated_effects(tmp_path):
    """A few bins that hold all other values would be straight lines across the picture."""
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(400) < 0.9, 0.0, rng.uniform(1000, 99999, 400).round())
    X = pandas.DataFrame({"gain": gain, "is_new": rng.integers(0, 2, 400), "age": rng.uniform(20, 60, 400)})
    y = np.where(gain > 5000, 3.0, 0.0) + X["age"] / 40 + X["is_new"]
    found = content(glasswood.report(boosted(X, y, depth=3), X, y, tmp_path / "report.html"))
    has_line = {X.columns[entry["feature"]]: entry["local"] is not None for entry in found["dependence"]}
    assert has_line == {"gain": False, "is_new": True, "age": True}


def test_accumulated_and_joint_effects_are_those_of_glasswood_effects(tmp_path):
    X, y = housing(90)
    X, kinds = X.drop(columns="kind"), np.digitize(y, np.quantile(y, [0.3, 0.7]))
    for target in (y, kinds > 1, kinds):
        model = boosted(X, target, depth=3)
        found = content(glasswood.report(model, X, target, tmp_path / "report.html"))
        effects = glasswood.effects(model, X, output="prediction" if target is y else "probability", pairs="all")
        for entry in found["dependence"]:
            local = effects.ale(entry["feature"], bins=20)
            inside = np.isin(local.grid_values[0], entry["local"]["grid"])
            assert inside.sum() > 15
            drawn, expected = np.array(entry["local"]["average"]), local.average[:, inside]
            np.testing.assert_allclose(np.diff(drawn), np.diff(expected), atol=1e-5 * np.abs(drawn).max())
        assert len(found["joint"]) == 3
        for one in found["joint"]:
            names = X.columns[one["first"]], X.columns[one["second"]]
            at = effects.pairs.index(names)
            expected = effects.interactions(90)
            np.testing.assert_allclose(one["h"], expected.h[at], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(one["size"], expected.strength[at], rtol=1e-4, atol=1e-9)


def test_redacted_dependence_says_nothing_of_few_rows(tree, tmp_path):
    """Neither a number of a row, nor a category of fewer than ten rows, nor a panel of fewer than ten rows."""
    X, y = housing()
    X["kind"] = X["kind"].where(np.arange(len(X)) > 4, "barn").where(np.arange(len(X)) != 9, "house")
    few = X[:24].assign(kind=pandas.Categorical(["flat"] * 20 + ["house"] * 4, ["barn", "flat", "house"]))
    few.loc[9:, "age"] = np.nan
    for rows in (X, few):
        found = content(glasswood.report(tree, rows, y[: len(rows)], tmp_path / "report.html", redact=True))
        panels = {found["features"][entry["feature"]]["name"]: entry for entry in found["dependence"]}
        assert "size" in panels
        assert ("age" in panels) == (len(rows) == 400)
        for name in panels.keys() - {"kind"}:
            grid = np.array(panels[name]["grid"], float)
            assert len(grid) == 40
            np.testing.assert_allclose(np.diff(grid), grid[1] - grid[0], rtol=1e-9)
            assert not np.isin(grid, rows[name]).any()
            assert rows[name].nsmallest(10).mean() <= grid[0] + 1e-9
            assert grid[-1] <= rows[name].nlargest(10).mean() + 1e-9
            assert (len(panels[name]["deciles"]) == 9) == (len(rows) == 400)
    assert panels["kind"]["grid"] == ["flat"]


def test_prints_and_narrow_screens(browser, report_of_tree):
    shown = Page(browser, report_of_tree, 390, color_scheme="dark")
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 390
    rooms = "all => all.map((one) => [one.scrollWidth, one.clientWidth])"
    tables = shown.page.eval_on_selector_all("#rows .two .table, #similar .table", rooms)
    assert len(tables) >= 2
    assert [needed for needed, room in tables if needed > room] == []
    shown.page.emulate_media(media="print")
    assert not shown.page.locator("nav").is_visible()
    assert len(shown.page.pdf()) > 10_000
    shown.close()


def test_the_same_file_twice(tree, tmp_path):
    X, y = housing()
    first, second = (content(glasswood.report(tree, X, y, tmp_path / f"{i}.html")) for i in range(2))
    for found in (first, second):
        del found["card"]["Made by"]["made"]
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"y": [1.0]}, ValueError, r"y has shape \(1,\), expected \(400,\)"),
        ({"y": ["a"] * 400}, ValueError, "has no labels"),
        ({"path": "missing/report.html"}, FileNotFoundError, "the folder .*missing does not exist"),
        ({"X": housing()[0][:0]}, ValueError, "X has no rows"),
    ],
)
def test_refusals(tree, tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    X, _ = housing()
    with pytest.raises(error, match=message):
        glasswood.report(tree, **{"X": X, **arguments})
    assert not list(tmp_path.iterdir())


def test_classes_that_the_model_does_not_know(tmp_path):
    X, y = housing()
    model = boosted(X.drop(columns="kind"), np.asarray(y > 2, int), n=3)
    with pytest.raises(ValueError, match="y holds 7, expected one of the model's classes"):
        glasswood.report(model, X.drop(columns="kind"), np.full(400, 7), tmp_path / "report.html")


def test_the_command(browser, tree, tmp_path, capsys):
    from glasswood.cli import main

    X, y = housing()
    tree.forest_.save(tmp_path / "tree.glasswood")
    X.assign(price=y).to_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "report.html"
    arguments = ["report", str(tmp_path / "tree.glasswood"), str(tmp_path / "rows.parquet"), "-o", str(out)]
    assert main([*arguments, "--target", "price", "--title", "Houses"]) == 0
    assert "400 rows" in capsys.readouterr().out
    shown = Page(browser, out)
    assert shown.page.title() == "Houses"
    assert "R²" in shown.page.locator("#summary").inner_text()
    shown.close()
    assert main([*arguments, "--target", "cost"]) == 1
    assert "has no columns 'cost'" in capsys.readouterr().err
    (tmp_path / "model").write_bytes(b"?")
    arguments[1] = str(tmp_path / "model")
    assert main(arguments) == 1
    assert "cannot tell" in capsys.readouterr().err
    assert main([*arguments, "--format", "catboost"]) == 1
    assert "cannot tell" not in capsys.readouterr().err


def test_the_command_knows_events_and_costs(tmp_path, capsys):
    from glasswood.cli import main

    X, y = housing(200)
    X = X.drop(columns="kind")
    forest = glasswood.load(boosted(X, (y > 4).astype(int), n=3))
    forest.save(tmp_path / "m.glasswood")
    X.assign(high=(y > 4).astype(int)).to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "report.html"
    arguments = [
        "report",
        str(tmp_path / "m.glasswood"),
        str(tmp_path / "rows.csv"),
        "-o",
        str(out),
        "--target",
        "high",
    ]
    assert main([*arguments, "--positive", "0", "--costs", "false_positive=1,false_negative=5"]) == 0
    found = content(out)
    assert found["classes"] == ["1", "0"]
    assert found["performance"][""]["costs"]["false_negative"] == 5
    assert main([*arguments, "--positive", "2"]) == 1
    assert "positive is '2', expected one of the model's classes" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "--costs", "much"])
    assert "expected false_positive=1,false_negative=50" in capsys.readouterr().err


def test_equal_inputs_make_equal_reports(tmp_path, monkeypatch):
    X, y = housing(200)
    numeric = X.drop(columns="kind")
    model = boosted(numeric, y)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = glasswood.report(model, numeric, y, tmp_path / "first.html").read_bytes()
    assert b"2023-11-14 22:13 UTC" in first
    assert glasswood.report(model, numeric, y, tmp_path / "second.html").read_bytes() == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert b"2023-11-14" not in glasswood.report(model, numeric, y, tmp_path / "third.html").read_bytes()


def test_targets_are_a_column_and_labels_the_models(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # a minute may end between two reports
    X, y = housing(200)
    numeric = X.drop(columns="kind")
    model = boosted(numeric, y)
    path = glasswood.report(model, numeric, y, tmp_path / "report.html")
    text = path.read_text()
    assert glasswood.report(model, numeric, y.to_frame(), path).read_text() == text
    with pytest.raises(ValueError, match=r"y holds text \('dear'\).*has no labels; replace them by 0, 1"):
        glasswood.report(model, numeric, np.where(y > y.mean(), "dear", "cheap"), path)
    with pytest.raises(TypeError, match=r"y is a path, '.*report.html': pass it as path="):
        glasswood.report(model, numeric, path)
