"""The difference of two forests as one forest."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.forest import Forest
from glasswood.grow.merging import merged
from glasswood.inputs.tables import refuse_open_tables
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble

SAME = ("n_features", "feature_names", "n_outputs", "leaf_width", "category_hash", "zero_threshold", "nan_allowed")
"""What both forests must agree on, so that a row means the same to all trees."""


def difference(a: Any, b: Any) -> Forest:
    """Make one forest whose margin is the margin of b minus the margin of a.

    Parameters
    ----------
    a, b : Forest, estimator, or any model that `glasswood.load` reads
        Two models of one library, of the same features, categories and outputs: an old and a new one.

    Returns
    -------
    Forest
        The trees of both, those of a with negative weights. You can predict, explain, save and draw it like any forest.
        Its predictions are differences of margins, such as log-odds.

    Raises
    ------
    ValueError
        If the models read rows differently or have different outputs.
    NotImplementedError
        For linear leaves with a value for missing numbers (LightGBM), and for pipelines.

    Notes
    -----
    SHAP values, interactions and partial dependence of the difference are the differences of those of both models. For
    models of different libraries, use `compare`.

    Examples
    --------
    >>> change = glasswood.difference(old_model, new_model)  # doctest: +SKIP
    >>> glasswood.Explainer(change).shap_values(X)  # doctest: +SKIP
    >>> glasswood.effects(change, X).strongest()  # doctest: +SKIP
    """
    first, second = load(a).ensemble, load(b).ensemble
    refuse_open_tables(first, "a difference of models")
    refuse_open_tables(second, "a difference of models")
    _check_alike(first, second)
    signs = np.repeat([-1.0, 1.0], [first.n_trees, second.n_trees])
    weight = np.concatenate([first.tree_weight, second.tree_weight])
    return Forest(
        merged(
            [first, second],
            np.concatenate([first.tree_output, second.tree_output]),
            signs * weight,
            base_score=second.base_score - first.base_score,
            missing_seen=np.zeros(0, np.bool_),
            means_known=first.means_known and second.means_known,
            link="identity",
            link_scale=1.0,
            prediction="response",
            prediction_offset=0.0,
            classes=(),
            result_dtype="float64",
            leaf_shape=(),
            objective="difference of margins",
            choices=(),
        )
    )


def _check_alike(a: TreeEnsemble, b: TreeEnsemble) -> None:
    libraries = [one.source.partition(" ")[0] for one in (a, b)]
    if libraries[0] != libraries[1] or a.threshold.dtype != b.threshold.dtype:
        raise ValueError(
            f"a is of {shown(libraries[0])} and b of {shown(libraries[1])}, which compare numbers differently; "
            "expected one library, or use glasswood.compare"
        )
    for name in SAME:
        ours, theirs = getattr(a, name), getattr(b, name)
        if ours != theirs:
            raise ValueError(
                f"{name} of a is {quoted(ours)}, of b {quoted(theirs)}; expected the same, or use glasswood.compare"
            )
    if not _same_categories(a, b) or not np.array_equal(a.zero_missing, b.zero_missing):
        raise ValueError(
            "a and b have different categories or missing values; expected the same, or use glasswood.compare"
        )
    if not np.array_equal(a.missing, b.missing, equal_nan=True):
        raise ValueError(f"missing values of a are {a.missing}, of b {b.missing}; expected the same")
    if a.transform is not None or b.transform is not None:
        raise NotImplementedError("pipelines cannot be subtracted; pass the models of their last steps")
    if len(a.leaf_missing) or len(b.leaf_missing):
        raise NotImplementedError("linear leaves of LightGBM cannot be subtracted; use glasswood.compare")


def _same_categories(a: TreeEnsemble, b: TreeEnsemble) -> bool:
    if a.categories is None or b.categories is None:
        return a.categories is b.categories
    pairs = zip(a.categories, b.categories, strict=True)
    return all(x is y if x is None or y is None else np.array_equal(x, y) for x, y in pairs)
