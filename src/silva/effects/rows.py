"""Rows that are predicted again and again with other values in a column or two."""

from __future__ import annotations

from contextlib import nullcontext
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.device import find_gpus, gpus_worthwhile, import_cupy, on_host, parse_device
from silva.effects.ranks import Ranks
from silva.evaluate.evaluator import Evaluator
from silva.inputs import arranged, as_rows
from silva.inputs.shown import own_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike

    from silva.forest import Forest
    from silva.typing import Array, Doubles, Rows

WORTHWHILE = 3_000_000
"""Rows times trees of one prediction from which rows of the host are copied to a GPU."""


class Bunch(dict[str, Any]):
    """A dictionary whose keys are attributes too, as results of scikit-learn are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {name!r} here, only {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


class ChangingRows:
    """Rows in the forest's own order, and their predictions after columns are changed.

    `values` are the rows as `as_rows` made them; `rows` are predicted, where they are predicted, as ranks on the CPU
    where the forest compares in float64.

    Parameters
    ----------
    forest : Forest
    X : array-like or frame of shape (n, n_features)
    device : str
        As for `Forest.predict`.
    n_jobs : int, optional
    by_position : bool
    """

    def __init__(self, forest: Forest, X: Rows, device: str, n_jobs: int | None, by_position: bool = False) -> None:
        X = arranged(on_host(X), forest, by_position)
        rows = as_rows(X, forest)
        self._keep(forest, rows, own_values(X, forest), _gpus(forest, rows, device), n_jobs)

    @classmethod
    def settled(cls, forest: Forest, rows: Array, shown: Array, n_jobs: int | None) -> ChangingRows:
        """Take rows that `as_rows` and `own_values` made, on the CPU."""
        made = cls.__new__(cls)
        made._keep(forest, rows, shown, (), n_jobs)
        return made

    def _keep(self, forest: Forest, rows: Array, shown: Array, gpus: tuple[int, ...], n_jobs: int | None) -> None:
        self.forest, self.shown, self._n_jobs = forest, shown, n_jobs
        self._gpu = gpus[0] if gpus else None
        self.values = rows
        self._ranks = Ranks(forest) if not gpus and Ranks.serve(forest) else None
        self._evaluator = Evaluator(self._ranks.forest if self._ranks else forest)
        if self._ranks:
            rows = self._ranks.rows(rows)
        with self._on_device():
            self.rows: Any = import_cupy().array(rows) if gpus else np.array(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def values_of(self, feature: int) -> tuple[Array, Array]:
        """List distinct values as users give them, without missing ones, and as the forest's rows hold them."""
        shown, rows = self.shown[:, feature], self.values[:, feature]
        present = ~np.isnan(rows)
        codes, first = np.unique(rows[present], return_index=True)
        values = shown[present][first]
        if values.dtype == object and not (self.forest.categories and self.forest.categories[feature] is not None):
            # Beside a column of text those of numbers are objects, too.
            values = values.astype(np.float64) if all(isinstance(value, Real) for value in values) else values
        return values, codes

    def responses(self, output: str) -> Array:
        """Predictions of the rows as they are now, (n,) or (n, k), on the host."""
        if self._gpu is not None:
            found = self.forest.predict(self.rows, output, device=f"cuda:{self._gpu}")  # type: ignore[arg-type]
            return np.asarray(on_host(found))
        return np.asarray(self._evaluator.predict_rows(self.rows, output, self._n_jobs))

    def with_values(self, features: Sequence[int], grid: Array, output: str) -> Iterator[Array]:
        """Predictions with each point (a value a feature) of the grid in all rows, one after the other."""
        kept = [self.rows[:, feature].copy() for feature in features]
        if self._ranks:
            grid = np.stack([self._ranks.column(f, column) for f, column in zip(features, grid.T, strict=True)], axis=1)
        try:
            for point in grid:
                for feature, value in zip(features, point, strict=True):
                    self.rows[:, feature] = value
                yield self.responses(output)
        finally:
            for feature, column in zip(features, kept, strict=True):
                self.rows[:, feature] = column

    def shuffled(self, feature: int, orders: Iterator[Array], output: str) -> Iterator[Array]:
        """Predictions with the values of one feature in other rows; each order starts from the one before."""
        kept = self.rows[:, feature].copy()
        try:
            for order in orders:
                with self._on_device():
                    self.rows[:, feature] = self.rows[:, feature][order]
                yield self.responses(output)
        finally:
            self.rows[:, feature] = kept

    def _on_device(self) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = nullcontext()
        if self._gpu is not None:
            device = import_cupy().cuda.Device(self._gpu)
        return device


def _gpus(forest: Forest, rows: Array, device: str) -> tuple[int, ...]:
    """Choose the GPU that predicts; forests whose categories are matched by value stay on the CPU."""
    if forest.categories is not None:
        return ()
    if parse_device(device)[0] in {"cuda", "all"}:
        return find_gpus(device)[:1]
    return gpus_worthwhile(device, rows, len(rows) * forest.n_trees, WORTHWHILE)[:1]


def weights_of(sample_weight: ArrayLike | None, n_rows: int) -> Doubles | None:
    """Weights of rows as float64; refuses others than one a row."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n_rows},), one a row of X")
    return weights


def refuse_no_rows(rows: ChangingRows) -> None:
    """Raise ValueError where a mean would have no rows."""
    if not len(rows):
        raise ValueError("X has no rows, expected at least one; means need rows")
