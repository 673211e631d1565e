"""Survival forests of scikit-survival: scikit-learn's trees, whose leaves hold curves over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, accepts_nan, check_layout, forest_of

if TYPE_CHECKING:
    from glasswood.readers.curve import Curve

FORESTS = ("SurvivalTree", "ExtraSurvivalTree", "RandomSurvivalForest", "ExtraSurvivalTrees")
BOOSTED = "GradientBoostingSurvivalAnalysis"
HAZARD, SURVIVAL = 0, 1
"""Places of the two curves in a leaf."""


def read(model: Any, curve: Curve | None = None) -> TreeEnsemble:
    """Read a survival tree, a forest or boosted trees.

    Parameters
    ----------
    model : estimator
        One of `FORESTS`, or a GradientBoostingSurvivalAnalysis.
    curve : Curve, optional
        What to predict, with an output a time; by default what the model's own ``predict`` returns.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it holds no trees.
    NotImplementedError
        If it keeps no curves, or its leaves have another layout.
    """
    from sklearn.utils.validation import check_is_fitted

    names = {kind.__name__ for kind in type(model).__mro__}
    if not names & {*FORESTS, BOOSTED}:
        raise TypeError(
            f"got {type(model).__name__}, which is not a tree ensemble of scikit-survival; expected one of "
            f"{', '.join((*FORESTS, BOOSTED))}"
        )
    check_is_fitted(model, "estimators_" if hasattr(model, "n_estimators") else "tree_")
    return _read_boosted(model, curve) if BOOSTED in names else _read_average(model, curve)


def predict(model: Any, X: Any, curve: Curve | None = None) -> Any:
    """Predict with the live model itself."""
    return model.predict(X) if curve is None else curve.of_source(model, X)


def _read_average(model: Any, curve: Curve | None) -> TreeEnsemble:
    """Read the mean of the trees' curves, or of their sums over the times of events."""
    trees = [model] if hasattr(model, "tree_") else model.estimators_
    values = [_risk(tree) if curve is None else _curves(model, tree, curve) for tree in trees]
    members = [Member(tree.tree_, value, 1 / len(trees)) for tree, value in zip(trees, values, strict=True)]
    objective = {"survival": "survival", "hazard": "cumulative hazard"}
    return forest_of(
        model,
        members,
        base_score=np.zeros(values[0].shape[1]),
        nan_allowed=accepts_nan(model),
        outputs=() if curve is None else curve.names,
        source=_source(),
        objective="risk score" if curve is None else objective[curve.kind],
    )


def _source() -> str:
    import sksurv

    return f"scikit-survival {sksurv.__version__}"


def _risk(tree: Any) -> Doubles:
    """Sum the cumulative hazard over the times of events, the number of events expected in a leaf."""
    if tree.low_memory:  # a leaf holds nothing else
        return np.asarray(tree.tree_.value[:, :, HAZARD])
    return np.asarray(_leaves(tree)[:, tree.is_event_time_, HAZARD].sum(axis=1, keepdims=True))


def _leaves(tree: Any) -> Doubles:
    """Return both curves of each node at all times, (n_nodes, n_times, 2)."""
    value: Doubles = tree.tree_.value
    check_layout(_source(), "the shape of a leaf's value", value.shape[1:], (len(tree.is_event_time_), 2))
    return value


def _curves(model: Any, tree: Any, curve: Curve) -> Doubles:
    if tree.low_memory:
        raise NotImplementedError(
            f"{type(model).__name__}(low_memory=True) keeps risk scores but no curves; fit it with low_memory=False"
        )
    places = curve.places(model.unique_times_)
    return _leaves(tree)[:, places, SURVIVAL if curve.kind == "survival" else HAZARD]


def _read_boosted(model: Any, curve: Curve | None) -> TreeEnsemble:
    """Read boosted trees: the logarithm of the hazard's factor or, of other losses than Cox's, of the time.

    Curves are functions of the margin, the logarithm of the cumulative hazard: exp(margin) is the cumulative hazard,
    exp(-exp(margin)) the probability to survive.
    """
    if curve is not None and model.loss != "coxph":
        raise NotImplementedError(
            f"{BOOSTED}(loss={model.loss!r}) predicts times but no curves; fit it with loss='coxph'"
        )
    n_times = 1 if curve is None else len(curve.times)
    rates = model.learning_rate * getattr(model, "_scale", np.ones(len(model.estimators_)))
    members = [
        Member(tree.tree_, np.repeat(tree.tree_.value[:, 0], n_times, axis=1), float(rate))
        for tree, rate in zip(model.estimators_[:, 0], rates, strict=True)
    ]
    if curve is None:
        meaning: dict[str, Any] = {"link": "identity" if model.loss == "coxph" else "exp", "base_score": np.zeros(1)}
    else:
        meaning = {
            "link": "log_survival" if curve.kind == "survival" else "exp",
            "base_score": _log_baseline(model, curve),
            "outputs": curve.names,
        }
    return forest_of(model, members, nan_allowed=False, source=_source(), **meaning)


def _log_baseline(model: Any, curve: Curve) -> Array:
    """Log of the baseline cumulative hazard, clipped to the smallest positive number before the first event."""
    baseline = model._get_baseline_model().cum_baseline_hazard_
    hazard = baseline.y[curve.places(baseline.x)]
    return np.asarray(np.log(np.maximum(hazard, np.finfo(np.float64).tiny)))
