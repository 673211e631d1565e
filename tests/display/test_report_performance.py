"""What a report says first, and how well the model predicts: figures beside others made without glasswood."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glasswood
from glasswood.base.wording import percent_text
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
    assert len(one["cuts"]) > 50
    for at, cut in enumerate(one["cuts"]):
        assert one["hits"][at] == (p[is_rich] >= cut).sum()
        assert one["alarms"][at] == (p[~is_rich] >= cut).sum()
    for x, y_found in zip(one["gains"]["x"], one["gains"]["y"], strict=True):
        highest = np.sort(p)[::-1][: round(x * len(p))]
        if len(highest):
            assert y_found == pytest.approx((p[is_rich] >= highest[-1]).mean(), abs=0.02)
    groups = np.array_split(np.argsort(p), 10)
    np.testing.assert_allclose(one["calibration"]["y"], [is_rich[group].mean() for group in groups], atol=0.03)
    matrix = page[1]["performance"]["test"]["matrix"]
    assert matrix[1][1] == ((p > 0.5) & is_rich).sum()
    assert sum(map(sum, matrix)) == 400


def test_the_first_screen_says_drivers_then_how_good_then_what(incomes, page):
    X, _, model = incomes
    said = page[1]["sentences"]
    for driver in said["drivers"]:
        name, entry = driver["name"], next(one for one in page[1]["dependence"] if one["feature"] == driver["feature"])
        found = re.fullmatch(
            r"(.+?)( years)? instead of (.+?) (raises|lowers) the probability of (rich|poor) by (.+) points",
            driver["text"],
        )
        high, low, side, size = found[1], found[3], found[4], float(found[6])
        at = [
            entry["grid"].index(value)
            if entry["isText"]
            else int(np.abs(np.array(entry["grid"]) - float(value)).argmin())
            for value in (high, low)
        ]
        change = entry["average"][0][at[0]] - entry["average"][0][at[1]]
        assert size == pytest.approx(100 * abs(change), rel=0.1)
        assert (side == "raises") == (change > 0) == (driver["direction"] > 0)
        assert name in X.columns
    one = page[1]["performance"]["test"]["classes"][0]
    training = page[1]["performance"]["training"]["classes"][0]
    assert said["quality"][0].startswith(f"AUC {one['auc']:.2f} on test rows, {training['auc']:.2f} on training rows")
    assert "times the base rate of" in said["quality"][1]
    assert said["what"][0].startswith(f"A tree of {model.n_leaves_} lea")
    assert f"predicts whether income is {page[1]['classes'][1]} from 2 features" in said["what"][0]
    text = page[0].locator("#summary").inner_text().replace("\xa0", " ")
    assert text.index(said["drivers"][0]["text"]) < text.index(said["quality"][0]) < text.index(said["what"][0])
    assert "mean |SHAP value|" not in page[0].locator("main").inner_text()
    assert page[0].locator("#summary").bounding_box()["height"] + page[0].locator("#summary").bounding_box()["y"] < 900
    assert page[0].title().startswith("income: ModelTreeClassifier, ")
    assert "test" in page[0].locator("#summary .cards").inner_text()


def test_constraints_are_in_the_summary_and_the_card(browser, tmp_path):
    X, y = housing()
    tree = glasswood.ModelTreeRegressor(**FAST, monotonic_cst={"size": 1}, coefficient_signs={"light": 1}).fit(X, y)
    shown = Page(browser, glasswood.report(tree, X, y, tmp_path / "report.html"))
    held = "predictions rise with size; coefficients of light are positive"
    assert shown.page.locator("#summary .said").last.inner_text().endswith(f"By construction, {held}.")
    card = shown.page.locator("#card").inner_text()
    assert held in card
    assert "squared error;" not in card
    shown.close()


def test_the_threshold_moves(incomes, page):
    X, y, model = incomes
    p, is_rich = model.predict_proba(X[800:])[:, 1], (y[800:] == "rich").to_numpy()
    slider = page[0].locator("#threshold")
    one, share = page[1]["performance"]["test"]["classes"][0], is_rich.mean()
    begins = one["cuts"][int(slider.input_value())]
    assert abs(begins - share) == np.abs(np.array(one["cuts"]) - share).min()
    for at in (len(one["cuts"]) // 2, 3):
        slider.fill(str(at))
        cells = page[0].locator("#performance .confusion td").all_inner_texts()
        numbers = [int(cell.replace(",", "")) for cell in cells if cell.replace(",", "").isdigit()]
        called = p >= one["cuts"][at]
        expected = [called & is_rich, called & ~is_rich, ~called & is_rich, ~called & ~is_rich]
        assert numbers == [part.sum() for part in expected]
        assert page[0].locator("#threshold-value").inner_text() == percent_text(one["cuts"][at])


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


def test_formulas_of_small_trees_are_open(page):
    leaves = page[0].locator(".tree li:not(:has(ul))")
    assert leaves.count() > 1
    for place in range(leaves.count()):
        leaf = leaves.nth(place)
        has_terms = leaf.locator(".inside svg").count() > 0
        assert (leaf.get_attribute("aria-expanded") == "true") == has_terms
        leaf.locator(".node").click()
        assert (leaf.get_attribute("aria-expanded") == "false") == has_terms
        leaf.locator(".node").click()
    assert " %" in page[0].locator("#tree .facts").first.inner_text()
    assert "odds" in page[0].locator("#tree .equation").first.inner_text()


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


@pytest.fixture(scope="module")
def claims():
    """Rows of which one in two hundred has a claim, and a model of them."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {"age": rng.integers(18, 90, 20_000).astype(float), "km": np.round(rng.lognormal(9, 0.5, 20_000), -2)}
    )
    X["months"] = rng.choice([12.0, 24, 36, 48], 20_000)
    X["region"] = pandas.Categorical([f"region number {k:02d}" for k in rng.integers(0, 47, 20_000)])
    odds = np.exp(
        -6.6
        + 1.5 * (X["age"] < 25)
        + 0.8 * (X["months"] == 48)
        + 0.6 * np.log(X["km"] / 8000)
        + X["region"].cat.codes / 40
    )
    y = pandas.Series(np.where(rng.random(20_000) < odds / (1 + odds), "claim", "none"), name="year")
    assert 0.004 < np.mean(y == "claim") < 0.01
    model = ensemble.HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=5, categorical_features="from_dtype")
    return X, y, model.fit(X[:10_000], y[:10_000])


def test_rare_events_have_figures_beside_the_base_rate(claims, browser, tmp_path):
    metrics = pytest.importorskip("sklearn.metrics")
    X, y, model = claims
    path = glasswood.report(model, X[:10_000], y[:10_000], tmp_path / "report.html", test=(X[10_000:], y[10_000:]))
    assert path.stat().st_size < 1e6
    found, event = content(path), (y[10_000:] == "claim").to_numpy()
    p = model.predict_proba(X[10_000:])[:, 0]
    assert found["classes"] == ["none", "claim"]  # the model's order is the other one
    figures = found["figures"]["test"]
    assert figures["AUC (by chance 0.5)"] == f"{metrics.roc_auc_score(event, p):.4f}"
    precision, share = metrics.average_precision_score(event, p), event.mean()
    assert figures["average precision"].startswith(f"{percent_text(precision)}, ")
    assert figures["base rate"] == percent_text(share)
    assert not any("accuracy" in name for name in figures)
    one = found["performance"]["test"]["classes"][0]
    cuts = np.array(one["cuts"])
    assert ((cuts > 0.5 * share) & (cuts < 2 * share)).sum() > 20  # tenths of a percent and finer, where rows are
    shown = Page(browser, path)
    page = shown.page
    assert page.locator("#threshold-value").inner_text() == percent_text(float(cuts[np.abs(cuts - share).argmin()]))
    heads = page.locator("#rows thead").first.inner_text()
    assert "probability of claim" in heads.replace("\n", " ")
    figure = page.locator("#performance .four > div").nth(2)  # calibration is drawn where its points are
    ticks = [text for text in figure.locator("svg text").all_text_contents() if "%" in text or "‰" in text]
    assert len(ticks) >= 4
    assert "100 %" not in ticks
    assert page.locator("#summary").bounding_box()["height"] + page.locator("#summary").bounding_box()["y"] < 900
    months = next(entry for entry in found["dependence"] if found["features"][entry["feature"]]["name"] == "months")
    assert months["few"]
    panel = page.locator("#dependence figure", has=page.locator("figcaption", has_text="months"))
    assert panel.locator("svg circle").count() == 4
    assert {"12", "24", "36", "48"} <= set(panel.locator("svg text").all_text_contents())
    shown.close()


def test_costs_choose_the_threshold(claims, browser, tmp_path):
    X, y, model = claims
    costs = {"false_positive": 1, "false_negative": 60}
    path = glasswood.report(model, X[:5000], y[:5000], tmp_path / "report.html", costs=costs)
    p, event = model.predict_proba(X[:5000])[:, 0], (y[:5000] == "claim").to_numpy()
    cuts = content(path)["performance"][""]["classes"][0]["cuts"]
    least = min(((p >= cut) & ~event).sum() + 60 * ((p < cut) & event).sum() for cut in cuts)
    shown = Page(browser, path)
    cards = shown.page.locator("#performance .cards").inner_text()
    assert f"cost a row\n{least / 5000:.4g}" in cards
    shown.close()
    for bad, message in (
        ({"false_positive": 0}, "false_positive costs 0, expected more than true_negative, 0"),
        ({"fp": 1}, "costs names 'fp', expected some of true_positive, false_positive"),
        ({"false_positive": 1, "false_negative": np.inf}, "expected finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            glasswood.report(model, X[:500], y[:500], tmp_path / "report.html", costs=bad)


def test_the_event_may_be_chosen(claims, tmp_path):
    X, y, model = claims
    found = content(glasswood.report(model, X[:500], y[:500], tmp_path / "report.html", positive="none"))
    assert found["classes"] == ["claim", "none"]
    without = content(glasswood.report(model, X[:500], path=tmp_path / "report.html"))
    assert without["classes"] == ["none", "claim"]
    with pytest.raises(ValueError, match="positive is 'no', expected one of the model's classes"):
        glasswood.report(model, X[:500], y[:500], tmp_path / "report.html", positive="no")
    tree = glasswood.ModelTreeClassifier(**FAST, leaf_model="constant").fit(X[:4000], y[:4000])
    assert glasswood.export_text(tree).startswith("Probability of claim (")
    assert glasswood.export_text(tree, positive="none").startswith("Probability of none (9")
    with pytest.raises(ValueError, match="positive is 1, but the model predicts numbers"):
        glasswood.export_text(
            pytest.importorskip("sklearn.tree").DecisionTreeRegressor().fit(X[["age"]][:99], y[:99] == "claim"),
            positive=1,
        )


def test_words_of_unusual_models(tmp_path):
    """Several numbers are no classes, large numbers are short, and test rows of one class have the same figures."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": 1e12 * rng.normal(size=300), "b": rng.normal(size=300)})
    several = ensemble.RandomForestRegressor(3, max_depth=3).fit(X, np.column_stack([X["a"], X["b"]]))
    said = content(glasswood.report(several, X, path=tmp_path / "report.html"))["sentences"]
    assert said["what"] == ["3 trees predict 2 outputs of the target from 2 features."]
    assert re.match(r"[−\d.]+T instead of [−\d.]+T raises the prediction of 0 by ", said["drivers"][0]["text"])
    y = rng.random(300) < 0.3
    model = ensemble.GradientBoostingClassifier(n_estimators=3).fit(X, y)
    found = content(glasswood.report(model, X, y, tmp_path / "report.html", test=(X[:20], np.zeros(20, bool))))
    training, test = found["figures"]["training"], found["figures"]["test"]
    assert list(training) == list(test)
    assert test["AUC (by chance 0.5)"] == "not defined: all rows have one class"
    assert found["sentences"]["quality"] == []
