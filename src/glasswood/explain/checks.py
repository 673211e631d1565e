"""Checks of an Explainer's arguments, before anything is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import ExplainAlgorithm, ExplainOutput, ExplainRule, FloatType, Int32s
from glasswood.inputs.matching import index_of_feature
from glasswood.model.ensemble import TreeEnsemble

ALGORITHMS: tuple[str, ...] = get_args(ExplainAlgorithm)
OUTPUTS: tuple[str, ...] = get_args(ExplainOutput)
RULES: tuple[str, ...] = get_args(ExplainRule)


def refuse_negative_covers(forest: TreeEnsemble) -> None:
    """Raise ValueError where a split or a child of one has a cover that is negative or not finite.

    Sums of Hessians may be negative (survival:cox). The cover of a tree that is a single leaf weights nothing.
    """
    wrong = ~(np.isfinite(forest.cover) & (forest.cover >= 0))
    if not wrong.any():
        return
    sizes = np.diff(forest.tree_offsets)
    has_split = np.repeat(sizes > 1, sizes)
    wrong &= has_split
    if wrong.any() and np.isnan(forest.cover[has_split]).all():
        raise ValueError(
            f"{shown(forest.source or 'the model')} has no weights of training rows, which path-dependent values "
            "require; pass background rows, or glasswood.load(model).with_covers(X) with training rows X"
        )
    if wrong.any():
        node = int(np.argmax(wrong))
        tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
        raise ValueError(
            f"the cover of node {node - forest.tree_offsets[tree]} of tree {tree} is {forest.cover[node]}: SHAP values "
            "weight the sides of a split by covers, which must be finite and at least 0; pass background rows "
            "(background=), or train with a larger min_child_weight"
        )


def refuse_linear_leaves(forest: TreeEnsemble, what: str, instead: str) -> None:
    """Raise NotImplementedError for a forest with linear leaves."""
    if forest.has_linear_leaves:
        raise NotImplementedError(f"linear leaves are not supported yet in {shown(what)}; {shown(instead)}")


def refuse_unknown_means(forest: TreeEnsemble) -> None:
    """Raise ValueError where linear leaves do not tell what a feature that a coalition does not know counts as."""
    if not forest.means_known:
        raise ValueError(
            f"{shown(forest.source)} has no means of the features in its linear leaves, which path-dependent "
            "values require; pass Explainer(glasswood.load(model).with_means(X), ...) with training rows X"
        )


def check_choices(algorithm: str, output: Any, dtype: DTypeLike, rule: str) -> None:
    """Raise for values that no argument has, and for those that nothing computes yet."""
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {quoted(algorithm)}, expected 'auto', 'tables', 'quadrature' or 'paths'")
    if not callable(output) and (not isinstance(output, str) or output not in OUTPUTS):
        raise ValueError(f"output is {quoted(output)}, expected one of {', '.join(OUTPUTS)}, or a callable")
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"rule is {quoted(rule)}, expected 'exact' or 'rescale'")
    if rule == "rescale" and output not in {"margin", "probability", "log_loss"}:
        raise ValueError(f"rule='rescale' does not support output={quoted(output)}; pass rule='exact'")
    if str(dtype) not in get_args(FloatType) and not any(dtype is one for one in (np.float32, np.float64)):
        raise ValueError(f"dtype is {quoted(dtype)}, expected 'float32' or 'float64'")


def check_background(weight: Any, has_background: bool, algorithm: str, output: Any) -> None:
    """Raise for arguments that do not go with background rows, or not without them."""
    if not has_background:
        if output != "margin":
            raise ValueError(
                f"output={quoted(output)} needs background rows: path-dependent values average margins, and the "
                "response of an average is not the average of the responses; pass background, or explain the margin"
            )
        if weight is not None:
            raise ValueError("background_weight weights background rows; pass background too")
        return
    if algorithm in {"quadrature", "paths"}:
        raise ValueError(
            f"algorithm={quoted(algorithm)} weights by covers; with a background leave algorithm='auto' "
            "(table_bytes=0 for no tables)"
        )


def check_groups(groups: dict[str, list[int]], algorithm: str) -> None:
    """Raise for arguments that do not go with groups of features."""
    if groups and algorithm == "paths":
        raise NotImplementedError("algorithm='paths' does not support groups of features; pass algorithm='auto'")


def checked_names(names: Sequence[str] | None, n_players: int) -> list[str] | None:
    """Names that explanations show, one a player."""
    if names is None:
        return None
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_players:
        raise ValueError(f"feature_names is {quoted(names)}, expected {n_players} names, one per feature")
    return [str(name) for name in names]


def check_table_bytes(table_bytes: Any, algorithm: str) -> None:
    """Raise where this is not a budget of bytes."""
    if table_bytes is None:
        return
    if isinstance(table_bytes, bool) or not hasattr(table_bytes, "__index__"):
        raise TypeError(f"table_bytes is {quoted(table_bytes)}, expected a number of bytes")
    if table_bytes < 0 or table_bytes >= 2**63:
        raise ValueError(f"table_bytes is {table_bytes}, expected a number of bytes, 0 for no tables")
    if table_bytes == 0 and algorithm == "tables":
        raise ValueError("table_bytes is 0, algorithm='tables' needs memory; pass algorithm='quadrature' for no tables")


def check_range(forest: TreeEnsemble, dtype: str) -> None:
    """Refuse leaf values whose difference is infinite in float32."""
    with np.errstate(over="ignore"):
        largest = np.abs(forest.leaf_value).max(initial=0.0) * np.abs(forest.tree_weight).max(initial=0.0)
    if dtype == "float32" and largest > np.finfo(np.float32).max / 2:
        raise ValueError(f"leaf values reach {largest:.1e}, beyond the range of float32; pass dtype='float64'")


def places_of(features: Sequence[int | str] | None, n_features: int, names: tuple[str, ...] | None) -> Int32s:
    """Each feature's place among those asked for, or -1."""
    if features is None:
        return np.arange(n_features, dtype=np.int32)
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        instead = f"; pass [{features!r}]" if isinstance(features, str) else ""
        raise TypeError(f"features is {quoted(features)}, expected a list of indices or names{shown(instead)}")
    places = np.full(n_features, -1, np.int32)
    for place, feature in enumerate(features):
        at = index_of_feature(feature, n_features, names, "features")
        if places[at] >= 0:
            raise ValueError(f"feature {quoted(feature)} is named twice in features; name it once")
        places[at] = place
    return places
