"""The strongest interactions of rows, without the matrices of all rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Int32s, Int64s

if TYPE_CHECKING:
    from glasswood.inputs.placed import PlacedRows

    Explain = Callable[[PlacedRows], Array]

TOGETHER = 2**26
"""Bytes of the matrices of rows that are explained together, as float64."""


class PairSearch:
    """Pairs of features asked for, and how many of them are wanted.

    Parameters
    ----------
    places : int32, (P,)
        Each feature's place among those whose pairs are searched, or -1.
    n_outputs : int
    top : int
        Pairs wanted.
    overall : bool
        By the mean over all rows, else for each row.
    out : None
        There are no matrices to write into.

    Raises
    ------
    ValueError, TypeError
        If `top` is not a number from 1 to that of the pairs, or there is an `out`.
    """

    def __init__(self, places: Int32s, n_outputs: int, top: int | None, overall: bool, out: Array | None) -> None:
        if top is None:
            raise ValueError("overall=True ranks the strongest pairs; pass top, how many of them")
        if isinstance(top, bool) or not hasattr(top, "__index__"):
            raise TypeError(f"top is {top!r}, expected a number of pairs")
        if out is not None:
            raise ValueError("out holds whole matrices; leave out=None with top")
        self._places, self._n_outputs, self._top, self._overall = places, n_outputs, int(top), overall
        self._pairs, self._entries = pairs_of(places)
        if not 1 <= top <= len(self._pairs):
            raise ValueError(f"top is {top}, expected 1 to {len(self._pairs)}, the number of pairs of features")

    def run(self, rows: PlacedRows, explain: Explain) -> tuple[Int32s, Array]:
        """Find the pairs; `explain` makes the matrices of some of the rows."""
        if self._overall:
            return self._run_overall(rows, explain)
        return _joined([self._of_rows(chunk) for chunk in self._chunks(rows, explain)])

    def _of_rows(self, chunk: Array) -> tuple[Int32s, Array]:
        order = strongest_entries(np.abs(chunk), self._top)
        pairs = self._pairs[order].transpose(0, 1, 3, 2)
        values = np.take_along_axis(chunk, order, axis=1)
        return self._without_outputs(pairs), self._without_outputs(values)

    def _run_overall(self, rows: PlacedRows, explain: Explain) -> tuple[Int32s, Array]:
        strength = np.zeros(len(self._pairs))
        for chunk in self._chunks(rows, explain):
            strength += np.abs(chunk).sum(axis=(0, 2), dtype=np.float64)
        chosen = strongest_entries(strength[None, :, None], self._top)[0, :, 0]
        values = [self._without_outputs(chunk[:, chosen]) for chunk in self._chunks(rows, explain)]
        return self._pairs[chosen], np.concatenate(values)

    def _chunks(self, rows: PlacedRows, explain: Explain) -> Any:
        """Entries of the pairs of some rows after the other: (n, pairs, outputs)."""
        n_players, n_places = len(self._places), int(self._places.max(initial=-1)) + 1
        size = max(1, TOGETHER // (8 * n_players * n_places * self._n_outputs))
        for first in range(0, max(len(rows), 1), size):
            matrices = explain(rows[first : first + size])
            flat = matrices.reshape(len(matrices), n_places * n_players, self._n_outputs)
            yield flat[:, self._entries]

    def _without_outputs(self, array: Array) -> Array:
        return array[..., 0] if self._n_outputs == 1 else array


def pairs_of(places: Int32s) -> tuple[Int32s, Int64s]:
    """Pairs (i, j), i < j, that have a place, in their order, and where the matrices (place, feature) have them."""
    i, j = np.triu_indices(len(places), 1)
    asked = (places[i] >= 0) | (places[j] >= 0)
    i, j = i[asked], j[asked]
    entries = np.where(places[i] >= 0, places[i] * np.int64(len(places)) + j, places[j] * np.int64(len(places)) + i)
    return np.stack([i, j], axis=1).astype(np.int32), entries


def strongest_entries(magnitude: Array, top: int) -> Int64s:
    """Places of the largest along axis 1 of (n, entries, outputs), falling; of equal ones the first."""
    by_output = np.nan_to_num(np.moveaxis(magnitude, 2, 1), nan=np.inf)
    least = np.partition(by_output, -top, axis=2)[..., -top, None]
    above, equal = by_output > least, by_output == least
    missing = top - above.sum(axis=2, keepdims=True)
    kept = above | (equal & (np.cumsum(equal, axis=2) <= missing))
    found = np.nonzero(kept)[2].reshape(*by_output.shape[:2], top)
    order = np.argsort(-np.take_along_axis(by_output, found, axis=2), axis=2, kind="stable")
    return np.moveaxis(np.take_along_axis(found, order, axis=2), 1, 2)


def _joined(parts: list[tuple[Int32s, Array]]) -> tuple[Int32s, Array]:
    pairs, values = zip(*parts, strict=True)
    return np.concatenate(pairs), np.concatenate(values)
