"""The section of a report that says what the score rests on."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import glasswood
from tests.display.test_report import content

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 4))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=150)


@pytest.mark.parametrize("kind", ["squared", "log_loss"])
def test_values_are_those_of_the_test_rows(kind, tmp_path):
    y = Y if kind == "squared" else np.where(Y > 0.8, "yes", "no")
    learner = RandomForestRegressor if kind == "squared" else GradientBoostingClassifier
    model = learner(n_estimators=8, max_depth=3, random_state=0).fit(X[:50], y[:50])
    found = content(glasswood.report(model, X[:50], y[:50], tmp_path / "r.html", test=(X[50:], y[50:])))["score"]
    expected = glasswood.score_values(model, X[50:], y[50:], background=X[:50]).as_frame()
    assert [entry["name"] for entry in found["features"]] == expected["feature"].tolist()
    for key, column in (("value", "value"), ("error", "standard_error"), ("share", "share")):
        np.testing.assert_allclose([float(e[key]) for e in found["features"]], expected[column], rtol=1e-4, atol=1e-12)
    assert (found["loss"], found["rows"], found["background"]) == (kind, 100, 50)


@pytest.mark.parametrize("kind", ["no target", "few rows", "several outputs"])
def test_there_is_none_without_one_target_or_enough_rows(kind, tmp_path):
    y = np.column_stack([Y, -Y]) if kind == "several outputs" else Y
    model = DecisionTreeRegressor(max_depth=3).fit(X, y)
    n, given = (15, Y[:15]) if kind == "few rows" else (150, None)
    assert content(glasswood.report(model, X[:n], given, tmp_path / "r.html"))["score"] is None


def test_boosters_whose_targets_are_numbers_of_classes(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    y = (Y > 0).astype(int)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y), 5)
    found = content(glasswood.report(booster, X[:50], y[:50], tmp_path / "r.html", test=(X[50:], y[50:])))["score"]
    expected = glasswood.score_values(booster, X[50:], y[50:], background=X[:50])
    assert sum(float(entry["value"]) for entry in found["features"]) == pytest.approx(expected.total, rel=1e-4)
    assert found["loss"] == "log_loss"
