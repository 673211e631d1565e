"""How many terms equations may have."""

import itertools

import numpy as np
import pandas as pd
import pytest

import glasswood

FAST = {"n_iter_no_change": 20, "n_jobs": 1}


def squares(X, y):
    """Residual sum of squares of a regression with an intercept."""
    columns = np.column_stack([np.ones(len(y)), X])
    return float(np.sum((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2))


def terms_of(ensemble):
    """Features of each leaf's equation."""
    return [set(ensemble.linear_feature[a:b].tolist()) for a, b in itertools.pairwise(ensemble.linear_offsets.tolist())]


def correlated(n_rows=400, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) + rng.standard_normal((n_rows, 1))
    return X, X @ np.linspace(1, 2, n_features) + 0.5 * rng.standard_normal(n_rows)


def with_category(n_rows=900, seed=1):
    """Three numbers, of which one is weak, and six categories of which each has an effect."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=list("abc"))
    codes = rng.integers(0, 6, n_rows)
    y = 3 * X["a"] + 0.5 * X["b"] + 2 * X["c"] + np.array([0, 1, -1, 2, -2, 4])[codes]
    return X.assign(kind=np.array(list("uvwxyz"))[codes]), (y + 0.1 * rng.standard_normal(n_rows)).to_numpy()


@pytest.mark.parametrize("noise", ["any", "uniform"])
@pytest.mark.parametrize("most", [0, 1, 3, 5])
def test_the_search_keeps_what_backward_elimination_does(noise, most):
    X, y = correlated()
    kept = list(range(X.shape[1]))
    while len(kept) > most:
        kept.remove(min(kept, key=lambda a: squares(X[:, [b for b in kept if b != a]], y)))
    settings = {"max_leaves": 1, "max_terms_per_leaf": most, "noise": noise, **FAST}
    tree = glasswood.ModelTreeRegressor(**settings).fit(X, y)
    found = terms_of(tree.forest_.ensemble) if most else [set()]
    assert found == [set(kept)]


@pytest.mark.parametrize("noise", ["any", "uniform"])
def test_categories_of_a_feature_are_one_term(noise):
    X, y = with_category()
    settings = {"max_leaves": 1, "max_terms_per_leaf": 3, "noise": noise, **FAST}
    ensemble = glasswood.ModelTreeRegressor(**settings).fit(X, y).forest_.ensemble
    assert terms_of(ensemble) == [{0, 2, 3}]
    assert len(ensemble.linear_feature) > 3  # a coefficient for each category


def test_every_leaf_has_so_many_terms_and_splits_take_their_part():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (1500, 6))
    y = X @ [5, 4, 3, 2, 1, 0.5] + 4 * (X[:, 0] > 0) * X[:, 1] + 0.1 * rng.standard_normal(1500)
    free, few = (glasswood.ModelTreeRegressor(max_terms_per_leaf=most, **FAST).fit(X, y) for most in (None, 2))
    assert max(map(len, terms_of(free.forest_.ensemble))) > 2
    assert max(map(len, terms_of(few.forest_.ensemble))) == 2
    assert few.n_leaves_ > free.n_leaves_


def test_classes_have_so_many_terms():
    X, y = correlated(n_rows=600)
    model = glasswood.ModelTreeClassifier(max_terms_per_leaf=3, **FAST).fit(X, y > 0)
    assert max(map(len, terms_of(model.forest_.ensemble))) <= 3
    assert np.mean(model.predict(X) == (y > 0)) > 0.9


@pytest.mark.parametrize(
    ("most", "error", "message"),
    [
        (2.5, TypeError, r"max_terms_per_leaf is 2\.5, expected an integer or None"),
        (True, TypeError, "max_terms_per_leaf is True, expected an integer or None"),
        (-1, ValueError, "max_terms_per_leaf is -1, expected at least 0 terms or None"),
    ],
)
def test_what_is_refused(most, error, message):
    with pytest.raises(error, match=message):
        glasswood.ModelTreeRegressor(max_terms_per_leaf=most).fit(*correlated())
