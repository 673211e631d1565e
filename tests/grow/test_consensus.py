"""A second search for what y and trees on parts of the rows agree on."""

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.grow.search import consensus, selection
from glasswood.grow.tree.intervals import LeftOutRows


def noisy(n_rows, seed=0):
    """A smooth surface, a category and noise: no tree of few leaves is right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 4))
    kind = rng.integers(0, 3, n_rows)
    y = 3 * np.sin(3 * X[:, 0]) * X[:, 1] + kind * X[:, 2] + rng.standard_normal(n_rows)
    return pd.DataFrame({**{f"x{k}": X[:, k] for k in range(4)}, "kind": np.array(["a", "b", "c"])[kind]}), y


def grown(X, y, sample_weight=None, **parameters):
    own = {"n_jobs": 1, "n_iter_no_change": 20, "time_limit": None, "smoothing": "auto"}
    return glasswood.ModelTreeRegressor(**{**own, **parameters}).fit(X, y, sample_weight=sample_weight)


def told(monkeypatch, mean, error=0.1):
    """Trees on parts of the rows that predict this; they are off by so much."""
    parts = LeftOutRows(np.ones(9), np.ones(9), mean, np.full(len(mean), error), error)
    monkeypatch.setattr(consensus, "trees_on_parts", lambda *_: parts)


def test_new_rows_are_predicted_better(monkeypatch):
    X_new, y_new = noisy(4000, 99)
    data = [noisy(500, seed) for seed in range(12)]

    def errors():
        return np.array([np.sqrt(np.mean((grown(X, y).predict(X_new) - y_new) ** 2)) for X, y in data])

    agreed = errors()
    monkeypatch.setattr(consensus, "is_pruned", lambda _: False)
    alone = errors()
    assert np.mean(np.log(agreed / alone)) < -0.01  # 0.016 of the error; 0.006 is the standard error of such a mean
    assert (agreed < alone).sum() >= 9


def test_equations_are_those_of_the_mean_and_residuals_those_of_y(monkeypatch, limits):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (300, 2))
    y = np.where(X[:, 0] < 0.5, 5 * X[:, 1], 9 - 4 * X[:, 1]) + 0.3 * rng.standard_normal(300)
    mean = np.where(X[:, 0] < 0.5, 4 * X[:, 1] + 1, 9 - 4 * X[:, 1])
    told(monkeypatch, mean)
    limits(smoothing_strengths=(0.0,))
    model = grown(X, y)
    assert model.n_leaves_ == 2
    for rows in (X[:, 0] < 0.5, X[:, 0] >= 0.5):
        leaf = model.apply(X[rows])[0]
        at = model.leaves_["leaf"] == leaf
        columns = {"(intercept)": np.ones(len(X)), "x0": X[:, 0], "x1": X[:, 1]}
        design = np.column_stack([columns[name][rows] for name in np.array(model.leaves_["feature"])[at]])
        expected = np.linalg.lstsq(design, (y[rows] + mean[rows]) / 2)[0]
        assert design.shape[1] > 1
        np.testing.assert_allclose(model.leaves_["coefficient"][at], expected, rtol=1e-9)
        assert np.isnan(model.leaves_["standard_error"][at]).all()
        rmse = np.sqrt(np.mean((y[rows] - design @ expected) ** 2))
        assert model.leaf_summary_["rmse"][leaf] == pytest.approx(rmse, rel=1e-9)
        assert model.leaf_summary_["high"][leaf] == y[rows].max()


def test_what_trees_agree_on_is_found(monkeypatch, limits):
    """A jump that noise hides from the search, but not from the trees."""
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (400, 3))
    seen, hidden = 10.0 * (X[:, 1] > 0.6), 0.3 * (X[:, 0] > 0.3)
    y = seen + hidden + rng.standard_normal(400)
    limits(least_price=0.0)
    told(monkeypatch, seen + 8 * hidden, error=20.0)  # far more than y
    assert 0 not in grown(X, y).forest_.ensemble.feature
    told(monkeypatch, seen + 8 * hidden)
    forest = grown(X, y).forest_
    assert forest.ensemble.threshold[forest.ensemble.feature == 0] == pytest.approx(0.3, abs=0.02)


def test_trees_without_splits_stay(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (60, 3))
    monkeypatch.setattr(consensus, "fit_tree", None)
    tree = grown(X, X @ [1.0, 2.0, 3.0] + rng.standard_normal(60))
    assert tree.n_leaves_ == 1


@pytest.mark.parametrize(
    "parameters", [{"smoothing": 0}, {"smoothing": 15}, {"noise": "uniform"}, {"loss": "huber"}, {"algorithm": "qr"}]
)
def test_some_trees_stay_as_they_were_found(monkeypatch, parameters):
    X, y = noisy(200)
    monkeypatch.setattr(consensus, "fit_tree", None)
    assert grown(X.drop(columns="kind"), y, generations=3, **parameters).n_leaves_ > 0


def test_many_rows_need_no_trees_on_parts(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (3000, 2))
    for module in (consensus, selection):
        monkeypatch.setattr(module, "fit_tree", None)
    assert grown(X, np.where(X[:, 0] < 0.5, X[:, 1], 3 - X[:, 1]) + 0.1 * rng.standard_normal(3000)).n_leaves_ == 2


def test_the_order_of_rows_and_threads_change_nothing():
    X, y = noisy(300)
    order = np.random.default_rng(4).permutation(300)
    tree, other = grown(X, y), grown(X.iloc[order], y[order], n_jobs=2)
    np.testing.assert_allclose(other.predict(X), tree.predict(X), rtol=1e-9)
    assert other.n_leaves_ == tree.n_leaves_


@pytest.mark.parametrize("weight", [2, 3, None])
def test_rows_that_are_repeated_are_rows_of_that_weight(weight, monkeypatch):
    """All of them, or some by a weight; copies tell nothing of whether trees are to be followed."""
    X, y = noisy(400)
    X, runs = X.drop(columns="kind").to_numpy(), []
    weights = np.full(400, weight) if weight else np.random.default_rng(5).choice([1, 3], 400)
    found = consensus.fit_tree
    monkeypatch.setattr(consensus, "fit_tree", lambda *given: runs.append(0) or found(*given))
    repeated = np.repeat(np.arange(400), weights)
    tree, other = grown(X[repeated], y[repeated]), grown(X, y, sample_weight=weights.astype(float))
    assert len(runs) == 2
    assert tree.n_leaves_ == other.n_leaves_
    np.testing.assert_allclose(tree.predict(X), other.predict(X), rtol=1e-9)


def test_a_callback_that_ends_the_search_ends_all(monkeypatch):
    X, y = noisy(300)
    monkeypatch.setattr(consensus, "fit_tree", None)
    tree = grown(X, y, callbacks=[lambda progress: progress.generation >= 3])
    assert tree.interrupted_
    assert len(tree.history_["generation"]) == tree.n_iter_ < 50
