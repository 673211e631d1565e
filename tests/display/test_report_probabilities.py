"""A classifier's report explains its probabilities: values beside sums over coalitions by the model itself."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest

import glasswood
from glasswood.base.wording import percent_text
from glasswood.display.report import explained
from tests.display.browser import Page
from tests.display.test_report import content
from tests.display.test_report_statistics import unpacked

ensemble = pytest.importorskip("sklearn.ensemble")
pandas = pytest.importorskip("pandas")

FAST = {"max_leaves": 4, "n_iter_no_change": 10, "n_jobs": 1}


def rows(n_classes):
    """Fewer rows than a report explains against, so that it takes all of them."""
    rng = np.random.default_rng(n_classes)
    X = pandas.DataFrame(rng.normal(size=(80, 3)), columns=["size", "age", "light"])
    score = X["size"] * X["age"] + X["light"] + 0.2 * rng.normal(size=80)
    return X, np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))


def values_by_coalitions(predict, X):
    """Shapley values of what `predict` returns, (n, F, k), with the mean over all rows for unknown features."""
    n, n_features = X.shape
    worth = {}
    for coalition in itertools.product([False, True], repeat=n_features):
        hybrids = np.where(coalition, X[:, None], X[None]).reshape(-1, n_features)
        worth[coalition] = predict(hybrids).reshape(n, n, -1).mean(axis=1)
    result = np.zeros((n, n_features, worth[coalition].shape[1]))
    for coalition, without in worth.items():
        share = 1 / (n_features * comb(n_features - 1, min(sum(coalition), n_features - 1)))
        for feature in np.flatnonzero(~np.array(coalition)):
            known = tuple(np.array(coalition) | (np.arange(n_features) == feature))
            result[:, feature] += share * (worth[known] - without)
    return result


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make", [lambda: ensemble.GradientBoostingClassifier(n_estimators=5), lambda: glasswood.ModelTreeClassifier(**FAST)]
)
def test_values_are_those_of_probabilities(make, n_classes, tmp_path):
    X, y = rows(n_classes)
    model = make().fit(X.to_numpy(), y)
    data = content(glasswood.report(model, X.to_numpy(), y, tmp_path / "report.html"))
    shown = slice(1, 2) if n_classes == 2 else slice(None)
    expected = values_by_coalitions(lambda rows: model.predict_proba(rows)[:, shown], X.to_numpy())
    found = unpacked(data["rows"]["phi"])
    np.testing.assert_allclose(found, expected[:, data["rows"]["features"]], rtol=0, atol=1e-6)
    np.testing.assert_allclose(data["importance"], np.abs(expected).mean(axis=0), rtol=1e-6, atol=1e-9)
    explainer = glasswood.Explainer(model, X.to_numpy(), output="probability")
    errors = explainer.shap_values(X.to_numpy(), standard_errors=True)[1].reshape(expected.shape)
    written = unpacked(data["rows"]["errors"]) * float(data["rows"]["errorUnit"])
    np.testing.assert_allclose(written, errors[:, data["rows"]["features"]], rtol=0, atol=1e-4 * errors.max())
    np.testing.assert_allclose(
        data["expected"] + found.sum(axis=1), model.predict_proba(X.to_numpy())[:, shown], atol=1e-6
    )
    np.testing.assert_allclose(unpacked(data["rows"]["ends"]), model.predict_proba(X.to_numpy())[:, shown], atol=1e-9)
    assert data["outputs"] == ([] if n_classes == 2 else ["0", "1", "2"])
    assert data["card"]["Explanation"]["SHAP values"].startswith("exact values of the probability, with 80 random rows")
    assert "passed" in data["card"]["Explanation"]["additivity"]


def test_too_much_work_is_left_to_log_odds(browser, tmp_path, limits):
    X, y = rows(2)
    model = ensemble.GradientBoostingClassifier(n_estimators=5).fit(X, y)
    for operations, name in ((explained.OPERATIONS, "probability of 1"), (1e4, "log-odds of 1")):
        limits(report_operations=operations)
        shown = Page(browser, glasswood.report(model, X, y, tmp_path / "report.html"))
        assert f"How much each feature moves a row's {name}, up or down" in shown.page.locator("#features").inner_text()
        assert f"In {name}." in shown.page.locator("#rows").inner_text()
        shown.close()


def test_forests_whose_margins_are_probabilities_say_so(browser, tmp_path):
    X, y = rows(3)
    model = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    path = glasswood.report(model, X, y, tmp_path / "report.html")
    shown = Page(browser, path)
    assert "moves a row's probability of 0, up or down" in shown.page.locator("#features").inner_text()
    shown.close()
    assert content(path)["card"]["Explanation"]["SHAP values"] == "path-dependent values of the probability"


SCROLLED = """() => [...document.querySelectorAll("#rows .table")]
    .filter((table) => table.clientWidth && table.scrollWidth > table.clientWidth).length"""
# Names whose cells do not show the probability beside them.
HIDDEN = """() => [...document.querySelectorAll("#rows .cut")]
    .filter((name) => name.parentElement.scrollWidth > name.parentElement.clientWidth).length"""


def test_long_names_do_not_widen_a_phone(browser, tmp_path):
    X, y = rows(3)
    X = X.rename(columns={"age": "a_very_long_name_of_a_feature_that_nobody_would_ever_shorten_at_all"})
    classes = np.array(["Rechtsschutzversicherungsgesellschaften", "the third of three classes, which is long", "no"])
    model = ensemble.GradientBoostingClassifier(n_estimators=5).fit(X, classes[y])
    path = glasswood.report(model, X, classes[y], tmp_path / "report.html")
    shown = Page(browser, path, width=390)
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 390
    assert shown.page.evaluate(SCROLLED) == 0
    shown.close()
    shown = Page(browser, path)
    assert shown.page.locator(f"#rows .cut[title='{classes[1]}']").count() > 0
    assert shown.page.evaluate(HIDDEN) == 0
    shown.close()


def test_a_row_ends_at_the_probabilities_of_both_classes(browser, tmp_path):
    """The title has the probability of the event, which is rarer, and the bars end there."""
    X, y = rows(2)
    model = ensemble.GradientBoostingClassifier(n_estimators=5).fit(X, np.where(y, "yes", "no"))
    chances = model.predict_proba(X)
    row = int(chances[:, 0].argmax())
    path = glasswood.report(model, X, np.where(y, "yes", "no"), tmp_path / "report.html")
    event, other = ("yes", "no") if np.mean(y) <= 0.5 else ("no", "yes")
    chance = chances[row, int(event == "yes")]
    shown = Page(browser, path)
    shown.page.evaluate(f"change('row', {row})")
    last = shown.page.locator("#rows figure svg text").last
    last.wait_for()
    assert last.text_content() == f"{event}: {percent_text(chance)}, {other}: {percent_text(1 - chance)}"
    title = shown.page.locator("#rows figure").first.inner_text()
    assert f"probability of {event} {percent_text(chance)}" in title
    shown.close()
