"""Background rows: whose values stand for the features that a coalition does not know.

Files and exact responses keep of them what the forest's splits see. A value counts as the class of values that it
belongs to: the interval of the feature's thresholds, the category, or missing. Classes are written as some value in
them; rows of equal classes are one row with their weights.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasswood.base.device import array_gpu, import_cupy, on_host
from glasswood.base.escapes import retold, shown
from glasswood.base.typing import Array, Bools, Doubles, Floats, Int64s, Rows
from glasswood.evaluate.evaluator import evaluator_of
from glasswood.inputs import arranged, as_rows
from glasswood.inputs.categories import arrays_hold_values
from glasswood.inputs.targets import as_vector
from glasswood.model.ensemble import TreeEnsemble

WEIGHT_BITS = 62
"""Weights are integers whose sum stays below 2 to this, so that no sum of them depends on the order of rows."""

SENT_BYTES = 2**30
"""Bytes of host rows up to which a GPU that explains keeps them: it reads them for their mean, and for its tables."""

LIMB_BITS = 20
"""Bits of a weight that are summed at a time; beside them the bits of a value, and of the number of rows, fit int64."""


@dataclass(frozen=True, eq=False)
class Background:
    """Background rows as the forest routes them.

    Attributes
    ----------
    placed : (m, F), float32 or float64
        Where they came from: on the host, or a CuPy array.
    weight : (m,)
        In some unit of which the rows' weights are multiples.
    total : int
        The weights are shares of it: their sum, except in parts of an output (responses/rescaling.py).
    expected_value : (n_outputs,)
        Mean margin.
    counts : float64, (m,), or None
        Rows of the user that each stands for; of unequal weights, the number of equal ones with the same sum of squared
        weights. None: one each.
    """

    placed: Any
    weight: Int64s
    total: int
    expected_value: Doubles
    counts: Doubles | None = None

    @property
    def n_given(self) -> Doubles:
        """Rows of the user that each row stands for, (m,)."""
        return np.ones(len(self.weight)) if self.counts is None else self.counts

    @functools.cached_property
    def rows(self) -> Array:
        """The rows on the host, copied there at the first use."""
        rows: Array = on_host(self.placed)
        return rows

    def on_gpu(self, gpu: int) -> Any:
        """Return the rows where a GPU reads them fastest: in its memory if they lie there."""
        return self.placed if array_gpu(self.placed) == gpu else self.rows

    @functools.cached_property
    def is_weighted(self) -> bool:
        """Whether rows have other weights than 1."""
        return bool((self.weight != 1).any())

    def __len__(self) -> int:
        return len(self.placed)

    def __reduce__(self) -> tuple[Any, ...]:  # where it goes there may be no GPU
        return Background, (self.rows, self.weight, self.total, self.expected_value, self.counts)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows>"


def make_background(
    X: Rows | Background, weight: Any, forest: TreeEnsemble, n_jobs: int | None, gpu: int | None = None
) -> Background:
    """Check background rows and their weights; those of the host go to a GPU that is given, if they are few bytes.

    Raises
    ------
    ValueError
        If there are no rows, they do not fit the forest, or weights are negative, not finite or all 0.
    """
    if isinstance(X, Background):
        return X
    try:
        rows = _rows_on_gpu(X, forest)
        if rows is None:
            gpu = None if array_gpu(X) is not None or forest.has_linear_leaves else gpu
            rows = as_rows(arranged(on_host(X), forest), forest)
    except (TypeError, ValueError) as error:
        raise retold(error, f"background: {shown(error)}") from error
    if len(rows) == 0:
        raise ValueError("background has no rows, expected at least 1; leave background=None for path-dependent values")
    counts = integer_weights(on_host(weight), len(rows))
    # Rows that the caller changes later must not count.
    rows, counts = _copied(rows, counts > 0, gpu), counts[counts > 0]
    return placed_background(rows, counts, forest, n_jobs)


def _rows_on_gpu(X: Rows, forest: TreeEnsemble) -> Any:
    """Check rows where they lie; None if that is the host, or only the host does what the forest asks for."""
    gpu = array_gpu(X)
    if gpu is None or forest.transform is not None or arrays_hold_values(forest) or forest.has_linear_leaves:
        return None
    from glasswood.cuda.rows import as_floats, check_gpu_rows
    from glasswood.cuda.streams import stream_of

    with stream_of(X), import_cupy().cuda.Device(gpu):
        return as_floats(check_gpu_rows(X, forest, gpu), forest.threshold.dtype)


def _copied(rows: Any, used: Bools, gpu: int | None) -> Any:
    """Copy some of the rows, where they lie or to a GPU."""
    home = array_gpu(rows)
    if home is None and (gpu is None or rows.nbytes > SENT_BYTES):
        return np.array(rows if used.all() else rows[used])
    cupy = import_cupy()
    with cupy.cuda.Device(gpu if home is None else home):
        if home is None:
            return cupy.asarray(np.ascontiguousarray(rows if used.all() else rows[used]))
        return rows.copy() if used.all() else rows[cupy.asarray(used)]


def placed_background(rows: Any, counts: Int64s, forest: TreeEnsemble, n_jobs: int | None) -> Background:
    """Background of rows that `as_rows` made, or CuPy's, with weights above 0."""
    if forest.has_linear_leaves:  # sums of what the leaves' models return have an order
        order = np.lexsort(rows.T)
        rows, counts = rows[order], counts[order]
    return Background(rows, counts, int(counts.sum()), mean_margin(forest, rows, counts, n_jobs))


def integer_weights(weight: Any, n_rows: int) -> Int64s:
    """Weights as multiples of a power of two, the largest that keeps their sum exact."""
    if weight is None:
        return np.ones(n_rows, np.int64)
    weights = as_vector(weight, "background_weight")
    if weights.shape != (n_rows,):
        raise ValueError(f"background_weight has shape {weights.shape}, expected ({n_rows},), one weight per row")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"background_weight holds {weights.dtype}, expected numbers")
    weights = weights.astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        wrong = int(np.argmin(np.isfinite(weights) & (weights >= 0)))
        raise ValueError(
            f"background_weight is {weights[wrong]} for row {wrong}, expected finite numbers of at least 0"
        )
    if not weights.any():
        raise ValueError("background_weight is 0 for every row; give at least one row a weight above 0")
    spare = WEIGHT_BITS - n_rows.bit_length() - math.frexp(weights.max())[1]
    counts: Int64s = np.rint(np.ldexp(weights, spare)).astype(np.int64)
    return counts


def margins_of(forest: TreeEnsemble, rows: Any, n_jobs: int | None) -> Any:
    """Margins of rows that `as_rows` made or of CuPy's, where they lie: (n, n_outputs)."""
    evaluator = evaluator_of(forest)
    if (gpu := array_gpu(rows)) is not None:
        return evaluator.cuda.margins(rows, (gpu,), evaluator.cuda.default_choice(len(rows)))
    return evaluator.cpu.margins(rows, evaluator.cpu.choice_for_once(len(rows)), n_jobs)


def mean_margin(forest: TreeEnsemble, rows: Any, weight: Int64s, n_jobs: int | None) -> Doubles:
    """Weighted mean of the rows' margins: (n_outputs,).

    Raises
    ------
    ValueError
        If their sum is beyond float64: linear leaves extrapolate infinite and huge numbers.
    """
    margins = margins_of(forest, rows, n_jobs)
    largest = float(abs(margins).max()) if margins.size else 0.0
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float64(largest) * weight.sum()):
            raise ValueError(
                f"background: margins of its rows reach {largest:.3g}, and their sum exceeds float64; leave out "
                "rows with numbers far beyond those of training"
            )
    return np.array([mean(of_output, weight) for of_output in margins.T])


def mean(values: Any, weight: Int64s) -> float:
    """Weighted mean of finite numbers on the host or a GPU: the exact one, rounded once, so that it has no order."""
    is_on_gpu = array_gpu(values) is not None
    numbers: Any = import_cupy() if is_on_gpu else np
    weights = [(0, None)] if (weight == 1).all() else _limbs(weight, numbers)
    bits = WEIGHT_BITS - len(values).bit_length() - (0 if weights[0][1] is None else LIMB_BITS)
    shift = bits - math.frexp(float(abs(values).max()))[1]
    total, rest = 0, numbers.ldexp(values, shift)
    while True:
        limb = numbers.rint(rest)
        whole, rest = limb.astype(np.int64), rest - limb
        total += sum(int((whole if part is None else whole * part).sum()) << power for power, part in weights)
        if not rest.any():
            break
        total, rest, shift = total << bits, numbers.ldexp(rest, bits), shift + bits
    n = int(weight.sum())
    return total / (n << shift) if shift >= 0 else (total << -shift) / n


def _limbs(weight: Int64s, numbers: Any) -> list[tuple[int, Any]]:
    """Weights as sums of few bits: powers of two, and what they are multiplied by."""
    n_bits = int(weight.max()).bit_length()
    return [(power, numbers.asarray((weight >> power) & (2**LIMB_BITS - 1))) for power in range(0, n_bits, LIMB_BITS)]


def merged(background: Background, forest: TreeEnsemble) -> Background:
    """Rows that the forest's splits cannot tell apart, as one row with the sum of their weights, as files keep them."""
    arrays = condense(background, forest)
    rows, weight = expand(arrays)
    return Background(rows, weight, background.total, background.expected_value, arrays["counts"])


def condense(background: Background, forest: TreeEnsemble) -> dict[str, Array]:
    """Classes of the rows' values: numbers of classes (m, F), a value of each, weights.

    Leaves with linear models ask for the values themselves: the rows.
    """
    if forest.has_linear_leaves:
        return {"rows": background.rows, "weight": background.weight, "counts": background.n_given}
    rows = settled(background.rows, forest)
    classes = [
        np.unique(stand_ins(forest, feature, rows[:, feature]), return_inverse=True)
        for feature in range(forest.n_features)
    ]
    numbers = np.stack([number for _, number in classes], axis=1) if classes else np.zeros((len(rows), 0), np.int64)
    distinct, place = np.unique(numbers, axis=0, return_inverse=True)
    weight = np.zeros(len(distinct), np.int64)
    np.add.at(weight, place.reshape(-1), background.weight)
    squares = np.bincount(place.reshape(-1), background.weight / background.n_given * background.weight, len(distinct))
    most = max((len(values) for values, _ in classes), default=0)
    return {
        "classes": distinct.astype(np.uint16 if most <= 2**16 else np.int32),
        "values": np.concatenate([values for values, _ in classes]) if classes else rows[:0].reshape(-1),
        "offsets": np.cumsum([0, *(len(values) for values, _ in classes)]).astype(np.int64),
        "weight": weight,
        "counts": weight / squares * weight,
    }


def expand(arrays: dict[str, Array]) -> tuple[Array, Int64s]:
    """Rows of a value of each class, or the rows themselves, and their weights."""
    if "rows" in arrays:
        return arrays["rows"], arrays["weight"]
    return arrays["values"][arrays["classes"] + arrays["offsets"][:-1]], arrays["weight"]


def settled(rows: Array, forest: TreeEnsemble) -> Floats:
    """Rows as the splits see them: in the row type, tiny numbers 0, missing values NaN."""
    with np.errstate(over="ignore"):
        values: Floats = rows.astype(forest.threshold.dtype)
    if forest.zero_threshold > 0:
        values[np.abs(values) <= forest.zero_threshold] = 0
    if len(forest.zero_missing):
        values[(values == 0) & forest.zero_missing] = np.nan
    return values


def stand_ins(forest: TreeEnsemble, feature: int, column: Floats) -> Floats:
    """One value for all that go the same ways at every split on the feature; categories stand for themselves."""
    nodes = np.flatnonzero(forest.feature == feature)
    if not len(nodes):
        return np.zeros_like(column)
    if forest.is_categorical and (forest.category_set[nodes] >= 0).any():
        return column
    thresholds = np.unique(forest.threshold[nodes])
    rank = _ranks(thresholds, column)
    start = np.concatenate([np.nextafter(thresholds[:1], -np.inf), thresholds])[rank]
    result = column.copy()
    smallest = np.nextafter(np.asarray(forest.zero_threshold, column.dtype), np.asarray(np.inf, column.dtype))
    for stand_in in (-smallest, smallest, np.zeros_like(smallest), start):
        offered = np.where(np.isnan(column), column, stand_in).astype(column.dtype)
        fits = (_ranks(thresholds, offered) == rank) & _stays(forest, feature, offered)
        result = np.where(fits, offered, result)
    return result


def _ranks(thresholds: Floats, column: Floats) -> Int64s:
    return np.searchsorted(thresholds, column, side="right")


def _stays(forest: TreeEnsemble, feature: int, column: Floats) -> Bools:
    """Whether `settled` leaves the numbers as they are."""
    zero_is_missing = bool(len(forest.zero_missing)) and bool(forest.zero_missing[feature])
    is_zero = column == 0
    stays: Bools = is_zero & (not zero_is_missing) | ~is_zero & ~(np.abs(column) <= forest.zero_threshold)
    return stays
