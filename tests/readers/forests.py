"""What tests of survival, quantile and causal forests share: a model against its library, and its values against sums.

The oracle of values is the library itself: it predicts the hybrid rows of every coalition of features.
"""

from __future__ import annotations

import numpy as np
from tests.oracles import coalitions, players, shapley
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees

import glasswood

MODELS = range(10)
"""Seeds of random models of each kind."""

N_ROWS, N_FEATURES, MAX_ROWS = 200, 4, 1500
EXPLAINED, BACKGROUND = slice(0, 4), slice(20, 28)


def make_rows(seed):
    """Rows with ties, and numbers between two float32 ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(0, 6, N_ROWS) * 0.1
    return X


def signal(X):
    """What there is to learn of the rows."""
    return X[:, 0] + np.sin(3 * X[:, 1]) + 5 * X[:, 2] * (X[:, 3] > 0)


def check_rows(forest, source, X, **expected):
    """Compare predictions with those of `source`, a function of rows, on and beside every threshold."""
    rows = adversarial_rows(
        forest, X, allow_nan=forest.ensemble.nan_allowed, allow_inf=False, max_rows=MAX_ROWS
    ).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        found = {name: function(rows) for name, function in expected.items()}
        assert_agrees(forest, rows, margins=None if source is None else source(rows), sums="float64", **found)


def check_values(forest, source, X, output="margin", atol=1e-9):
    """Compare SHAP values with sums over all coalitions: of what `source` predicts, and of the covers' shares."""
    rows, background, player_of = X[EXPLAINED], X[BACKGROUND], np.arange(X.shape[1])
    explainer = glasswood.Explainer(forest, background, dtype="float64", output=output)
    expected = coalitions.values(coalitions.game(lambda hybrids, _: source(hybrids), rows, background, player_of))
    scale = max(1.0, np.abs(expected).max())
    found = explainer.shap_values(rows).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol * scale)
    if output == "margin":
        by_covers = coalitions.values(players.path_dependent(forest, rows, player_of))
        found = glasswood.Explainer(forest, dtype="float64").shap_values(rows).reshape(expected.shape)
        np.testing.assert_allclose(found, by_covers, rtol=0, atol=atol * scale)


def expected_value(forest):
    """Mean of the margins by the covers."""
    return shapley.expected_value(forest)
