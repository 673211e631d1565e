"""Forests of two classes that speak of the event: the class that is asked for, or the rarer one."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.model.ensemble import TreeEnsemble

OPPOSITES = {"rise": "fall", "fall": "rise", "positive": "negative", "negative": "positive"}
"""Words of constraints, whose direction is that of the second class."""


def speaks_of_second(forest: TreeEnsemble) -> bool:
    """Whether a forest tells two classes apart, so that it can be turned to speak of the other one."""
    return [len(labels) for labels in forest.classes] == [2] and forest.n_outputs <= 2


def of_event(
    forest: TreeEnsemble, positive: Any, share: float | Callable[[], float | None] | None = None
) -> tuple[TreeEnsemble, bool]:
    """Make a class the second one, of which texts and pictures speak.

    Parameters
    ----------
    forest : TreeEnsemble
    positive : object
        Label of the class; None: the rarer one, where that is known.
    share : float or callable, optional
        Share of the second class among rows, to tell which class is rarer; what is equally frequent stays.

    Returns
    -------
    TreeEnsemble
        Predicts the same probabilities, of classes in the other order if it was turned.
    bool
        Whether it was.

    Raises
    ------
    ValueError
        If the class is none of two.
    """
    if not speaks_of_second(forest):
        if positive is None:
            return forest, False
        n = sum(len(labels) for labels in forest.classes)
        what = f"has {n} classes" if n else "predicts numbers"
        raise ValueError(f"positive is {quoted(positive)}, but the model {what}; it names one of two classes")
    if positive is None:
        known = share() if callable(share) else share
        is_turned = known is not None and known > 0.5
    else:
        labels = forest.classes[0].tolist()
        found = [label for label in labels if label == positive or str(label) == str(positive)]
        if not found:
            raise ValueError(f"positive is {quoted(positive)}, expected one of the model's classes: {quoted(labels)}")
        is_turned = found[0] == labels[0]
    return (_turned(forest), True) if is_turned else (forest, False)


def _turned(forest: TreeEnsemble) -> TreeEnsemble:
    """Exchange the classes: outputs change places, and a single one its sign."""
    changes: dict[str, Any] = {"classes": (forest.classes[0][::-1].copy(),), "choices": ()}
    changes["objective"] = re.sub(
        r"\b(rise|fall|positive|negative)\b", lambda found: OPPOSITES[found[0]], forest.objective
    )
    if forest.outputs:
        changes["outputs"] = forest.outputs[::-1]
    if forest.n_outputs == 2:
        changes["base_score"] = forest.base_score[::-1].copy()
        if forest.leaf_width == 2:
            changes["leaf_value"] = forest.leaf_value[:, ::-1].copy()
        else:
            changes["tree_output"] = 1 - forest.tree_output
        return dataclasses.replace(forest, **changes)
    is_score = forest.prediction == "positive" and not forest.prediction_offset  # its sign decides
    of_share = forest.link == "identity" and not is_score  # a margin that is a probability, or is taken for one
    changes["leaf_value"] = -forest.leaf_value
    changes["base_score"] = (1.0 if of_share else 0.0) - forest.base_score
    changes["linear_coefficient"] = -forest.linear_coefficient
    changes["leaf_range"] = -forest.leaf_range[:, ::-1]
    changes["leaf_missing"] = -forest.leaf_missing
    changes = {
        name: np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for name, value in changes.items()
    }
    return dataclasses.replace(forest, **changes)
