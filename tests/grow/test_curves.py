"""Sums that begin with an equation and curves of single features."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import silva
from silva.grow import additive, curves
from silva.grow.additive import additive_model
from silva.grow.curves import FOLDS
from silva.grow.data.columns import numeric_columns

TREE = silva.ModelTreeRegressor(n_iter_no_change=10)


def bent(n_rows, seed=0):
    """What two features do alone, one of them along a line, and a step of a third that turns a slope."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 5))
    y = 3 * np.sin(3 * X[:, 0]) + 2 * np.abs(X[:, 1]) + X[:, 2] + np.where(X[:, 3] < 0, 2 * X[:, 4], -2 * X[:, 4])
    return X, y, y + 0.2 * rng.standard_normal(n_rows)


def added(X, y, **parameters):
    given = {"n_estimators": 2, "method": "sum", "n_jobs": 1, "curves": True, **parameters}
    return silva.ModelTreeEnsembleRegressor(TREE, **given).fit(X, y)


@pytest.fixture(scope="module")
def fitted():
    X, _, y = bent(800)
    return added(X, y)


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


# --- the regression ---


def folds(n_rows):
    return np.random.default_rng(1).permutation(n_rows) % FOLDS


def by_least_squares(model, X, y, rows, ridge):
    """Coefficients of the model's terms by least squares over the rows and one more row a penalty."""
    values = np.where(np.isfinite(model.terms.knot), np.maximum(X[:, model.terms.column] - model.terms.knot, 0), 0)
    values = np.where(np.isfinite(model.terms.knot), values, X[:, model.terms.column])
    spread = values.std(axis=0)
    A = np.column_stack([np.ones(len(X)), (values - values.mean(axis=0)) / spread])
    penalty = np.where(np.isfinite(model.terms.knot), ridge, additive.OF_NUMBERS)
    penalty += 1e-9 * np.square(A[rows, 1:]).sum(axis=0)
    rooted = np.column_stack([np.zeros(len(penalty)), np.diag(np.sqrt(penalty))])
    solution = np.linalg.lstsq(np.vstack([A[rows], rooted]), np.append(y[rows], np.zeros(len(penalty))))[0]
    return solution, A, spread


def test_coefficients_and_left_out_rows_are_those_of_least_squares(monkeypatch):
    monkeypatch.setattr(additive, "PENALTIES", np.array([7.0]))
    X, _, y = bent(300)
    fold = folds(300)
    model = additive_model(numeric_columns(X), y, np.ones(300), fold)
    solution, A, spread = by_least_squares(model, X, y, np.arange(300), 7.0)
    np.testing.assert_allclose(model.coefficient, solution[1:] / spread, rtol=1e-5, atol=1e-7)
    assert model.intercept == pytest.approx(solution[0], rel=1e-6)
    for part in range(FOLDS):
        others, _, _ = by_least_squares(model, X, y, np.flatnonzero(fold != part), 7.0)
        np.testing.assert_allclose(model.unseen[fold == part], (A @ others)[fold == part], atol=1e-6)


def test_terms_and_knots_that_hardly_matter_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3))
    y = np.maximum(X[:, 0], 0) * 5 + X[:, 1]  # the last one: nothing
    model = additive_model(numeric_columns(X), y, np.ones(4000), folds(4000))
    assert set(model.terms.column) == {0, 1}
    assert not len(model.knots_of(1))
    assert 1 <= len(model.knots_of(0)) <= 4
    assert np.abs(model.knots_of(0)).min() < 0.05


def test_nothing_to_fit():
    X, _, y = bent(100)
    assert additive_model(numeric_columns(X), np.ones(100), np.ones(100), folds(100)) is None
    assert additive_model(numeric_columns(np.ones((100, 2))), y, np.ones(100), folds(100)) is None
    assert additive_model(numeric_columns(np.full((100, 2), np.nan)), y, np.ones(100), folds(100)) is None


# --- the sum ---


def test_trees_predict_what_the_regression_does():
    X, _, y = bent(400)
    X[:, 2] = np.round(X[:, 2])  # too few values for a curve
    X[::7, 0] = np.nan
    columns = numeric_columns(X)
    model = additive_model(columns, y, np.ones(400), folds(400))
    grown = [growth.tree(None).forest for growth in curves._trees(model, columns, y, np.ones(400), 1)]
    pieces = [len(model.knots_of(k)) + 1 for k in (0, 1, 3, 4)]
    pieces[0] += 1  # of missing values
    assert [forest.n_leaves for forest in grown] == [1, *(n for n in pieces if n > 1)]
    total = sum(silva.Forest(forest).predict(X) for forest in grown)
    expected = (model.terms.values(X) - model.centre) @ model.coefficient
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)


def test_curves_and_a_tree_of_what_they_leave(fitted):
    X, truth, _ = bent(3000, seed=1)
    assert rmse(fitted, X, truth) < 0.11
    without = added(*bent(800)[::2], curves=False)
    assert without.n_curves_ == 0
    assert rmse(fitted, X, truth) < rmse(without, X, truth)
    first = [curve.forest_.ensemble for curve in fitted.estimators_[: fitted.n_curves_]]
    features = [set(curve.feature[curve.feature >= 0]) for curve in first]
    assert {0} in features
    assert {1} in features
    assert all(len(own) <= 1 for own in features)
    assert len(fitted.estimators_) == fitted.n_curves_ + 1
    assert set(fitted.estimators_[-1].forest_.ensemble.feature) >= {3}


def test_curves_are_continuous_and_level_beyond_the_rows(fitted):
    for curve in fitted.estimators_[: fitted.n_curves_]:
        forest = curve.forest_.ensemble
        feature = int(forest.feature.max())

        def at(values, feature=feature, curve=curve):
            rows = np.zeros((len(values), 5))
            rows[:, feature] = values
            return curve.predict(rows)

        knots = forest.threshold[forest.feature >= 0]
        np.testing.assert_allclose(at(knots - 1e-9), at(knots), atol=1e-6)
        np.testing.assert_array_equal(at([-5.0, 5.0]), at([-50.0, 50.0]))
        np.testing.assert_allclose(at([-5.0, 5.0]), at([-1.0, 1.0]), atol=0.1)


def test_the_sum_is_that_of_its_trees_and_is_explained_exactly(fitted, tmp_path):
    X, _, _ = bent(200, seed=2)
    expected = fitted.forest_.ensemble.base_score[0] + sum(tree.predict(X) for tree in fitted.estimators_)
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=1e-12, atol=1e-12)
    explainer = silva.Explainer(fitted, dtype="float64")
    values = explainer.shap_values(X[:50])
    np.testing.assert_allclose(explainer.expected_value + values.sum(axis=1), fitted.predict(X[:50]), atol=1e-9)
    fitted.forest_.save(tmp_path / "sum.silva")
    np.testing.assert_array_equal(silva.load(tmp_path / "sum.silva").predict(X), fitted.predict(X))
    assert list(fitted.staged_predict(X))[-1] == pytest.approx(fitted.predict(X))
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert all(np.isfinite(tree.leaf_summary_["rmse"]).all() for tree in fitted.estimators_)


def test_intervals_hold_what_they_should(fitted):
    X, _, y = bent(4000, seed=3)
    low, high = fitted.predict_interval(X).T
    assert 0.87 <= np.mean((low <= y) & (y <= high)) <= 0.94


def test_curves_are_there_where_they_pay(fitted):
    X, _, y = bent(800)
    np.testing.assert_array_equal(added(X, y, curves="auto").predict(X), fitted.predict(X))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    y = np.where(X[:, 0] < 0, 3 * X[:, 1], -3 * X[:, 1]) + 0.1 * rng.standard_normal(600)
    assert added(X, y, curves="auto").n_curves_ == 0


def test_the_order_of_rows_their_weights_and_the_threads_change_nothing():
    X, _, y = bent(300)
    once = added(X, y, curves="auto")
    shuffled = np.random.default_rng(0).permutation(300)
    other = added(X[shuffled], y[shuffled], curves="auto", n_jobs=2)
    np.testing.assert_array_equal(other.forest_.ensemble.threshold, once.forest_.ensemble.threshold)
    np.testing.assert_array_equal(other.predict_interval(X), once.predict_interval(X))
    twice = added(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(twice.predict(X), added(X, y).predict(X), rtol=1e-6)


# --- data as they come ---


def mixed(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    area, town = np.exp(rng.normal(4, 1, n_rows)), rng.choice(list("abcde"), n_rows)
    shop = rng.integers(0, 30, n_rows).astype(str)
    y = np.sin(area / 40) + (town == "b") + shop.astype(int) / 10 + 0.1 * rng.standard_normal(n_rows)
    area[rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame({"area": area, "town": town, "shop": shop}), y


def test_categories_and_missing_values():
    X, y = mixed(900)
    model = added(X, y)
    assert model.n_curves_ == 2
    equation = model.estimators_[0]
    assert "town = b" in equation.leaves_["feature"]
    assert any(name.startswith("shop = ") for name in equation.leaves_["feature"])
    test, target = mixed(900, seed=1)
    assert rmse(model, test, target) < 0.4 * target.std()
    assert np.isfinite(model.predict(test.assign(area=np.nan, town="z"))).all()


def test_large_numbers():
    X, truth, y = bent(300)
    plain, large = added(X, y), added(X * 1e140, y * 1e140)
    off = np.sqrt(np.mean((large.predict(X * 1e140) / 1e140 - truth) ** 2))
    assert off == pytest.approx(rmse(plain, X, truth), rel=0.25)  # rows have another order, and so other folds


def test_few_rows_have_no_curves():
    X, _, y = bent(40)
    assert added(X, y).n_curves_ == 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"loss": "quantile"}, "loss='quantile'"),
        ({"estimator": silva.ModelTreeRegressor(leaf_model="constant")}, "leaf_model='constant'"),
        ({"estimator": silva.ModelTreeRegressor(monotonic_cst=[1, 0, 0, 0, 0])}, "monotonic_cst or coefficient_signs"),
        ({"estimator": silva.ModelTreeRegressor(interaction_cst=[[0], [1, 2, 3, 4]])}, "interaction_cst"),
    ],
)
def test_what_curves_are_not_for(changes, name):
    X, _, y = bent(60)
    model = silva.ModelTreeEnsembleRegressor(**{"n_estimators": 2, "method": "sum", "curves": True, **changes})
    with pytest.raises(ValueError, match=f"curves is True, expected 'auto' or False with {name}"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="curves is 'yes', expected True, False or 'auto'"):
        model.set_params(curves="yes").fit(X, y)
