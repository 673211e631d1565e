"""method="sum": trees that are fitted together."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood

TREE = glasswood.ModelTreeRegressor(n_iter_no_change=10)


def two_steps(n_rows, seed=0):
    """Each of two features shifts y and bends a slope: four leaves in one tree, two and two in a sum."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 4))
    y = np.where(X[:, 0] < 0.2, 2 * X[:, 1], 3 - X[:, 1]) + np.where(X[:, 2] < -0.3, 2 * X[:, 3], 5 - 2 * X[:, 3])
    return X, y + 0.2 * rng.standard_normal(n_rows)


def added(X, y, **parameters):
    model = glasswood.ModelTreeEnsembleRegressor(
        TREE, **{"n_estimators": 2, "method": "sum", "n_jobs": 1, **parameters}
    )
    return model.fit(X, y)


@pytest.fixture(scope="module")
def fitted():
    return added(*two_steps(800))


def test_two_trees_of_two_leaves(fitted):
    assert [tree.n_leaves_ for tree in fitted.estimators_] == [2, 2]
    splits = [tree.forest_.ensemble for tree in fitted.estimators_]
    assert sorted(int(tree.feature[0]) for tree in splits) == [0, 2]
    X, y = two_steps(500, seed=1)
    assert np.sqrt(np.mean((fitted.predict(X) - y) ** 2)) < 0.22


def test_predicts_the_sum_of_its_trees(fitted):
    X, _ = two_steps(300, seed=2)
    expected = fitted.forest_.ensemble.base_score[0] + sum(tree.predict(X) for tree in fitted.estimators_)
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=1e-12, atol=1e-12)
    explainer = glasswood.Explainer(fitted, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:50]).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X[:50]), rtol=1e-9, atol=1e-9)
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert len(fitted.samples_) == 1
    assert list(fitted.sequence_) == [0, 0]


def test_intervals_hold_what_they_should(fitted):
    X, y = two_steps(4000, seed=3)
    low, high = fitted.predict_interval(X).T
    assert 0.87 <= np.mean((low <= y) & (y <= high)) <= 0.95
    assert np.mean(high - low) < 3.29 * 0.2 * 1.25  # of normal noise


def test_the_order_of_rows_and_the_threads_change_nothing(fitted):
    X, y = two_steps(800)
    shuffled = np.random.default_rng(0).permutation(800)
    other = added(X[shuffled], y[shuffled], n_jobs=2)
    np.testing.assert_array_equal(other.forest_.ensemble.threshold, fitted.forest_.ensemble.threshold)
    np.testing.assert_array_equal(other.predict_interval(X), fitted.predict_interval(X))


def test_a_sum_of_one_tree_is_about_that_tree():
    X, y = two_steps(400)
    alone = glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1, max_leaves=2).fit(X, y)
    one = added(X, y, n_estimators=1)
    assert one.score(X, y) >= alone.score(X, y)


def test_classes_have_no_sums():
    """Sums of working responses had 1.28 of one tree's log-loss on 14 sets: their leaves have no ridge."""
    X, y = two_steps(50)
    with pytest.raises(ValueError, match="method is 'sum', expected one of mean, boosting"):
        glasswood.ModelTreeEnsembleClassifier(method="sum").fit(X, y > y.mean())


def test_few_rows_and_weights():
    X, y = two_steps(9)
    few = added(X, y)
    assert np.isfinite(few.predict_interval(X)).all()
    X, y = two_steps(300)
    twice = added(np.vstack([X, X]), np.append(y, y))
    weighted = glasswood.ModelTreeEnsembleRegressor(TREE, 2, method="sum", n_jobs=1).fit(X, y, np.full(300, 2.0))
    np.testing.assert_array_equal(weighted.predict(X), added(X, y).predict(X))
    np.testing.assert_allclose(twice.predict(X), weighted.predict(X), rtol=1e-6)


@pytest.mark.parametrize(("method", "warns"), [("sum", True), ("mean", False)])
def test_sums_of_amounts_below_0_are_warned_of(method, warns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.where(rng.random(600) < 0.3, 0, np.exp(2 * X[:, 0] + rng.normal(size=600)))
    if not warns:
        assert added(X, y, method=method).predict(X).min() >= 0
        return
    with pytest.warns(UserWarning, match="training rows are predicted below 0, although y never is") as found:
        model = added(X, y, method=method)
    assert f"{(model.predict(X) < 0).sum():,} of 600" in str(found[0].message)
    assert added(X, y, method=method, loss="poisson").predict(X).min() > 0
