"""M5's smoothing against its recursion over predictions, by least squares of NumPy."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from tests.grow.engines import piecewise

FAST = {"n_iter_no_change": 10, "n_jobs": 1, "clip": "none"}


def oracle(forest, X, y, terms, strength):
    """Predict the training rows, node by node: Quinlan's recursion from the leaf up."""

    def plane(rows, features):
        A = np.column_stack([np.ones(len(rows)), X[rows][:, features]])
        return np.column_stack([np.ones(len(X)), X[:, features]]) @ np.linalg.lstsq(A, y[rows], rcond=None)[0]

    def smoothed(node, rows):
        """Predictions of all rows by each leaf below, with its rows; and the attributes below."""
        if forest.ensemble.feature[node] < 0:
            own = terms[leaves.index(node)]
            return [(rows, plane(rows, own))], set(own)
        left = X[rows, forest.ensemble.feature[node]] < forest.ensemble.threshold[node]
        below, used = [], {int(forest.ensemble.feature[node])} if any(terms) else set()
        for child, part in ((forest.ensemble.left[node], rows[left]), (forest.ensemble.left[node] + 1, rows[~left])):
            parts, attributes = smoothed(child, part)
            used |= attributes
            below.append((len(part), parts))
        model = plane(rows, sorted(used))
        mixed = [
            (at, (n_rows * p + strength * model) / (n_rows + strength)) for n_rows, parts in below for at, p in parts
        ]
        return mixed, used

    leaves = [v for v in range(len(forest.ensemble.feature)) if forest.ensemble.feature[v] < 0]
    result = np.zeros(len(y))
    for at, predictions in smoothed(0, np.arange(len(y)))[0]:
        result[at] = predictions[at]
    return result


def leaf_terms(tree):
    """Attributes of each leaf's equation."""
    is_term = tree.leaves_["feature"] != "(intercept)"
    return [
        [int(name[1:]) for name in tree.leaves_["feature"][is_term & (tree.leaves_["leaf"] == leaf)]]
        for leaf in range(tree.n_leaves_)
    ]


@pytest.mark.sizes("each")
@pytest.mark.parametrize("strength", [1e-3, 15.0, 1e4])
@pytest.mark.parametrize("leaf_model", ["linear", "constant"])
def test_every_prediction_is_that_of_the_recursion(strength, leaf_model):
    X, y = piecewise(400)
    y = y + 0.3 * np.random.default_rng(1).standard_normal(len(y))
    plain = glasswood.ModelTreeRegressor(**FAST, leaf_model=leaf_model, max_leaves=6).fit(X, y)
    tree = glasswood.ModelTreeRegressor(**FAST, leaf_model=leaf_model, max_leaves=6, smoothing=strength).fit(X, y)
    assert tree.n_leaves_ >= 3
    np.testing.assert_array_equal(tree.forest_.ensemble.threshold, plain.forest_.ensemble.threshold)
    expected = oracle(tree.forest_, X, y, leaf_terms(plain), strength)
    np.testing.assert_allclose(tree.predict(X), expected, rtol=1e-8, atol=1e-8)
    assert (np.abs(tree.predict(X) - plain.predict(X)).max() > 1e-3) == (strength > 1)


def test_the_table_of_leaves_tells_of_the_mixture():
    X, y = piecewise(400)
    tree = glasswood.ModelTreeRegressor(**FAST, smoothing=15).fit(X, y)
    leaf = tree.apply(X)
    squared = (y - tree.predict(X)) ** 2
    for number in range(tree.n_leaves_):
        assert tree.leaf_summary_["rmse"][number] == pytest.approx(np.sqrt(squared[leaf == number].mean()), rel=1e-9)
    assert np.isnan(tree.leaves_["standard_error"]).all()
    assert "rmse" in glasswood.export_text(tree)


def test_a_single_leaf_and_missing_values():
    X, y = piecewise(300)
    alone = glasswood.ModelTreeRegressor(**FAST, max_leaves=1, smoothing=15).fit(X, y)
    np.testing.assert_array_equal(
        alone.predict(X), glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y).predict(X)
    )
    X[::7, 0] = np.nan
    assert np.isfinite(glasswood.ModelTreeRegressor(**FAST, smoothing=15).fit(X, y).predict(X)).all()


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (np.inf, ValueError), ("15", TypeError)])
def test_wrong_strength(value, error):
    with pytest.raises(error, match="smoothing is"):
        glasswood.ModelTreeRegressor(smoothing=value).fit(*piecewise(50))
