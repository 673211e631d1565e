"""monotonic_cst: predictions that rise or fall with a feature, for all rows; coefficient_signs: equations that do."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood

FAST = {"n_iter_no_change": 5, "n_jobs": 1, "max_leaves": 8}
SIGNS = [1, -1, 0, 0]
SMALL = glasswood.ModelTreeRegressor(
    max_leaves=6, generations=3, population_size=8, noise="uniform", clip="leaf", monotonic_cst=SIGNS
)


def bent(n_rows, seed=0):
    """Rises with the first feature and falls with the second, except for waves that the constraints forbid."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 4))
    y = np.where(X[:, 2] > 0, 3 * X[:, 0], np.maximum(X[:, 0], 0)) - X[:, 1] ** 3 * (1 + X[:, 3])
    return X, y + np.sin(5 * X[:, 0]) + 0.3 * rng.standard_normal(n_rows)


def violations(predict, n_features, signs, n_pairs, seed=0):
    """Pairs of rows that differ in one constrained feature, far outside the data too, and are predicted against it."""
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((n_pairs, n_features)) * rng.choice([0.5, 2.0, 1e3], (n_pairs, 1))
    first[rng.random((n_pairs, n_features)) < 0.05] = np.nan
    second, at = first.copy(), rng.choice(np.flatnonzero(signs), n_pairs)
    rows = np.arange(n_pairs)
    values = np.sort(rng.standard_normal((n_pairs, 2)) * rng.choice([0.01, 2.0, 1e3], (n_pairs, 1)), axis=1)
    first[rows, at], second[rows, at] = values.T
    return int(np.sum(np.asarray(signs)[at] * (predict(second) - predict(first)) < 0))


MODELS = {
    "tree": glasswood.ModelTreeRegressor(**FAST, monotonic_cst=SIGNS),
    "constant leaves": glasswood.ModelTreeRegressor(**FAST, leaf_model="constant", monotonic_cst=SIGNS),
    "leaf ranges": glasswood.ModelTreeRegressor(**FAST, clip="leaf", monotonic_cst=SIGNS),
    "no limits": glasswood.ModelTreeRegressor(**FAST, clip="none", monotonic_cst=SIGNS),
    "huber": glasswood.ModelTreeRegressor(**FAST, loss="huber", monotonic_cst=SIGNS),
    "honest": glasswood.ModelTreeRegressor(**FAST, honest=0.5, monotonic_cst=SIGNS),
    "mean": glasswood.ModelTreeEnsembleRegressor(
        glasswood.ModelTreeRegressor(**FAST, smoothing="auto", monotonic_cst=SIGNS), n_estimators=2, n_jobs=1
    ),
    "boosting": glasswood.ModelTreeEnsembleRegressor(
        SMALL, 2, method="boosting", learning_rate=0.3, max_trees=15, n_jobs=1
    ),
}
CLASSIFIERS = {
    "classes": glasswood.ModelTreeClassifier(**FAST, monotonic_cst=SIGNS),
    "mean of classes": glasswood.ModelTreeEnsembleClassifier(
        glasswood.ModelTreeClassifier(**FAST, monotonic_cst=SIGNS), n_estimators=2, n_jobs=1
    ),
    "boosted classes": glasswood.ModelTreeEnsembleClassifier(
        SMALL, 2, method="boosting", learning_rate=0.3, max_trees=15, n_jobs=1
    ),
}


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*MODELS, *CLASSIFIERS])
def test_no_pair_is_predicted_against_a_constraint(name, seed):
    """50,000 pairs for each model: more than a million with both seeds."""
    X, y = bent(600, seed)
    is_class = name in CLASSIFIERS
    model = {**MODELS, **CLASSIFIERS}[name].fit(X, y > 0 if is_class else y)
    predict = model.decision_function if is_class else model.predict
    assert violations(predict, 4, SIGNS, 50_000, seed) == 0


def test_unconstrained_trees_are_against_it():
    """So the pairs can find something."""
    X, y = bent(600)
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert violations(model.predict, 4, SIGNS, 50_000) > 500


@pytest.mark.parametrize("constraint", ["monotonic_cst", "coefficient_signs"])
def test_coefficients_are_those_of_constrained_least_squares(constraint):
    """Beside projected gradients on the raw squares."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3)) @ np.array([[1, 0.9, 0], [0, 1, 0.5], [0, 0, 1]])
    y = X @ [1.0, -0.4, 0.5] + 0.1 * rng.standard_normal(200)
    model = glasswood.ModelTreeRegressor(
        max_leaves=1, noise="uniform", penalty=0, clip="none", **{constraint: [1, 1, 1]}
    )
    model.fit(X, y)
    A, b = X - X.mean(axis=0), y - y.mean()
    solution, rate = np.zeros(3), 1 / np.linalg.norm(A, 2) ** 2
    for _ in range(20_000):
        solution = np.maximum(solution - rate * A.T @ (A @ solution - b), 0)
    assert solution[1] == 0
    found = dict(zip(model.leaves_["feature"], model.leaves_["coefficient"], strict=True))
    np.testing.assert_allclose([found.get(f"x{k}", 0.0) for k in range(3)], solution, atol=1e-8)


def test_a_constraint_that_holds_anyway_costs_nothing():
    X, _ = bent(400)
    y = np.where(X[:, 2] > 0, 2 * X[:, 0], X[:, 0]) - X[:, 1]
    free, bound = (glasswood.ModelTreeRegressor(**FAST, monotonic_cst=cst).fit(X, y) for cst in (None, SIGNS))
    np.testing.assert_allclose(bound.predict(X), free.predict(X), atol=1e-9)


def signs_of(model):
    """Signs of the coefficients by feature, of all leaves of all trees."""
    found = {}
    for tree in getattr(model, "estimators_", [model]):
        for feature, coefficient in zip(tree.leaves_["feature"], tree.leaves_["coefficient"], strict=True):
            found.setdefault(feature.removeprefix("log "), set()).add(int(np.sign(coefficient)))
    return found


SIGNED = {"coefficient_signs": [1, -1, 0, 0]}
SIGNED_SMALL = glasswood.ModelTreeRegressor(max_leaves=6, generations=3, population_size=8, **SIGNED)
SIGNED_MODELS = {
    "tree": glasswood.ModelTreeRegressor(**FAST, **SIGNED),
    "logarithms": glasswood.ModelTreeRegressor(**FAST, log_terms=True, **SIGNED),
    "huber": glasswood.ModelTreeRegressor(**FAST, loss="huber", **SIGNED),
    "honest": glasswood.ModelTreeRegressor(**FAST, honest=0.5, **SIGNED),
    "smoothing": glasswood.ModelTreeRegressor(**FAST, smoothing="auto", **SIGNED),
    "quantile": glasswood.ModelTreeRegressor(**FAST, loss="quantile", **SIGNED),
    "classes": glasswood.ModelTreeClassifier(**FAST, **SIGNED),
    "boosting": glasswood.ModelTreeEnsembleRegressor(SIGNED_SMALL, 1, method="boosting", max_trees=5, n_jobs=1),
}


def rising_in_parts(n_rows, seed=0):
    """Positive features; the first and the second have slopes of both signs, on sides of a jump by the first."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.normal(0, 1, (n_rows, 4)))
    y = np.where(X[:, 0] < 1, 8 + 2 * X[:, 0] - 3 * X[:, 1], -2 * np.log(X[:, 0]) + X[:, 1]) + X[:, 2]
    return X, y + 0.1 * rng.standard_normal(n_rows)


@pytest.mark.parametrize("name", SIGNED_MODELS)
def test_coefficients_have_their_signs_and_splits_are_free(name, request):
    if name != "smoothing":
        request.getfixturevalue("unjudged")
    X, y = rising_in_parts(600)
    model, free = SIGNED_MODELS[name], glasswood.ModelTreeRegressor(**FAST, log_terms=True).fit(X, y)
    model.fit(X, y > np.median(y) if name == "classes" else y)
    found = signs_of(model)
    assert found.get("x0", {1}) == {1}
    assert found.get("x1", {-1}) == {-1}
    assert found["x2"]
    forest = model.forest_.ensemble
    assert 0 in forest.feature[forest.feature >= 0]  # predictions fall there
    assert "coefficients of x0 are positive; coefficients of x1 are negative" in model.forest_.objective
    assert {-1, 1} <= signs_of(free)["x0"] | signs_of(free)["x1"]


def test_a_term_of_the_wrong_sign_is_left_out_and_the_others_are_fitted_without_it():
    """In each leaf the regression by NumPy on the terms that are left; two columns share one effect."""
    X, y = rising_in_parts(800)
    X = np.column_stack([X, X[:, 2] + 0.05 * np.random.default_rng(1).standard_normal(len(X))])
    y = y - 2 * X[:, 4] + 2 * X[:, 2]
    model = glasswood.ModelTreeRegressor(**FAST, log_terms=False, coefficient_signs=[0, 0, 1, 0, 1]).fit(X, y)
    leaves, names = model.apply(X), np.array([f"x{k}" for k in range(5)])
    for leaf in range(model.n_leaves_):
        own = model.leaves_["leaf"] == leaf
        features, coefficients = model.leaves_["feature"][own], model.leaves_["coefficient"][own]
        used = [int(np.flatnonzero(names == name)[0]) for name in features if name != "(intercept)"]
        rows = leaves == leaf
        design = np.column_stack([np.ones(rows.sum()), X[rows][:, used]])
        wanted = np.linalg.lstsq(design, y[rows], rcond=None)[0]
        found = dict(zip(features, coefficients, strict=True))
        got = [found["(intercept)"], *(found[names[k]] for k in used)]
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
        assert 4 not in used


def test_by_name_and_missing_values():
    X, y = bent(400)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.where(X[:, 3] > 1, "x", "y")
    frame.loc[::9, "c"] = np.nan
    model = glasswood.ModelTreeRegressor(**FAST, monotonic_cst={"a": 1, "b": -1}).fit(frame, y)
    for low, high in [(-3, -1), (-0.1, 0.2), (1, 100)]:
        assert (model.predict(frame.assign(a=high)) >= model.predict(frame.assign(a=low))).all()
        assert (model.predict(frame.assign(b=high)) <= model.predict(frame.assign(b=low))).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"monotonic_cst": [1, 2, 0, 0]}, "monotonic_cst must be an array-like of -1, 0 or 1"),
        ({"monotonic_cst": [1, 0]}, r"monotonic_cst has shape \(2,\) but the input data X has 4 features"),
        ({"monotonic_cst": {"a": 1}}, "was not fitted on data with feature names"),
        ({"coefficient_signs": [1, 2, 0, 0]}, "coefficient_signs must be an array-like of -1, 0 or 1"),
        ({"coefficient_signs": [1, 0]}, r"coefficient_signs has shape \(2,\) but the input data X has 4 features"),
        (
            {"coefficient_signs": [0, 0, 0, 1], "categorical_features": [3]},
            "coefficient_signs names column 3, which is",
        ),
        ({"coefficient_signs": [1, 0, 0, 0], "smoothing": 5.0}, "expected 0 or 'auto' with coefficient_signs"),
        (
            {"monotonic_cst": SIGNS, "coefficient_signs": [1, 1, 0, 0]},
            "monotonic_cst is -1 and coefficient_signs is 1 for 'x1', expected the same sign or one of them alone",
        ),
        ({"monotonic_cst": SIGNS, "smoothing": 5.0}, "smoothing is 5.0, expected 0 or 'auto' with monotonic_cst"),
        (
            {"monotonic_cst": [1, 0, 0, 1], "categorical_features": [3]},
            "monotonic_cst names column 3, which is categorical, expected numbers",
        ),
    ],
)
def test_contradictions(parameters, message):
    X, y = bent(60)
    X[:, 3] = np.round(X[:, 3])
    with pytest.raises(ValueError, match=message):
        glasswood.ModelTreeRegressor(**FAST, **parameters).fit(X, y)


@pytest.mark.parametrize("parameter", ["monotonic_cst", "coefficient_signs"])
def test_unknown_names_are_told_from_the_columns(parameter):
    pandas = pytest.importorskip("pandas")
    X, y = bent(60)
    X = pandas.DataFrame(np.hstack([X] * 3), columns=[f"column{i}" for i in range(12)])
    message = r" names 'colum1' \(did you mean column1\?\), expected columns of X: 'column0', .*'column7' and 4 more"
    with pytest.raises(ValueError, match=parameter + message):
        glasswood.ModelTreeRegressor(**FAST, **{parameter: {"colum1": 1, "column2": 1}}).fit(X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_classes_are_refused(name):
    X, y = bent(60)
    with pytest.raises(ValueError, match="monotonic_cst needs two classes, y has 3"):
        CLASSIFIERS[name].fit(X, np.digitize(y, [-1, 1]))


def test_signs_for_several_classes_are_refused():
    X, y = bent(60)
    with pytest.raises(ValueError, match="coefficient_signs needs two classes, y has 3"):
        glasswood.ModelTreeClassifier(**FAST, **SIGNED).fit(X, np.digitize(y, [-1, 1]))
