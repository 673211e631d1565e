"""Targets, weights and exposures of rows: refused by their names where they are no numbers, else relative."""

from __future__ import annotations

import decimal

import numpy as np
import pytest

import glasswood

ensemble = pytest.importorskip("sklearn.ensemble")

N = 60
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + 3
SETTINGS = {"time_limit": None, "generations": 3, "verbose": False, "alternatives": 0}


@pytest.fixture(scope="module")
def model():
    return ensemble.RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, Y)


def grown(loss="squared"):
    return glasswood.ModelTreeRegressor(loss=loss, **SETTINGS)


WEIGHTS = {
    "score_values": lambda model, w: glasswood.score_values(model, X, Y, sample_weight=w).values,
    "Neighbors": lambda model, w: glasswood.Neighbors(model, X, Y, sample_weight=w, check=False).quantile(X, 0.5),
    "Explainer": lambda model, w: glasswood.Explainer(model, X, background_weight=w).expected_value,
    "compare": lambda model, w: glasswood.compare(X, X + 1, model=model, sample_weight=(w, None)).to_dict(),
    "permutation_importance": lambda model, w: (
        glasswood.permutation_importance(model, X, Y, sample_weight=w, n_repeats=2, random_state=0).importances
    ),
    "partial_dependence": lambda model, w: glasswood.partial_dependence(model, X, [0], sample_weight=w)["average"],
    "ModelTreeRegressor": lambda _, w: grown().fit(X, Y, w).predict(X),
    "ModelTreeClassifier": lambda _, w: (
        glasswood.ModelTreeClassifier(class_weight="balanced", **SETTINGS).fit(X, Y > 3, w).predict_proba(X)
    ),
    "AdditiveRegressor": lambda _, w: glasswood.AdditiveRegressor(interactions=0).fit(X, Y, w).predict(X),
}
EXPOSURES = {
    "fit": lambda _, w: grown("poisson").fit(X, Y, exposure=w).predict(X) * np.mean(np.asarray(w, np.float64)),
    "gamma": lambda _, w: grown("gamma").fit(X, Y, exposure=w).predict(X) * np.mean(np.asarray(w, np.float64)),
    "predict": lambda _, w: grown("poisson").fit(X, Y).predict(X, exposure=w),
}
TARGETS = {
    "score_values": lambda model, y: glasswood.score_values(model, X, y),
    "Neighbors": lambda model, y: glasswood.Neighbors(model, X, y, check=False),
    "permutation_importance": lambda model, y: glasswood.permutation_importance(model, X, y),
    "ModelTreeRegressor": lambda _, y: grown().fit(X, y),
    "poisson with exposure": lambda _, y: grown("poisson").fit(X, y, exposure=np.ones(N)),
    "ModelTreeClassifier": lambda _, y: glasswood.ModelTreeClassifier(**SETTINGS).fit(X, y),
    "AdditiveRegressor": lambda _, y: glasswood.AdditiveRegressor(interactions=0).fit(X, y),
}

NO_NUMBERS = {
    "dates": np.array(["2020-01-01"] * N, "M8[D]"),
    "spans": np.ones(N, "m8[s]"),
    "complex": np.ones(N) + 1j,
    "masked": np.ma.masked_array(np.ones(N), mask=np.arange(N) == 3),
    "text": ["a"] * N,
    "objects": [1.0] * (N - 1) + [{}],
    "ragged": [[1.0], [1.0, 2.0]] + [[1.0]] * (N - 2),
    "nan": np.where(np.arange(N) == 5, np.nan, 1.0),
    "infinite": np.where(np.arange(N) == 5, np.inf, 1.0),
    "negative": np.where(np.arange(N) == 5, -1.0, 1.0),
    "short": np.ones(N - 1),
    "square": np.ones((N, N)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("name", [*WEIGHTS, *EXPOSURES])
def test_what_is_no_weight_is_refused_by_name(name, kind, model):
    call, argument = {**WEIGHTS, **EXPOSURES}[name], "exposure" if name in EXPOSURES else "weight"
    with pytest.raises((ValueError, TypeError), match=f"(?i){argument}"):
        call(model, NO_NUMBERS[kind])


@pytest.mark.parametrize("kind", ["dates", "complex", "masked", "ragged", "nan", "infinite", "short"])
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_no_target_is_refused(name, kind, model):
    if (name, kind) == ("ModelTreeClassifier", "dates"):
        pytest.skip("dates are labels")
    with pytest.raises((ValueError, TypeError)):
        TARGETS[name](model, NO_NUMBERS[kind])


SCALES = (3.0, 0.3, 1e-5, 1e-200, 1e200, 1.7e308 / 4, 1e-310)
FORMS = {
    "list": list,
    "float32": lambda w: np.asarray(w, np.float32),
    "decimals": lambda w: np.array([decimal.Decimal(str(v)) for v in w], object),
    "texts of numbers": lambda w: [str(v) for v in w],
    "reversed twice": lambda w: np.asarray(w)[::-1].copy()[::-1],
    "read-only": lambda w: np.frombuffer(np.asarray(w).tobytes()),
}


def numbers(found):
    """All numbers of an answer."""
    if isinstance(found, dict):
        return np.concatenate([numbers(value) for value in found.values()] or [np.zeros(0)])
    if isinstance(found, list | tuple):
        return np.concatenate([numbers(value) for value in found] or [np.zeros(0)])
    found = np.asarray(found)
    return found.astype(np.float64).ravel() if found.dtype.kind in "fiub" else np.zeros(0)


@pytest.mark.parametrize("name", [*WEIGHTS, "fit", "gamma"])
def test_weights_are_relative(name, model):
    """Medians of weights that add up to 1 were nearly the largest target; huge weights overflowed to NaN."""
    call = {**WEIGHTS, **EXPOSURES}[name]
    weight = np.where(np.arange(N) % 3 == 0, 0.75, 1.25)
    expected = numbers(call(model, weight))
    assert np.isfinite(expected).all()
    for scale in SCALES[: 4 if name in EXPOSURES else None]:
        scaled = scale * weight
        if name in EXPOSURES and scale == 1e-200:
            continue  # rates beyond the range of equations
        # Equations of rates end their iterations where the deviance falls no further.
        rtol = 1e-4 if name in EXPOSURES else 1e-6
        np.testing.assert_allclose(numbers(call(model, scaled)), expected, rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in WEIGHTS if name != "Explainer"] + ["fit", "predict"])
def test_numbers_of_any_kind_are_read(name, form, model):
    call = {**WEIGHTS, **EXPOSURES}[name]
    weight = np.where(np.arange(N) % 3 == 0, 0.75, 1.25)
    given = FORMS[form](weight)
    np.testing.assert_array_equal(numbers(call(model, given)), numbers(call(model, weight)))
    np.testing.assert_array_equal(np.asarray(weight), np.where(np.arange(N) % 3 == 0, 0.75, 1.25))


def test_exposures_too_small_to_divide_by_are_refused():
    with pytest.raises(ValueError, match=r"exposure is 1e-310 in row 0, too small to divide y by"):
        grown("poisson").fit(X, Y, exposure=np.full(N, 1e-310))


def test_weighted_quantiles_are_those_of_repeated_rows(model):
    """Whole numbers count rows: an interpolation as NumPy's, of rows that are there so often."""
    counts = 1 + np.arange(N) % 3
    one = glasswood.Neighbors(model, X, Y, sample_weight=counts, check=False).quantile(X[:5], 0.3)
    other = glasswood.Neighbors(model, np.repeat(X, counts, axis=0), np.repeat(Y, counts), check=False)
    np.testing.assert_allclose(one, other.quantile(X[:5], 0.3), rtol=1e-12)
