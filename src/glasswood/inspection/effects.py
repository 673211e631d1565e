"""Effects of all features and pairs: partial dependence, accumulated local effects and strengths of interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.evaluate.links import sums_as_margin
from glasswood.inputs import refuse_transform, with_tables
from glasswood.inputs.matching import index_of_feature
from glasswood.inspection.accumulated import accumulated, accumulated_categories, accumulated_pair, edges_of
from glasswood.inspection.additive import AdditiveParts, additive_parts
from glasswood.inspection.dependence import custom_grid, grid_of, responses_of
from glasswood.inspection.interactions import Interactions, interactions_at, rows_among
from glasswood.inspection.plots import Dependence, LocalEffect, plot_effects
from glasswood.inspection.rows import ChangingRows, refuse_no_rows, weights_of
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name, output_names, units_of
from glasswood.model.facts import feature_names as all_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from glasswood.inspection.accumulated import Bins
    from glasswood.inspection.additive import Pair

PERCENTILES = (0.05, 0.95)
"""Quantiles of the rows' values between which grids lie, as those of `partial_dependence` by default."""

OUTPUTS = ("margin", "probability", "prediction")

Name = int | str
Kind = TypeVar("Kind", bound=Dependence)


def effects(
    model: object,
    X: Rows,
    *,
    features: Sequence[Name] | None = None,
    pairs: Sequence[tuple[Name, Name]] | Literal["auto", "all"] = "auto",
    sample_weight: ArrayLike | None = None,
    output: str = "margin",
    grid_resolution: int = 50,
    custom_values: Mapping[Name, ArrayLike] | None = None,
) -> Effects:
    """Compute the partial dependence on every feature and every pair of features.

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
    X : array-like or frame of shape (n, n_features)
        Rows over which predictions are averaged.
    features : sequence of int or str, optional
        Features to show; default all.
    pairs : "auto", "all", or a sequence of pairs
        Pairs of these features. "auto" is all pairs if the output is a sum over trees, otherwise none.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, at least 0.
    output : {"margin", "probability", "prediction"}
        What is averaged. The probability of a binary classifier is that of the second class.
    grid_resolution, custom_values
        Grid of each feature, as for `partial_dependence`.

    Returns
    -------
    Effects

    Raises
    ------
    ValueError
        If a feature is unknown, X has no rows, weights do not fit, or the grids of all pairs are too large.
    NotImplementedError
        For pipelines and target statistics, because the trees' features are not the columns of X.

    Notes
    -----
    For margins (and averaged probabilities of random forests), one pass on the CPU over the leaves of each tree counts
    the rows that miss the conditions of no, one or two features. All curves and surfaces follow from these counts,
    exactly, and no row is predicted. The cost is O(n × leaves × p² / 64) with p features on a path. Other outputs and
    linear leaves require one prediction of all rows for each point of each grid.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001); Friedman,
    Popescu, "Predictive learning via rule ensembles", Annals of Applied Statistics 2 (2008); Apley, Zhu, "Visualizing
    the effects of predictor variables in black box supervised learning models", JRSS B 82 (2020).

    Examples
    --------
    >>> effects = glasswood.effects(model, X)  # doctest: +SKIP
    >>> effects.dependence("MedInc").plot()  # doctest: +SKIP
    >>> effects.interactions().h  # doctest: +SKIP
    """
    forest = load(model).ensemble
    refuse_transform(forest, "effects", "sklearn.inspection.partial_dependence")
    if output not in OUTPUTS:
        raise ValueError(f"output is {quoted(output)}, expected one of {', '.join(OUTPUTS)}")
    forest = with_tables(X, forest)
    rows = ChangingRows(forest, X).owned()
    refuse_no_rows(rows)
    weights = None if sample_weight is None else np.array(weights_of(sample_weight, len(rows)))
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("sample_weight holds negative, infinite or only zero weights; pass weights with a mean")

    names = all_names(forest)

    def index(feature: Any, what: str) -> int:
        return index_of_feature(feature, forest.n_features, names, what)

    chosen = sorted(
        {index(feature, "features") for feature in (range(forest.n_features) if features is None else features)}
    )
    if custom_values is not None and not isinstance(custom_values, Mapping):
        raise TypeError(f"custom_values is {quoted(custom_values)}, expected a mapping of features to values")
    custom = {index(feature, "custom_values"): np.array(values) for feature, values in (custom_values or {}).items()}
    axes = {feature: _axis(rows, feature, custom, grid_resolution) for feature in chosen}
    is_sum = sums_over_trees(forest, output)
    if isinstance(pairs, str):
        if pairs not in {"auto", "all"}:
            raise ValueError(f"pairs is {quoted(pairs)}, expected 'auto', 'all' or a sequence of pairs")
        wanted = list(combinations(chosen, 2)) if is_sum or pairs == "all" else []
    else:
        wanted = sorted({_pair([index(feature, "pairs") for feature in pair], chosen) for pair in pairs})
    return Effects(rows, axes, wanted, weights, output, is_sum)


def sums_over_trees(forest: TreeEnsemble, output: str) -> bool:
    """Whether an output is a sum over trees of constants, so that counts of rows at leaves give its means."""
    return not forest.has_linear_leaves and sums_as_margin(forest, output)


def _pair(found: list[int], chosen: Sequence[int]) -> Pair:
    if len(set(found)) != 2 or not set(found) <= set(chosen):
        raise ValueError(f"pairs holds {tuple(found)}, expected two different ones of the chosen features")
    return min(found), max(found)


def _axis(rows: ChangingRows, feature: int, custom: Mapping[int, Array], resolution: int) -> tuple[Array, Array]:
    """Grid of a feature, shown and as rows hold it; one missing value where all are."""
    if feature in custom:
        return custom_grid(rows, feature, custom[feature])
    if np.isnan(rows.values[:, feature]).all():
        return np.array([np.nan]), np.array([np.nan])
    return grid_of(rows, feature, PERCENTILES, resolution, spread=True)


class Effects:
    """Average effects of features, and of pairs of them, on a model's predictions (`glasswood.effects`).

    Attributes
    ----------
    feature_names : tuple of str
        Names of the features.
    pairs : list of pair of str
        Names of the pairs that were computed.
    output_names : list of str
        One for each output.
    mean : ndarray of shape (k,)
        Mean prediction of the rows.
    """

    def __init__(
        self,
        rows: ChangingRows,
        axes: dict[int, tuple[Array, Array]],
        pairs: list[Pair],
        weights: Doubles | None,
        output: str,
        is_sum: bool,
    ) -> None:
        self._rows, self._axes, self._weights, self._output = rows, axes, weights, output
        self._is_sum = is_sum
        self._parts = self._find({feature: codes for feature, (_, codes) in axes.items()}, pairs, None)
        self._joint_pairs = pairs
        self.mean: Doubles = self._parts.mean
        self.feature_names: tuple[str, ...] = tuple(feature_name(rows.forest, feature) for feature in axes)
        self.pairs: list[tuple[str, str]] = [
            (feature_name(rows.forest, a), feature_name(rows.forest, b)) for a, b in pairs
        ]
        self.output_names: list[str] = output_names(rows.forest, len(self.mean))

    def __repr__(self) -> str:
        return (
            f"Effects({len(self._axes)} features, {len(self.pairs)} pairs, {len(self._rows):,} rows, {self._output!r})"
        )

    def dependence(self, *features: Name) -> Dependence:
        """Partial dependence on one feature or a pair.

        Parameters
        ----------
        *features : int or str
            One feature, or two.

        Returns
        -------
        Bunch
            As for `partial_dependence`: ``grid_values``, ``average`` (k, points[, points]), ``feature_names`` and
            ``plot(ax=None, output=0)``.

        Raises
        ------
        ValueError
            If a feature or pair was not computed.
        """
        found = self._indices(features)
        if len(found) == 1:
            average = self._parts.mean[:, None] + self._parts.main[found[0]]
        else:
            average = self.mean[:, None, None] + self._joint(found)
            average = average + self._parts.main[found[0]][:, :, None] + self._parts.main[found[1]][:, None]
        return self._shown(Dependence, found, [self._axes[feature][0] for feature in found], average)

    def ale(self, *features: Name, bins: Bins = 40) -> LocalEffect:
        """Accumulated local effects of one feature, or of a pair beyond those of its features.

        Parameters
        ----------
        *features : int or str
            One feature, or two numerical ones.
        bins : int or "thresholds"
            Number of bins between quantiles of the rows' values, or bins between the forest's thresholds.

        Returns
        -------
        Bunch
            ``grid_values``, the edges of the bins (categories in the order of their partial dependence), ``average``
            (k, points[, points]), centred (see Notes), ``feature_names`` and ``plot(ax=None, output=0)``.

        Raises
        ------
        ValueError
            If a feature is unknown or missing in all rows, or `bins` has an unknown value.
        NotImplementedError
            For pairs with categories, which have no order.

        Notes
        -----
        Costs two predictions of all rows for one feature, and four for a pair. Rows in which a feature is missing do
        not count. Cells of a pair without rows get the difference of the nearest cell with rows. Every row has its
        sample weight in the mean of a bin's differences and in the centring. Curves of numbers are centred so that the
        means of a bin's two ends, weighted by the rows of the bin, add up to 0, as in Apley and Zhu's ALEPlot; curves
        of categories so that their mean over the rows is 0.
        """
        found = self._indices(features)
        tables = self._rows.forest.categories
        of_categories = [tables is not None and tables[feature] is not None for feature in found]
        if len(found) == 1 and of_categories[0]:
            shown, codes = self._rows.values_of(found[0])
            order = np.argsort(self._means(found, codes[:, None])[:, 0], kind="stable")
            average = accumulated_categories(
                self._rows, found[0], shown[order], codes[order], self._output, self._weights
            )
            return self._shown(LocalEffect, found, [shown[order]], average)
        if any(of_categories):
            name = feature_name(self._rows.forest, found[of_categories.index(True)])
            raise NotImplementedError(
                f"{quoted(name)} has categories, which have no order, so pairs with it have no ALE; use dependence()"
            )
        edges = [edges_of(self._rows, feature, bins) for feature in found]
        if len(found) == 1:
            average = accumulated(self._rows, found[0], edges[0], self._output, self._weights)
        else:
            both = (found[0], found[1]), (edges[0], edges[1])
            average = accumulated_pair(self._rows, *both, self._output, self._weights)
        return self._shown(LocalEffect, found, edges, average)

    def interactions(self, n_points: int = 500) -> Interactions:
        """Friedman's H: the size of what a pair adds beyond its parts, beside the size of their joint effect.

        Parameters
        ----------
        n_points : int
            Number of rows, evenly spaced in X, at which partial dependences are compared. These are means over all
            rows of X.

        Returns
        -------
        Interactions
            ``pairs`` (names) with ``h`` and ``strength``, (n_pairs, k), the root of the mean squared joint part in the
            unit of the output; ``feature_names`` with ``overall``, (n_features, k), H of a feature against all others;
            ``plot(ax=None, output=0)``.

        Raises
        ------
        ValueError
            If `n_points` is not a positive number.

        Notes
        -----
        H is 0 for effects that add up, and 1 if a pair acts only jointly; it can exceed 1 for correlated features. If a
        pair has almost no effect, H is a ratio of small numbers; `strength` then shows that the pair does not matter.
        """
        chosen = rows_among(len(self._rows), n_points)
        points = self._rows.values[chosen]
        found = self._find({feature: np.zeros(1) for feature in self._axes}, self._joint_pairs, points)
        weights = np.ones(len(chosen)) if self._weights is None else self._weights[chosen]
        result = interactions_at(self._rows, chosen, found, weights, self._weights, self._output)
        result.update(feature_names=self.feature_names, pairs=self.pairs)
        result.unit = units_of(self._rows.forest, self._output, len(self.mean))
        return result

    def plot(self, n_pairs: int = 4, output: int = 0) -> Figure:
        """Draw the features with the largest effects, and the pairs with the largest joint effects.

        Parameters
        ----------
        n_pairs : int
            Largest number of pairs.
        output : int
            Which of several outputs.

        Returns
        -------
        matplotlib Figure
        """
        curves = [self.dependence(name) for name in self.strongest(output)]
        return plot_effects(curves, [self.dependence(*pair) for pair in self.strongest_pairs(output)[:n_pairs]], output)

    def strongest(self, output: int = 0) -> list[str]:
        """Names of the features by the standard deviation of their curves, largest first."""
        size = [self._parts.main[feature][output].std() for feature in self._axes]
        return [self.feature_names[place] for place in np.argsort(size)[::-1]]

    def strongest_pairs(self, output: int = 0) -> list[tuple[str, str]]:
        """Pairs by the standard deviation of what both do beyond the sum of their curves, largest first."""
        size = [_beyond(self._parts.joint[pair][output]) for pair in self._joint_pairs]
        return [self.pairs[place] for place in np.argsort(size)[::-1]]

    def _indices(self, features: Sequence[Name]) -> list[int]:
        if len(features) not in {1, 2} or len(set(features)) < len(features):
            raise ValueError(f"features are {quoted(features)}, expected one feature or two different ones")
        forest = self._rows.forest
        names = all_names(forest)
        found = [index_of_feature(name, forest.n_features, names, "features") for name in features]
        if missing := [name for name, feature in zip(features, found, strict=True) if feature not in self._axes]:
            raise ValueError(
                f"feature {quoted(missing[0])} was not computed; pass it in `features` of glasswood.effects"
            )
        return found

    def _joint(self, found: list[int]) -> Doubles:
        a, b = found
        if (min(a, b), max(a, b)) not in self._parts.joint:
            raise ValueError(f"pair {tuple(found)} was not computed; pass it in `pairs` of glasswood.effects")
        return self._parts.joint[a, b] if a < b else self._parts.joint[b, a].swapaxes(1, 2)

    def _shown(self, kind: type[Kind], found: list[int], grids: list[Array], average: Doubles) -> Kind:
        names = [feature_name(self._rows.forest, feature) for feature in found]
        result = kind(grid_values=grids, average=average, feature_names=names)
        result.unit = units_of(self._rows.forest, self._output, len(average))
        return result

    def _find(self, grids: dict[int, Array], pairs: list[Pair], points: Array | None) -> AdditiveParts:
        if self._is_sum:
            parts = additive_parts(self._rows, grids, pairs, self._weights, points)
            return _second_class(parts) if self._output == "probability" and len(parts.mean) == 2 else parts
        mean = self._means([], np.zeros((1, 0)))[0]
        each, both = {}, {}
        for feature, grid in grids.items():
            each[feature] = self._means([feature], grid[:, None] if points is None else points[:, [feature]]).T
        for a, b in pairs:
            if points is None:
                grid = np.stack(np.meshgrid(grids[a], grids[b], indexing="ij"), axis=-1).reshape(-1, 2)
                shape = len(mean), len(grids[a]), len(grids[b])
                found = self._means([a, b], grid).T.reshape(shape) - each[a][:, :, None] - each[b][:, None]
                both[a, b] = found + mean[:, None, None]
            else:
                both[a, b] = self._means([a, b], points[:, [a, b]]).T - each[a] - each[b] + mean[:, None]
        return AdditiveParts(mean, {feature: curve - mean[:, None] for feature, curve in each.items()}, both)

    def _means(self, features: list[int], points: Array) -> Doubles:
        """Mean predictions by point, (points, k)."""
        if not features:
            found = np.asarray(self._rows.responses(self._output), np.float64).reshape(len(self._rows), -1)
            found = found[:, 1:] if self._output == "probability" and found.shape[1] == 2 else found
            return np.average(found, axis=0, weights=self._weights)[None]
        return responses_of(self._rows, features, points, self._output, self._weights, "average")[0]


def _second_class(parts: AdditiveParts) -> AdditiveParts:
    return AdditiveParts(
        parts.mean[1:],
        {key: part[1:] for key, part in parts.main.items()},
        {key: part[1:] for key, part in parts.joint.items()},
    )


def _beyond(joint: Doubles) -> float:
    """Size of a surface that no sum of two curves explains."""
    return float((joint - joint.mean(axis=0) - joint.mean(axis=1, keepdims=True) + joint.mean()).std())
