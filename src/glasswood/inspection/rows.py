"""Rows that are predicted again and again with other values in a column or two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.config import device_of
from glasswood.base.device import find_gpus, gpus_worthwhile, import_cupy, on_host, parse_device
from glasswood.base.escapes import quoted, shown
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.evaluate.evaluator import Evaluator
from glasswood.evaluate.links import respond, sums_as_margin
from glasswood.inputs import arranged, as_rows
from glasswood.inputs.shown import own_values, unknown_labels
from glasswood.inputs.targets import row_weights
from glasswood.inspection.ranks import Ranks
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

WORTHWHILE = 3_000_000
"""Rows times trees of one prediction from which rows of the host are copied to a GPU."""

MOST_NUMBERS = 4_000_000
"""Margins of a grid that are kept at a time."""


class Bunch(dict[str, Any]):
    """A dictionary whose keys are attributes too, as results of scikit-learn are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {quoted(name)} here, only {', '.join(map(shown, self))}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


class ChangingRows:
    """Rows in the forest's own order, and their predictions after columns are changed.

    `values` are the rows as `as_rows` made them.

    Parameters
    ----------
    forest : TreeEnsemble
    X : array-like or frame of shape (n, n_features)
    device : str
        As for `Forest.predict`.
    """

    forest: TreeEnsemble
    values: Array
    shown: Array

    def __init__(self, forest: TreeEnsemble, X: Rows, device: str = "auto") -> None:
        X = arranged(on_host(X), forest)
        rows = as_rows(X, forest)
        self._keep(forest, rows, own_values(X, forest), _gpus(forest, rows, device_of(device)))

    @classmethod
    def settled(cls, forest: TreeEnsemble, rows: Array, shown: Array) -> Self:
        """Take rows that `as_rows` and `own_values` made, on the CPU."""
        made = cls.__new__(cls)
        made._keep(forest, rows, shown, ())
        return made

    def _keep(self, forest: TreeEnsemble, rows: Array, shown: Array, gpus: tuple[int, ...]) -> None:
        self.forest, self.values, self.shown = forest, rows, shown
        self._gpu = gpus[0] if gpus else None

    def owned(self) -> Self:
        """Let the rows be a copy, for results that outlive the call: the caller may change X later."""
        self.values, self.shown = np.array(self.values), np.array(self.shown)
        return self

    def __len__(self) -> int:
        return len(self.values)

    def values_of(self, feature: int) -> tuple[Array, Array]:
        """List distinct values as users give them, without missing ones, and as the forest's rows hold them.

        Categories that the model does not know, as CatBoost's know none that no split tests, are listed last.
        """
        shown, rows = self.shown[:, feature], self.values[:, feature]
        present = ~np.isnan(rows)
        table = None if self.forest.categories is None else self.forest.categories[feature]
        unknown = None if table is None else unknown_labels(shown, rows, table)
        if unknown is not None:
            present &= ~unknown
        codes, first = np.unique(rows[present], return_index=True)
        values = shown[present][first]
        if unknown is not None:
            others: dict[Any, float] = {shown[row]: rows[row] for row in np.flatnonzero(unknown)}
            listed = np.empty(len(values) + len(others), object if others else values.dtype)
            listed[: len(values)], listed[len(values) :] = values, list(others)
            return listed, np.concatenate([codes, np.array(list(others.values()), codes.dtype)])
        if values.dtype == object:
            # Beside a column of text those of numbers are objects, too.
            values = values.astype(np.float64) if all(isinstance(value, Real) for value in values) else values
        return values, codes

    def places_of(self, feature: int, values: Array) -> Int64s:
        """Place of each row's category among those of `values_of`, in any order; -1 for missing ones, (n,)."""
        place = {value: number for number, value in enumerate(values.tolist())}
        return np.array([place.get(value, -1) for value in self.shown[:, feature].tolist()], np.int64)

    def responses(self, output: str) -> Array:
        """Predictions of the rows as they are now, (n,) or (n, k), on the host."""
        if self._gpu is not None:
            found = self._evaluator.predict(self._rows, output, "auto", f"cuda:{self._gpu}", None)
            return np.asarray(on_host(found))
        return np.asarray(self._repeated.predict_rows(self._rows, output, None))

    def replaced(self, columns: dict[int, Array], output: str) -> Array:
        """Predictions with other values in some columns."""
        kept = {feature: self._rows[:, feature].copy() for feature in columns}
        try:
            for feature, values in columns.items():
                with self._on_device():
                    self._rows[:, feature] = self._placed(feature, values)
            return self.responses(output)
        finally:
            for feature, column in kept.items():
                self._rows[:, feature] = column

    def _placed(self, feature: int, values: Array) -> Any:
        """Values as `_rows` holds them, where it does."""
        if self._ranks:
            return self._ranks.column(feature, values)
        return import_cupy().asarray(values) if self._gpu is not None else values

    def on_grid(self, features: Sequence[int], grid: Array, output: str) -> Iterator[tuple[slice, slice, Array]]:
        """Predictions with each point (a value per feature) of the grid: some rows, some points, and (rows, points, k).

        On the CPU a row walks a tree once for all points, with the bits of a prediction a point; rows on a GPU and
        linear leaves are predicted again for each.
        """
        if self._gpu is not None or self.forest.has_linear_leaves:
            yield from self._point_by_point(features, grid, output)
            return
        points = self._points(features, grid)
        together = max(1, MOST_NUMBERS // (len(grid) * self.forest.n_outputs))
        for first in range(0, len(self), together):
            rows = self.values[first : first + together]
            margins = self._evaluator.cpu.margins_on_grid(rows, features, points, None)
            found = respond(self.forest, margins.swapaxes(1, 2).reshape(-1, self.forest.n_outputs), output)
            shape = (len(rows), len(grid), -1)
            yield slice(first, first + len(rows)), slice(None), numbers_only(found).reshape(shape)

    def sums_on_grid(self, features: Sequence[int], grid: Array, output: str, weights: Doubles | None) -> Array | None:
        """Sum what `on_grid` predicts over the rows, (points, k); None where these are not margins of a CPU."""
        forest = self.forest
        if self._gpu is not None or forest.has_linear_leaves or not sums_as_margin(forest, output):
            return None
        points = self._points(features, grid)
        return self._evaluator.cpu.sums_on_grid(self.values, features, points, weights, None)

    def _points(self, features: Sequence[int], grid: Array) -> Array:
        """Rows of which only these features count."""
        points = np.zeros((len(grid), self.forest.n_features), self.values.dtype)
        points[:, list(features)] = grid
        return points

    def _point_by_point(
        self, features: Sequence[int], grid: Array, output: str
    ) -> Iterator[tuple[slice, slice, Array]]:
        kept = [self._rows[:, feature].copy() for feature in features]
        try:
            for at, point in enumerate(grid):
                for feature, value in zip(features, point, strict=True):
                    self._rows[:, feature] = value
                yield slice(None), slice(at, at + 1), numbers_only(self.responses(output)).reshape(len(self), 1, -1)
        finally:
            for feature, column in zip(features, kept, strict=True):
                self._rows[:, feature] = column

    def moved(self, features: Sequence[int], sources: Array, output: str) -> Iterator[tuple[int, int, Array]]:
        """Predictions with the values of one feature from other rows: the feature, the number of the source, responses.

        Each source (sources, n) says which row a value comes from; a tree splits each feature, or a leaf has it.
        """
        if self._gpu is None and self._evaluator.cpu.can_move:
            together = max(1, MOST_NUMBERS // (sources.size * self.forest.n_outputs))
            for first in range(0, len(features), together):
                some = features[first : first + together]
                for feature, margins in zip(some, self._moved_margins(some, sources), strict=True):
                    for source, each in enumerate(margins):
                        yield feature, source, np.asarray(respond(self.forest, each, output))
            return
        for feature in features:
            kept = self._rows[:, feature].copy()
            try:
                for number, source in enumerate(sources):
                    with self._on_device():
                        self._rows[:, feature] = kept[source]
                    yield feature, number, self.responses(output)
            finally:
                self._rows[:, feature] = kept

    def _moved_margins(self, features: Sequence[int], sources: Array) -> Doubles:
        return self._evaluator.cpu.moved_margins(self.values, features, sources, None)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.forest)

    @cached_property
    def _ranks(self) -> Ranks | None:
        """Ranks of the rows, which make repeated predictions on the CPU cheaper if the forest compares in float64."""
        return Ranks(self.forest) if self._gpu is None and Ranks.serve(self.forest) else None

    @cached_property
    def _repeated(self) -> Evaluator:
        """The evaluator of `_rows`."""
        return Evaluator(self._ranks.forest) if self._ranks else self._evaluator

    @cached_property
    def _rows(self) -> Any:
        """A copy of the rows whose columns change, where and as they are predicted."""
        rows = self._ranks.rows(self.values) if self._ranks else self.values
        with self._on_device():
            return import_cupy().asarray(rows) if self._gpu is not None else np.array(rows)

    def _on_device(self) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = nullcontext()
        if self._gpu is not None:
            device = import_cupy().cuda.Device(self._gpu)
        return device


def _gpus(forest: TreeEnsemble, rows: Array, device: str) -> tuple[int, ...]:
    """Choose the GPU that predicts; forests whose categories are matched by value stay on the CPU."""
    if forest.categories is not None:
        return ()
    if parse_device(device)[0] in {"cuda", "all"}:
        return find_gpus(device)[:1]
    return gpus_worthwhile(device, rows, len(rows) * forest.n_trees, WORTHWHILE)[:1]


def numbers_only(response: Any) -> Array:
    """Refuse labels."""
    if isinstance(response, list) or response.dtype.kind not in "fiub":
        raise ValueError("the model predicts labels, which have no mean; pass response_method='predict_proba'")
    return np.asarray(response)


def weights_of(sample_weight: ArrayLike | None, n_rows: int) -> Doubles | None:
    """Weights of rows as float64; refuses others than one per row."""
    if sample_weight is None:
        return None
    return row_weights(sample_weight, n_rows)


def refuse_no_rows(rows: ChangingRows) -> None:
    """Raise ValueError where a mean would have no rows."""
    if not len(rows):
        raise ValueError("X has no rows, expected at least one")
