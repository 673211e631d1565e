"""Curves and surfaces of what a forest's margins leave of the target, as further trees of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from glasswood.base.escapes import quoted, shown
from glasswood.base.parallel import n_threads
from glasswood.base.typing import Doubles
from glasswood.forest import Forest
from glasswood.grow.balance import balance
from glasswood.grow.curves.bins import axes_of
from glasswood.grow.curves.boosting import OF_SPLIT, Boosted, CurveRows, boosted, folds_of, mean_of
from glasswood.grow.curves.plots import draw
from glasswood.grow.curves.shapes import Shape, shaped
from glasswood.grow.curves.tables import Table, curve_table, part_table, squares, surface_table
from glasswood.grow.curves.trees import forest_of
from glasswood.grow.data.repeats import repetitions
from glasswood.grow.losses import LINKS, level_of
from glasswood.grow.merging import merged
from glasswood.grow.table import INTERCEPT
from glasswood.grow.tree.intervals import quadratic_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from glasswood.grow.curves.pairs import Pair
    from glasswood.grow.data.columns import TrainingColumns, TrainingData
    from glasswood.grow.search.engine import Circumstances
    from glasswood.grow.tree.intervals import LeftOutRows
    from glasswood.model.ensemble import TreeEnsemble

MAX_BINS = 256
"""Bins of a feature."""

OF_NUMBERS = ("squared", "quantile", "huber")
"""Losses whose margins are in units of y."""

MOST_TARGET = 1e150
"""Largest target whose square is a number."""

ROUNDING = 1e-13
"""Part of the largest target within which margins are exact: curves of rounding errors say nothing."""

ONE_LEAF: dict[str, Any] = {"max_leaves": 1, "generations": 0, "verbose": False, "time_limit": None, "alternatives": 0}
"""Parameters of a tree that is an equation alone."""

HUBER = 1.345
"""Standard deviations beyond which residuals count by their absolute values, as in `glasswood.grow.search.robust`."""


@dataclass(frozen=True, eq=False)
class Curves:
    """What curves and surfaces have become.

    Attributes
    ----------
    shapes : list of Shape
    base : float64, (n_outputs,)
        What is added to all rows.
    data : TrainingData
    before : float64, (n_rows, n_outputs)
        Margins without curves.
    first : int
        Which start is in the mean with the last one.
    share : float
        Of this start.
    scores : float64, (n_rows,)
        What rows are off from curves that have not seen them, in rising order.
    shrunk : float
        Root mean square of that, in that of what the start left; both as if rows had not been seen.
    """

    shapes: list[Shape]
    base: Doubles
    data: TrainingData
    before: Doubles
    first: int
    share: float
    scores: Doubles
    shrunk: float

    @property
    def is_empty(self) -> bool:
        """Whether there are neither curves nor surfaces."""
        return not self.shapes


@dataclass(frozen=True)
class CurvePlan:
    """How to fit curves.

    Attributes
    ----------
    loss : str
        One of `glasswood.grow.curves.boosting.LOSSES`.
    level : float
        The quantile, or the power of the mean that the variance is.
    pairs : int or sequence of pairs of features
    max_bins : int
    must_gain : bool
        Whether left-out rows have to gain.
    seed : int
    n_jobs : int, optional
    has_copies : bool
        Whether equal rows are copies, which stay in one fold.
    """

    loss: str
    level: float = 0.5
    pairs: int | Sequence[Pair] = 0
    max_bins: int = MAX_BINS
    must_gain: bool = True
    seed: int = 0
    n_jobs: int | None = None
    has_copies: bool = True


def fit_curves(
    plan: CurvePlan, data: TrainingData, starts: Doubles, n_terms: Sequence[float] = (0,), *, has_splits: bool = False
) -> Curves:
    """Fit curves, and surfaces, to what margins leave of the rows.

    Parameters
    ----------
    plan : CurvePlan
    data : TrainingData
        In their own order (`TrainingData.in_order`).
    starts : float64, (1 to 3, n_rows, n_outputs)
        Margins; of several, left-out rows choose a mean of the last and of another one.
    n_terms : sequence of float
        Their coefficients, and what splits cost.
    has_splits : bool
        Whether the first start has splits.
    """
    _refuse_huge(plan.loss, data.target)
    columns, y, weight = data
    first = starts[0, :, 0]
    if plan.loss in OF_NUMBERS:
        y = np.where(np.abs(y - first) <= ROUNDING * np.abs(y).max(), first, y)
    unit = max(_unit(plan.loss, y - start[:, 0], weight) for start in starts)
    groups = repetitions(columns.X, y) if plan.has_copies else np.arange(len(y))
    fold = folds_of(groups, plan.seed)
    level = plan.level
    if plan.loss == "huber":
        level = min(_corner(y - start[:, 0], weight) for start in starts) / unit
    begin = np.ascontiguousarray(starts.transpose(0, 2, 1)) / unit
    rows = CurveRows(plan.loss, level, y / unit, weight, begin, fold, n_terms, has_splits)
    axes = axes_of(columns, weight, plan.max_bins)
    signs = np.zeros(columns.n_features, np.int64) if columns.signs is None else columns.signs
    found = boosted(rows, axes, signs, plan.pairs, n_threads(plan.n_jobs), must_gain=plan.must_gain)
    before = mean_of(found.share, starts[found.first], starts[-1])
    base, shapes = shaped(found, rows)
    missing = np.zeros(len(base))
    if not plan.must_gain or shapes or found.share < 1:
        missing = _missing(rows, before.T / unit + base[:, None], shapes)
    base += missing
    base[np.abs(base) <= ROUNDING] = 0.0  # texts would write it
    scaled = [replace(one, values=one.values * unit, errors=one.errors * unit) for one in shapes]
    scores = np.sort(np.abs(rows.y - found.unseen[0] - missing[0])) * unit
    return Curves(scaled, base * unit, data, before, found.first, found.share, scores, _shrunk(rows, found))


def _missing(rows: CurveRows, margins: Doubles, shapes: list[Shape]) -> Doubles:
    """Find the constants that make the mean prediction that of y: steps are joined, means over folds geometric."""
    if rows.loss in {"quantile", "huber"}:
        return np.zeros(len(margins))
    for shape in shapes:
        margins[shape.output] += shape.of_rows()
    link = LINKS.get(rows.loss, "identity" if rows.loss == "squared" else rows.loss)
    return balance(link, rows.y, margins.T, rows.weight)


def _refuse_huge(loss: str, y: Doubles) -> None:
    if loss in OF_NUMBERS and (largest := float(np.abs(y).max())) > MOST_TARGET:
        raise ValueError(f"y has values of {largest:.3g}, curves expect at most {MOST_TARGET:g}; divide the target")


def _unit(loss: str, residual: Doubles, weight: Doubles) -> float:
    """Choose a unit of margins in which no square overflows; 1 where they are logarithms."""
    if loss not in OF_NUMBERS:
        return 1.0
    largest = float(np.abs(residual).max()) or 1.0
    return largest * float(np.sqrt(np.average((residual / largest) ** 2, weights=weight))) or 1.0


def _corner(residual: Doubles, weight: Doubles) -> float:
    """Where Huber's loss turns linear, by the median absolute residual."""
    size = np.abs(residual)
    order = np.argsort(size, kind="stable")
    total = np.cumsum(weight[order])
    middle = float(size[order[min(int(np.searchsorted(total, total[-1] / 2)), len(size) - 1)]])
    return HUBER * 1.4826 * middle or float(size.max()) or 1.0


def _shrunk(rows: CurveRows, found: Boosted) -> float:
    pair, own = rows.between(found.first), 1.0 if found.share > 0 else 0.0
    before, after = rows.y - mean_of(own, pair.starts[0], pair.starts[-1])[0], rows.y - found.unseen[0]
    seen = [1 + 2 * pair.n_parameters(share) / float(rows.weight.sum()) for share in (own, found.share)]
    total = float(rows.weight @ before**2) * seen[0]
    return float(np.sqrt(rows.weight @ after**2 * seen[1] / total)) if total > 0 else 1.0


def wanted_pairs(interactions: Any, columns: TrainingColumns, names: list[str]) -> int | list[Pair]:
    """Read `interactions` of an estimator: a number of pairs, or pairs of features.

    Raises
    ------
    TypeError, ValueError
        If it says neither.
    """
    n, expected = columns.n_features, "a number of pairs, a share of the columns below 1, a text such as '3x', or pairs"
    if isinstance(interactions, str):
        number = interactions.removesuffix("x")
        if not interactions.endswith("x") or not number.isdecimal():
            raise ValueError(f"interactions is {quoted(interactions)}, expected {expected}")
        return int(number) * n
    if isinstance(interactions, int | float | np.number) and not isinstance(interactions, bool):
        if not 0 <= interactions < np.inf or (interactions >= 1 and interactions != int(interactions)):
            raise ValueError(f"interactions is {shown(interactions)}, expected {expected}")
        return int(interactions) if interactions >= 1 else int(interactions * n)
    if not isinstance(interactions, Sequence):
        raise TypeError(f"interactions is {quoted(interactions)}, expected {expected}")
    return sorted({_pair(pair, columns, names) for pair in interactions})


def _pair(pair: Any, columns: TrainingColumns, names: list[str]) -> Pair:
    """Positions of two columns."""
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(f"interactions holds {quoted(pair)}, expected pairs of columns")
    places = []
    for one in pair:
        place = names.index(one) if isinstance(one, str) and one in names else one
        if not isinstance(place, int | np.integer) or not 0 <= place < columns.n_features:
            raise ValueError(f"interactions names {quoted(one)}, expected columns of X")
        if columns.signs is not None and columns.signs[place]:
            raise ValueError(
                f"interactions names {quoted(one)}, which monotonic_cst constrains; surfaces are not monotone"
            )
        places.append(int(place))
    if places[0] == places[1]:
        raise ValueError(f"interactions holds {quoted(pair)}, expected two different columns")
    return min(places), max(places)


def with_curves(forest: TreeEnsemble, curves: Curves, columns: TrainingColumns, **meaning: Any) -> TreeEnsemble:
    """Put the trees of curves behind those of a forest."""
    if curves.is_empty:
        return replace(forest, base_score=forest.base_score + curves.base, checked=None, **meaning)
    added = forest_of(curves.shapes, np.zeros(forest.n_outputs), columns)
    return merged(
        [forest, added],
        np.concatenate([forest.tree_output, added.tree_output]),
        np.concatenate([forest.tree_weight, added.tree_weight]),
        base_score=forest.base_score + curves.base,
        n_curves=added.n_trees,
        **meaning,
    )


def curves_of(
    forests: Sequence[TreeEnsemble],
    plan: CurvePlan,
    data: TrainingData,
    n_terms: Sequence[float] = (0,),
    parts: LeftOutRows | None = None,
) -> Curves:
    """Fit curves to what a forest, or a mean of two, leaves of rows, which have no derived columns.

    Coefficients are those of each; splits come on top of them. `parts` are trees like the first one on parts of the
    rows.
    """
    data, _, copies = data.in_order()
    plan = plan if copies > 1 else replace(plan, has_copies=False)
    rows = data.columns.as_rows()
    each = [np.asarray(Forest(one).predict(rows, "margin", device="cpu", n_jobs=plan.n_jobs)) for one in forests]
    n_splits = [one.n_leaves - one.n_trees for one in forests]
    n_terms = [terms + OF_SPLIT * splits for terms, splits in zip(n_terms, n_splits, strict=True)]
    if parts is not None and n_splits[0] and plan.loss in OF_NUMBERS:
        n_terms[0] = _with_choice(n_terms[0], parts, np.abs(data.target - each[0]), data.weight)
    starts = np.array([margins.reshape(len(rows), -1) for margins in each])
    return fit_curves(plan, data, starts, n_terms, has_splits=n_splits[0] > 0)


def _with_choice(counted: float, parts: LeftOutRows, off: Doubles, weight: Doubles) -> float:
    """Count what a tree's choice of splits and terms costs by rows that trees on parts have not seen, as intervals do.

    Such trees are worse than the whole one, but tell where a few rows have chosen it.
    """
    error = float(quadratic_mean(off, weight))
    if not error:
        return counted
    measured = ((parts.error / error) ** 2 - 1) * float(weight.sum()) / 2
    return max(counted, (1 - parts.trust) * counted + parts.trust * measured)


class CurvedEstimator:
    """What estimators with curves have beside their forests."""

    forest_: Forest
    leaves_: Any
    curves_: Table
    surfaces_: Table
    parts_: Table
    _importances: Doubles
    _explained: float

    def _add_curves(
        self,
        plan: CurvePlan,
        data: TrainingData,
        starts: Sequence[Any],
        name: str,
        parts: LeftOutRows | None = None,
    ) -> Curves:
        """Fit curves beside one of the starts, and become the mean that left-out rows choose, with its curves.

        Parameters
        ----------
        plan : CurvePlan
        data : TrainingData
            All rows, without derived columns.
        starts : sequence of fitted estimators
            Of which the last one has one leaf without terms, unless it is the only one.
        name : str
            What the forest is called beside the curves.
        parts : LeftOutRows, optional
            Trees like the first start on parts of the rows.
        """
        n_terms = [len(start.leaves_["feature"]) for start in starts]
        curves = curves_of([start.forest_.ensemble for start in starts], plan, data, n_terms, parts)
        self._take(starts[curves.first if curves.share > 0 else -1])
        if 0 < curves.share < 1:
            self._shrink(curves.share, starts[-1].forest_.ensemble)
        self._keep_curves(curves, name)
        return curves

    def _take(self, start: Any) -> None:
        """Take the attributes of a fitted estimator."""
        self.forest_, self.leaves_ = start.forest_, start.leaves_
        self._importances, self._explained = start._importances, start._explained

    def _shrink(self, share: float, constant: TreeEnsemble) -> None:
        """Take the mean of the trees, which have a share, and of a constant of each output."""
        forest = self.forest_.ensemble
        output = np.repeat(forest.tree_output, np.diff(forest.leaf_offsets))  # of each leaf
        added = ((1 - share) * (constant.leaf_value[:, 0] + constant.base_score))[output]
        scaled: dict[str, Any] = {
            "leaf_value": share * forest.leaf_value + added[:, None],
            "base_score": share * forest.base_score,
        }
        if forest.has_linear_leaves:
            scaled["linear_coefficient"] = share * forest.linear_coefficient
            scaled["leaf_range"] = share * forest.leaf_range + added[:, None]
        self.forest_ = Forest(replace(forest, **scaled, checked=None))
        is_intercept = self.leaves_["feature"] == INTERCEPT
        coefficient = share * self.leaves_["coefficient"] + np.where(is_intercept, added[self.leaves_["leaf"]], 0.0)
        error = share * self.leaves_["standard_error"]
        self.leaves_ = {**self.leaves_, "coefficient": coefficient, "standard_error": error}
        self._explained *= share

    def _keep_curves(self, curves: Curves, name: str) -> None:
        """Put curves behind the trees of the forest that they were fitted to."""
        forest = with_curves(self.forest_.ensemble, curves, curves.data.columns)
        self.forest_ = Forest(forest)
        self.curves_, self.surfaces_ = curve_table(curves.shapes, forest), surface_table(curves.shapes, forest)
        self.parts_ = part_table(curves.shapes, curves.before, curves.data.weight, forest, name)
        self._count_curves(curves, forest)

    def _count_curves(self, curves: Curves, forest: TreeEnsemble) -> None:
        """Add what curves explain to the importances of features."""
        own = self._importances * self._explained**2
        added = squares(curves.shapes, forest.n_features) / forest.n_outputs
        total = float((own + added).sum())
        if total > 0:
            self._importances, self._explained = (own + added) / total, float(np.sqrt(total))

    def plot(self, output: int = 0) -> Figure:
        """Draw curves with their standard errors, surfaces, and where the training rows are.

        Parameters
        ----------
        output : int, default=0
            Which class, of more than two.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ValueError
            If the model has been fitted without curves.
        """
        check_is_fitted(self)
        if not hasattr(self, "curves_"):
            raise ValueError("the tree has no curves; fit it with curves=True, or draw it by glasswood.plot_tree")
        return draw(self.curves_, self.surfaces_, self.forest_.ensemble, output)


class CurvedTree(CurvedEstimator):
    """Trees beside which curves may stand."""

    curves: bool | str
    pairs: int | str
    leaf_model: str
    random_state: Any
    n_jobs: int | None
    interaction_cst: Any
    leaf_summary_: Table
    n_leaves_: int
    quantile: float = 0.5
    tweedie_power: float = 1.5

    @abstractmethod
    def _of_one_leaf(self, leaf_model: str, data: TrainingData, given: Circumstances) -> Any:
        """Fit an equation, or a constant, with the parameters of this tree."""

    def _bend(self, loss: str, data: TrainingData, given: Circumstances, parts: LeftOutRows | None = None) -> None:
        """Add what the parameters `curves` and `pairs` ask for.

        Curves begin at the tree, at one equation if the tree has splits, and at a constant.
        """
        if not self.curves:
            return
        if self.pairs and self.interaction_cst is not None:
            raise ValueError(f"pairs is {quoted(self.pairs)}, expected 0 with interaction_cst")
        pairs = 3 * data.columns.n_features if isinstance(self.pairs, str) else int(self.pairs)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        must_gain = self.curves == "auto"
        plan = CurvePlan(loss, level_of(self), pairs, must_gain=must_gain, seed=seed, n_jobs=self.n_jobs)
        forest, given = self.forest_.ensemble, given.now(callbacks=(), margin=0.0)
        has_splits = forest.n_leaves > forest.n_trees
        kinds = ["linear", "constant"] if has_splits and self.leaf_model == "linear" else ["constant"]
        starts = [self, *(self._of_one_leaf(kind, data, given) for kind in kinds)]
        curves = self._add_curves(plan, data, starts, "tree", parts)
        if (scores := getattr(self, "_scores", None)) is not None:
            self._scores: Doubles = scores * curves.shrunk

    def _take(self, start: Any) -> None:
        super()._take(start)
        if start is not self:
            self.__dict__.pop("alternatives_", None)  # they are other trees than one that is gone
        for name in ("leaf_summary_", "n_leaves_", "ridges_", "_scores"):
            if hasattr(start, name):
                setattr(self, name, getattr(start, name))

    def _shrink(self, share: float, constant: TreeEnsemble) -> None:
        """Take the mean, of what is told of leaves too."""
        value = self.forest_.ensemble.leaf_value[:, 0]
        super()._shrink(share, constant)
        added = self.forest_.ensemble.leaf_value[:, 0] - share * value
        summary, is_log = self.leaf_summary_, self.forest_.ensemble.link == "exp"
        for name in ("lowest", "highest") if is_log else ("mean", "lowest", "highest"):
            margin = np.log(summary[name]) if is_log else summary[name]
            shrunk = share * margin + added
            summary = {**summary, name: np.exp(shrunk) if is_log else shrunk}
        self.leaf_summary_ = summary

    def _parameters_of_one_leaf(self, leaf_model: str) -> dict[str, Any]:
        own: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        changed = {**ONE_LEAF, "leaf_model": leaf_model, "curves": False, "pairs": 0, "smoothing": 0, "rounds": 1}
        changed |= {"algorithm": "gram", "warm_start": False}
        return {**own, **{name: value for name, value in changed.items() if name in own}}
