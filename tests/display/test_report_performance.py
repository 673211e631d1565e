"""What a report says first, and how well the model predicts: figures beside others made without glasswood."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page, settle
from tests.display.test_report import content, housing

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

FAST = {"max_leaves": 4, "n_iter_no_change": 10, "n_jobs": 1}


@pytest.fixture(scope="module")
def incomes():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"age": rng.uniform(20, 60, 1200), "job": rng.choice(["a", "b", "c"], 1200)})
    odds = np.exp(np.where(X["job"] == "c", 6 - 0.2 * X["age"], 0.15 * X["age"] - 6))
    y = pandas.Series(np.where(rng.random(1200) < odds / (1 + odds), "rich", "poor"), name="income")
    return X, y, glasswood.ModelTreeClassifier(**FAST).fit(X[:800], y[:800])


@pytest.fixture(scope="module")
def page(browser, incomes, tmp_path_factory):
    X, y, model = incomes
    path = tmp_path_factory.mktemp("report") / "report.html"
    glasswood.report(model, X[:800], y[:800], path, test=(X[800:], y[800:]), units={"age": "years"})
    shown = Page(browser, path)
    yield shown.page, content(path)
    shown.close()


def test_curves_are_those_of_the_definitions(incomes, page):
    X, y, model = incomes
    p, is_rich = model.predict_proba(X[800:])[:, 1], (y[800:] == "rich").to_numpy()
    one = page[1]["performance"]["test"]["classes"][0]
    pairs = np.sign(p[is_rich][:, None] - p[~is_rich][None, :])
    assert one["auc"] == pytest.approx(np.mean((pairs + 1) / 2))
    for cut in (0, 25, 50, 80, 100):
        assert one["hits"][cut] == (p[is_rich] >= cut / 100).sum()
        assert one["alarms"][cut] == (p[~is_rich] >= cut / 100).sum()
    for x, y_found in zip(one["gains"]["x"], one["gains"]["y"], strict=True):
        highest = np.sort(p)[::-1][: round(x * len(p))]
        if len(highest):
            assert y_found == pytest.approx((p[is_rich] >= highest[-1]).mean(), abs=0.02)
    groups = np.array_split(np.argsort(p), 10)
    np.testing.assert_allclose(one["calibration"]["y"], [is_rich[group].mean() for group in groups], atol=0.03)
    matrix = page[1]["performance"]["test"]["matrix"]
    assert matrix[1][1] == ((p > 0.5) & is_rich).sum()
    assert sum(map(sum, matrix)) == 400


def test_three_sentences_say_what_how_well_and_by_what(incomes, page):
    X, y, model = incomes
    first, second, third = page[1]["sentences"]
    assert first.startswith(f"A tree of {model.n_leaves_} lea")
    assert "predicts whether income is rich from 2 features" in first
    right = np.mean(model.predict(X[800:]) == y[800:])
    said = f"On 400 test rows, the most probable class is right for {100 * right:.0f} %, always predicting "
    assert second.startswith(said)
    assert third.endswith("% of the mean |SHAP value| of all features.")
    said = page[0].locator("#summary .said").inner_text()
    assert said == " ".join((first, second, third))
    assert page[0].title().startswith("income: ModelTreeClassifier, ")
    assert "test" in page[0].locator("#summary .cards").inner_text()


def test_constraints_are_in_the_summary_and_the_card(browser, tmp_path):
    X, y = housing()
    tree = glasswood.ModelTreeRegressor(**FAST, monotonic_cst={"size": 1}, coefficient_signs={"light": 1}).fit(X, y)
    shown = Page(browser, glasswood.report(tree, X, y, tmp_path / "report.html"))
    held = "predictions rise with size; coefficients of light are positive"
    assert shown.page.locator("#summary .said").inner_text().endswith(f"By construction, {held}.")
    card = shown.page.locator("#card").inner_text()
    assert held in card
    assert "squared error;" not in card
    shown.close()


def test_the_threshold_moves(incomes, page):
    X, y, model = incomes
    p, is_rich = model.predict_proba(X[800:])[:, 1], (y[800:] == "rich").to_numpy()
    slider = page[0].locator("#threshold")
    for at in (50, 30):
        slider.fill(str(at))
        cells = page[0].locator("#performance .confusion td").all_inner_texts()
        numbers = [int(cell.replace(",", "")) for cell in cells if cell.replace(",", "").isdigit()]
        called = p >= at / 100
        expected = [called & is_rich, called & ~is_rich, ~called & is_rich, ~called & ~is_rich]
        assert numbers == [part.sum() for part in expected]
        assert page[0].locator("#threshold-value").inner_text() == f"{at} %"


def test_axes_have_names_units_and_four_to_six_ticks(page):
    texts = page[0].evaluate("[1, 2, 3, 7, 10, 33, 0.4, 250, 8123].map((high) => ticks(0, high).length)")
    assert all(4 <= n <= 6 for n in texts)
    assert "age (years)" in page[0].locator("#dependence").text_content()
    assert "probability of rich" in page[0].locator("#dependence").text_content()
    assert "effect on probability of rich" in page[0].locator("#scatter").text_content()


def test_nominal_categories_have_no_low_and_high(page):
    """Their dots are grey among those of all features, and of one colour each where they colour another feature."""
    chart = page[0]
    chart.locator("#scatter select").nth(0).select_option(label="age")
    chart.locator("#scatter select").nth(1).select_option(label="job")
    settle(chart)
    legend = chart.locator("#scatter .note").last.inner_text()
    assert "low" not in legend
    assert all(name in legend for name in "abc")
    colours = chart.eval_on_selector_all("#scatter path.dots", "all => all.map((one) => one.style.stroke)")
    assert len(set(colours)) == 3
    assert not any("color-mix" in colour for colour in colours)


def test_leaves_are_folded_and_show_probabilities(page):
    tree = page[0].locator("#tree")
    leaves = page[0].locator(".tree li:not(:has(ul))")
    assert leaves.count() > 1
    for place in range(leaves.count()):
        assert leaves.nth(place).get_attribute("aria-expanded") == "false"
    assert " %" in tree.locator(".facts").first.inner_text()
    leaves.first.locator(".node").click()
    assert "odds" in leaves.first.locator(".equation").inner_text() or "same" in leaves.first.inner_text()


def test_regressions_show_residuals(browser, tmp_path):
    X, y = housing(600)
    model = glasswood.ModelTreeRegressor(**FAST).fit(X[:400], y[:400])
    path = glasswood.report(model, X[:400], y[:400].rename("price"), tmp_path / "report.html", test=(X[400:], y[400:]))
    found = content(path)
    one, predicted = found["performance"]["test"], model.predict(X[400:])
    assert sum(one["residuals"]["counts"]) == 200
    assert np.mean(one["groups"]["y"]) == pytest.approx(y[400:].mean(), abs=0.05)
    np.testing.assert_allclose(one["dots"]["x"], predicted, rtol=1e-9)
    assert found["figures"]["test"]["mean absolute error"] == f"{np.abs(predicted - y[400:]).mean():.4g}"
    shown = Page(browser, path, 390)
    assert shown.page.title() == f"price: ModelTreeRegressor, {model.n_leaves_} leaves"
    assert shown.page.locator("#performance svg").count() == 2
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 390
    shown.close()
    redacted = content(glasswood.report(model, X[:400], y[:400], path, redact=True))
    assert redacted["performance"][""]["dots"] is None
    assert all("Rows" not in title for title in redacted["performance"])


def test_several_classes_have_a_matrix_and_curves_of_each(browser, tmp_path):
    X, y = housing(500)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [1, 4])]
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, labels)
    path = glasswood.report(model, X, labels, tmp_path / "report.html")
    one = content(path)["performance"][""]
    expected = [[np.sum((labels == i) & (model.predict(X) == j)) for j in model.classes_] for i in model.classes_]
    assert one["matrix"] == expected
    shown = Page(browser, path)
    assert shown.page.locator("#performance .confusion td").count() == 12
    shown.page.locator("#performance select").select_option(label="middle")
    shown.page.locator("#performance svg text", has_text="of middle found").first.wait_for()
    assert "test=(X_test, y_test)" in shown.page.locator("#performance").inner_text()
    shown.close()


def test_rows_of_one_class_have_no_curves(browser, incomes, tmp_path):
    X, y, model = incomes
    path = glasswood.report(model, X[y == "rich"], y[y == "rich"], tmp_path / "report.html")
    shown = Page(browser, path)
    assert "All rows have one class" in shown.page.locator("#performance").inner_text()
    shown.close()


@pytest.mark.filterwarnings("error")
def test_models_of_one_class(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = glasswood.ModelTreeClassifier(max_leaves=2, time_limit=None, n_iter_no_change=5).fit(X, np.full(60, "only"))
    shown = content(glasswood.report(model, X, np.full(60, "only"), tmp_path / "report.html"))
    assert shown["performance"][""]["matrix"] == [[60]]
    assert shown["card"]["Figures on these rows"]["log-loss"] == "0.0000"


def test_refusals(incomes, tmp_path):
    X, y, model = incomes
    with pytest.raises(TypeError, match=r"test is a DataFrame, expected a pair of rows and their targets"):
        glasswood.report(model, X, y, tmp_path / "report.html", test=X)
    with pytest.raises(ValueError, match="test needs y"):
        glasswood.report(model, X, path=tmp_path / "report.html", test=(X, y))
    with pytest.raises(ValueError, match="units names 'height'"):
        glasswood.report(model, X, y, tmp_path / "report.html", units={"height": "m"})


def test_headers_of_a_confusion_matrix_are_whole_on_narrow_screens(browser, tmp_path):
    X = pandas.DataFrame({"age": np.arange(200.0)})
    y = np.where(X["age"] % 7 < 4, ">50 000", "<=50 000")
    path = glasswood.report(glasswood.ModelTreeClassifier(**FAST).fit(X, y), X, y, tmp_path / "report.html")
    shown = Page(browser, path, 390)
    cells = shown.page.locator(".confusion th")
    assert cells.count() == 3
    assert cells.evaluate_all("all => all.every((cell) => cell.scrollWidth <= cell.clientWidth)")
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= 390
    shown.close()
