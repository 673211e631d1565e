"""What changed between populations, in the report."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page
from tests.display.test_report import boosted, content, housing


@pytest.fixture(scope="module")
def drifted():
    X, y = housing(900)
    X = X.drop(columns="kind")
    after = X[450:].copy()
    after[X.columns[0]] += 2 * X[X.columns[0]].std()
    return boosted(X, y, n=20, depth=3), X[:450], after


def test_changes_are_those_of_compare(drifted, tmp_path):
    model, before, after = drifted
    found = content(glasswood.report(model, after, path=tmp_path / "report.html", before=before))["change"]
    expected = glasswood.compare(before, after, model=model)
    assert [row["feature"] for row in found["features"][0]] == [row["feature"] for row in expected.rows()]
    assert found["features"][0][0]["feature"] == before.columns[0]
    np.testing.assert_allclose([row["change"] for row in found["features"][0]],
                               [row["change"] for row in expected.rows()])  # fmt: skip
    assert found["rows"] == [450, 450]
    assert content(glasswood.report(model, after, path=tmp_path / "other.html"))["change"] is None


@pytest.mark.parametrize("width", [390, 1280])
def test_page_shows_them(drifted, browser, tmp_path, width):
    model, before, after = drifted
    after = after.rename(columns={after.columns[1]: '& ugly "name"'})
    before, model = before.set_axis(after.columns, axis=1), boosted(after, np.arange(450.0), n=5, depth=3)
    path = glasswood.report(model, after, path=tmp_path / "report.html", before=before[:1])
    view = Page(browser, path, width=width)
    section = view.page.locator("#change")
    assert section.locator("rect").count() >= 2 * 2
    assert "mean prediction changed" in section.inner_text()
    assert "1 earlier rows" in section.inner_text()
    assert view.page.evaluate("document.documentElement.scrollWidth") == width
    view.close()
