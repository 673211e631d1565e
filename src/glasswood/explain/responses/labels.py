"""Labels of the rows whose losses are explained."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import count_rows
from glasswood.base.escapes import quoted
from glasswood.base.typing import Int32s
from glasswood.inputs.targets import as_targets, class_places
from glasswood.model.ensemble import TreeEnsemble


def count_classes(forest: TreeEnsemble) -> int:
    """Count the classes that the outputs of a classifier of one label tell apart."""
    return max(2, forest.n_outputs)


def labels_of(forest: TreeEnsemble, output: str, y: ArrayLike | None, rows: Any) -> Int32s | None:
    """Places of the rows' labels for an output that needs them, else None.

    Raises
    ------
    ValueError
        If they are missing, do not fit, or are given where nothing needs them.
    """
    if output == "log_loss":
        return checked_labels(y, count_rows(rows), forest)
    if y is not None:
        raise ValueError(f"y is for output='log_loss', this explainer has output={quoted(output)}; leave y=None")
    return None


def checked_labels(y: ArrayLike | None, n_rows: int, forest: TreeEnsemble) -> Int32s:
    """Place of each row's label among the model's classes; y holds places where the forest has no classes."""
    if y is None:
        raise ValueError("output='log_loss' explains the loss of each row's label; pass y, each row's class, or 0 or 1")
    labels = as_targets(y, n_rows)
    if len(forest.classes) == 1:
        return class_places(labels, forest).astype(np.int32)
    n_classes = count_classes(forest)
    if labels.dtype.kind not in "biuf" or not np.isin(labels, np.arange(n_classes)).all():
        expected = "0 and 1, the second class" if n_classes == 2 else f"0 to {n_classes - 1}, the place of its class"
        raise ValueError(f"y holds {quoted(np.unique(labels)[:5].tolist())}, expected {expected}")
    return labels.astype(np.int32)
