"""The map from accumulators of the CUDA walk to numbers of a result. No GPU is needed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Int64s

if TYPE_CHECKING:
    from glasswood.explain.cuda.leaf_tapes import LeafTape
    from glasswood.explain.cuda.tapes import Tape

MOST_COMPLETE = 2**16
"""Interactions of a row up to which numbers without an accumulator are entries too. More would take memory: their
results are filled with zeros first."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Which accumulators make which numbers of a row's result.

    Attributes
    ----------
    slot_starts : int64, (n_entries + 1,)
        Entry ``e`` sums ``slots[slot_starts[e]:slot_starts[e + 1]]``.
    slots : int64
    target, mirror : int64, (n_entries,)
        Position in the row's result, and a second one or -1.
    """

    slot_starts: Int64s
    slots: Int64s
    target: Int64s
    mirror: Int64s


def find_targets(keys: Int64s, n_features: int, n_outputs: int, pairs: bool, chosen: NDArray[np.intp]) -> Targets:
    """Group the accumulators by the number that they add to, in their own order."""
    j, rest = keys % n_features, keys // n_features
    i, output = rest % n_features, rest // n_features
    position = np.full(n_features, -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    if not pairs:
        target, mirror = i * n_outputs + output, np.full(len(keys), -1, np.int64)
        entries, starts = _group(target, np.arange(n_features * n_outputs))
        return Targets(
            starts, entries, np.arange(n_features * n_outputs), np.full(n_features * n_outputs, -1, np.int64)
        )
    first = np.where(position[i] >= 0, (position[i] * n_features + j) * n_outputs + output, -1)
    second = np.where((position[j] >= 0) & (i != j), (position[j] * n_features + i) * n_outputs + output, -1)
    target, mirror = np.where(first >= 0, first, second), np.where(first >= 0, second, -1)
    known = np.unique(target[target >= 0])
    row_size = len(chosen) * n_features * n_outputs
    if row_size <= MOST_COMPLETE:
        known = np.setdiff1d(np.arange(row_size), second[first >= 0])
    entries, starts = _group(target, known)
    mirrors = np.full(len(known), -1, np.int64)
    has_slots = np.diff(starts) > 0
    mirrors[has_slots] = mirror[entries[starts[:-1][has_slots]]]
    return Targets(starts, entries, known, mirrors)


def _group(target: Int64s, known: Int64s) -> tuple[Int64s, Int64s]:
    order = np.argsort(target, kind="stable")
    ordered = target[order]
    first = int(np.searchsorted(ordered, 0))
    starts = np.searchsorted(ordered[first:], np.append(known, np.iinfo(np.int64).max))
    return order[first:].astype(np.int64), starts.astype(np.int64)


class OnGpu:
    """Tapes and targets in the memory of one GPU."""

    host_starts: Int64s
    slot_starts: Any

    def __init__(
        self, cupy: ModuleType, tapes: Sequence[Tape | LeafTape], targets: Targets, chosen: NDArray[np.intp]
    ) -> None:
        self.tapes: list[dict[str, Any]] = [tape.upload(cupy) for tape in tapes]
        self.host_starts, self.slot_starts = targets.slot_starts, cupy.asarray(targets.slot_starts)
        self.slots: Any = cupy.asarray(targets.slots)
        self.target: Any = cupy.asarray(targets.target)
        self.mirror: Any = cupy.asarray(targets.mirror)
        self.chosen: Any = cupy.asarray(chosen.astype(np.int32))
