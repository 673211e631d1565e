"""Reports of numbers that are hard to write: very small, very large, or within a narrow range."""

from __future__ import annotations

import numpy as np
import pytest

import silva
from tests.display.browser import Page
from tests.display.test_report import content

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Path of a page about a boosted forest of float64 thresholds."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "year": rng.uniform(2017.0001, 2017.0009, 600),
            "tiny": 1e-9 * rng.normal(size=600),
            "rare": np.where(rng.uniform(size=600) < 0.02, rng.normal(size=600), 0.0),
        }
    )
    y = 1e4 * (X["year"] - 2017) + 1e9 * X["tiny"] + 9 * (X["rare"] != 0)
    model = ensemble.HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    return silva.report(model, X, y, tmp_path_factory.mktemp("numbers") / "report.html")


def ticks(page, chart):
    """Texts along the axis below a chart."""
    texts = page.locator(f"{chart} svg").first.locator("text[text-anchor=middle]").all_text_contents()
    return [text for text in texts if any(letter.isdigit() for letter in text)]


def test_every_feature_has_a_panel(report):
    data = content(report)
    names = [data["features"][entry["feature"]]["name"] for entry in data["dependence"]]
    assert sorted(names) == ["rare", "tiny", "year"]
    assert all(np.isfinite(entry["grid"]).all() and np.ptp(entry["grid"]) > 0 for entry in data["dependence"])


def test_ticks_of_a_narrow_range_differ(browser, report):
    shown = Page(browser, report)
    shown.page.locator("#scatter select").first.select_option(label="year")
    found = ticks(shown.page, "#scatter")
    assert len(found) > 2
    assert len(set(found)) == len(found)
    shown.close()
