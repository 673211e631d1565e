"""Losses beside squares: counts, positive amounts and quantiles, of one tree and of ensembles."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from scipy.optimize import linprog, minimize
from sklearn.linear_model import GammaRegressor, PoissonRegressor

import glasswood

FAST = {"n_iter_no_change": 10, "n_jobs": 1}
STEP = glasswood.ModelTreeRegressor(
    penalty=0.1, max_leaves=6, noise="uniform", clip="leaf", population_size=8, generations=5
)


def linear_predictor(n_rows, seed=0):
    """Two equations, one on each side of 0.2."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 3))
    return X, np.where(X[:, 0] < 0.2, 1 + X[:, 1], 2 - X[:, 1]), rng


def drawn(loss, n_rows=2000, seed=0):
    X, middle, rng = linear_predictor(n_rows, seed)
    if loss == "poisson":
        return X, rng.poisson(np.exp(middle)).astype(float)
    if loss == "gamma":
        return X, rng.gamma(3, np.exp(middle) / 3)
    return X, middle + 0.5 * rng.standard_normal(n_rows)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_finds_the_tree_of_a_generalised_linear_model(loss):
    X, y = drawn(loss)
    tree = glasswood.ModelTreeRegressor(loss=loss, **FAST).fit(X, y)
    assert tree.n_leaves_ in {2, 3}
    X_test, middle, _ = linear_predictor(1000, seed=1)
    assert np.sqrt(np.mean((np.log(tree.predict(X_test)) - middle) ** 2)) < 0.08
    assert (tree.forest_.ensemble.link, tree.forest_.objective) == ("exp", loss)
    np.testing.assert_array_equal(tree.forest_.predict(X), tree.predict(X))
    text = glasswood.export_text(tree)
    assert "logarithm" not in text, "leaves are rates and factors (tests/display/test_rates.py)"
    assert "Predictions are clipped to " in text


@pytest.mark.parametrize(("loss", "oracle"), [("poisson", PoissonRegressor), ("gamma", GammaRegressor)])
def test_a_leaf_is_the_maximum_likelihood(loss, oracle):
    """Of the same terms, by another library's solver."""
    X, y = drawn(loss, 500)
    tree = glasswood.ModelTreeRegressor(loss=loss, max_leaves=1, penalty=0, **FAST).fit(X, y)
    expected = oracle(alpha=0, tol=1e-10, max_iter=10_000).fit(X, y)
    assert list(tree.leaves_["feature"]) == ["(intercept)", "x0", "x1", "x2"]
    np.testing.assert_allclose(tree.leaves_["coefficient"][1:], expected.coef_, atol=2e-3)
    np.testing.assert_allclose(tree.leaves_["coefficient"][0], expected.intercept_, atol=2e-3)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_hold_their_share(level):
    X, y = drawn("quantile", 3000)
    X_test, y_test = drawn("quantile", 3000, seed=1)
    tree = glasswood.ModelTreeRegressor(loss="quantile", quantile=level, **FAST).fit(X, y)
    assert tree.n_leaves_ in {2, 3}
    assert np.mean(y_test < tree.predict(X_test)) == pytest.approx(level, abs=0.035)  # three standard errors
    assert tree.forest_.objective == f"quantile {level}"


def test_a_leaf_is_nearly_the_linear_program_of_its_quantile():
    X, y = drawn("quantile", 300)
    level = 0.8
    tree = glasswood.ModelTreeRegressor(loss="quantile", quantile=level, max_leaves=1, penalty=0, **FAST).fit(X, y)
    A = np.column_stack([np.ones(300), X])
    program = linprog(
        np.concatenate([np.zeros(4), np.full(300, level), np.full(300, 1 - level)]),
        A_eq=np.hstack([A, np.eye(300), -np.eye(300)]), b_eq=y,
        bounds=[(None, None)] * 4 + [(0, None)] * 600,
    )  # fmt: skip

    def loss(predicted):
        rest = y - predicted
        return np.maximum(level * rest, (level - 1) * rest).sum()

    assert loss(tree.predict(X)) == pytest.approx(program.fun, rel=0.01)
    assert minimize(lambda c: loss(A @ c), program.x[:4], method="Nelder-Mead").fun >= program.fun * (1 - 1e-6)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("method", ["mean", "boosting"])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "quantile"])
def test_ensembles(method, loss):
    X, y = drawn(loss, 600)
    tree = STEP if method == "boosting" else glasswood.ModelTreeRegressor(generations=5, population_size=8)
    model = glasswood.ModelTreeEnsembleRegressor(
        tree, n_estimators=2, method=method, loss=loss, quantile=0.7, learning_rate=0.3, max_trees=15, n_jobs=1
    )
    predicted = model.fit(X, y).predict(X)
    constant = np.quantile(y, 0.7) if loss == "quantile" else y.mean()
    deviances = {
        "poisson": lambda p: np.mean(p - y * np.log(p)),
        "gamma": lambda p: np.mean(y / p + np.log(p)),
        "quantile": lambda p: np.mean(np.maximum(0.7 * (y - p), -0.3 * (y - p))),
    }
    known = drawn(loss, 600)[0], np.where(X[:, 0] < 0.2, 1 + X[:, 1], 2 - X[:, 1])
    truth = known[1] + 0.26 if loss == "quantile" else np.exp(known[1])
    deviance, best, worst = (deviances[loss](np.broadcast_to(p, len(y))) for p in (predicted, truth, constant))
    assert deviance - best < 0.25 * (worst - best)
    with pytest.raises(ValueError, match=f"loss='{loss}' has no intervals"):
        model.predict_interval(X)
    explainer = glasswood.Explainer(model, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:20]).sum(axis=1)
    np.testing.assert_allclose(total, model.forest_.predict(X[:20], "margin"), rtol=1e-9, atol=1e-9)


def test_stages_end_with_the_prediction():
    X, y = drawn("poisson", 500)
    model = glasswood.ModelTreeEnsembleRegressor(
        STEP, 2, method="boosting", loss="poisson", learning_rate=0.3, max_trees=8, max_samples=1, n_jobs=1
    )
    stages = list(model.fit(X, y).staged_predict(X))
    assert len(stages) == 8
    np.testing.assert_allclose(stages[-1], model.predict(X), rtol=1e-12)
    first = [np.flatnonzero(model.sequence_ == k)[0] for k in (0, 1)]
    forest = model.forest_.ensemble
    margin = forest.base_score[0] + sum(forest.tree_weight[k] * model.estimators_[k].predict(X) for k in first)
    np.testing.assert_allclose(stages[0], np.exp(margin), rtol=1e-12)


def test_stages_of_classes():
    X, y, _ = linear_predictor(400)
    classes = np.digitize(y, [0.8, 1.6])
    model = glasswood.ModelTreeEnsembleClassifier(STEP, 2, method="boosting", max_trees=4, n_jobs=1).fit(X, classes)
    stages = list(model.staged_predict_proba(X))
    np.testing.assert_allclose(stages[-1], model.predict_proba(X), rtol=1e-12)
    losses = [-np.log(stage[np.arange(400), classes]).mean() for stage in stages]
    assert losses[-1] < losses[0]
    assert all(stage.shape == (400, 3) for stage in stages)


def test_constraints_hold_for_other_losses():
    X, y = drawn("gamma", 500)
    tree = glasswood.ModelTreeRegressor(loss="gamma", monotonic_cst=[1, 0, 0], **FAST).fit(X, y)
    rows = np.repeat(X[:20], 40, axis=0)
    rows[:, 0] = np.tile(np.linspace(-3, 3, 40), 20)
    assert (np.diff(tree.predict(rows).reshape(20, 40), axis=1) >= 0).all()


@pytest.mark.parametrize(("loss", "y", "message"), [
    ("poisson", [1.0, -1.0, 0.0], "y is -1.0 in row 1, loss='poisson' expects numbers of at least 0"),
    ("poisson", [0.0, 0.0, 0.0], "y is 0 in all rows"),
    ("gamma", [1.0, 2.0, 0.0], "y is 0.0 in row 2, loss='gamma' expects numbers above 0"),
])  # fmt: skip
def test_refuses_targets(loss, y, message):
    X = np.arange(3.0)[:, None]
    for model in (
        glasswood.ModelTreeRegressor(loss=loss),
        glasswood.ModelTreeEnsembleRegressor(loss=loss, n_estimators=2),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)


def test_refuses_parameters():
    X, y = drawn("quantile", 30)
    with pytest.raises(ValueError, match="quantile is 1"):
        glasswood.ModelTreeRegressor(loss="quantile", quantile=1.0).fit(X, y)
    with pytest.raises(ValueError, match="estimator has loss='gamma', expected it as a parameter of the ensemble"):
        glasswood.ModelTreeEnsembleRegressor(glasswood.ModelTreeRegressor(loss="gamma")).fit(X, y)
    with pytest.raises(ValueError, match="loss is 'huber', expected one of squared, poisson, gamma, tweedie, quantile"):
        glasswood.ModelTreeEnsembleRegressor(loss="huber").fit(X, y)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "quantile"])
def test_few_equal_and_extreme_values(loss):
    X = np.arange(12.0)[:, None]
    for y in (np.full(12, 3.0), np.append(np.full(11, 1e-8), 1e12), np.linspace(1, 2, 12) * 1e9):
        predicted = glasswood.ModelTreeRegressor(loss=loss, **FAST).fit(X, y).predict(X)
        assert np.isfinite(predicted).all()
        if y[0] == 3:
            np.testing.assert_allclose(predicted, 3, rtol=1e-9)
