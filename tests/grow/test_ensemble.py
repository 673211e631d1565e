"""ModelTreeEnsembleRegressor: several trees, one forest."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow import ensemble
from tests.grow.engines import interrupt_before, piecewise

TREE = glasswood.ModelTreeRegressor(n_iter_no_change=10)


def grown(X, y, **parameters):
    return glasswood.ModelTreeEnsembleRegressor(TREE, **{"n_estimators": 3, "n_jobs": 1, **parameters}).fit(X, y)


@pytest.fixture(scope="module")
def data():
    return piecewise(600)


@pytest.fixture(scope="module")
def fitted(data):
    return grown(*data)


def test_predicts_the_mean_of_its_trees(fitted, data):
    X, y = data
    expected = np.mean([tree.predict(X) for tree in fitted.estimators_], axis=0)
    constant = y.mean() - expected.mean()
    np.testing.assert_allclose(fitted.predict(X), expected + constant, rtol=1e-12)
    leaves = np.column_stack([tree.apply(X) for tree in fitted.estimators_])
    np.testing.assert_array_equal(fitted.apply(X), leaves)
    assert fitted.n_leaves_ == sum(tree.n_leaves_ for tree in fitted.estimators_)


def test_each_tree_is_that_of_its_rows(fitted, data):
    X, y = data
    for tree, rows in zip(fitted.estimators_, fitted.samples_, strict=True):
        assert len(np.unique(rows)) == len(rows) == 480
        np.testing.assert_array_equal(tree.leaf_summary_["n_rows"].sum(), 480)
        assert tree.leaf_summary_["high"].max() == y[rows].max()
    thresholds = {float(tree.forest_.ensemble.threshold[0]) for tree in fitted.estimators_}
    assert len(thresholds) > 1
    assert fitted.forest_.ensemble.leaf_range.max() <= y.max() + 0.05 * np.ptp(y)
    assert np.isfinite(X).all()


@pytest.mark.parametrize("method", ["mean", "boosting"])
@pytest.mark.parametrize("n_rows", [2, 4, 9])
def test_more_columns_than_rows(method, n_rows):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 12)), rng.normal(size=n_rows)
    predicted = grown(X, y, n_estimators=2, method=method, max_trees=5).predict(X * 100)
    assert np.isfinite(predicted).all()
    assert np.ptp(predicted) <= 2.5 * np.ptp(y)  # each of two trees is confined to the range of what it is fitted to


def test_the_same_trees_for_any_number_of_threads(fitted, data):
    np.testing.assert_array_equal(grown(*data, n_jobs=2).forest_.ensemble.threshold, fitted.forest_.ensemble.threshold)


def test_explanations_add_up(fitted, data):
    X, _ = data
    explainer = glasswood.Explainer(fitted, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:50]).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X[:50]), rtol=1e-9, atol=1e-9)
    assert fitted.feature_importances_.sum() == pytest.approx(1)


def test_categories_of_all_rows_are_known_to_every_tree(data, tmp_path):
    X, y = data
    rare = np.where(np.arange(600) == 7, "rare", np.where(X[:, 0] < 2, "low", "high"))
    frame = pd.DataFrame({"x0": X[:, 0], "kind": rare, "x1": X[:, 1]})
    model = grown(frame, y)
    assert sorted(model.forest_.ensemble.categories[1]) == ["high", "low", "rare"]
    model.forest_.save(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(frame), model.predict(frame))
    assert glasswood.export_text(model, tree=2).count("rows") == model.estimators_[2].n_leaves_


def test_constant_leaves_beside_linear_ones():
    """A tree whose leaves have no terms is constant; the others are not."""
    X = np.linspace(0, 1, 60)[:, None]
    noise = np.random.default_rng(0).standard_normal(60)
    model = grown(X, 0.9 * X[:, 0] + 0.3 * noise, n_estimators=12, max_samples=0.4)
    is_linear = [tree.forest_.ensemble.has_linear_leaves for tree in model.estimators_]
    assert 0 < sum(is_linear) < 12
    expected = np.mean([tree.predict(X) for tree in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict(X) - model.forest_.ensemble.base_score, expected, rtol=1e-12)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_hold_as_many_new_rows_as_they_say(coverage):
    """Of noise that is five times as large on one side, where they are wider too."""
    rng = np.random.default_rng(8)
    X = rng.uniform(0, 5, (3000, 3))
    y = np.where(X[:, 0] < 2, 3 * X[:, 1], 10 - X[:, 0]) + np.where(X[:, 1] < 2.5, 0.2, 1.0) * rng.standard_normal(3000)
    model = grown(X[:1500], y[:1500], n_estimators=5)
    low, high = model.predict_interval(X[1500:], coverage).T
    held = (low <= y[1500:]) & (y[1500:] <= high)
    assert held.mean() == pytest.approx(coverage, abs=0.035)
    np.testing.assert_allclose((low + high) / 2, model.predict(X[1500:]), rtol=1e-12)
    assert (high > low).all()


def test_intervals_need_rows_that_were_left_out(data):
    X, y = data
    with pytest.raises(ValueError, match="every tree has seen all rows; fit with max_samples below 1"):
        grown(X, y, n_estimators=2, max_samples=1.0).predict_interval(X)
    weighted = glasswood.ModelTreeEnsembleRegressor(TREE, n_estimators=2, n_jobs=1)
    weighted.fit(X, y, sample_weight=(np.arange(600) % 2).astype(float))
    for coverage in (0, 1, 90):
        with pytest.raises(ValueError, match=f"coverage is {coverage}, expected a probability"):
            weighted.predict_interval(X, coverage)
    assert weighted.predict_interval(X[:4]).shape == (4, 2)


def test_the_time_is_shared(data):
    forever = glasswood.ModelTreeRegressor(n_iter_no_change=10**6, generations=10**6)
    model = glasswood.ModelTreeEnsembleRegressor(forever, n_estimators=4, time_limit=0.8, n_jobs=1).fit(*data)
    longest = max(tree.history_["seconds"].max(initial=0) for tree in model.estimators_)
    assert longest < 30
    assert model.n_leaves_ >= 4


def test_an_interrupt_ends_all_trees(data, monkeypatch):
    interrupt_before(monkeypatch, ensemble, 2)
    forever = glasswood.ModelTreeRegressor(n_iter_no_change=100, generations=10**6)
    model = glasswood.ModelTreeEnsembleRegressor(forever, n_estimators=4, n_jobs=1).fit(*data)
    assert model.interrupted_
    assert [tree.n_iter_ > 50 for tree in model.estimators_] == [True, False]  # it came before the second one


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "n_estimators is 0, expected at least 1"),
        ({"n_estimators": 2.5}, TypeError, "n_estimators is 2.5, expected an integer"),
        ({"max_samples": 0}, ValueError, "max_samples is 0, expected a number above 0 and up to 1"),
        ({"max_samples": 80}, ValueError, "max_samples is 80, expected a number above 0 and up to 1"),
        ({"time_limit": -1}, ValueError, "time_limit is -1, expected seconds above 0 or None"),
        ({"estimator": 3}, TypeError, "estimator is a int, expected a ModelTreeRegressor or None"),
        ({"estimator": glasswood.ModelTreeRegressor(max_depth=99)}, ValueError, "max_depth is 99, expected 0 to 18"),
    ],
)
def test_wrong_parameters(data, parameters, error, message):
    with pytest.raises(error, match=message):
        glasswood.ModelTreeEnsembleRegressor(**parameters).fit(*data)


def test_boosted_amounts_below_0_are_warned_of():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = np.maximum(3 * X[:, 0] + rng.normal(size=300), 0)
    settings = {"n_estimators": 1, "max_trees": 20, "n_jobs": 1}
    with pytest.warns(UserWarning, match="training rows are predicted below 0, although y never is") as found:
        model = glasswood.ModelTreeEnsembleRegressor(method="boosting", **settings).fit(X, y)
    assert f"{(model.predict(X) < 0).sum():,} of 300" in str(found[0].message)
    counts = glasswood.ModelTreeEnsembleRegressor(method="boosting", loss="poisson", **settings).fit(X, y)
    assert counts.predict(X).min() > 0
    assert glasswood.ModelTreeEnsembleRegressor(TREE, n_estimators=2, n_jobs=1).fit(X, y).predict(X).min() >= 0


def test_sums_of_a_few_trees_are_no_method():
    with pytest.raises(ValueError, match="method is 'sum', expected one of mean, boosting"):
        glasswood.ModelTreeEnsembleRegressor(method="sum").fit(np.zeros((9, 1)), np.arange(9.0))
