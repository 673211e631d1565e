"""Curves beside a tree: left-out rows choose between the tree, one equation, and means of these and a constant."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.grow.curves import boosting, fitting
from glasswood.grow.tree.intervals import LeftOutRows

FAST = {"max_leaves": 4, "generations": 3, "n_jobs": 1, "time_limit": None, "alternatives": 0}
KINDS = ["squared", "poisson", "two classes", "three classes", "constant leaves"]


def jumping(n=900, seed=0):
    """Two regimes with slopes of their own, and a bent column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    f = np.where(X[:, 0] < 0.2, 2 * X[:, 1] - 1, 1 - 2 * X[:, 1]) + 0.7 * np.sin(5 * X[:, 2])
    return X, f, rng


def fitted(kind, **settings):
    """An estimator on rows of weights and, of counts, exposures; the rows."""
    X, f, rng = jumping()
    weight, extra = rng.uniform(0.5, 2, len(X)), {}
    if "classes" in kind:
        cuts = np.quantile(f, [0.5] if kind == "two classes" else [0.3, 0.7])
        y = np.digitize(f + 0.5 * rng.normal(size=len(X)), cuts)
        model = glasswood.ModelTreeClassifier(**{**FAST, **settings})
    elif kind == "poisson":
        extra["exposure"] = rng.uniform(0.5, 3, len(X))
        y = rng.poisson(np.exp(f) * extra["exposure"]).astype(float)
        model = glasswood.ModelTreeRegressor(loss="poisson", **{**FAST, **settings})
    else:
        y = f + 0.3 * rng.normal(size=len(X))
        leaves = "constant" if kind == "constant leaves" else "linear"
        model = glasswood.ModelTreeRegressor(leaf_model=leaves, **{**FAST, **settings})
    return model.fit(X, y, weight, **extra), X


def of_curves(model, X):
    """What the table of curves adds to rows: (n_rows, n_outputs)."""
    table, names = model.curves_, sorted(set(model.parts_["output"].tolist()))
    added = np.zeros((len(X), len(names)))
    for feature, low, high, adds, output in zip(
        *(table[k] for k in ("feature", "from", "to", "adds", "output")), strict=True
    ):
        value = X[:, int(feature[1:])]
        added[:, names.index(output)] += adds * ((low <= value) & (value < high))
    return added


@pytest.fixture
def half_a_tree(monkeypatch):
    """Half of what left-out rows choose, here the tree, and half of the constant."""
    monkeypatch.setattr(boosting, "SHARES", (0.5,))


@pytest.mark.usefixtures("half_a_tree")
@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_of_a_tree_and_a_constant_is_one_tree(kind):
    plain, X = fitted(kind)
    model, _ = fitted(kind, curves=True)
    assert plain.n_leaves_ == model.n_leaves_ > 1
    np.testing.assert_array_equal(model.apply(X), plain.apply(X))
    margins = [one.forest_.predict(X, "margin").reshape(len(X), -1) for one in (model, plain)]
    np.testing.assert_allclose(np.ptp(margins[0] - of_curves(model, X) - margins[1] / 2, axis=0), 0, atol=1e-9)


@pytest.mark.usefixtures("half_a_tree")
@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_a_mean_are_those_of_its_forest(kind):
    model, _ = fitted(kind, curves=True)
    plain, _ = fitted(kind)
    forest, leaves, summary = model.forest_.ensemble, model.leaves_, model.leaf_summary_
    is_intercept = leaves["feature"] == "(intercept)"
    np.testing.assert_array_equal(leaves["coefficient"][~is_intercept], plain.leaves_["coefficient"][~is_intercept] / 2)
    np.testing.assert_array_equal(leaves["standard_error"], plain.leaves_["standard_error"] / 2)
    moved = leaves["coefficient"] * np.where(is_intercept, 1, leaves["mean"])
    at_means = np.bincount(leaves["leaf"], moved)
    np.testing.assert_allclose(at_means, forest.leaf_value[: model.n_leaves_, 0], atol=1e-9)
    if forest.has_linear_leaves:
        limits = np.column_stack([summary["lowest"], summary["highest"]])
        limits = np.log(limits) if kind == "poisson" else limits
        np.testing.assert_allclose(limits, forest.leaf_range[: model.n_leaves_], atol=1e-9)
    if kind != "poisson":
        np.testing.assert_allclose(summary["mean"], at_means, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_share_of_the_tree_one_leaf_stays(kind, monkeypatch):
    monkeypatch.setattr(boosting, "SHARES", (0.0,))
    model, X = fitted(kind, curves=True, alternatives=2)
    n_outputs = model.forest_.ensemble.n_outputs
    assert model.n_leaves_ == n_outputs
    assert set(model.leaves_["feature"].tolist()) == {"(intercept)"}
    assert len(model.leaf_summary_["n_rows"]) == len(model.rules_["rule"]) == n_outputs
    assert not hasattr(model, "alternatives_")  # they are other trees than one that is gone
    assert (np.asarray(model.apply(X)) == 0).all()
    np.testing.assert_allclose(
        np.ptp(model.forest_.predict(X, "margin").reshape(len(X), -1) - of_curves(model, X), axis=0), 0, atol=1e-9
    )


def test_curves_take_the_place_of_splits_that_bend():
    """Curves behind a tree that had bent by splits found less than those of a glass box."""
    rng = np.random.default_rng(0)
    X, X_test = rng.uniform(-1, 1, (1200, 4)), rng.uniform(-1, 1, (4000, 4))

    def f(X):
        return np.sin(5 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2]

    y = f(X) + 0.3 * rng.normal(size=len(X))
    plain = glasswood.ModelTreeRegressor(n_jobs=1, time_limit=None, alternatives=0).fit(X, y)
    models = [glasswood.ModelTreeRegressor(n_jobs=1, time_limit=None, alternatives=0, curves="auto").fit(X, y)]
    models.append(glasswood.AdditiveRegressor(n_jobs=1, interactions=0).fit(X, y))
    tree, box = (np.sqrt(np.mean((model.predict(X_test) - f(X_test)) ** 2)) for model in models)
    assert tree < 1.02 * box
    assert models[0].n_leaves_ == 1 < plain.n_leaves_


def test_a_tree_that_is_exact_stays():
    X, _, _ = jumping()
    y = np.where(X[:, 0] < 0.2, 2 * X[:, 1] - 1, 1 - 2 * X[:, 1])
    settings = {"n_jobs": 1, "time_limit": None, "alternatives": 0}
    plain, model = (glasswood.ModelTreeRegressor(curves=curves, **settings).fit(X, y) for curves in (False, True))
    assert plain.n_leaves_ == model.n_leaves_ == 2
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    np.testing.assert_array_equal(model.leaves_["coefficient"], plain.leaves_["coefficient"])


def test_leaves_that_are_constants_stay_so():
    model, _ = fitted("constant leaves", curves=True)
    assert set(model.leaves_["feature"].tolist()) == {"(intercept)"}


@pytest.mark.usefixtures("half_a_tree")
def test_means_of_monotone_trees_rise():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (900, 2))
    y = np.where(X[:, 0] < 0, X[:, 1], 3 + 2 * X[:, 1]) + 0.2 * rng.normal(size=900)
    model = glasswood.ModelTreeRegressor(monotonic_cst=[1, 1], curves=True, **FAST).fit(X, y)
    grid = np.linspace(-1.2, 1.2, 101)
    for other in (-0.7, 0.1, 0.8):
        for feature in (0, 1):
            rows = np.full((101, 2), other)
            rows[:, feature] = grid
            assert (np.diff(model.predict(rows)) >= -1e-12).all()


@pytest.mark.usefixtures("half_a_tree")
def test_intervals_of_means_hold():
    X, f, rng = jumping(1200)
    y = f + 0.3 * rng.normal(size=len(X))
    model = glasswood.ModelTreeRegressor(curves=True, **FAST).fit(X[:800], y[:800])
    low, high = model.predict_interval(X[800:], 0.9).T
    assert 0.84 < np.mean((low <= y[800:]) & (y[800:] <= high)) < 0.96


def test_rows_that_trees_on_parts_have_not_seen_price_the_choice():
    off, weight = np.ones(100), np.full(100, 2.0)
    parts = LeftOutRows(off, off, off, off, error=np.sqrt(1.5), trust=0.5)
    assert fitting._with_choice(10, parts, off, weight) == pytest.approx((10 + 50) / 2)
    assert fitting._with_choice(80, parts, off, weight) == 80
    assert fitting._with_choice(10, parts, 0 * off, weight) == 10


def test_noise_has_no_curves():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(300, 30)), rng.normal(size=300)
        plain, model = (
            glasswood.ModelTreeRegressor(curves=curves, pairs=3, **FAST).fit(X, y) for curves in (False, "auto")
        )
        assert not len(model.curves_["adds"]) + len(model.surfaces_["adds"])
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
