"""Small models as data: a report shows their trees and computes their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Int32s, Int64s
from glasswood.display.curves import CURVE_POINTS, mean_curve
from glasswood.display.report.rows import REDACTED_ROWS, inner_range, most_frequent
from glasswood.display.text import facts_of
from glasswood.evaluate.cpu import CpuEvaluator
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import exposure_text, is_cut_short
from glasswood.words.equation_texts import described, smaller_text
from glasswood.words.equations import leaf_equation, multiplies, term_text
from glasswood.words.rules import (
    class_index,
    common_range,
    covers_are_counts,
    leaf_of_node,
    node_tests,
    speaks_of_odds,
    sum_note,
    value_text,
)

if TYPE_CHECKING:
    from glasswood.base.phrases import Phrases
    from glasswood.base.wording import Wording
    from glasswood.display.report.rows import ReportRows
    from glasswood.words.equations import Term

MOST_NODES, MOST_SHOWN_LEAVES, MOST_SHOWN_TREES = 4000, 250, 60
"""Nodes of a model that a page computes with, leaves of a tree that it draws, trees that it draws."""

SHOWN_CURVES = 100
"""Splits of the first trees that have a curve."""

SHOWN_DIGITS = 3
"""Digits of a curve, counted from the first one of its range."""

LINKS = ("identity", "logistic", "softmax", "exp", "exponential", "one_vs_all")
"""Functions from margin to response that the page has too."""


def is_small(rows: ReportRows) -> bool:
    """Whether a page can hold the model and predict with it; it has no tables of target statistics."""
    forest = rows.forest
    return rows.source is None and forest.n_nodes <= MOST_NODES and len(forest.linear_feature) <= 4 * MOST_NODES


def n_held(rows: ReportRows) -> int | None:
    """How many trees a page has: all, or those before a model's curves, which it can then draw but not predict with.

    None if it has no model.
    """
    forest = rows.forest
    if is_small(rows):
        return forest.n_trees
    n_trees = forest.n_trees - forest.n_curves
    if not forest.n_curves or rows.source is not None or not are_shown(forest):
        return None
    n_terms = forest.linear_offsets[forest.leaf_offsets[n_trees]] if forest.has_linear_leaves else 0
    return n_trees if forest.tree_offsets[n_trees] <= MOST_NODES and n_terms <= 4 * MOST_NODES else None


def not_held(rows: ReportRows, phrases: Phrases) -> str:
    """Say why a page does not hold the model; empty where it does."""
    if is_small(rows):
        return ""
    if rows.source is not None:
        return phrases.text("statistics not held")
    if rows.forest.n_nodes > MOST_NODES:
        key, n, most = "nodes not held", rows.forest.n_nodes, MOST_NODES
    else:
        key, n, most = "terms not held", len(rows.forest.linear_feature), 4 * MOST_NODES
    return phrases.text(key, n=phrases.count(n), most=phrases.count(most))


def are_shown(forest: TreeEnsemble) -> bool:
    """Whether the trees are few and small enough to be looked at."""
    n_trees = forest.n_trees - forest.n_curves
    most_leaves = int(np.diff(forest.leaf_offsets)[:n_trees].max(initial=0))
    return n_trees <= MOST_SHOWN_TREES and most_leaves <= MOST_SHOWN_LEAVES


def embedded(forest: TreeEnsemble, n_trees: int, wording: Wording) -> dict[str, Any]:
    """Give the page what it needs to route rows in the first trees and to add up leaves; JSON's numbers are exact."""
    nodes, leaves = slice(forest.tree_offsets[n_trees]), slice(forest.leaf_offsets[n_trees])
    feature, values = forest.feature[nodes], forest.leaf_value[leaves]
    return {
        "offsets": forest.tree_offsets[: n_trees + 1],
        "feature": feature,
        "threshold": _shortest(forest.threshold[nodes]),
        "left": forest.left[nodes],
        "defaultLeft": forest.default_left[nodes].astype(int),
        "leafOf": np.where(feature < 0, np.cumsum(feature < 0) - 1, -1),
        "leafValue": _shortest(values),
        "isFloat32Leaf": _is_float32(values),
        "treeOutput": forest.tree_output[:n_trees],
        "treeWeight": forest.tree_weight[:n_trees],
        "base": forest.base_score,
        "set": forest.category_set[nodes],
        "sets": _sets(forest),
        "linear": _linear(forest, int(forest.leaf_offsets[n_trees]), wording),
        "isFloat32": forest.threshold.dtype == np.float32,
        "zeroThreshold": forest.zero_threshold,
        "zeroMissing": forest.zero_missing.astype(int),
        "marker": forest.missing,
        "link": forest.link if forest.link in LINKS else None,
        "linkScale": forest.link_scale,
    }


def _is_float32(values: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values.astype(np.float32).astype(np.float64), values, equal_nan=True))


def _shortest(values: Array) -> list[Any]:
    """Write numbers that are all float32 with the digits of these; the page rounds them to float32 again."""
    if not _is_float32(values):
        written: list[Any] = values.tolist()
        return written
    flat = [float(str(value)) for value in values.astype(np.float32).ravel()]
    return np.reshape(np.array(flat), values.shape).tolist()  # type: ignore[no-any-return]


def _sets(forest: TreeEnsemble) -> list[dict[str, Any]]:
    ends = forest.set_offsets
    return [
        {"words": forest.set_words[ends[i] : ends[i + 1]], "others": bool(forest.set_others_left[i])}
        for i in range(len(forest.set_others_left))
    ]


def _linear(forest: TreeEnsemble, n_leaves: int, wording: Wording) -> dict[str, Any] | None:
    if not forest.has_linear_leaves:
        return None
    terms, leaves = slice(forest.linear_offsets[n_leaves]), slice(n_leaves)
    feature, category = forest.linear_feature[terms], forest.linear_category[terms]
    pairs = zip(feature.tolist(), category.tolist(), strict=True)
    return {
        "offsets": forest.linear_offsets[: n_leaves + 1],
        "feature": feature,
        "category": category,
        "coefficient": forest.linear_coefficient[terms],
        "mean": forest.linear_mean[terms],
        "range": forest.leaf_range[leaves],
        "missing": forest.leaf_missing[leaves],
        "name": [term_text(forest, *pair, wording) for pair in pairs],
    }


@dataclass(frozen=True)
class _Drawing:
    """Everything that describes the nodes of a tree; each point of a curve is a mean of at least `least` rows."""

    rows: ReportRows
    summary: Any
    errors: Array | None
    least: int
    wording: Wording
    ends: dict[int, list[float]]


def drawn(rows: ReportRows, model: object, redact: bool, wording: Wording) -> list[dict[str, Any]]:
    """Describe the trees for their drawing: tests in words, rows, means and errors, a curve at each split."""
    forest = rows.forest
    evaluator = CpuEvaluator(forest)
    reached = evaluator.numbered().leaves(rows.settled, evaluator.choice_for_next(len(rows)), None)
    errors = standard_errors(model, forest)
    least = REDACTED_ROWS if redact else 1
    summary, ends = facts_of(model), range_ends(rows, redact)
    drawing = _Drawing(rows, summary, errors, least, wording, ends)
    return [
        {
            "output": int(forest.tree_output[tree]),
            "what": _what(rows, tree, wording),
            "isShare": shown_class(rows, tree) is not None,
            "isOdds": speaks_of_odds(forest),
            "isRate": multiplies(forest),
            "note": _note(forest, tree, wording),
            "nodes": _nodes(drawing, tree, reached[:, tree]),
        }
        for tree in range(forest.n_trees - forest.n_curves)
    ]


def _what(rows: ReportRows, tree: int, wording: Wording) -> str:
    """Say what the means of nodes are; empty for numbers."""
    place = shown_class(rows, tree)
    if place is None:
        return ""
    return wording.text("share of" if rows.y is not None else "node probability", name=rows.classes[place])


def _note(forest: TreeEnsemble, tree: int, wording: Wording) -> str:
    common = "" if speaks_of_odds(forest) else common_range(forest, tree, wording)
    added = sum_note(forest, tree, wording)
    is_part = bool(added) or (forest.link == "exp" and not multiplies(forest))
    clipped = "leaves clipped" if is_part else "predictions clipped"
    lines = [*filter(None, [added]), *([wording.text(clipped, range=common)] if common else [])]
    lines += filter(None, [exposure_text(forest, wording.phrases)])
    is_leaf = forest.tree_offsets[tree + 1] - forest.tree_offsets[tree] == 1
    if is_leaf and not forest.n_curves and not is_cut_short(forest):
        lines.append(wording.text("no split"))
    return " ".join(lines)


def standard_errors(model: object, forest: TreeEnsemble) -> Array | None:
    """Take the terms' standard errors in the order of the forest's terms; None where the model does not know them."""
    table = getattr(model, "leaves_", None)
    if table is None or not forest.has_linear_leaves:
        return None
    errors = np.asarray(table["standard_error"], np.float64)[np.asarray(table["feature"]) != "(intercept)"]
    return errors if len(errors) == len(forest.linear_feature) else None


def _nodes(drawing: _Drawing, tree: int, reached: Int32s) -> list[dict[str, Any]]:
    forest = drawing.rows.forest
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    target, is_counted = target_of(drawing.rows, tree), covers_are_counts(forest, tree)
    result, tests = [], node_tests(forest, tree, drawing.wording, drawing.ends)
    for node, inside in zip(range(first, last), rows_under(forest, tree, reached), strict=True):
        entry: dict[str, Any] = {
            "rows": len(inside),
            "mean": float(f"{drawing.rows.mean(target, inside):.6g}") if len(inside) else float("nan"),
        }
        if is_counted and forest.cover[node] != len(inside):
            entry["training"] = float(forest.cover[node])
        if forest.feature[node] >= 0:
            values = drawing.rows.settled[inside, forest.feature[node]]
            entry |= {"tests": tests[node - first]}
            is_early = int((forest.feature[:node] >= 0).sum()) < SHOWN_CURVES or tree == 0
            entry["curve"] = _curve(drawing, int(forest.feature[node]), values, target, inside) if is_early else None
        else:
            entry |= _leaf(drawing, node)
        result.append(entry)
    return result


def range_ends(rows: ReportRows, redact: bool = False) -> dict[int, list[float]]:
    """Lowest and highest number of each feature that splits test, where the rows, or enough of them, have numbers."""
    found = {}
    for feature in np.unique(rows.forest.feature[rows.forest.feature >= 0]).tolist():
        column = rows.settled[:, feature].astype(np.float64)
        present = column[np.isfinite(column)]
        if len(present) >= (REDACTED_ROWS if redact else 1):
            found[feature] = list(inner_range(present)) if redact else [float(present.min()), float(present.max())]
    return found


def rows_under(forest: TreeEnsemble, tree: int, reached: Int32s) -> Iterator[Int64s]:
    """Rows that pass each node of a tree; those of a node are divided among its children."""
    first = int(forest.tree_offsets[tree])
    is_left, waiting = np.zeros(forest.n_leaves, bool), {0: np.arange(len(reached))}
    for node, leaves in enumerate(under := leaves_under(forest, tree)):
        rows = waiting.pop(node)
        yield rows
        if forest.feature[first + node] >= 0:
            left = int(forest.left[first + node])
            is_left[leaves] = False
            is_left[under[left]] = True
            goes_left = is_left[reached[rows]]
            waiting[left], waiting[left + 1] = rows[goes_left], rows[~goes_left]


def _curve(drawing: _Drawing, feature: int, values: Array, target: Array, inside: Int64s) -> dict[str, Any] | None:
    """Mean target over a feature's values, of many categories over the most frequent ones."""
    target, weight = target[inside], drawing.rows.weights(inside)
    codes = np.unique(values[~np.isnan(values)])
    if drawing.rows.tables[feature] is None or len(codes) <= CURVE_POINTS:
        return _rounded(mean_curve(values, target, drawing.least, weight=weight))
    common = codes[most_frequent(values, codes, CURVE_POINTS)]
    kept = np.isin(values, common) | np.isnan(values)
    found = mean_curve(values[kept], target[kept], drawing.least, weight=None if weight is None else weight[kept])
    return found and found | {"of": len(codes)}


def _rounded(curve: dict[str, Any] | None) -> dict[str, Any] | None:
    """Digits that a drawing of some hundred pixels shows: a curve of 24 points would be a kilobyte with all."""
    if curve is None:
        return None
    for axis in "xy":
        span = float(np.ptp(curve[axis])) if len(curve[axis]) else 0.0
        if 0 < span < np.inf:
            curve[axis] = curve[axis].round(SHOWN_DIGITS - int(np.floor(np.log10(span))))
    return curve


def _leaf(drawing: _Drawing, node: int) -> dict[str, Any]:
    forest, summary, errors = drawing.rows.forest, drawing.summary, drawing.errors
    leaf = leaf_of_node(forest, node)
    entry: dict[str, Any] = {"leaf": leaf, "equation": value_text(forest, leaf, drawing.wording)}
    if summary is not None:
        entry |= {"error": float(summary["error"][leaf]), "isRmse": summary["error_name"] == "rmse"}
        entry["clipped"] = int(summary["n_clipped"][leaf])
    if forest.has_linear_leaves:
        found = leaf_equation(forest, leaf, drawing.wording, errors)
        are_factors = speaks_of_odds(forest) or multiplies(forest)
        entry["terms"] = [_term(term, are_factors, drawing.wording) for term in found.terms]
        entry["smaller"] = [found.n_smaller, smaller_text(found, are_factors, drawing.wording)]
        if errors is not None:
            entry["standardErrors"] = errors[slice(*forest.linear_offsets[leaf : leaf + 2])]
    return entry


def _term(term: Term, are_factors: bool, wording: Wording) -> dict[str, Any]:
    """Describe a term for its bar: what one standard deviation adds, and its coefficient or factor as text."""
    name, text, effect, error = described(term, are_factors, wording)
    levels = [{"name": name, "value": value} for name, value in term.levels]
    found = {"name": name, "text": text, "effect": effect, "error": error, "levels": levels}
    if term.curve is None:
        return found
    x, y = np.array(term.curve.points).T
    return found | {"curve": _rounded({"x": x, "y": y})}


def leaves_under(forest: TreeEnsemble, tree: int) -> list[list[int]]:
    """Leaves below each node of a tree, indices into the forest's."""
    first, last = forest.tree_offsets[tree : tree + 2].tolist()
    under: list[list[int]] = [[] for _ in range(first, last)]
    leaf = leaf_of_node(forest, last)
    for node in range(last - 1, first - 1, -1):
        if forest.feature[node] < 0:
            leaf -= 1
            under[node - first] = [leaf]
        else:
            left = int(forest.left[node])
            under[node - first] = under[left] + under[left + 1]
    return under


def shown_class(rows: ReportRows, tree: int) -> int | None:
    """Choose the class that a tree's nodes show the share of: its own, or the most frequent one; None for numbers."""
    if len(rows.forest.classes) != 1 or not rows.classes:
        return None
    place = class_index(rows.forest, tree)
    return int(rows.responses.mean(axis=0).argmax()) if place is None else place


def target_of(rows: ReportRows, tree: int) -> Array:
    """Select the values averaged per node: targets, class indicators, or predictions."""
    place = shown_class(rows, tree)
    if place is not None:
        return rows.responses[:, place] if rows.y is None else (rows.y == place).astype(np.float64)
    if rows.y is None or rows.forest.classes:
        margins = rows.margins[:, int(rows.forest.tree_output[tree])]
        return np.exp(margins) if multiplies(rows.forest) else margins
    return rows.y
