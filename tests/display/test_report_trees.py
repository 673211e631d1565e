"""Trees in reports: the rows that pass their nodes, and what they weigh in the file."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.display.curves import mean_curve
from glasswood.display.report.trees import MOST_NODES, _rounded, leaves_under, rows_under
from tests.display.browser import Page
from tests.display.test_report import boosted, content

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.gamma(2, 1.7, size=(8000, 8)), columns=[f"feature number {i}" for i in range(8)])
    y = X.iloc[:, 0] * X.iloc[:, 1] + np.sin(X.iloc[:, 2]) + rng.normal(size=8000)
    return boosted(X, y, n=32, depth=6), X, y


def test_rows_of_a_node_are_those_of_its_leaves(model):
    forest = glasswood.load(model[0]).ensemble
    for tree in (0, 7):
        under = leaves_under(forest, tree)
        reached = np.random.default_rng(tree).choice(under[0], 2000)
        found = list(rows_under(forest, tree, reached))
        for rows, leaves in zip(found, under, strict=True):
            np.testing.assert_array_equal(rows, np.flatnonzero(np.isin(reached, leaves)))


def test_the_largest_models_that_are_drawn_stay_small(browser, model, tmp_path):
    fitted, X, y = model
    assert 0.8 * MOST_NODES < glasswood.load(fitted).n_nodes <= MOST_NODES
    path = glasswood.report(fitted, X, y, tmp_path / "report.html")
    assert path.stat().st_size < 1e6
    nodes = content(path)["trees"][0]["nodes"]
    assert nodes[0]["rows"] == 8000
    assert nodes[1]["rows"] + nodes[2]["rows"] == 8000
    name, _, threshold = nodes[0]["tests"][0].rpartition(" < ")
    assert nodes[1]["mean"] == pytest.approx(y[X[name] < float(threshold)].mean(), rel=0.01)
    shown = Page(browser, path)
    assert "missing" not in shown.page.locator("#features").inner_text()  # no row lacks a value
    shown.close()


def test_points_of_curves_keep_what_a_drawing_shows():
    rng = np.random.default_rng(0)
    for values in (1.7e9 + rng.integers(0, 100, 500), rng.normal(size=500) * 1e-9, rng.integers(0, 5, 500), np.ones(9)):
        target = rng.normal(size=len(values)) + 1e6
        exact, shown = mean_curve(values, target), _rounded(mean_curve(values, target))
        for axis in "xy":
            assert np.abs(exact[axis] - shown[axis]).max() <= np.ptp(exact[axis]) / 1000
    assert _rounded(None) is None


def test_both_names_of_a_pair_are_seen_on_narrow_screens(browser, model, tmp_path):
    fitted, X, y = model
    shown = Page(browser, glasswood.report(fitted, X, y, tmp_path / "report.html"), width=390)
    labels = shown.page.eval_on_selector_all("#pairs svg text", "all => all.map(one => one.childNodes[0].data)")
    pairs = [label.split(" × ") for label in labels if " × " in label]
    assert len(pairs) > 3
    assert all(len(name) > 6 for pair in pairs for name in pair)
    assert shown.page.locator("#pairs title").first.text_content().count("feature number") == 2
    split = shown.page.locator("#tree svg").nth(1).text_content()
    tests = content(tmp_path / "report.html")["trees"][0]["nodes"][0]["tests"]
    assert split.endswith(tests[0].partition(" < ")[0])
    shown.close()


def test_other_trees_that_fit_as_well(browser, tmp_path):
    rng = np.random.default_rng(1)
    X = pandas.DataFrame(rng.uniform(0, 5, (300, 3)), columns=["dose", "age", "twin"])
    X["twin"] = X["dose"] + 0.003 * rng.standard_normal(300)
    y = np.where(X["dose"] < 2, 3 * X["age"], 10 - 2 * X["age"]) + rng.standard_normal(300)
    model = glasswood.ModelTreeRegressor(generations=60, n_jobs=1).fit(X, y)
    path = glasswood.report(model, X, y, tmp_path / "report.html")
    (shown,) = content(path)["alternatives"]
    assert [tree["features"] for tree in shown["trees"]] == [
        ["twin" if model.forest_.ensemble.feature[0] == 0 else "dose"]
    ]
    page = Page(browser, path)
    text = page.page.locator("#alternatives").text_content()
    assert text.count("in this tree") == 1
    assert all(split["name"] in text for split in shown["splits"])
    assert f"{model.alternatives_.n_met} trees that differ were met" in text
    page.close()
    path = glasswood.report(model.set_params(alternatives=0).fit(X, y), X, y, tmp_path / "report.html")
    assert content(path)["alternatives"] is None


def test_a_page_without_the_model_says_why(browser, model, tmp_path, monkeypatch):
    fitted, X, y = model
    monkeypatch.setattr("glasswood.display.report.trees.MOST_NODES", 1000)
    shown = Page(browser, glasswood.report(fitted, X[:500], y[:500], tmp_path / "report.html"))
    said = shown.page.locator("#what-if").inner_text()
    assert f"the model has {glasswood.load(fitted).n_nodes:,} nodes, and a page contains at most 1,000" in said
    assert shown.page.locator("#tree").count() == 0
    shown.close()


def test_the_search_finds_every_column(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(300, 8)), columns=[f"column {i}" for i in range(8)])
    X["town"] = pandas.Categorical(rng.choice(["Aachen", "Berlin", "Celle"], 300))
    X.loc[17, "column 6"] = 12345.0
    y = 9 * X["column 0"] + 5 * X["column 1"] + 3 * X["column 2"] + 0.1 * (X["town"] == "Celle") + 0.01 * X["column 6"]
    shown = Page(
        browser,
        glasswood.report(boosted(X.assign(town=X["town"]), y, enable_categorical=True), X, y, tmp_path / "r.html"),
    )
    page = shown.page
    page.fill('#rows input[type="search"]', "celle")
    text = page.locator("#rows .controls").last.inner_text()
    assert f"{(X['town'] == 'Celle').sum()} rows" in text
    assert "town" in page.locator("#rows thead").first.inner_text()
    assert "all 9 features" in page.locator("#searched").inner_text()
    page.fill('#rows input[type="search"]', "12,345")
    assert "1 row" in page.locator("#rows .controls").last.inner_text()
    assert page.locator("#rows .two tbody button").first.inner_text() == "17"
    shown.close()


def test_pairs_have_different_labels_on_a_phone(browser, tmp_path):
    rng = np.random.default_rng(0)
    names = [
        "average yearly amount of claims before tax",
        "average yearly amount of claims after tax",
        "average yearly amount of premiums",
        "age",
    ]
    X = pandas.DataFrame(rng.normal(size=(600, 4)), columns=names)
    y = X[names[0]] * X[names[1]] + X[names[0]] * X[names[2]] + X[names[1]] * X[names[2]] + X[names[3]] * X[names[0]]
    shown = Page(browser, glasswood.report(boosted(X, y), X, y, tmp_path / "report.html"), 390)
    for chart in shown.page.locator("#pairs svg").all():
        texts = chart.locator("text[text-anchor=end]")
        labels = texts.evaluate_all("all => all.map((one) => one.firstChild.textContent)")
        assert len(labels) > 2
        assert len(set(labels)) == len(labels)
    shown.close()
