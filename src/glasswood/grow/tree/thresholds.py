"""Thresholds of the best tree: midway between the training rows that they part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles, Int32s

if TYPE_CHECKING:
    from glasswood.grow.data.rows import TrainingRows

Gap = tuple[int, int]
"""The largest rank on the left and the smallest on the right; any threshold between them parts the rows alike."""


def split_thresholds(tree: dict[str, Any], rows: TrainingRows, reached: list[Int32s]) -> Doubles:
    """Threshold of every split, by node: midway in the gap; +inf where all values go left.

    Tests of one attribute whose gaps overlap are one test to the data: they share what is common to their gaps, which
    is narrower and so nearer to the truth, and reads as one number.
    """
    thresholds = np.zeros(len(tree["feature"]))
    for attribute in np.unique(tree["feature"][tree["feature"] >= 0]):
        gaps: dict[int, Gap] = {}
        for node in np.flatnonzero(tree["feature"] == attribute).tolist():
            gap = _gap(rows.ranks[attribute], reached[tree["left"][node]], reached[tree["right"][node]])
            thresholds[node] = np.inf
            if gap is not None:
                gaps[node] = gap
        for split, common in shared(gaps).items():
            thresholds[split] = _middle(rows.distinct(attribute), common)
    return thresholds


def shared(gaps: dict[int, Gap]) -> dict[int, Gap]:
    """Overlapping gaps replaced by their intersection, in as few groups as possible (by rising right ends)."""
    result: dict[int, Gap] = {}
    waiting = sorted(gaps, key=lambda node: gaps[node][1])
    while waiting:
        end = gaps[waiting[0]][1]
        group = [node for node in waiting if gaps[node][0] < end]
        waiting = [node for node in waiting if gaps[node][0] >= end]
        start = max(gaps[node][0] for node in group)
        result.update(dict.fromkeys(group, (start, end)))
    return result


def _gap(ranks: Int32s, left: Int32s, right: Int32s) -> Gap | None:
    """None if no value goes right; a left side without values ends just below the right one."""
    above = ranks[right][ranks[right] >= 0]
    if not len(above):
        return None
    high, low = int(above.min()), int(ranks[left].max(initial=-1))
    return (low if low >= 0 else high - 1), high


def _middle(values: Doubles, gap: Gap) -> float:
    high = float(values[gap[1]])
    low = float(values[gap[0]]) if gap[0] >= 0 else high
    middle = low + (high - low) / 2
    return middle if low < middle <= high else high
