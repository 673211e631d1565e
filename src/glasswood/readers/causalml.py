"""Trees and forests of causalml: effects of treatments, and outcomes by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.sklearn.trees import Member, accepts_nan, check_layout, forest_of

KINDS = {
    "CausalTreeRegressor": "effect",
    "CausalRandomForestRegressor": "effect",
    "UpliftTreeClassifier": "outcome",
    "UpliftRandomForestClassifier": "uplift",
}
"""What these predict, each treatment against the control group; outcomes are those of all groups."""


def read(model: Any) -> TreeEnsemble:
    """Read a tree or forest of `KINDS`, with an output for each treatment (or group).

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    TypeError
        If it is another model of causalml.
    NotImplementedError
        If leaves have another layout.
    """
    from sklearn.utils.validation import check_is_fitted

    kind = _kind(model)
    is_forest = hasattr(model, "n_estimators")
    check_is_fitted(model, "estimators_" if is_forest else "tree_")
    trees = model.estimators_ if is_forest else [model]
    members = [Member(tree.tree_, _values(tree, model, kind), 1 / len(trees)) for tree in trees]
    names = _groups(model, kind)
    n_outputs = members[0].value.shape[1]
    check_layout(_source(), "the number of outputs of a leaf", n_outputs, len(names))
    return forest_of(
        model,
        members,
        base_score=np.zeros(n_outputs),
        nan_allowed=accepts_nan(model),
        outputs=names if n_outputs > 1 else (),
        source=_source(),
        objective=kind,
    )


def predict(model: Any, X: Any) -> Any:
    """Predict with the live model itself; outcomes that it may show before the effects are left out."""
    found = np.asarray(model.predict(X))
    found = found.reshape(len(found), -1)[:, -len(_groups(model, _kind(model))) :]
    return found[:, 0] if found.shape[1] == 1 else found


def _source() -> str:
    from importlib.metadata import version

    return f"causalml {version('causalml')}"


def _kind(model: Any) -> str:
    for one in type(model).__mro__:
        if one.__name__ in KINDS:
            return KINDS[one.__name__]
    raise TypeError(f"got {type(model).__name__} of causalml, expected one of {', '.join(KINDS)}")


def _groups(model: Any, kind: str) -> tuple[str, ...]:
    """Names of the outputs: groups, of which the first is the control."""
    tree = getattr(model, "_estimator", model)  # which has encoded the groups for a causal forest
    treatments = model.classes_[1:] if hasattr(model, "classes_") else tree.unique_treatments
    groups = [model.control_name, *treatments] if kind == "outcome" else treatments
    return tuple(str(group) for group in groups)


def _values(tree: Any, model: Any, kind: str) -> Doubles:
    """Outcomes of a tree's nodes by group, or what they gain on the control group's."""
    value: Doubles = tree.tree_.value[:, :, 0]
    if kind == "effect":
        return value[:, 1:] - value[:, :1]
    value = np.nan_to_num(value, nan=0.0)
    if kind == "outcome":
        return value
    outcomes = np.zeros((len(value), len(model.classes_)))
    outcomes[:, [model.classes_.index(group) for group in tree.classes_]] = value
    return outcomes[:, 1:] - outcomes[:, :1]
