"""Partial dependence and individual conditional expectation (ICE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array, Doubles, Rows
from glasswood.inputs import refuse_transform, with_tables
from glasswood.inputs.matching import index_of_feature
from glasswood.inspection.plots import Dependence
from glasswood.inspection.rows import ChangingRows, refuse_no_rows, weights_of
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_name, units_of

Kind = Literal["average", "individual", "both"]
Method = Literal["auto", "predict_proba", "decision_function", "predict"]

OUTPUTS = {"predict_proba": "probability", "decision_function": "margin", "predict": "prediction"}


def partial_dependence(
    model: object,
    X: Rows,
    features: int | str | Sequence[int | str],
    *,
    sample_weight: ArrayLike | None = None,
    response_method: Method = "auto",
    percentiles: tuple[float, float] = (0.05, 0.95),
    grid_resolution: int = 100,
    custom_values: Mapping[int | str, ArrayLike] | None = None,
    kind: Kind = "average",
) -> Dependence:
    """Mean prediction as a function of one or two features, and the prediction of each row (ICE).

    Parameters
    ----------
    model : Forest, estimator, or any model that `glasswood.load` reads
    X : array-like or frame of shape (n, n_features)
        Rows in which the features are changed.
    features : int, str, or a sequence of one or two of them
        glasswood changes two features together, and the result has an axis for each.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in means.
    response_method : {"auto", "predict_proba", "decision_function", "predict"}
        For classifiers, probabilities ("auto") or margins; for other models the prediction, or the margin.
    percentiles : pair of float
        Quantiles of the rows' values between which the grid lies.
    grid_resolution : int
        Number of evenly spaced points per feature. A feature with fewer distinct values, or with categories, uses
        those values.
    custom_values : mapping, optional
        Grid of a feature, by its number or name; categories by value.
    kind : {"average", "individual", "both"}

    Returns
    -------
    Bunch
        A dictionary whose keys are also attributes, like scikit-learn's: ``grid_values``, a list with one array per
        feature; depending on `kind`, ``average``, (n_outputs, points[, points]), and ``individual``,
        (n_outputs, n, points[, points]); ``feature_names``. Regressions have one output, and so have binary
        classifiers (the second class). ``plot(ax=None, output=0)`` draws it.

    Raises
    ------
    ValueError
        If a feature is unknown, X has no rows, or the percentiles leave no range.
    TypeError
        If the feature's column cannot hold a custom value.
    NotImplementedError
        For pipelines and target statistics, because the trees' features are not the columns of X. Use scikit-learn's
        function for a pipeline, or pass ``pipeline[-1]`` and the rows that the steps before it return.

    Notes
    -----
    Grids, shapes and results are those of scikit-learn's "brute" method, which predicts all rows once per grid point.
    glasswood instead walks each tree once per row, for all points, and follows both sides of the splits that test the
    feature. This takes as long as 10 to 25 calls of `Forest.predict`; means of margins (regressions, averaged
    probabilities) take a fifth of that. On GPUs and with linear leaves, it takes one call per point. Missing values are
    not part of the grid.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001), section 8.2.

    Examples
    --------
    >>> result = glasswood.partial_dependence(model, X, "MedInc", kind="both")  # doctest: +SKIP
    >>> plt.plot(result.grid_values[0], result.average[0])  # doctest: +SKIP
    """
    forest = with_tables(X, load(model).ensemble)
    refuse_transform(forest, "partial_dependence", "sklearn.inspection.partial_dependence")
    if kind not in {"average", "individual", "both"}:
        raise ValueError(f"kind is {quoted(kind)}, expected 'average', 'individual' or 'both'")
    wanted = [_index(feature, forest) for feature in _listed(features)]
    rows = ChangingRows(forest, X)
    refuse_no_rows(rows)
    if custom_values is not None and not isinstance(custom_values, Mapping):
        raise TypeError(f"custom_values is {quoted(custom_values)}, expected a mapping of features to values")
    custom = {_index(feature, forest): values for feature, values in (custom_values or {}).items()}
    axes = [_axis(rows, feature, custom, percentiles, grid_resolution) for feature in wanted]
    points = np.stack(np.meshgrid(*(codes for _, codes in axes), indexing="ij"), axis=-1).reshape(-1, len(wanted))
    sizes, output = [len(codes) for _, codes in axes], _output(forest, response_method)
    means, each = responses_of(rows, wanted, points, output, sample_weight, kind)
    result = Dependence(grid_values=[shown for shown, _ in axes])
    result["feature_names"] = [feature_name(forest, i) for i in wanted]
    result.unit = units_of(forest, output, means.shape[1])
    if kind != "individual":
        result["average"] = means.T.reshape(-1, *sizes)
    if kind != "average":
        result["individual"] = each.transpose(2, 1, 0).reshape(each.shape[2], len(rows), *sizes)
    return result


def _index(feature: Any, forest: TreeEnsemble) -> int:
    return index_of_feature(feature, forest.n_features, forest.feature_names, "features")


def _listed(features: Any) -> list[Any]:
    listed = [features] if isinstance(features, str) or not hasattr(features, "__iter__") else list(features)
    if len(listed) not in {1, 2} or len(set(map(str, listed))) < len(listed):
        raise ValueError(f"features is {quoted(features)}, expected one feature or two different ones")
    return listed


def _axis(
    rows: ChangingRows, feature: int, custom: Mapping[int, Any], percentiles: tuple[float, float], resolution: int
) -> tuple[Array, Array]:
    """Grid of one feature: values as users know them, and as the forest's rows hold them."""
    if feature in custom:
        return custom_grid(rows, feature, np.array(custom[feature]))
    return grid_of(rows, feature, percentiles, resolution)


def grid_of(
    rows: ChangingRows, feature: int, percentiles: tuple[float, float], resolution: int, spread: bool = False
) -> tuple[Array, Array]:
    """Evenly spaced numbers between two quantiles, or all values that are few or categories.

    Where both quantiles are one number, or one is infinite, `spread` takes distinct values instead of an error.
    """
    table = rows.forest.categories and rows.forest.categories[feature]
    shown, codes = rows.values_of(feature)
    if not len(codes):
        raise ValueError(f"feature {feature} is missing in all rows of X; pass rows with values, or custom_values")
    if table is not None or shown.dtype == object or len(codes) < resolution:
        return shown, codes
    values = rows.shown[:, feature].astype(np.float64)
    low, high = _quantiles(values[~np.isnan(values)], percentiles)
    if spread and not (np.isfinite([low, high]).all() and low < high):
        some = np.linspace(0, len(codes) - 1, resolution).astype(int)
        return shown[some], codes[some]
    if not low < high:
        raise ValueError(
            f"percentiles {quoted(percentiles)} of feature {feature} are both {low:.6g}; pass percentiles further apart"
        )
    grid = np.linspace(low, high, resolution)
    return grid, grid


def custom_grid(rows: ChangingRows, feature: int, given: Array) -> tuple[Array, Array]:
    """Values of the user's own; those of categories must occur in X."""
    if given.ndim != 1 or not len(given):
        raise ValueError(f"custom_values of feature {feature} has shape {given.shape}, expected (points,)")
    if not (rows.forest.categories and rows.forest.categories[feature] is not None) and given.dtype.kind in "biuf":
        return given, given.astype(np.float64)
    shown, codes = rows.values_of(feature)
    place = dict(zip(shown.tolist(), codes.tolist(), strict=True))
    if unknown := [value for value in given.tolist() if value not in place]:
        raise ValueError(f"custom_values of feature {feature} holds {quoted(unknown[0])}, which no row of X has")
    return given, np.array([place[value] for value in given.tolist()])


def _quantiles(values: Doubles, percentiles: tuple[float, float]) -> Doubles:
    """Take the quantiles that scikit-learn does: of SciPy's mquantiles, with its parameters 0.4."""
    if not 0 <= percentiles[0] < percentiles[1] <= 1:
        raise ValueError(f"percentiles is {shown(percentiles)}, expected two rising numbers from 0 to 1")
    ordered, n = np.sort(values), len(values)
    p = np.asarray(percentiles)
    at = n * p + 0.4 + p * 0.2
    k = np.floor(np.clip(at, 1, n - 1)).astype(int) if n > 1 else np.ones(2, int)
    share = np.clip(at - k, 0, 1)
    result: Doubles = (1 - share) * ordered[k - 1] + share * ordered[np.minimum(k, n - 1)]
    return result


def _output(forest: TreeEnsemble, method: str) -> str:
    if method == "auto":
        return "probability" if forest.classes else "prediction"
    if method not in OUTPUTS:
        raise ValueError(f"response_method is {quoted(method)}, expected 'auto' or one of {', '.join(OUTPUTS)}")
    return OUTPUTS[method]


def responses_of(
    rows: ChangingRows,
    features: Sequence[int],
    points: Array,
    output: str,
    weight: ArrayLike | None,
    kind: Kind = "both",
) -> tuple[Doubles, Array]:
    """Means (points, k), and those of each row (points, n, k) unless only means are asked for."""
    weights = weights_of(weight, len(rows))
    total = float(len(rows) if weights is None else weights.sum())
    if total == 0:
        raise ValueError("sample_weight adds up to 0, expected weights with a mean")
    means, each = np.zeros((len(points), 0)), np.zeros((len(points), 0, 0))
    if kind == "average" and (sums := rows.sums_on_grid(features, points, output, weights)) is not None:
        return sums[:, 1:] / total if output == "probability" and sums.shape[1] == 2 else sums / total, each
    for some, at, values in rows.on_grid(features, points, output):
        if output == "probability" and values.shape[2] == 2:
            values = values[:, :, 1:]
        if not means.size:
            means = np.zeros((len(points), values.shape[2]))
            each = np.empty((len(points), len(rows), values.shape[2]) if kind != "average" else 0, values.dtype)
        means[at] += (values if weights is None else weights[some, None, None] * values).sum(axis=0, dtype=np.float64)
        if kind != "average":
            each[at, some] = values.swapaxes(0, 1)
    return means / total, each
