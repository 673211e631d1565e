"""Exact regressions of the leaves of the best tree, with standard errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.parallel import side_by_side
from glasswood.base.typing import Bools, Doubles, Int32s
from glasswood.grow.data.rows import threads_of
from glasswood.model.ensemble import NUMBER

if TYPE_CHECKING:
    from glasswood.grow.data.rows import TrainingRows

BLOCK = 4096
"""Rows that are decomposed together, so that they stay in a cache; more where there are many columns."""

ROUTED = 1 << 18
"""Rows that go down a tree together."""

COLLINEAR = 1e-5
"""A column whose part orthogonal to earlier ones is shorter than this fraction of it is left out, as in the search."""


@dataclass(frozen=True, eq=False)
class LeafModel:
    """A leaf's regression in the user's units.

    Attributes
    ----------
    features : int, (n_terms,)
    categories : int, (n_terms,)
        What a term takes of its feature, as `TreeEnsemble.linear_category`.
    coefficients, errors : float64, (n_terms,)
        And their standard errors; NaN where there are no degrees of freedom.
    means : float64, (n_terms,)
        Means of the features over the leaf's rows, which also replace missing values.
    explained : float64, (n_terms,)
        What the leaf's sum of squares about its mean exceeds `sse` by, divided among the terms (`shared_out`), in
        units of `sse`.
    value : float
        Prediction at the means: the mean of what the equation is fitted to.
    intercept, intercept_error : float
        Prediction where all features of the model are 0, and its standard error.
    low, high : float
        Range of y in the leaf.
    n_clipped : int
        Rows whose prediction is confined.
    sse : float
        Weighted residual sum of squares in units of the target's variance, by a pass over the rows.
    rmse : float
        In units of y.
    n_rows : int
    spreads : float64, (n_terms,)
        Standard deviations of the terms over the leaf's rows; empty until the tree is assembled.
    share : float
        For logistic regressions: the share of the class among the leaf's rows.
    """

    features: Int32s
    categories: Int32s
    coefficients: Doubles
    errors: Doubles
    means: Doubles
    explained: Doubles
    value: float
    intercept: float
    intercept_error: float
    low: float
    high: float
    sse: float
    rmse: float
    n_rows: int
    n_clipped: int = 0
    spreads: Doubles = field(default_factory=lambda: np.zeros(0))
    share: float = float("nan")

    def deviations(self, X: Doubles) -> Doubles:
        """Values of the terms about their means; 0 where they are missing."""
        return np.nan_to_num(X[:, self.features] - self.means)

    def spreads_of(self, X: Doubles, weight: Doubles) -> Doubles:
        """Take the standard deviations of the terms over rows."""
        deviations = self.deviations(X)
        units = np.abs(deviations).max(axis=0, initial=0.0)  # squares of large numbers overflow
        scaled = np.divide(deviations, units, out=np.zeros_like(deviations), where=units > 0)
        spreads: Doubles = units * np.sqrt(weight @ scaled**2 / weight.sum())
        return spreads

    def predict(self, X: Doubles) -> Doubles:
        """Values of the equation, not confined."""
        predictions: Doubles = self.value + self.deviations(X) @ self.coefficients
        return predictions


def rows_by_node(tree: dict[str, Any], rows: TrainingRows) -> list[Int32s]:
    """Rows that reach each node, rising."""
    n_rows = len(rows.y)
    blocks = side_by_side(
        lambda k: _rows_by_node(tree, rows, k * ROUTED, min((k + 1) * ROUTED, n_rows)),
        -(-n_rows // ROUTED),
        threads_of(n_rows),
    )
    return blocks[0] if len(blocks) == 1 else [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _rows_by_node(tree: dict[str, Any], rows: TrainingRows, first: int, last: int) -> list[Int32s]:
    """Rows of each node from `first` on, before `last`."""
    reached: list[Int32s] = [np.arange(0, dtype=np.int32)] * len(tree["feature"])
    reached[0] = np.arange(first, last, dtype=np.int32)
    for node, attribute in enumerate(tree["feature"]):
        if attribute < 0:
            continue
        ranks = rows.ranks[attribute, reached[node]]
        left = np.where(ranks < 0, bool(tree["missing_left"][node]), ranks < tree["threshold"][node])
        reached[tree["left"][node]] = reached[node][left]
        reached[tree["right"][node]] = reached[node][~left]
    return reached


def default_left(tree: dict[str, Any], rows: TrainingRows, node: int, reached: list[Int32s]) -> bool:
    """Find the learned side of missing values; the larger child where the node has seen none."""
    if (rows.ranks[tree["feature"][node], reached[node]] < 0).any():
        return bool(tree["missing_left"][node])
    return len(reached[tree["left"][node]]) >= len(reached[tree["right"][node]])


def block_rows(n_columns: int) -> int:
    """Return how many rows are decomposed together."""
    return max(BLOCK, 8 * n_columns)


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of a leaf's regression, centred and in units of their spreads (0 where missing or constant), and y."""

    X: Doubles
    y: Doubles
    weight: Doubles
    features: NDArray[np.intp]
    means: Doubles
    spreads: Doubles
    centre: float
    scale: float
    _triangle: Doubles | None = None

    @classmethod
    def of(cls, X: Doubles, y: Doubles, weight: Doubles, features: NDArray[np.intp], scale: float) -> Design:
        """Centre and scale these columns of the rows, and y by its mean and `scale`."""
        share = weight / weight.sum()
        centre = float(y[0] + scale * np.sum(share * ((y - y[0]) / scale)))
        return cls(X, y, weight, features, *_moments(X, share, features), centre, scale)

    def with_columns(self, places: NDArray[np.intp]) -> Design:
        """Keep these of the columns."""
        known = self._triangle
        if known is not None:  # what they and y are about zero is in it
            known = np.asarray(np.linalg.qr(known[:, np.append(places, len(self.features))], mode="r"))
        return dataclasses.replace(
            self,
            features=self.features[places],
            means=self.means[places],
            spreads=self.spreads[places],
            _triangle=known,
        )

    def blocks(self) -> Iterator[tuple[Doubles, Doubles, Doubles]]:
        """Columns, y and weights of some rows at a time."""
        units, size = np.where(self.spreads > 0, self.spreads, np.inf), block_rows(len(self.features))
        for start in range(0, len(self.y), size):
            rows = slice(start, start + size)
            columns = self.X[rows].take(self.features, axis=1)
            columns -= self.means
            columns /= units
            missing = np.isnan(columns)
            if missing.any():
                columns[missing] = 0
            yield columns, (self.y[rows] - self.centre) / self.scale, self.weight[rows]

    def triangle(self) -> Doubles:
        """R of the QR decomposition of the weighted columns and y behind them, block by block of rows."""
        if self._triangle is None:
            found, n = np.zeros((0, len(self.features) + 1)), len(self.features)
            for columns, target, weight in self.blocks():
                rows = np.empty((len(found) + len(target), n + 1))
                rows[: len(found)] = found
                own = rows[len(found) :]
                own[:, :n], own[:, n] = columns, target
                own *= np.sqrt(weight)[:, None]
                found = np.asarray(np.linalg.qr(rows, mode="r"))
            object.__setattr__(self, "_triangle", found)
        assert self._triangle is not None
        return self._triangle


def fit_leaf(
    X: Doubles,
    y: Doubles,
    weight: Doubles,
    features: NDArray[np.intp],
    scale: float,
) -> LeafModel:
    """Weighted least squares by QR over a leaf's rows, columns centred and scaled, then the residuals themselves.

    Parameters
    ----------
    X, y, weight
        The leaf's rows.
    features : int, (n_terms,)
        Columns to use; constant and collinear ones are left out.
    scale : float
        Unit of y in which squares neither overflow nor vanish.
    """
    design = Design.of(X, y, weight, features, scale)
    total, means, spreads, centre = weight.sum(), design.means, design.spreads, design.centre
    triangle = design.triangle() if len(features) else np.zeros((1, 1))  # a mean needs no decomposition
    kept = independent(triangle[:, :-1], len(y))
    q, r = np.linalg.qr(triangle[:, kept])
    inverse = np.linalg.inv(r)
    solution = inverse @ (q.T @ triangle[:, -1])
    sse = float(sum(np.sum(w * (target - columns[:, kept] @ solution) ** 2) for columns, target, w in design.blocks()))
    total_square = float(np.sum(triangle[:, -1] ** 2))
    freedom = len(y) - len(kept) - 1
    variance = sse / freedom if freedom > 0 else np.nan
    unit = scale / spreads[kept]
    coefficients, origin = solution * unit, inverse.T @ (means[kept] / spreads[kept])
    return LeafModel(
        features=features[kept].astype(np.int32),
        categories=np.full(len(kept), NUMBER, np.int32),
        coefficients=coefficients,
        errors=np.sqrt(variance * np.sum(inverse**2, axis=1)) * unit,
        means=means[kept],
        explained=shared_out(total_square - sse, solution, np.sum(triangle[:, kept] ** 2, axis=0)),
        value=centre,
        intercept=float(centre - np.sum(coefficients * means[kept])),
        intercept_error=float(np.sqrt(variance * (1 / total + origin @ origin)) * scale),
        low=float(y.min()),
        high=float(y.max()),
        sse=sse,
        rmse=float(np.sqrt(sse / total) * scale),
        n_rows=len(y),
    )


def shared_out(explained: float, coefficients: Doubles, squares: Doubles) -> Doubles:
    """Divide what the terms explain together by the sum of squares of each alone."""
    alone = coefficients**2 * squares
    return alone * (max(explained, 0.0) / (alone.sum() or 1.0))


def _moments(X: Doubles, share: Doubles, features: NDArray[np.intp]) -> tuple[Doubles, Doubles]:
    """Means over present values, and largest distances from them (0: constant)."""
    means, total, spreads = np.zeros(len(features)), np.zeros(len(features)), np.zeros(len(features))
    for x, present, part in _from(means, X, share, features):
        total += part @ present
        means += part @ x
    total[total == 0] = np.inf
    means /= total
    # Sums of equal numbers are rounded all the same way: what they are off is added.
    means += sum((part @ x for x, _, part in _from(means, X, share, features)), np.zeros(len(features))) / total
    for x, _, _ in _from(means, X, share, features):
        np.maximum(spreads, np.abs(x, out=x).max(axis=0), out=spreads)
    return means, np.where(spreads > 1e-13 * np.abs(means), spreads, 0.0)


def _from(
    origin: Doubles, X: Doubles, share: Doubles, features: NDArray[np.intp]
) -> Iterator[tuple[Doubles, Bools, Doubles]]:
    """Distances from what `origin` is at the start, 0 where values are missing; which are present; and shares."""
    origin, size = origin.copy(), block_rows(len(features))
    for start in range(0, len(share), size):
        rows = slice(start, start + size)
        x = X[rows].take(features, axis=1)
        present = ~np.isnan(x)
        x -= origin
        if not present.all():
            x[~present] = 0
        yield x, present, share[rows]


def independent(columns: Doubles, n_rows: int) -> NDArray[np.intp]:
    """Columns with a part of their own, in their order (modified Gram-Schmidt), fewer than rows."""
    kept: list[int] = []
    basis: list[Doubles] = []
    for k in range(columns.shape[1]):
        rest = columns[:, k].copy()
        norm = float(np.linalg.norm(rest))
        for direction in basis:
            rest -= direction * (direction @ rest)
        length = float(np.linalg.norm(rest))
        if norm > 0 and length > COLLINEAR * norm and len(kept) + 1 < n_rows:
            kept.append(k)
            basis.append(rest / length)
    return np.array(kept, np.intp)
