"""The strongest interactions of rows, without the matrices of all rows in memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glasswood import _core
from glasswood.base.device import array_gpu, import_cupy
from glasswood.base.escapes import quoted
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Array, Doubles, Int32s, Int64s

if TYPE_CHECKING:
    from glasswood.inputs.placed import PlacedRows

TOGETHER, ROWS_A_THREAD = 2**24, 16
"""Bytes of the matrices that are explained together on the CPU, which stay in the cache until they are searched, and
the least rows per thread, which it explains at once."""

KEPT = 2**26
"""Bytes of entries up to which those of all pairs are kept while the strongest overall are not known yet."""

PROBED, LEAST_PROBED, CANDIDATES = 32, 16, 4
"""Inverse share of the rows, and their least number, that tell the candidates for the strongest pairs of all rows;
number of candidates per wanted pair."""


class PairEngine(Protocol):
    """What searches the matrices of some rows, where they are computed."""

    def strongest(self, rows: PlacedRows, pairs: Int32s, entries: Int64s, top: int) -> tuple[Any, Any]:
        """Find the strongest of each row, falling: pairs, (n, top, 2, k), and entries, (n, top, k)."""

    def like(self, rows: PlacedRows, result: Any) -> Any:
        """Return a result where those of the rows are."""

    def magnitudes(self, rows: PlacedRows, entries: Int64s, taken: Int64s) -> tuple[Doubles, Array]:
        """Add up the magnitudes of entries over rows and outputs, (E,); take some entries of each row, (n, t, k)."""


def beside(rows: PlacedRows, result: Any) -> Any:
    """Return a result in the library of the rows where these lie on a GPU; host arrays go there."""
    if not rows.gpus or array_gpu(rows.rows) is None:
        return result
    from glasswood.cuda.rows import like

    with import_cupy().cuda.Device(rows.gpus[0]):
        return like(rows.rows, import_cupy().asarray(result))


class HostPairs:
    """Searches matrices on the host.

    Parameters
    ----------
    explain : callable
        ``explain(rows, out)`` makes the matrices of rows, (n, m, P) or (n, m, P, k), in an array or in a new one.
    shape : tuple of int
        Of a row's matrix: (m, P) or (m, P, k).
    dtype : str
    n_jobs : int, optional
    """

    def __init__(
        self,
        explain: Callable[[PlacedRows, Array | None], Array],
        shape: tuple[int, ...],
        dtype: str,
        n_jobs: int | None,
    ) -> None:
        self._explain, self._shape, self._dtype = explain, shape, np.dtype(dtype)
        self._row_size, self._n_outputs = shape[0] * shape[1], math.prod(shape[2:])
        self._n_threads = n_threads(n_jobs)

    def strongest(self, rows: PlacedRows, pairs: Int32s, entries: Int64s, top: int) -> tuple[Any, Any]:
        """Find them chunk by chunk."""
        found = []
        for matrices in self._chunks(rows):
            shape = (len(matrices), top, self._n_outputs)
            places, values = np.empty(shape, np.int32), np.empty(shape, matrices.dtype)
            _core.strongest_entries(matrices, entries, places, values, self._n_threads)
            found.append((places, values))
        places, values = (np.concatenate(part) for part in zip(*found, strict=True))
        return self.like(rows, pairs[places].transpose(0, 1, 3, 2)), self.like(rows, values)

    def like(self, rows: PlacedRows, result: Any) -> Any:
        """Return a result beside the rows."""
        return beside(rows, result)

    def magnitudes(self, rows: PlacedRows, entries: Int64s, taken: Int64s) -> tuple[Doubles, Array]:
        """Add them chunk by chunk."""
        total, values = np.zeros(len(entries)), []
        for matrices in self._chunks(rows):
            _core.add_magnitudes(matrices, entries, total, self._n_threads)
            values.append(matrices[:, taken])
        return total, np.concatenate(values)

    def _chunks(self, rows: PlacedRows) -> Any:
        """Matrices of some rows after the other: (n, m · P, k)."""
        row_bytes = max(1, self._dtype.itemsize * math.prod(self._shape))
        size = max(ROWS_A_THREAD * self._n_threads, TOGETHER // row_bytes)
        kept = None if rows.gpus else np.empty((min(size, len(rows)), *self._shape), self._dtype)
        for first in range(0, max(len(rows), 1), size):
            some = rows[first : first + size]
            matrices = self._explain(some, None if kept is None else kept[: len(some)])
            yield np.ascontiguousarray(matrices).reshape(len(some), self._row_size, self._n_outputs)


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
            raise TypeError(f"top is {quoted(top)}, expected a number of pairs")
        if out is not None:
            raise ValueError("out holds whole matrices; leave out=None with top")
        self._n_outputs, self._top, self._overall = n_outputs, int(top), overall
        self._pairs, self._entries = pairs_of(places)
        if not 1 <= top <= len(self._pairs):
            raise ValueError(f"top is {top}, expected 1 to {len(self._pairs)}, the number of pairs of features")

    @property
    def n_listed(self) -> int:
        """Length of a row's list of pairs."""
        return 0 if self._overall else self._top

    def run(self, rows: PlacedRows, engine: PairEngine) -> tuple[Int32s, Array]:
        """Find the pairs and their values."""
        if self._overall:
            return self._run_overall(rows, engine)
        pairs, values = engine.strongest(rows, self._pairs, self._entries, self._top)
        return self._without_outputs(pairs), self._without_outputs(values)

    def _run_overall(self, rows: PlacedRows, engine: PairEngine) -> tuple[Int32s, Array]:
        """Take the entries of candidates while strengths are added up; a pair that was none costs a second pass."""
        kept = np.arange(len(self._entries))
        if 8 * len(rows) * len(kept) * self._n_outputs > KEPT:
            probe = rows[:: min(PROBED, max(1, len(rows) // LEAST_PROBED))]
            strength, _ = engine.magnitudes(probe, self._entries, self._entries[:0])
            kept = np.sort(strongest_places(strength, min(len(kept), CANDIDATES * (self._top + CANDIDATES))))
        strength, values = engine.magnitudes(rows, self._entries, self._entries[kept])
        chosen = strongest_places(strength, self._top)
        if not np.isin(chosen, kept).all():
            kept = np.sort(chosen)
            _, values = engine.magnitudes(rows, self._entries[:1], self._entries[kept])
        values = values[:, engine.like(rows, np.searchsorted(kept, chosen))]
        return engine.like(rows, self._pairs[chosen]), engine.like(rows, self._without_outputs(values))

    def _without_outputs(self, array: Array) -> Array:
        return array[..., 0] if self._n_outputs == 1 else array


def pairs_of(places: Int32s) -> tuple[Int32s, Int64s]:
    """Pairs (i, j), i < j, that have a place, in their order, and where the matrices (place, feature) have them."""
    return _pairs_of(places.tobytes(), str(places.dtype))


@functools.lru_cache(maxsize=16)
def _pairs_of(content: bytes, dtype: str) -> tuple[Int32s, Int64s]:
    """Keep what takes as long as thousands of rows on a GPU."""
    places = np.frombuffer(content, dtype)
    i, j = np.triu_indices(len(places), 1)
    asked = (places[i] >= 0) | (places[j] >= 0)
    i, j = i[asked], j[asked]
    entries = np.where(places[i] >= 0, places[i] * np.int64(len(places)) + j, places[j] * np.int64(len(places)) + i)
    pairs = np.stack([i, j], axis=1).astype(np.int32)
    pairs.flags.writeable = entries.flags.writeable = False
    return pairs, entries


def strongest_places(strength: Doubles, top: int) -> Int64s:
    """Places of the largest, falling; of equal ones the first. NaN is larger than all."""
    places: Int64s = np.argsort(-np.nan_to_num(strength, nan=np.inf), kind="stable")[:top]
    return places
