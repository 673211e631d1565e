"""Equations of a found tree by other losses than squares, on all rows: every step is a pass over the partitions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Doubles
from glasswood.dask.columns import Columns, PlacedRows, weights_of
from glasswood.dask.leaves import is_constant, moments_of, parts_of, refitted, solved, terms_of, with_absent
from glasswood.dask.triangles import LeafSums, leaf_terms, merge_all, sums_of
from glasswood.evaluate.links import expit, softplus
from glasswood.grow.search.reweighted import CLOSE, EITHER_SIGN, SHORTEST, STEPS
from glasswood.grow.tree.assembly import target_range
from glasswood.grow.tree.refit import LeafModel
from glasswood.model.ensemble import OF_NUMBERS

if TYPE_CHECKING:
    from glasswood.dask.triangles import Terms
    from glasswood.grow.losses import PowerLoss
    from glasswood.grow.tree.assembly import GrownTree
    from glasswood.model.ensemble import TreeEnsemble

Over = Callable[..., list[Any]]
"""Calls a function for each partition with its number and what is given, and returns what it finds, in their order."""

ROUNDING = 1e-12
"""Part of the loss by which it may rise from rounding; smallest variance of a row's class."""

NEAR = 1e-9
"""Relative gain of the likelihood of classes at which a step counts as none."""

MOST_CYCLES, SHORTEST_STEP = 20, 2.0**-10
"""Most steps of each class, and parts of a step below which nothing along it lowers the loss."""

ENDS = ((np.min, np.inf), (np.max, -np.inf))
"""Functions of both ends of numbers, and what they begin with."""


def free(forest: TreeEnsemble) -> TreeEnsemble:
    """Take the limits of its leaves off a forest."""
    limits = np.broadcast_to([-np.inf, np.inf], forest.leaf_range.shape)
    return dataclasses.replace(forest, leaf_range=limits.copy(), checked=None)


# --- counts and amounts ---


def reweighted(over: Over, forest: TreeEnsemble, columns: Columns, loss: PowerLoss, clip: str) -> GrownTree:
    """Fit the leaves' equations of logarithms by a loss, from those that were found on the sample.

    Iteratively reweighted least squares, as `glasswood.grow.search.reweighted` does, whose steps are halved where the
    loss rises.

    Parameters
    ----------
    over : callable
    forest : TreeEnsemble
        One tree.
    columns : Columns
    loss : PowerLoss
    clip : str
        As in `glasswood.ModelTreeRegressor`.
    """
    terms = leaf_terms(forest)
    best, length = free(forest), 1.0

    def passed(at: TreeEnsemble, step: float) -> tuple[float, list[LeafSums]]:
        found = over(_working, at, terms, columns, loss, step)
        return sum(total for total, _ in found), merge_all([sums for _, sums in found])

    least, sums = passed(best, length)
    kept = [solved(of_leaf, total, 1.0) for of_leaf, total in zip(terms, sums, strict=True)], sums
    for _ in range(STEPS):
        models = [solved(of_leaf, total, 1.0) for of_leaf, total in zip(terms, sums, strict=True)]
        tried = refitted(forest, models, sums, "none").forest
        left, further = passed(tried, min(2 * length, 1.0))
        if left <= least + ROUNDING * abs(least):
            gain, best, kept, least, sums = least - left, tried, (models, sums), left, further
            if gain <= CLOSE * abs(left) and length == 1:
                break
            length = min(2 * length, 1.0)
        elif length > SHORTEST:
            length /= 2
            _, sums = passed(best, length)
        else:
            break
    ranges = _range_of(over(_ranges, best, columns), loss)
    grown = refitted(forest, *kept, clip, ranges)
    counts = over(_beyond, best, grown.limits, columns)
    models = [
        dataclasses.replace(one, n_clipped=int(n)) for one, n in zip(grown.models, np.sum(counts, axis=0), strict=True)
    ]
    return _counted(dataclasses.replace(grown, models=tuple(models)), sum(one.n_rows for one in models))


def _counted(grown: GrownTree, n_rows: float) -> GrownTree:
    """Let covers, and the squares that terms explain, add up over rows of mean weight 1, as those of `fit` do."""
    share = n_rows / grown.forest.cover[0]
    models = tuple(dataclasses.replace(one, explained=one.explained * share) for one in grown.models)
    forest = dataclasses.replace(grown.forest, cover=grown.forest.cover * share)
    return dataclasses.replace(grown, models=models, forest=forest)


def _working(
    part: Any, number: int, forest: TreeEnsemble, terms: list[Terms], columns: Columns, loss: PowerLoss, length: float
) -> tuple[float, list[LeafSums]]:
    """Loss of a partition, and sums of the working responses of a step of this length."""
    placed = PlacedRows.of(part, number, columns, forest)
    rest, spread = loss.step(placed.y, placed.margins, placed.weight, 0)
    response = placed.margins[:, 0] + length * rest
    sums = [
        sums_of(one, placed.rows[at], response[at], spread[at], 1.0)
        for one, at in ((one, placed.members(leaf)) for leaf, one in enumerate(terms))
    ]
    return loss.total(placed.y, placed.margins, placed.weight), sums


def _ranges(part: Any, number: int, forest: TreeEnsemble, columns: Columns) -> tuple[Any, ...]:
    """Rows, weights, weighted targets, and smallest and largest margins and logarithms of targets."""
    placed = PlacedRows.of(part, number, columns, forest)
    used = placed.weight > 0
    y, weight, margin = placed.y[used], placed.weight[used], placed.margins[used, 0]
    logs = np.log(y[y > 0])
    ends = margin.min(initial=np.inf), margin.max(initial=-np.inf), logs.min(initial=np.inf), logs.max(initial=-np.inf)
    return int(used.sum()), float(weight.sum()), float(weight @ y), *ends


def _range_of(found: list[tuple[Any, ...]], loss: PowerLoss) -> tuple[float, float]:
    """Range of margins: those that occur, of equations and targets, a little wider, above half a count of all rows."""
    n, weight, total = (sum(one[k] for one in found) for k in range(3))
    least = float(loss.start(np.array([total / weight]), np.ones(1))[0]) - math.log(2 * n)
    low, lowest = (min(one[k] for one in found) for k in (3, 5))
    high, highest = (max(one[k] for one in found) for k in (4, 6))
    ends = np.array([max(low, least), max(high, least), lowest, highest])
    low, high = target_range(ends[np.isfinite(ends)], EITHER_SIGN)
    return max(low, least), high


def _beyond(part: Any, number: int, forest: TreeEnsemble, limits: Doubles, columns: Columns) -> Any:
    """Count the rows of each leaf whose equation exceeds its limits."""
    placed = PlacedRows.of(part, number, columns, forest)
    leaves, margin = placed.leaves[:, 0], placed.margins[:, 0]
    outside = ((margin < limits[leaves, 0]) | (margin > limits[leaves, 1])) & (placed.weight > 0)
    return np.bincount(leaves[outside], minlength=forest.n_leaves)


def outcomes(over: Over, forest: TreeEnsemble, columns: Columns) -> dict[str, Doubles]:
    """Means, ranges and errors of y by leaf, for its summary."""
    found = over(_outcomes, forest, columns)
    weight, total, squares = (sum(one[k] for one in found) for k in range(3))
    return {
        "mean": total / weight,
        "rmse": np.sqrt(squares / weight),
        "low": np.min([one[3] for one in found], axis=0),
        "high": np.max([one[4] for one in found], axis=0),
    }


def _outcomes(part: Any, number: int, forest: TreeEnsemble, columns: Columns) -> tuple[Doubles, ...]:
    """Weights, sums, squares of residuals, and smallest and largest targets by leaf."""
    placed, n = PlacedRows.of(part, number, columns, forest), forest.n_leaves
    leaves, y, weight = placed.leaves[:, 0], placed.y, placed.weight
    sums = [np.bincount(leaves, w, n) for w in (weight, weight * y, weight * (y - np.exp(placed.margins[:, 0])) ** 2)]
    members = [placed.members(leaf) for leaf in range(n)]
    low, high = (np.array([end(y[at], initial=at_least) for at in members]) for end, at_least in ENDS)
    return *sums, low, high


# --- classes ---


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns of a leaf's logistic regression, about their means and in standard deviations.

    Attributes
    ----------
    terms : Terms
    shifts, scales : float64, (n_columns,)
    kept : int64, (n_kept,)
        Columns that vary.
    means, lacking : float64, (n_terms,)
        Means of the terms, and shares of the rows that lack their feature.
    total : float
        Weight of the rows.
    sums : LeafSums
        By the rows' own weights, with the log-odds of the sample's tree as the target.
    """

    terms: Terms
    shifts: Doubles
    scales: Doubles
    kept: Any
    means: Doubles
    lacking: Doubles
    total: float
    sums: LeafSums

    @classmethod
    def of(cls, terms: Terms, sums: LeafSums) -> Basis:
        """Take means and standard deviations from sums."""
        total, weights, shifts, centred, means = moments_of(terms, sums)
        scales = np.linalg.norm(centred, axis=0) / np.sqrt(total)
        kept = np.flatnonzero(~is_constant(centred, terms, means, total) & (scales > 0))
        lacking = 1 - weights[terms.columns] / total
        return cls(terms, shifts, scales, kept, means, np.where(lacking > ROUNDING, lacking, 0.0), total, sums)

    def design(self, sums: LeafSums) -> tuple[Doubles, Doubles]:
        """Columns, the first of ones, and the target, as a triangle of sums has them."""
        ones, columns, present, target = parts_of(sums.triangle, self.terms.n_columns)
        centred = columns - np.where(self.terms.may_lack > 0, present, ones[:, None]) * self.shifts
        return np.column_stack([ones, centred[:, self.kept] / self.scales[self.kept]]), target

    def start(self) -> Doubles:
        """Coefficients of the sample's tree: (1 + n_kept,), the first that of the intercept."""
        columns, target = self.design(self.sums)
        solution = np.asarray(np.linalg.lstsq(columns, target, rcond=1e-10)[0])
        solution[0] += self.terms.centre
        return solution

    def step(
        self, solution: Doubles, sums: LeafSums, ridge: float, prior: float, offset: float
    ) -> tuple[Doubles, Doubles]:
        """Newton's step, and the inverse Hessian.

        Parameters
        ----------
        solution : float64, (1 + n_kept,)
        sums : LeafSums
            With (y - p) / (p (1 - p)) as the target, by weights times p (1 - p).
        ridge : float
        prior, offset : float
            Log-odds of one more row at the means, and the mean of what is added to those of the leaf.
        """
        columns, rest = self.design(sums)
        p, penalties = float(expit(np.array(solution[0] + offset))), np.append(0.0, np.full(len(self.kept), ridge))
        gradient = columns.T @ rest - penalties * solution
        gradient[0] += float(expit(np.array(prior))) - p
        hessian = columns.T @ columns + np.diag(penalties + 1e-10)
        hessian[0, 0] += p * (1 - p)
        return np.asarray(np.linalg.solve(hessian, gradient)), np.asarray(np.linalg.inv(hessian))

    def penalty(self, solution: Doubles, ridge: float, prior: float, offset: float) -> float:
        """Find what the ridge and the row at the means add to the log-loss."""
        at = np.array(solution[0] + offset)
        return float(softplus(at) - expit(np.array(prior)) * at + ridge * (solution[1:] @ solution[1:]) / 2)

    def model(self, solution: Doubles, inverse: Doubles) -> LeafModel:
        """Make the equation of the terms."""
        at, place = terms_of(self.terms, self.kept)
        shares, units = np.bincount(place, minlength=len(self.kept))[place], 1 / self.scales[self.kept]
        coefficients, means = (solution[1:] * units)[place] * self.terms.factors[at], self.means[at]
        centres = np.zeros(len(self.kept))
        centres[place] = means
        origin = np.append(1.0, -centres * units)
        is_number, parts = np.isin(self.terms.categories[at], OF_NUMBERS), np.clip(means, 0, 1)
        model = LeafModel(
            features=self.terms.features[at],
            categories=self.terms.categories[at],
            coefficients=coefficients,
            errors=np.where(shares == 1, (np.sqrt(np.diag(inverse)[1:]) * units)[place], np.nan),
            means=means,
            explained=solution[1:][place] ** 2 / shares,
            value=float(solution[0]),
            intercept=float(solution[0] - coefficients @ means),
            intercept_error=float(np.sqrt(origin @ inverse @ origin)) if (shares == 1).all() else float("nan"),
            low=0.0,
            high=1.0,
            sse=0.0,
            rmse=0.0,
            n_rows=self.sums.n_rows,
            spreads=np.where(is_number, self.scales[self.terms.columns[at]], np.sqrt(parts * (1 - parts))),
        )
        return with_absent(model, self.terms.absent, self.lacking[at])


def of_classes(over: Over, forest: TreeEnsemble, columns: Columns, ridges: Doubles) -> GrownTree:
    """Fit the leaves' logistic regressions on all rows, from those that were found on the sample.

    Newton's steps, of one class after the other beside the log-odds of the others, until the likelihood less its
    penalties hardly rises.

    Parameters
    ----------
    over : callable
    forest : TreeEnsemble
        A tree of two classes, or one a class.
    columns : Columns
    ridges : float64, (n_trees,)
    """
    terms, ends, n_trees = leaf_terms(forest), forest.leaf_offsets, forest.n_trees
    own = [slice(ends[k], ends[k + 1]) for k in range(n_trees)]
    tree_of = np.repeat(np.arange(n_trees), np.diff(ends))
    columns = columns.relative(over(weights_of, columns))
    found = over(_moments, free(forest), terms, columns)
    bases = [Basis.of(*one) for one in zip(terms, merge_all([sums for sums, _ in found]), strict=True)]
    shares = np.clip(sum(counts for _, counts in found) / sum(base.total for base in bases[own[0]]), 1e-6, 1 - 1e-6)
    priors, sums = np.log(shares / (1 - shares)), [base.sums for base in bases]
    inverses = [np.zeros((1 + len(base.kept), 1 + len(base.kept))) for base in bases]

    def built(solutions: list[Doubles], clip: str = "none", widest: tuple[float, float] | None = None) -> GrownTree:
        models = [base.model(*one) for base, *one in zip(bases, solutions, inverses, strict=True)]
        return refitted(forest, models, sums, clip, widest)

    def seen(solutions: list[Doubles], k: int) -> tuple[float, list[LeafSums], Doubles]:
        found = over(_newton, built(solutions).forest, [terms[leaf] for leaf in range(*ends[k : k + 2])], columns, k)
        offsets = np.sum([offset for *_, offset in found], axis=0) / [base.total for base in bases]
        penalties = [
            base.penalty(solution, ridges[tree], priors[tree], offset)
            for base, solution, tree, offset in zip(bases, solutions, tree_of, offsets, strict=True)
        ]
        loss = sum(one for one, _, _ in found) + sum(penalties)
        return loss, merge_all([of_leaves for _, of_leaves, _ in found]), offsets

    solutions, k, idle = [base.start() for base in bases], 0, 0
    least, of_leaves, offsets = seen(solutions, k)
    for _ in range(MOST_CYCLES * n_trees):
        steps, length, k_next = {}, 1.0, (k + 1) % n_trees
        for leaf, of_leaf in zip(range(*ends[k : k + 2]), of_leaves, strict=True):
            found_step = bases[leaf].step(solutions[leaf], of_leaf, ridges[k], priors[k], offsets[leaf])
            steps[leaf], inverses[leaf] = found_step
        while True:
            tried = [one + length * steps[leaf] if leaf in steps else one for leaf, one in enumerate(solutions)]
            loss, of_leaves, offsets = seen(tried, k_next)
            if loss <= least + ROUNDING * abs(least) or length == 0:
                break
            length = length / 2 if length > SHORTEST_STEP else 0.0
        idle = 0 if least - loss > NEAR * abs(loss) else idle + 1
        solutions, least, k = tried, loss, k_next
        if idle >= n_trees:
            break
    n_rows = sum(base.total for base in bases[own[0]])
    limit = math.log(2 * n_rows)
    grown = built(solutions, "target", (-limit, limit))
    return _with_outcomes(over, _counted(grown, n_rows), built(solutions).forest, columns, limit)


def _own(placed: PlacedRows, k: int) -> tuple[Doubles, Doubles]:
    """Whether rows are of the class of a tree, and what the other classes add to its log-odds."""
    n_trees = placed.margins.shape[1]
    own = (placed.y == (1 if n_trees == 1 else k)).astype(np.float64)
    if n_trees == 1:
        return own, np.zeros(len(own))
    others = np.delete(placed.margins, k, axis=1)
    return own, -np.logaddexp.reduce(others, axis=1)


def _moments(
    part: Any, number: int, forest: TreeEnsemble, terms: list[Terms], columns: Columns
) -> tuple[list[LeafSums], Doubles]:
    """Take sums of the columns and log-odds of all leaves by the rows' own weights, and the weights of the classes."""
    placed, sums = PlacedRows.of(part, number, columns, forest), []
    for k in range(forest.n_trees):
        for leaf in range(*forest.leaf_offsets[k : k + 2]):
            at = placed.members(leaf - forest.leaf_offsets[k], k)
            sums.append(sums_of(terms[leaf], placed.rows[at], placed.margins[at, k], placed.weight[at], 1.0))
    return sums, np.array([placed.weight @ _own(placed, k)[0] for k in range(forest.n_trees)])


def _newton(
    part: Any, number: int, forest: TreeEnsemble, terms: list[Terms], columns: Columns, k: int
) -> tuple[float, list[LeafSums], Doubles]:
    """Log-loss of a partition, sums of a class's Newton step, and sums of what others add to all leaves' log-odds."""
    placed = PlacedRows.of(part, number, columns, forest)
    own, offset = _own(placed, k)
    p = expit(placed.margins[:, k] + offset)
    variance = np.maximum(p * (1 - p), ROUNDING)
    sums = []
    for leaf, one in enumerate(terms):
        at = placed.members(leaf, k)
        rest = (own[at] - p[at]) / variance[at]
        sums.append(sums_of(one, placed.rows[at], rest + one.centre, placed.weight[at] * variance[at], 1.0))
    offsets = [
        np.bincount(placed.leaves[:, j], placed.weight * _own(placed, j)[1], n)
        for j, n in enumerate(np.diff(forest.leaf_offsets))
    ]
    margins = placed.margins if placed.margins.shape[1] > 1 else np.column_stack([np.zeros(len(p)), placed.margins])
    losses = np.logaddexp.reduce(margins, axis=1) - margins[np.arange(len(p)), placed.y.astype(np.intp)]
    return float(placed.weight @ losses), sums, np.concatenate(offsets)


def _with_outcomes(over: Over, grown: GrownTree, unlimited: TreeEnsemble, columns: Columns, limit: float) -> GrownTree:
    """Count classes, log-losses and limited rows by leaf."""
    found = over(_class_outcomes, unlimited, columns, limit)
    weight, shares, deviance, clipped = (np.sum([one[j] for one in found], axis=0) for j in range(4))
    low, high = np.min([one[4] for one in found], axis=0), np.max([one[5] for one in found], axis=0)
    models = [
        dataclasses.replace(
            one, n_clipped=int(clipped[k]), sse=float(deviance[k]), rmse=float(deviance[k] / 2 / weight[k]),
            share=float(shares[k] / weight[k]), low=float(low[k]), high=float(high[k]),
        )
        for k, one in enumerate(grown.models)
    ]  # fmt: skip
    return dataclasses.replace(grown, models=tuple(models))


def _class_outcomes(
    part: Any, number: int, forest: TreeEnsemble, columns: Columns, limit: float
) -> tuple[Doubles, ...]:
    """Weights, those of the class, deviances and limited rows by leaf, and which classes occur."""
    placed, found = PlacedRows.of(part, number, columns, forest), []
    has_limits = forest.has_linear_leaves
    for k, n in enumerate(np.diff(forest.leaf_offsets)):
        (own, offset), margin = _own(placed, k), placed.margins[:, k]
        deviance = 2 * (softplus(margin + offset) - own * (margin + offset))
        outside = (np.abs(margin) > limit) & (placed.weight > 0) & has_limits
        sums = (placed.weight, placed.weight * own, placed.weight * deviance, outside)
        members = [own[placed.members(leaf, k)] for leaf in range(n)]
        ends = [[end(one, initial=at_least) for one in members] for end, at_least in ENDS]
        found.append([*(np.bincount(placed.leaves[:, k], one, n) for one in sums), *ends])
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
