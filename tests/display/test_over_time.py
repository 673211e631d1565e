"""SHAP values of survival curves over time, drawn."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.explain.results.explanation import Explanation
from tests.strategies import Options, random_forest

pytest.importorskip("matplotlib").use("Agg")


def explanation(n_features=4, names=("1", "2.5", "10"), n_rows=5):
    values = np.random.default_rng(0).normal(size=(n_rows, n_features, len(names)))
    features = [f"x{i}" for i in range(n_features)]
    return Explanation(values, np.zeros((n_rows, len(names))), np.zeros((n_rows, n_features)), features, list(names))


def lines(ax):
    return {line.get_label(): line.get_ydata() for line in ax.get_lines() if not line.get_label().startswith("_")}


def test_a_row_has_a_line_for_each_feature():
    found = explanation()
    ax = glasswood.plot_over_time(found, row=2)
    drawn = lines(ax)
    assert set(drawn) == {"x0", "x1", "x2", "x3"}
    for feature in range(4):
        np.testing.assert_array_equal(drawn[f"x{feature}"], found.values[2, feature])
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), [1, 2.5, 10])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "SHAP value")


def test_all_rows_have_mean_magnitudes(monkeypatch):
    monkeypatch.setattr("glasswood.display.plot.MOST_LINES", 1)
    found = explanation()
    ax = glasswood.plot_over_time(found)
    magnitude = np.abs(found.values).mean(axis=0)
    largest = int(magnitude.max(axis=1).argmax())
    drawn = lines(ax)
    np.testing.assert_allclose(drawn[f"x{largest}"], magnitude[largest])
    np.testing.assert_allclose(drawn["3 other features"], magnitude.sum(axis=0) - magnitude[largest])
    assert ax.get_ylabel() == "mean |SHAP value|"


def test_hostile_names_are_shown_as_text():
    found = explanation(1)
    found.feature_names[0] = "$x_1$\x07"
    assert "\x07" not in next(iter(lines(glasswood.plot_over_time(found, row=0))))


def test_bad_input():
    with pytest.raises(TypeError, match=r"got ndarray, expected an explanation, such as explainer\(X\)"):
        glasswood.plot_over_time(np.zeros((2, 3, 4)))
    forest = glasswood.Forest(random_forest(0, Options(n_trees=2, n_features=3, n_outputs=2)))
    several = glasswood.Explainer(forest, output_names=["no", "yes"])(np.zeros((2, 3)))
    for wrong in (several, explanation(names=("2", "1")), explanation()[:, :, "1"]):
        with pytest.raises(
            ValueError, match=r"expected times; explain the forest of glasswood\.load\(model, survival_at="
        ):
            glasswood.plot_over_time(wrong)
    with pytest.raises(ValueError, match="row is 5, the explanation has 5 rows"):
        glasswood.plot_over_time(explanation(), row=5)
