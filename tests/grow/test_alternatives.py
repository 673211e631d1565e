"""Other trees that fit as well, beside definitions written anew."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1, make_moons
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance

import glasswood

FAST = {"n_jobs": 1, "generations": 60, "verbose": False}


def twins(n_rows=400, seed=0):
    """Two columns that are next to equal; one true split of either."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(0, 5, (n_rows, 3)), columns=list("abn"))
    X["twin"] = X["a"] + 0.003 * rng.standard_normal(n_rows)
    y = np.where(X["a"] < 2, 3 * X["b"], 10 - 2 * X["b"])
    return X, y + rng.standard_normal(n_rows)


def left_out_rmse(forest, X, y, weight=None):
    """Root mean squared error, each row predicted by a least-squares fit of its leaf without this row."""
    weight = np.ones(len(y)) if weight is None else weight
    ensemble, leaves = forest.ensemble, forest.predict(X, "leaf")[:, 0]
    low, high = y.min(), y.max()
    margin = 0.05 * (high - low)
    low, high = max(low - margin, 0 if low >= 0 else -np.inf), high + margin
    off = np.zeros(len(y))
    for leaf in np.unique(leaves):
        at = np.flatnonzero(leaves == leaf)
        features = (
            ensemble.linear_feature[slice(*ensemble.linear_offsets[leaf : leaf + 2])]
            if ensemble.has_linear_leaves
            else []
        )
        design = np.column_stack([np.ones(len(at)), X[np.ix_(at, features)]])
        for k in range(len(at)):
            others = np.arange(len(at)) != k
            root = np.sqrt(weight[at][others])
            solution = np.linalg.lstsq(design[others] * root[:, None], y[at][others] * root, rcond=None)[0]
            off[at[k]] = y[at[k]] - np.clip(design[k] @ solution, low, high)
    return np.sqrt(np.average(off**2, weights=weight))


def test_both_of_two_collinear_columns_stand_among_the_trees():
    X, y = twins()
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    found = model.alternatives_
    own = model.feature_names_in_[model.forest_.ensemble.feature[0]]
    others = {found.forests[0].ensemble.feature_names[int(one.ensemble.feature[0])] for one in found.forests}
    assert {own, *others} == {"a", "twin"}
    table = pd.DataFrame(found.features).set_index("feature")
    assert (table.loc[["a", "twin"], "split"] > 0).all()
    assert table.loc["n", "split"] == 0
    assert table.loc["b", "term"] == 1


def test_errors_are_those_of_rows_left_out_of_their_leaf():
    X, y = make_friedman1(150, n_features=5, noise=1, random_state=0)
    for weight in (None, np.random.default_rng(0).uniform(0.5, 2, 150)):
        model = glasswood.ModelTreeRegressor(**FAST).fit(X, y, weight)
        found = model.alternatives_
        assert len(found.forests) > 1
        assert found.error == pytest.approx(left_out_rmse(model.forest_, X, y, weight), rel=1e-6)
        expected = [left_out_rmse(one, X, y, weight) for one in found.forests]
        np.testing.assert_allclose(found.errors, expected, rtol=1e-6)
        assert (found.errors <= 1.02 * found.error).all()
        assert (np.diff(found.errors) >= 0).all()


def test_trees_predict_new_rows_within_their_errors():
    X, y = make_friedman1(5400, n_features=5, noise=1, random_state=1)
    model = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant").fit(X[:400], y[:400])
    found = model.alternatives_
    own = np.sqrt(np.mean((model.predict(X[400:]) - y[400:]) ** 2))
    assert len(found.forests) > 1
    for one in found.forests:
        assert np.sqrt(np.mean((one.predict(X[400:]) - y[400:]) ** 2)) < 1.1 * own


def test_splits_of_trees_differ_and_shares_add_up():
    X, y = make_friedman1(400, n_features=6, noise=1, random_state=1)
    model = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant").fit(X, y)
    found = model.alternatives_
    assert 1 < len(found.forests) <= 10
    features, splits = pd.DataFrame(found.features), pd.DataFrame(found.splits)
    assert features["first"].sum() == pytest.approx(1)
    assert (features[["split", "first", "term"]] <= 1).all(axis=None)
    assert (features["first"] <= features["split"]).all()
    counts = splits["share"] * found.n_met
    np.testing.assert_allclose(counts, counts.round())
    assert (np.diff(splits["share"]) <= 0).all()
    tested = model.forest_.ensemble.feature
    assert splits["chosen"].sum() <= (tested >= 0).sum()
    assert set(splits.loc[splits["chosen"], "feature"]) == {f"x{k}" for k in tested[tested >= 0]}
    for feature, own in splits.groupby("feature"):
        thresholds = np.sort([float(test.rpartition(" < ")[2]) for test in own["test"]])
        below = np.searchsorted(np.sort(X[:, int(feature[1:])]), thresholds) / len(X)
        assert (np.diff(below) > 0.02).all()
    cuts = [frozenset(zip(one.ensemble.feature, one.ensemble.threshold, strict=True)) for one in found.forests]
    assert len({*cuts, frozenset(zip(tested, model.forest_.ensemble.threshold, strict=True))}) == len(cuts) + 1


def same(a, b):
    assert a.n_met == b.n_met
    np.testing.assert_array_equal(a.errors, b.errors)
    for first, second in ((a.features, b.features), (a.splits, b.splits)):
        pd.testing.assert_frame_equal(pd.DataFrame(first), pd.DataFrame(second))


def test_the_seed_decides_not_threads_nor_rows_nor_weights_that_repeat():
    X, y = twins()
    order = np.random.default_rng(0).permutation(len(y))
    first = glasswood.ModelTreeRegressor(**FAST).fit(X, y).alternatives_
    same(first, glasswood.ModelTreeRegressor(**{**FAST, "n_jobs": 2}).fit(X, y).alternatives_)
    same(first, glasswood.ModelTreeRegressor(**FAST).fit(X.iloc[order], y[order]).alternatives_)
    weighted = glasswood.ModelTreeRegressor(**FAST).fit(X, y, np.full(len(y), 0.5)).alternatives_
    assert weighted.n_met == first.n_met
    np.testing.assert_allclose(weighted.errors, first.errors)


def test_sets_of_categories_are_told_by_their_names():
    X, y = twins()
    X["kind"] = pd.Categorical(np.where(X["a"] < 2, "p", np.where(np.arange(len(X)) % 2, "q", "r")))
    found = glasswood.ModelTreeRegressor(**FAST).fit(X, y).alternatives_
    tests = dict(zip(found.splits["test"], found.splits["feature"], strict=True))
    assert any(feature == "kind" and ("p" in test or "{q, r}" in test) for test, feature in tests.items())


@pytest.mark.parametrize(
    ("loss", "deviance"),
    [
        ("poisson", mean_poisson_deviance),
        ("gamma", mean_gamma_deviance),
        ("quantile", lambda y, p, sample_weight: mean_pinball_loss(y, p, sample_weight=sample_weight, alpha=0.3)),
    ],
)
def test_other_losses_state_their_mean_deviance(loss, deviance):
    rng = np.random.default_rng(0)
    X, _ = twins(300)
    mean = np.where(X["a"] < 2, 1.0, 3.0)
    y = rng.poisson(mean).astype(float) if loss == "poisson" else mean * rng.gamma(2, 0.5, 300)
    weight = rng.uniform(0.5, 2, 300)
    model = glasswood.ModelTreeRegressor(loss=loss, quantile=0.3, **FAST).fit(X, y, weight)
    found = model.alternatives_
    assert found.error == pytest.approx(deviance(y, model.predict(X), sample_weight=weight), rel=1e-6)
    expected = [deviance(y, one.predict(X.to_numpy()), sample_weight=weight) for one in found.forests]
    np.testing.assert_allclose(found.errors, expected, rtol=1e-6)
    assert len(expected) > 0
    assert (found.errors <= 1.02 * found.error).all()


def test_classes_have_them_too():
    """Which trees are within the margin depends on the last digits of sums, and so on the processor."""
    n_found = 0
    for seed in range(3):
        X, y = make_moons(2600, noise=0.3, random_state=seed)
        model = glasswood.ModelTreeClassifier(**FAST).fit(X[:600], y[:600])
        found = model.alternatives_
        n_found += len(found.forests)
        own = log_loss(y[600:], model.predict_proba(X[600:]))
        for one, error in zip(found.forests, found.errors, strict=True):
            assert log_loss(y[600:], one.predict(X[600:], "probability")) < 1.1 * own
            assert log_loss(y[:600], one.predict(X[:600], "probability")) < error <= 1.02 * found.error
    assert n_found > 3


def test_each_of_several_classes_has_its_own():
    X, y = twins(300)
    labels = np.digitize(y, [3, 7])
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, labels)
    assert len(model.alternatives_) == 3
    assert any(found.forests for found in model.alternatives_)
    for k, found in enumerate(model.alternatives_):
        for one in found.forests:
            same_trees = [
                np.array_equal(one.ensemble.feature[slice(*one.ensemble.tree_offsets[t : t + 2])], own)
                for t in range(3)
                for own in [model.forest_.ensemble.feature[slice(*model.forest_.ensemble.tree_offsets[t : t + 2])]]
                if t != k
            ]
            assert all(same_trees)


@pytest.mark.parametrize(
    "parameters",
    [
        {"honest": 0.4},
        {"loss": "huber"},
        {"smoothing": "auto"},
        {"monotonic_cst": {"b": 1}},
        {"interaction_cst": "no_interactions"},
    ],
)
def test_other_ways_to_grow_have_them(parameters):
    model = glasswood.ModelTreeRegressor(**FAST, **parameters).fit(*twins())
    found = model.alternatives_
    assert found.n_met >= 1
    assert (found.errors <= 1.02 * found.error).all()
    assert len(found.features["feature"]) == 4


def test_without_them():
    X, y = twins()
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert hasattr(model, "alternatives_")
    assert not hasattr(model.set_params(alternatives=0).fit(X, y), "alternatives_")
    with pytest.raises(ValueError, match="alternatives is -1, expected at least 0"):
        glasswood.ModelTreeRegressor(alternatives=-1).fit(X, y)
    leaf = glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y).alternatives_
    assert (leaf.n_met, leaf.forests, len(leaf.splits["test"])) == (1, (), 0)
