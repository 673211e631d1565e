"""Values of the probability and of the log-loss against a background, at a few times the price of the margin's.

As in shap, a pair of an explained row of margin a and a background row of margin c has the margin's values times
r(a, c) = (g(a) - g(c)) / (a - c), g the response: they add up to g(a) - g(c). The mean over the background rows is no
loop over pairs, since r has a small rank: r(a, c) = Σ_q r(a, t_q) V_q(c), t_q a few Chebyshev nodes among the
background's margins, V by least squares over the margins a that the forest can reach. So the values are Σ_q r(a, t_q)
times those of the margin against the same background rows with the weights V_q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.evaluate.links import expit
from silva.explain.additivity import margin_bounds
from silva.explain.background import Background, margins_of, mean
from silva.explain.cpu import CpuExplainer, checked_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from silva.explain.players import Players
    from silva.forest import Forest
    from silva.typing import Array, Doubles, Int32s

    Function = Callable[[Doubles], Doubles]

SLOPES = {"logistic": None, "exponential": 2.0}
"""Links of one output that are logistic functions of the margin times a slope; None: the forest's scale."""

RANKS = (4, 6, 8, 12, 16, 24, 32, 48)
GRID, TOGETHER = 300, 4096
ENOUGH, MOST = 1e-10, 1e-7
"""Errors of r, relative to its largest value: no node is added below the first, none does where all exceed the
second."""

TOTAL = 2**58
"""Weights V are multiples of 1 / this: their sum stays below 2^62 though they reach some thousand."""


def slope_of(forest: Forest) -> float:
    """Return what the margin is multiplied with in the logistic function.

    Raises
    ------
    NotImplementedError
        If the forest's response is not the probability of a second class.
    """
    if forest.n_outputs != 1 or forest.link not in SLOPES:
        raise NotImplementedError(
            f"output='probability' and 'log_loss' need one output with a logistic link, this forest has "
            f"{forest.n_outputs} and the link {forest.link!r}; explain the margin"
        )
    return SLOPES[forest.link] or forest.link_scale


def checked_labels(y: ArrayLike | None, n_rows: int) -> Doubles:
    """Labels of the rows, 0 or 1."""
    if y is None:
        raise ValueError("output='log_loss' explains the loss of each row's label; pass y, 0 or 1 a row")
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"y has shape {labels.shape}, expected ({n_rows},), a label a row")
    if labels.dtype.kind not in "biuf" or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"y holds {np.unique(labels)[:5].tolist()}, expected 0 and 1, the second class")
    return labels.astype(np.float64)


class ResponseExplainer:
    """What CpuExplainer is for the margin.

    Parameters
    ----------
    forest, algorithm, table_bytes, n_jobs, background, players
        As of CpuExplainer.
    output : {"probability", "log_loss"}
    dtype : {"float32", "float64"}
        Of the results; the parts are float64.
    """

    whole_tables = None

    def __init__(
        self,
        forest: Forest,
        output: str,
        dtype: str,
        algorithm: str,
        table_bytes: int,
        n_jobs: int | None,
        background: Background,
        players: Players,
    ) -> None:
        self.forest, self.dtype, self.n_jobs, self.players = forest, dtype, n_jobs, players
        self._slope = slope_of(forest)
        self._is_loss = output == "log_loss"
        margins = self._slope * margins_of(forest, background.rows, n_jobs)[:, 0]
        self._ratio = ratio_of_softplus if self._is_loss else ratio_of_logistic
        response = np.logaddexp(0, margins) if self._is_loss else expit(margins)
        self._mean_margin, self._mean = mean(margins, background.weight), mean(response, background.weight)
        bounds = np.sort(self._slope * np.array([bound[0] for bound in margin_bounds(forest)]))
        self._nodes, shares = factorize(self._ratio, margins, bounds)
        weights = [*(shares * background.weight), *([background.weight] if self._is_loss else [])]
        scaled = [np.rint(weight / background.total * TOTAL).astype(np.int64) for weight in weights]
        parts = [Background(background.rows, weight, TOTAL, background.expected_value) for weight in scaled]
        share = table_bytes // len(parts)
        self._parts = [CpuExplainer(forest, "float64", algorithm, share, n_jobs, part, players) for part in parts]

    @property
    def expected_value(self) -> Doubles:
        """Mean response of the background, (1,); of the log-loss for labels 0 and 1, (2,)."""
        return np.array([self._mean, self._mean - self._mean_margin] if self._is_loss else [self._mean])

    @property
    def has_tables(self) -> bool:
        """Whether any tree has tables."""
        return self._parts[0].has_tables

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables that are built."""
        return sum(part.table_bytes for part in self._parts)

    def prepare(self) -> None:
        """Build the tables."""
        for part in self._parts:
            part.prepare()

    def values(self, rows: Array, out: Array | None = None, y: ArrayLike | None = None) -> Array:
        """Values of rows that `as_rows` made: (n, P)."""
        return self._add(rows, y, out, lambda part: part.values(rows))

    def interactions(self, rows: Array, places: Int32s, out: Array | None = None, y: ArrayLike | None = None) -> Array:
        """Interaction values, (n, m, P); places[p] is player p's place among the m, or -1."""
        return self._add(rows, y, out, lambda part: part.interactions(rows, places))

    def indices(
        self, rows: Array, sets: Int32s, is_banzhaf: bool, out: Array | None = None, y: ArrayLike | None = None
    ) -> Array:
        """Compute indices of sets of players (n_sets, 4), padded with -1: (n, n_sets)."""
        return self._add(rows, y, out, lambda part: part.indices(rows, sets, is_banzhaf))

    def _add(self, rows: Array, y: ArrayLike | None, out: Array | None, explain: Any) -> Array:
        labels = checked_labels(y, len(rows)) if self._is_loss else None
        margins = self._slope * margins_of(self.forest, rows, self.n_jobs)[:, 0]
        factors = [*self._slope * self._ratio(margins[None, :], self._nodes[:, None])]
        if labels is not None:
            factors.append(-self._slope * labels)
        total: Array = np.zeros(())
        for factor, part in zip(factors, self._parts, strict=True):
            values = explain(part)
            total = total + factor.reshape(-1, *[1] * (values.ndim - 1)) * values
        result = checked_result(total.shape, self.dtype, rows, out)
        result[...] = total
        return result


def factorize(
    ratio: Callable[[Doubles, Doubles], Doubles], margins: Doubles, bounds: Doubles
) -> tuple[Doubles, Doubles]:
    """Nodes t (R,) and V (R, m) of r(a, c) = Σ_q r(a, t_q) V_q(c) for a within the bounds, c the margins."""
    low, high = margins.min(), margins.max()
    reached = _spread(min(bounds[0], low), max(bounds[1], high), GRID)
    between, probes = (reached[1:] + reached[:-1]) / 2, _spread(low, high, GRID)
    wanted, checked = ratio(reached[:, None], probes), ratio(between[:, None], probes)
    best, chosen = np.inf, probes
    for rank in RANKS:
        nodes = _spread(low, high, rank)
        shares = _least_squares(ratio(reached[:, None], nodes), wanted)
        error = np.abs(ratio(between[:, None], nodes) @ shares - checked).max() / np.abs(wanted).max()
        if error < best:
            best, chosen = error, nodes
        if error < ENOUGH:
            break
    if best > MOST:
        raise ValueError(
            f"margins reach from {reached.min():.3g} to {reached.max():.3g}: the response varies too much over them "
            f"for {RANKS[-1]} nodes (error {best:.1e}); explain the margin"
        )
    # In the order of the margins, so that no bit depends on that of the rows.
    distinct, place = np.unique(margins, return_inverse=True)
    basis = ratio(reached[:, None], chosen)
    parts = [
        _least_squares(basis, ratio(reached[:, None], distinct[first : first + TOGETHER]))
        for first in range(0, len(distinct), TOGETHER)
    ]
    return chosen, np.concatenate(parts, axis=1)[:, place.reshape(-1)]


def _spread(low: float, high: float, n: int) -> Doubles:
    """Chebyshev nodes."""
    angles = (np.arange(n, dtype=np.float64) + 0.5) * np.pi / n
    return np.asarray(low + (high - low) / 2 * (1 + np.cos(angles)), np.float64)


def _least_squares(basis: Doubles, wanted: Doubles) -> Doubles:
    return np.asarray(np.linalg.lstsq(basis, wanted, rcond=1e-13)[0], np.float64)


def ratio_of_logistic(a: Doubles, c: Doubles) -> Doubles:
    """(g(a) - g(c)) / (a - c) of the logistic function: sinh(d / 2) / (2 d cosh(a / 2) cosh(c / 2)), d = a - c."""
    half = np.abs(a - c) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(half > 1e-4, -np.expm1(-2 * half) / (4 * half), 0.5 - half * (0.5 - half / 3))
    # exp(half) / (cosh cosh), whose exponents cancel: |a - c| <= |a| + |c|.
    scale = np.exp(half - np.abs(a) / 2 - np.abs(c) / 2)
    result: Doubles = 2 * slope * scale / ((1 + np.exp(-np.abs(a))) * (1 + np.exp(-np.abs(c))))
    return result


def ratio_of_softplus(a: Doubles, c: Doubles) -> Doubles:
    """Mean of the logistic function between a and c: the same of log(1 + exp)."""
    d = a - c
    middle = expit((a + c) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (np.logaddexp(0, a) - np.logaddexp(0, c)) / d
    curvature = middle * (1 - middle) * (1 - 2 * middle) / 24
    result: Doubles = np.where(np.abs(d) > 1e-3, ratio, middle + curvature * d * d)
    return result


def labels_of(output: str, y: ArrayLike | None) -> dict[str, Any]:
    """Arguments of explanations on the CPU beside the rows."""
    if output == "log_loss":
        return {"y": y}
    if y is not None:
        raise ValueError(f"y is for output='log_loss', this explainer has output={output!r}; leave y=None")
    return {}
