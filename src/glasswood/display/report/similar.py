"""Rows like a row, and the interval beside its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Doubles, Int64s
from glasswood.display.report.page import packed
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.neighbors.conformal import LeafScale, conformal_quantile
from glasswood.neighbors.index import LeafIndex, TargetIndex, list_rows
from glasswood.neighbors.training import is_average, tree_shares

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows

SIMILAR, MOST_ROWS, COVERAGE = 5, 20_000, 0.9
"""Rows shown, rows that intervals follow from, and the share of targets that these hold."""


def similar_rows(rows: ReportRows, at: Int64s) -> dict[str, Any] | None:
    """Find the rows of the report that share the most leaves with each of them."""
    forest = rows.forest
    if len(at) < 2 or not forest.n_trees or forest.depth == 0:
        return None
    index = _index(rows, at)
    near, shares = index.nearest(index.positions, min(SIMILAR, len(at) - 1), 0, None)
    return {"places": packed(near.astype(np.int16), "<i2"), "similarity": packed(shares / index.total, "<f4")}


def intervals(rows: ReportRows, test: ReportRows | None, at: Int64s) -> dict[str, Any] | None:
    """Compute the intervals of the rows shown, where the model predicts one number and the targets are known.

    With test rows, they are those of split conformal prediction, whose errors are the test rows'. Otherwise they hold
    the middle of the targets of rows in the same leaves, if the forest predicts their mean.
    """
    forest = rows.forest
    if rows.y is None or rows.classes or rows.responses.shape[1] > 1 or rows.exposure is not None:
        return None  # of rates they would depend on the exposure of a row to come
    if test is None and (forest.has_linear_leaves or not is_average(forest)):
        return None
    kept = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64)
    index, shown = _index(rows, kept), evaluator_of(forest).positions(rows.settled[at])
    if test is None:
        return {"ends": packed(_of_targets(index, rows.y[kept], shown), "<f8"), "kind": "similar"}
    share = index.weights / index.total
    scale = LeafScale(rows.y[kept] - rows.responses[kept, 0], index.positions, share, forest.n_leaves)
    assert test.y is not None
    held = slice(0, MOST_ROWS)
    errors = np.abs(test.y[held] - test.responses[held, 0])
    scores = errors / scale.of(evaluator_of(forest).positions(test.settled[held]))
    half = conformal_quantile(scores, COVERAGE) * scale.of(shown)
    middle = rows.responses[at, 0]
    if not np.isfinite(half).all():
        return None
    return {"ends": packed(np.stack([middle - half, middle + half], axis=1), "<f8"), "kind": "conformal"}


def _index(rows: ReportRows, kept: Int64s) -> LeafIndex:
    forest = rows.forest
    positions = evaluator_of(forest).positions(rows.settled[kept])
    lists = list_rows(forest, positions, None)
    index = LeafIndex(forest, lists, tree_shares(forest, lists.weight(), "auto"), None, None)
    index.positions = positions
    return index


def _of_targets(index: LeafIndex, y: Array, positions: Array) -> Doubles:
    ends = np.array([(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return TargetIndex.of(index, y, None).quantiles(positions, ends, True, True, None)
