"""What LightGBM's objectives make of margins."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array

LINKS = {
    "custom": "identity",
    "regression": "identity",
    "regression_l1": "identity",
    "huber": "identity",
    "fair": "identity",
    "quantile": "identity",
    "mape": "identity",
    "lambdarank": "identity",
    "rank_xendcg": "identity",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
    "binary": "logistic",
    "cross_entropy": "logistic",
    "cross_entropy_lambda": "log1p_exp",
    "multiclass": "softmax",
    "multiclassova": "one_vs_all",
}
ALIASES = {
    "custom": ("none", "null", "na"),
    "regression": ("regression_l2", "l2", "mean_squared_error", "mse", "l2_root", "root_mean_squared_error", "rmse"),
    "regression_l1": ("l1", "mean_absolute_error", "mae"),
    "mape": ("mean_absolute_percentage_error",),
    "multiclass": ("softmax",),
    "multiclassova": ("multiclass_ova", "ova", "ovr"),
    "cross_entropy": ("xentropy",),
    "cross_entropy_lambda": ("xentlambda",),
    "rank_xendcg": ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"),
}
"""Other names of objectives in LightGBM's parameters; some of its versions wrote them into files."""

_NAMES = {name: name for name in LINKS} | {alias: name for name, several in ALIASES.items() for alias in several}

WITH_SQUARE_ROOT = ("regression", "regression_l1", "fair", "quantile", "mape")
"""Objectives that obey `reg_sqrt`."""


RESPONSES = {"logistic": (0.0, 1.0), "softmax": (0.0, 1.0), "one_vs_all": (0.0, 1.0), "exp": (0.0, np.inf)}
"""Ranges of responses by link; "sign_square" and "log1p_exp" have none that tells them from margins."""


def link_of(text: str, n_outputs: int) -> dict[str, Any]:
    """Return the fields of TreeEnsemble that follow from an objective such as ``binary sigmoid:0.7``.

    Raises
    ------
    NotImplementedError
        If the objective is unknown.
    ValueError
        If its parameters make no sense.
    """
    # A model with a user's own objective names none.
    given, *words = text.split() or ["custom"]
    name = _NAMES.get(given)
    if name is None:
        raise NotImplementedError(
            f"LightGBM's objective {given!r} is not supported; predictions need its link function"
        )
    if name.startswith("multiclass") and f"num_class:{n_outputs}" not in words:
        raise ValueError(f"objective {text!r} does not match the {n_outputs} trees of an iteration")
    has_root = name in WITH_SQUARE_ROOT and "sqrt" in words
    fields: dict[str, Any] = {"link": "sign_square" if has_root else LINKS[name], "objective": " ".join([name, *words])}
    if name in {"binary", "multiclassova"}:
        fields["link_scale"] = _sigmoid(text, words)
    return fields


def _sigmoid(text: str, words: list[str]) -> float:
    values = [word.removeprefix("sigmoid:") for word in words if word.startswith("sigmoid:")]
    try:
        scale = float(values[0])
    except (IndexError, ValueError):
        scale = np.nan
    if not 0 < scale < np.inf:
        raise ValueError(f"objective {text!r} gives no positive sigmoid")
    return scale


def forest_link(fields: dict[str, Any], leaves: Array) -> dict[str, Any]:
    """Return the fields of a random forest of the format v2, whose leaves hold margins or, up to 2.2.2, responses.

    The text does not say which version has written it, so the leaves must tell: hardly all margins of a forest of
    classes lie between 0 and 1.

    Parameters
    ----------
    fields : dict
        What `link_of` has returned.
    leaves : (n,)
        Values of all leaves.

    Raises
    ------
    NotImplementedError
        If the leaves may hold either.
    """
    low, high = RESPONSES.get(fields["link"], (-np.inf, np.inf))
    if fields["link"] == "identity" or ((leaves < low) | (leaves > high)).any():
        return fields
    if high > 1:
        raise NotImplementedError(
            f"a random forest of the format v2 and the objective {quoted(fields['objective'])} is not read: "
            "LightGBM up to "
            "2.2.2 wrote responses into its leaves, 2.2.3 margins, and the text does not say which these are; train it "
            "again with LightGBM 2.3 or later"
        )
    warnings.warn(
        f"the leaves of this random forest are read as responses of the objective {quoted(fields['objective'])}, which "
        "LightGBM up to 2.2.2 wrote there; later versions take them for margins and predict otherwise",
        UserWarning,
        stacklevel=2,
    )
    return fields | {"link": "identity", "link_scale": 1.0}
