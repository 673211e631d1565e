"""The training rows as the engine reads them: standardised values for sums, ranks for tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base import parallel
from glasswood.base.parallel import beside, side_by_side
from glasswood.base.typing import Bools, Doubles, Floats, Int32s, Int64s
from glasswood.grow.data.sorting import KnownRanks, Sorter

Values = TypeVar("Values", bound="np.ndarray[Any, Any]")

STORAGES: tuple[str, ...] = ("float64", "float32")
"""Types that z may be stored in."""

CENTRE_DIGITS = 16
"""Steps of a rounded centre in a unit of the rounded scale: off by a thirty-second of the spread at most."""

NEAR_ZERO = 2
"""Spreads from its centre within which 0 serves as well: raw squares are then at most five times the centred ones."""

SMALLEST_UNIT = 1e-290
"""Smallest unit of a rounded scale, so that parts of it are normal numbers."""

FEW_VALUES = 200_000
"""Fewer are ranked sooner than threads start."""

BLOCK_VALUES = 1 << 17
"""Values that are standardised together: what becomes of them stays in a core's cache."""

ZONE = _core.GROW_ZONE
"""Rows that are kept together."""

LEAST_ARRANGED = 1 << 17
"""Fewer rows stay in their order."""

MOST_ARRANGED = 12
"""Rows of more attributes stay in theirs: which of the attributes would be tested is not known before the search."""

EXPLAINED_BINS = 16
"""Quantiles of an attribute whose mean targets tell how much depends on it."""

LEAST_EXPLAINED = 1e-3
"""Share of the variance that every attribute is taken to explain."""

GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples modulo 1 are spread evenly, however many there are."""


@dataclass(frozen=True, eq=False)
class Standard:
    """Centre and scale of a column; all zeros where it is constant."""

    centre: float
    scale: float


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Arrays that the engine borrows, and what turns its ranks back into values.

    Attributes
    ----------
    z : float64 or float32, (n_rows, width)
        1, standardised linear attributes (0 where missing), missing indicators, y; scaled by the root of the weight.
    y : float64, (n_rows,)
        Standardised target.
    ranks : int32, (n_attributes, n_rows)
        Position of the value among the attribute's distinct values; -1 where missing.
    order : int32, (n_attributes, n_rows)
        Rows by rank, missing ones first.
    values, starts, offsets
        Distinct values of all attributes, the first position in `order` of each rank, and where an attribute's begin.
    column, indicator : int32, (n_attributes,)
        Column of z of the attribute and of its missing indicator, -1 if there is none.
    width : int
        Columns of z.
    weight : float64, (n_rows,)
        Mean 1.
    attributes : list of Standard
    target : Standard
    source : int32, (n_rows,), or None
        Which row of the given data each row is; None: the same.
    """

    z: Floats
    y: Doubles
    ranks: Int32s
    order: Int32s
    values: Doubles
    starts: Int32s
    offsets: Int64s
    column: Int32s
    indicator: Int32s
    width: int
    weight: Doubles
    attributes: list[Standard]
    target: Standard
    source: Int32s | None = None

    def distinct(self, attribute: int) -> Doubles:
        """Distinct values of an attribute, rising."""
        return self.values[self.offsets[attribute] : self.offsets[attribute + 1]]


def standard(values: Doubles, weight: Doubles) -> Standard:
    """Weighted mean and standard deviation of the present values, without overflow at 1e±150."""
    present = ~np.isnan(values)
    if not present.any():
        return Standard(0.0, 0.0)
    x, w = (values, weight) if present.all() else (values[present], weight[present])
    # One array for all of it: new memory costs as much as what is done in it.
    half, total = np.divide(x, 2), w.sum()
    half -= x[0] / 2
    half *= w
    centre = float(x[0] + half.sum() / total * 2)
    np.divide(x, 2, out=half)
    half -= centre / 2
    largest = float(max(half.max(), -half.min())) * 2
    if largest <= 1e-14 * abs(centre) or largest == 0:
        return Standard(centre, 0.0)
    scaled = np.subtract(x, centre, out=half)
    scaled /= largest
    scaled *= scaled
    scaled *= w
    return Standard(centre, float(np.sqrt(scaled.sum() / total)) * largest)


def on_grid(by: Standard) -> Standard:
    """Round a scale to a power of two, and the centre to 0 or to few digits of the scale.

    Values that are whole multiples of a power of two and span at most 2^24 of it then become float32 without rounding,
    and those of a float32 column about whose centre 0 is near.
    """
    if by.scale < SMALLEST_UNIT:
        return by
    scale = 2.0 ** math.floor(math.log2(by.scale))
    if abs(by.centre) <= NEAR_ZERO * by.scale:
        return Standard(0.0, scale)
    step = scale / CENTRE_DIGITS
    return Standard(float(np.rint(by.centre / step)) * step, scale)


def standardised(values: Doubles, by: Standard) -> Doubles:
    """Values in units of the column's spread about its centre; NaN stays, constant columns become 0."""
    if by.scale == 0:
        return np.where(np.isnan(values), np.nan, 0.0)
    return (values - by.centre) / by.scale


def arranged(
    ranks: Int32s, n_distinct: Int64s, y: Doubles, n_threads: int = 1, sorter: Sorter | None = None
) -> Int32s | None:
    """Order of rows in which those of similar ranks lie together, ZONE at a time; None where it would not pay.

    A search asks for the rows of boxes. Zones are boxes too, so that most lie in one or apart from it as a whole. Their
    order is shuffled: any stretch of the rows is spread over all of the space, and GPUs that share the rows share the
    work of each box.

    Parameters
    ----------
    ranks : int32, (n_attributes, n_rows)
    n_distinct : int, (n_attributes,)
    y : float64, (n_rows,)
        Attributes along which its mean changes more are cut into more pieces.
    n_threads : int
    sorter : Sorter, optional
        What sorts rows, by default the cores.

    Notes
    -----
    By bits of the ranks, interleaved (Morton 1966). O(n_rows log n_rows), some 8 bytes a row beside the result.
    """
    n_attributes, n_rows = ranks.shape
    if n_rows < LEAST_ARRANGED or not 0 < n_attributes <= MOST_ARRANGED:
        return None
    n_bits = min(16, math.ceil(math.log2(n_rows / ZONE)) + 1)
    explained = side_by_side(lambda a: _explained(ranks[a], int(n_distinct[a]), y), n_attributes, n_threads)
    gains = np.array(explained) + LEAST_EXPLAINED
    levels = np.zeros(n_attributes, int)
    for _ in range(n_bits):
        levels[np.argmax(gains / 4.0**levels)] += 1
    scales = 2.0**levels / (n_distinct + 1)
    key, bits = np.zeros(n_rows, np.uint16), _interleaved(levels)

    def find_keys(block: int) -> None:
        rows = slice(block * BLOCK_VALUES, (block + 1) * BLOCK_VALUES)
        for a, of_place in bits.items():
            key[rows] |= of_place[((ranks[a, rows] + 1) * scales[a]).astype(np.uint16)]

    side_by_side(find_keys, -(-n_rows // BLOCK_VALUES), n_threads)
    order = (sorter or Sorter()).order(key)
    n_whole = n_rows // ZONE
    shuffled, result = np.argsort(np.arange(n_whole) * GOLDEN % 1.0), np.empty_like(order)
    zones, places = (rows[: n_whole * ZONE].reshape(n_whole, ZONE) for rows in (order, result))
    np.take(zones, shuffled, axis=0, out=places, mode="clip")  # of other modes NumPy makes a copy
    result[n_whole * ZONE :] = order[n_whole * ZONE :]
    return result


def _explained(rank: Int32s, n_distinct: int, y: Doubles) -> float:
    """Share of y's variance between EXPLAINED_BINS quantiles of an attribute, by an even sample of the rows."""
    step = -(-len(y) // FEW_VALUES)
    rank, y = rank[::step], y[::step]
    place = ((rank + 1) * (EXPLAINED_BINS / (n_distinct + 1))).astype(np.intp)
    count, total = np.bincount(place), np.bincount(place, y)
    filled = count > 0
    between = float((total[filled] ** 2 / count[filled]).sum() - total.sum() ** 2 / len(y))
    return between / max(float(((y - y.mean()) ** 2).sum()), np.finfo(float).tiny)


def _interleaved(levels: Int64s) -> dict[int, NDArray[np.uint16]]:
    """Bits of the key by attribute and place along it: the highest bits of all attributes in turn, then the next."""
    places = {int(a): np.arange(1 << levels[a]) for a in np.flatnonzero(levels)}
    bits = {a: np.zeros(len(place), np.uint16) for a, place in places.items()}
    shift = int(levels.sum())
    for level in range(int(levels.max(initial=0))):
        for a in np.flatnonzero(levels > level).tolist():
            shift -= 1
            bits[a] |= ((places[a] >> (levels[a] - 1 - level) & 1) << shift).astype(np.uint16)
    return bits


def rank_zones(ranks: Int32s) -> Int32s:
    """Least and greatest rank of each feature in every ZONE rows, (n_features, n_zones, 2)."""
    firsts = np.arange(0, ranks.shape[1], ZONE)
    zones = np.empty((len(ranks), len(firsts), 2), np.int32)

    def find(a: int) -> None:
        for side, bound in enumerate((np.minimum, np.maximum)):
            zones[a, :, side] = bound.reduceat(ranks[a], firsts)

    side_by_side(find, len(ranks), threads_of(ranks.size))
    return zones


def _packed(
    X: Doubles,
    source: Int32s | None,
    y: Doubles,
    weight: Doubles,
    attributes: list[Standard],
    column: Int32s,
    indicator: Int32s,
    width: int,
    storage: str,
    n_threads: int,
) -> Floats:
    """Rows of z, a block of them at a time."""
    z = np.zeros(len(y) * width + _core.GROW_LANES, storage)[: -_core.GROW_LANES].reshape(len(y), width)
    linear, marked = np.flatnonzero(column >= 0), np.flatnonzero(indicator >= 0)
    units = [on_grid(attributes[a]) if storage == "float32" else attributes[a] for a in linear]
    centres, scales = (np.array([getattr(unit, name) for unit in units]) for name in ("centre", "scale"))
    n_rows = max(1, BLOCK_VALUES // X.shape[1])

    def pack(block: int) -> None:
        rows = slice(block * n_rows, (block + 1) * n_rows)
        given = X[rows] if source is None else np.take(X, source[rows], axis=0, mode="clip")
        root = np.sqrt(weight[rows])[:, None]
        values = given[:, linear]
        values -= centres
        values /= scales
        if len(marked):
            np.nan_to_num(values, copy=False)
            z[rows, 1 + len(linear) : width - 1] = np.isnan(given[:, marked]) * root
        z[rows, 1 : 1 + len(linear)] = values * root
        z[rows, 0], z[rows, width - 1] = root[:, 0], y[rows] * root[:, 0]

    side_by_side(pack, -(-len(y) // n_rows), n_threads)
    return z


def gathered(X: Values, rows: Int32s) -> Values:
    """Take rows of X, or numbers of a list, in blocks side by side; X itself if they are all of it in its order."""
    if _are_all(rows, len(X)):
        return X
    result: Any = np.empty((len(rows), *X.shape[1:]), X.dtype)
    n_rows = max(1, BLOCK_VALUES // max(math.prod(X.shape[1:]), 1))

    def gather(block: int) -> None:
        chosen = slice(block * n_rows, (block + 1) * n_rows)
        result[chosen] = X[rows[chosen]]

    side_by_side(gather, -(-len(rows) // n_rows), threads_of(result.size))
    taken: Values = result
    return taken


def _are_all(rows: Int32s, n_rows: int) -> bool:
    """Whether they are all `n_rows` rows in their order; the first and the last say mostly that they are not."""
    if len(rows) != n_rows or not n_rows or (rows[0], rows[-1]) != (0, n_rows - 1):
        return False
    return np.array_equal(rows, np.arange(n_rows, dtype=np.int32))


def threads_of(n_values: int) -> int:
    """Threads that are worth starting for a pass over `n_values` values."""
    return parallel.n_threads(None) if n_values > FEW_VALUES else 1


def columns_with(test: Callable[[Doubles], Bools], X: Doubles) -> Bools:
    """Find the columns any value of which passes a test such as `np.isnan`: bool, (n_columns,)."""
    n_rows = max(1, BLOCK_VALUES // max(X.shape[1], 1))

    def ask(block: int) -> Bools:
        return np.asarray(test(X[block * n_rows : (block + 1) * n_rows]).any(axis=0))

    found = np.zeros(X.shape[1], bool)
    for one in side_by_side(ask, -(-len(X) // n_rows), threads_of(X.size)):
        found |= one
    return found


def column_ranges(X: Doubles) -> tuple[Doubles, Doubles]:
    """Find the smallest and the largest value of each column, NaN where all are missing: float64, (n_columns,)."""
    n_rows = max(1, BLOCK_VALUES // max(X.shape[1], 1))

    def find(block: int) -> tuple[Doubles, Doubles]:
        rows = X[block * n_rows : (block + 1) * n_rows]
        return np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)

    found = side_by_side(find, -(-len(X) // n_rows), threads_of(X.size))
    return np.fmin.reduce([low for low, _ in found]), np.fmax.reduce([high for _, high in found])


def prepare(
    X: Doubles,
    y: Doubles,
    weight: Doubles,
    linear: Bools,
    n_threads: int = 1,
    storage: str = "float64",
    testable: Bools | None = None,
    sorter: Sorter | None = None,
    known: KnownRanks | None = None,
) -> TrainingRows:
    """Standardise, rank and pack.

    Parameters
    ----------
    X : float64, (n_rows, n_attributes)
        NaN marks a missing value; categorical attributes hold their position in the order of mean targets.
    y : float64, (n_rows,)
    weight : float64, (n_rows,)
        Positive.
    linear : bool, (n_attributes,)
        Attributes that leaf models may use; constant ones never do.
    n_threads : int
        Attributes are ranked side by side.
    storage : {"float64", "float32"}
        Type of z. In float32 the units of attributes are powers of two and their centres are round or 0, so that
        columns of few digits are kept exactly; the others and y are rounded.
    testable : bool, (n_attributes,), optional
        Attributes that splits may test, by default all; the others have one rank for all rows with a value.
    sorter : Sorter, optional
        What ranks columns, by default the cores.
    known : KnownRanks, optional
        Of these rows.

    Notes
    -----
    O(n_rows log n_rows) an attribute whose ranks are not known; up to 16 (2 + 2 n_attributes) bytes a row, all of them
    kept, of which float32 saves up to 4 (2 + 2 n_attributes).
    """
    testable, sorter = np.ones(X.shape[1], bool) if testable is None else testable, sorter or Sorter()
    n_threads = n_threads if X.size > FEW_VALUES else 1
    weight = weight / weight.mean()
    units, ranks, order, values, starts, offsets = _ranked_columns(X, y, weight, testable, n_threads, sorter, known)
    *attributes, target = units
    usable = linear & np.array([s.scale > 0 for s in attributes], bool)
    missing = (starts[offsets[:-1] + np.arange(len(ranks))] > 0) & usable
    column = np.where(usable, np.cumsum(usable), -1).astype(np.int32)
    indicator = np.where(missing, usable.sum() + np.cumsum(missing), -1).astype(np.int32)
    width = 2 + int(usable.sum()) + int(missing.sum())
    y = standardised(y, target)
    source = arranged(ranks, np.diff(offsets), y, n_threads, sorter)
    if source is not None:
        y, weight = gathered(y, source), gathered(weight, source)
    z, _ = beside(
        lambda: _packed(X, source, y, weight, attributes, column, indicator, width, storage, n_threads),
        lambda: None if source is None else sorter.rearrange(ranks, order, source, n_threads),
        n_threads,
    )
    by_rank = (ranks, order, values, starts, offsets)
    return TrainingRows(z, y, *by_rank, column, indicator, width, weight, attributes, target, source)


def _ranked_columns(
    X: Doubles,
    y: Doubles,
    weight: Doubles,
    testable: Bools,
    n_threads: int,
    sorter: Sorter,
    known: KnownRanks | None,
) -> tuple[list[Standard], Int32s, Int32s, Doubles, Int32s, Int64s]:
    """Units, y's behind those of the attributes, ranks, order, values, starts and offsets, as TrainingRows has them."""
    n_rows, n_attributes = X.shape
    each = (n_attributes, n_rows), np.int32
    shapes = each, each, ((n_rows * n_attributes,), np.float64), (((n_rows + 1) * n_attributes,), np.int32)

    def begin(task: int) -> Any:
        """Take memory, and beside it standardise columns: memory that is pinned takes as long."""
        if task < len(shapes):
            return sorter.empty(*shapes[task])
        a = task - len(shapes)
        return standard(y if a == n_attributes else np.ascontiguousarray(X[:, a]), weight)

    ranks, order, values, starts, *units = side_by_side(begin, len(shapes) + n_attributes + 1, n_threads)

    def rank(a: int) -> int:
        tested = np.ascontiguousarray(X[:, a]) if testable[a] else np.where(np.isnan(X[:, a]), np.nan, 0.0)
        # Where they stand if no value repeats: threads write beside each other.
        own_values, own_starts = values[a * n_rows :][:n_rows], starts[a * (n_rows + 1) :][: n_rows + 1]
        is_known = known is not None and testable[a] and known.knows(a)
        ranker = partial(known.rank, a) if known is not None and is_known else sorter.rank
        return ranker(tested, ranks[a], order[a], own_values, own_starts)

    offsets = np.zeros(n_attributes + 1, np.int64)
    offsets[1:] = np.cumsum(side_by_side(rank, n_attributes, n_threads))
    for a, (at, end) in enumerate(itertools.pairwise(offsets.tolist())):
        if at < a * n_rows:
            values[at:end] = values[a * n_rows :][: end - at]
            starts[at + a : end + a + 1] = starts[a * (n_rows + 1) :][: end - at + 1]
    return units, ranks, order, values[: offsets[-1]], starts[: offsets[-1] + n_attributes], offsets
