"""What LightGBM's objectives make of margins."""

from __future__ import annotations

from typing import Any

import numpy as np

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
WITH_SQUARE_ROOT = ("regression", "regression_l1", "fair", "quantile", "mape")
"""Objectives that obey `reg_sqrt`."""


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
    name, *words = text.split() or ["custom"]
    if name not in LINKS:
        raise NotImplementedError(f"LightGBM's objective {name!r} is not supported; predictions need its link function")
    if name.startswith("multiclass") and f"num_class:{n_outputs}" not in words:
        raise ValueError(f"objective {text!r} does not match the {n_outputs} trees of an iteration")
    has_root = name in WITH_SQUARE_ROOT and "sqrt" in words
    fields: dict[str, Any] = {"link": "sign_square" if has_root else LINKS[name], "objective": text or name}
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
