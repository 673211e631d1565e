"""Rows like a row, and intervals, in the report."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page
from tests.display.test_report import boosted, content, housing


def unpacked(found):
    return np.frombuffer(base64.b64decode(found["data"]), f"<{found['type']}").reshape(found["shape"])


@pytest.fixture(scope="module")
def halves():
    X, y = housing(1200)
    X = X.drop(columns="kind")
    return X[:800], y[:800], X[800:], y[800:]


def test_similar_rows_are_those_of_neighbors(halves, tmp_path):
    X, y, *_ = halves
    model = boosted(X, y, n=20, depth=3)
    data = content(glasswood.report(model, X, y, tmp_path / "report.html"))
    at = np.array(data["rows"]["index"])
    neighbors = glasswood.Neighbors(model, X.iloc[at], check=False)
    similarity, rows = neighbors.kneighbors(n_neighbors=5)
    np.testing.assert_array_equal(unpacked(data["similar"]["places"]), rows)
    np.testing.assert_allclose(unpacked(data["similar"]["similarity"]), similarity, rtol=1e-6)
    assert data["intervals"] is None  # a boosted forest's leaves do not know


def test_intervals_follow_from_test_rows(halves, tmp_path):
    X, y, X_test, y_test = halves
    model = boosted(X, y, n=20, depth=3)
    data = content(glasswood.report(model, X, y, tmp_path / "report.html", test=(X_test, y_test)))
    expected = glasswood.Neighbors(model, X, y).conformalize(X_test, y_test).predict_interval(X, 0.9)
    at = np.array(data["rows"]["index"])
    assert data["intervals"]["kind"] == "conformal"
    np.testing.assert_allclose(unpacked(data["intervals"]["ends"]), expected[at], rtol=1e-5, atol=1e-5)


def test_random_forests_show_the_targets_of_their_leaves(halves, tmp_path):
    from sklearn.ensemble import RandomForestRegressor

    X, y, *_ = halves
    model = RandomForestRegressor(10, min_samples_leaf=5, bootstrap=False, max_features=1, random_state=0)
    model.fit(X.fillna(0), y)
    data = content(glasswood.report(model, X.fillna(0), y, tmp_path / "report.html"))
    expected = glasswood.Neighbors(model, X.fillna(0), y).quantile(X.fillna(0), [0.05, 0.95])
    assert data["intervals"]["kind"] == "similar"
    np.testing.assert_allclose(unpacked(data["intervals"]["ends"]), expected[np.array(data["rows"]["index"])])


def test_redacted_reports_hold_neither(halves, tmp_path):
    X, y, *test = halves
    data = content(glasswood.report(boosted(X, y, n=5), X, y, tmp_path / "report.html", test=tuple(test), redact=True))
    assert data["similar"] is data["intervals"] is None


def test_the_page_follows_the_chosen_row(browser, halves, tmp_path):
    X, y, *test = halves
    path = glasswood.report(boosted(X, y, n=20, depth=3), X, y, tmp_path / "report.html", test=tuple(test))
    data, shown = content(path), Page(browser, path)
    page = shown.page
    places, at = unpacked(data["similar"]["places"]).astype(int), data["rows"]["index"]
    for _ in range(2):
        lines = page.locator("#similar tbody tr")
        own = at.index(int(lines.nth(0).locator("td").first.inner_text()))
        found = [int(line.locator("button").inner_text()) for line in lines.all()[1:]]
        assert found == [at[place] for place in places[own]]
        assert page.locator("#span").inner_text().startswith("90 % interval ")
        lines.nth(1).locator("button").click()
    shown.close()
