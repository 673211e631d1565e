"""Curves and surfaces in reports: the numbers that are drawn, and their pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.display.report.curves import curves_section
from glasswood.display.report.rows import read_rows
from tests.display.browser import Page
from tests.display.test_report import content


@pytest.fixture(scope="module")
def policies():
    rng = np.random.default_rng(0)
    n = 1500
    X = pd.DataFrame({
        "age": rng.integers(18, 90, n).astype(float),
        "power": rng.gamma(4, 20, n).round(),
        "region of residence, new": rng.choice([f"region {k:02}" for k in range(60)], n),
        "region of residence, nex": rng.choice(["north", "south", "west"], n, p=[0.5, 0.497, 0.003]),
    })  # fmt: skip
    X.loc[::17, "power"] = np.nan
    north = X["region of residence, nex"].eq("north")
    effect = dict(zip(sorted(set(X.iloc[:, 2])), rng.normal(0, 0.4, 60), strict=True))
    rate = np.exp(np.abs(X["age"] - 50) / 30 + X.iloc[:, 2].map(effect) + 0.5 * (north & (X["age"] < 40)))
    return X, pd.Series(rng.poisson(rate).astype(float), name="claims")


@pytest.fixture(scope="module")
def model(policies):
    X, y = policies
    pairs = [("age", "region of residence, nex"), ("age", "power")]
    return glasswood.AdditiveRegressor(loss="poisson", leaf_model="constant", interactions=pairs).fit(X, y)


@pytest.fixture(scope="module")
def path(model, policies, tmp_path_factory):
    X, y = policies
    return glasswood.report(model, X, y, tmp_path_factory.mktemp("report") / "report.html")


def place(side, value, codes):
    """Where a value is along a side."""
    n = len(side["codes"]) if side["codes"] is not None else len(side["edges"]) + 1
    if value is None or value != value:
        return n
    if side["codes"] is None:
        return int(np.searchsorted(side["edges"], value, side="right"))
    return next(k for k, group in enumerate(side["codes"]) if codes[value] in group)


def test_what_is_drawn_adds_up_to_the_margin(model, policies, path):
    X, _ = policies
    parts = content(path)["curves"]["parts"]
    assert {len(part["features"]) for part in parts} == {1, 2}
    tables = model.forest_.ensemble.categories
    codes = [None if table is None else {name: k for k, name in enumerate(table.tolist())} for table in tables]
    rows = X.iloc[:60]
    added = np.zeros(len(rows))
    for k, row in enumerate(rows.to_numpy(object)):
        for part in parts:
            found = part["adds"]
            for feature, side in zip(part["features"], part["sides"], strict=True):
                found = found[place(side, row[feature], codes[feature])]
            added[k] += found
    np.testing.assert_allclose(np.diff(added), np.diff(model.forest_.predict(rows, "margin").ravel()), atol=2e-3)


def test_errors_and_rows_are_the_models(model, policies, path):
    X, _ = policies
    curves = model.curves_
    for part in content(path)["curves"]["parts"]:
        if len(part["features"]) == 1:
            own = curves["feature"] == X.columns[part["features"][0]]
            np.testing.assert_allclose(part["adds"], curves["adds"][own], rtol=1e-3)
            np.testing.assert_allclose(part["errors"], curves["standard_error"][own], rtol=1e-3)
            assert part["rows"] == curves["rows"][own].tolist()
            assert sum(part["rows"]) >= len(X)


def test_a_redacted_report_names_no_rare_category(model, policies, tmp_path):
    X, y = policies
    path = glasswood.report(model, X, y, tmp_path / "r.html", redact=True)
    west = model.forest_.ensemble.categories[3].tolist().index("west")
    for part in content(path)["curves"]["parts"]:
        for feature, side in zip(part["features"], part["sides"], strict=True):
            assert feature != 3 or all(west not in codes for codes in side["codes"])


def test_forests_of_curves_have_pictures_without_errors(model, policies, tmp_path):
    X, y = policies
    path = glasswood.report(model.forest_, X, y, tmp_path / "r.html")
    parts = content(path)["curves"]["parts"]
    assert {part["rows"] for part in parts} == {None}
    assert content(glasswood.report(plain(X, y), X, y, tmp_path / "t.html"))["curves"] is None


def plain(X, y):
    return glasswood.ModelTreeRegressor(max_leaves=2, generations=5, time_limit=None, verbose=False).fit(X, y)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pictures(browser, path, width, scheme):
    shown = Page(browser, path, width=width, color_scheme=scheme)
    figures = shown.page.locator("#curves figure")
    assert figures.count() == len(content(path)["curves"]["parts"])
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    captions = figures.locator("figcaption").all_inner_texts()
    assert {"region of residence, new", "region of residence, nex"} <= set(captions)
    right = shown.page.evaluate(
        """() => Math.max(...[...document.querySelectorAll("#curves svg text, #curves svg rect, #curves svg path")]
          .map((one) => one.getBoundingClientRect().right))"""
    )
    assert right <= width
    age = figures.nth(captions.index("age"))
    assert age.locator("path.curve").count() == 1
    assert age.locator("rect.density").count() >= 3
    table = age.locator("details")
    table.locator("summary").click()
    assert table.locator("tbody tr").count() == len(content(path)["curves"]["parts"][captions.index("age")]["adds"])
    shown.close()


def test_a_tree_is_drawn_whose_curves_the_page_cannot_hold(browser, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    y = (
        np.where(X[:, 0] < 0.2, 2 * X[:, 1] - 1, 1 - 2 * X[:, 1])
        + 0.5 * np.sin(5 * X[:, 2])
        + 0.2 * rng.normal(size=600)
    )
    settings = {"max_leaves": 4, "generations": 30, "n_jobs": 1, "time_limit": None}
    model = glasswood.ModelTreeRegressor(curves=True, **settings).fit(X, y)
    forest = model.forest_.ensemble
    assert forest.n_curves > 0
    assert model.n_leaves_ > 1
    whole = content(glasswood.report(model, X[:80], y[:80], tmp_path / "whole.html"))
    monkeypatch.setattr("glasswood.display.report.trees.MOST_NODES", int(forest.tree_offsets[1]))
    path = glasswood.report(model, X[:80], y[:80], tmp_path / "part.html")
    part = content(path)
    assert part["trees"] == whole["trees"]
    assert part["curves"] == whole["curves"]
    assert len(part["model"]["feature"]) == forest.tree_offsets[1] < len(whole["model"]["feature"])
    shown = Page(browser, path)
    assert "a page contains at most" in shown.page.locator("#what-if").inner_text()
    assert shown.page.locator("#what-if input").count() == 0
    assert "leaf 0" in shown.page.locator("#tree").inner_text()
    assert "without the curves" in shown.page.locator("#alternatives").inner_text()
    shown.close()


def test_a_model_without_trees_has_a_page(browser, tmp_path):
    catboost = pytest.importorskip("catboost")
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    model = catboost.CatBoostRegressor(iterations=2, verbose=False, allow_writing_files=False).fit(X, X[:, 0])
    model.shrink(ntree_end=2, ntree_start=2)
    assert glasswood.load(model).n_trees == 0
    shown = Page(browser, glasswood.report(model, X, X[:, 0], tmp_path / "report.html"))
    assert "a page contains at most" not in shown.page.locator("#what-if").inner_text()
    shown.close()


def test_reports_put_categories_that_add_alike_beside_each_other():
    rng = np.random.default_rng(0)
    slope = rng.permutation(12) - 5.5
    codes, x = rng.integers(0, 12, 1200), rng.uniform(-1, 1, 1200)
    X = pd.DataFrame({"x": x, "region": pd.Categorical.from_codes(codes, [f"r{i:02d}" for i in range(12)])})
    model = glasswood.AdditiveRegressor(interactions=1, n_jobs=1).fit(X, slope[codes] * x)
    parts = curves_section(read_rows(model.forest_.ensemble, X, None), model, redact=False)["parts"]
    [surface] = [part for part in parts if len(part["sides"]) == 2]
    [shown] = [[code for group in side["codes"] for code in group] for side in surface["sides"] if side["codes"]]
    assert sorted(shown) == list(range(12))
    assert abs(np.corrcoef(slope[shown], np.arange(12))[0, 1]) > 0.95
