"""`glasswood.dask.fit`: a tree searched on a sample, its equations fitted on all rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from glasswood.base.escapes import quoted
from glasswood.base.typing import Doubles, Int64s
from glasswood.dask.engine import import_dask
from glasswood.dask.leaves import refitted, solved
from glasswood.dask.triangles import leaf_terms, merge_all, sums_of
from glasswood.forest import Forest
from glasswood.grow import ModelTreeRegressor
from glasswood.grow.table import feature_importances, leaf_table
from glasswood.inputs import as_rows
from glasswood.inputs.matching import listed
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.dask.triangles import LeafSums, Terms

SAMPLE_ROWS = 10_000_000
TOGETHER = 8
"""Parts whose sums one task adds up."""


def fit(
    model: ModelTreeRegressor,
    data: Any,
    target: str,
    weight: str | None = None,
    sample_rows: int = SAMPLE_ROWS,
) -> ModelTreeRegressor:
    """Grow a model tree on a Dask data frame: search on a sample, then fit the leaves' equations on all rows.

    Parameters
    ----------
    model : ModelTreeRegressor
        The estimator to fit, with ``loss="squared"`` and ``smoothing`` "auto" or 0.
    data : dask DataFrame
        Features, target and weight; all partitions have the same columns. glasswood reads the rows four times (numbers
        of rows, sample, sums, residuals), so persist data that are slow to compute.
    target, weight : str
        Names of columns. Weights are at least 0.
    sample_rows : int
        Largest number of rows to search on, in the memory of one worker. glasswood draws them from each partition in
        proportion to its rows, without replacement, with seeds from ``model.random_state`` and the partition's number.

    Returns
    -------
    ModelTreeRegressor
        `model`. Splits, terms, `history_` and `fitness_` come from the sample; `leaves_`, `leaf_summary_`, covers and
        limits from all rows. ``n_rows_searched_`` and ``n_rows_`` are the numbers of these rows.

    Raises
    ------
    ValueError
        If a column is missing, the data are not finite, or a parameter is not supported here.
    TypeError
        If `data` is not a Dask DataFrame.

    Notes
    -----
    glasswood keeps sums of squares and products as triangles of QR decompositions and combines them in the order of the
    partitions, so the tree depends on the rows and their partitions, never on workers. A task costs O(rows × columns²)
    of the leaves. If the categories of a feature share a coefficient, their codes come from the sample.
    """
    dask = import_dask()
    _check(model, data, target, weight, sample_rows)
    parts = data.to_delayed()
    n_rows = np.array(dask.compute(*[dask.delayed(len)(part) for part in parts]))
    if n_rows.sum() == 0:
        raise ValueError("data have no rows")
    seed = _seed(model.random_state)
    sample = [
        dask.delayed(_sampled)(part, count, seed, i, list(data.columns))
        for i, (part, count) in enumerate(zip(parts, _shares(n_rows, sample_rows).tolist(), strict=True))
    ]
    (found,) = dask.compute(dask.delayed(_searched)(model, sample, target, weight))
    model.__dict__.update(found.__dict__)
    _refit(dask, model, parts, target, weight)
    model.n_rows_, model.n_rows_searched_ = int(n_rows.sum()), int(min(sample_rows, n_rows.sum()))
    return model


def _check(model: Any, data: Any, target: str, weight: str | None, sample_rows: int) -> None:
    if not isinstance(model, ModelTreeRegressor):
        raise TypeError(f"model is a {type(model).__name__}, expected a ModelTreeRegressor")
    if not hasattr(data, "to_delayed") or not hasattr(data, "map_partitions"):
        raise TypeError(f"data is a {type(data).__name__}, expected a Dask DataFrame; for rows in memory use model.fit")
    if lacking := [name for name in (target, weight) if name is not None and name not in data.columns]:
        raise ValueError(f"data have no columns {listed(lacking)}; they have {listed(map(str, data.columns))}")
    if model.loss != "squared" or model.honest:
        raise ValueError("glasswood.dask.fit requires loss='squared' and honest=0; set these parameters")
    for name in ("monotonic_cst", "coefficient_signs"):
        if getattr(model, name) is not None:
            raise ValueError(f"glasswood.dask.fit does not support {name}; fit a sample in one process")
    if model.curves:
        raise ValueError(f"curves is {quoted(model.curves)}, but glasswood.dask.fit adds no curves; set it to False")
    if model.smoothing not in {"auto", 0}:
        raise ValueError(
            f"smoothing is {quoted(model.smoothing)}, but glasswood.dask.fit does not smooth leaves; set it to 0"
        )
    if not isinstance(sample_rows, Integral) or isinstance(sample_rows, bool) or sample_rows < 1:
        raise ValueError(f"sample_rows is {quoted(sample_rows)}, expected a whole number of at least 1")


def _shares(n_rows: Int64s, sample_rows: int) -> Int64s:
    """Rows of the sample by partition: in proportion, the largest remainders rounded up."""
    if n_rows.sum() <= sample_rows:
        return n_rows
    exact = n_rows * (sample_rows / n_rows.sum())
    shares: Int64s = np.floor(exact).astype(np.int64)
    order = np.argsort(shares - exact, kind="stable")
    shares[order[: sample_rows - shares.sum()]] += 1
    return shares


def _seed(random_state: Any) -> int:
    """Seed of the sample: the number itself, or one that a generator draws."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _sampled(part: Any, count: int, seed: int, number: int, columns: Sequence[str]) -> Any:
    """Draw rows of a partition, in their order."""
    if list(part.columns) != list(columns):
        raise ValueError(
            f"partition {number} has the columns {listed(map(str, part.columns))}, expected {listed(map(str, columns))}"
        )
    if count >= len(part):
        return part
    drawn = np.random.default_rng([seed, number]).choice(len(part), count, replace=False)
    return part.iloc[np.sort(drawn)]


def _searched(model: ModelTreeRegressor, parts: Sequence[Any], target: str, weight: str | None) -> ModelTreeRegressor:
    """Fit a copy of the model on the sample."""
    from sklearn.base import clone

    frame = _joined([part for part in parts if len(part)])
    X, y, weights = _divided(frame, target, weight)
    smoothing = model.smoothing
    found: ModelTreeRegressor = clone(model).set_params(smoothing=0, alternatives=0).fit(X, y, weights)
    found.set_params(smoothing=smoothing, alternatives=model.alternatives)
    return found


def _joined(parts: list[Any]) -> Any:
    """Put partitions behind each other; columns of categories stay such where partitions know different ones."""
    import pandas

    def is_category(part: Any, place: int) -> bool:
        return isinstance(part.dtypes.iloc[place], pandas.CategoricalDtype)

    names = parts[0].columns
    places = [place for place in range(len(names)) if any(is_category(part, place) for part in parts)]
    for place in places:
        columns = [part.iloc[:, place].astype("category") for part in parts]
        known = dict.fromkeys(label for column in columns for label in column.cat.categories)
        of_all = pandas.CategoricalDtype(pandas.Index(list(known), tupleize_cols=False))
        parts = [
            part.assign(**{names[place]: column.astype(of_all)}) for part, column in zip(parts, columns, strict=True)
        ]
    return pandas.concat(parts)


def _divided(frame: Any, target: str, weight: str | None) -> tuple[Any, Doubles, Doubles | None]:
    X = frame.drop(columns=[target] if weight is None else [target, weight])
    y = frame[target].to_numpy(np.float64, na_value=np.nan)
    return X, y, None if weight is None else frame[weight].to_numpy(np.float64, na_value=np.nan)


def _refit(dask: Any, model: Any, parts: Sequence[Any], target: str, weight: str | None) -> None:
    """Two passes over all rows: sums for the equations, then what rows say of the limits."""
    forest: TreeEnsemble = model.forest_.ensemble
    terms, unit = leaf_terms(forest), _unit(model.leaf_summary_)
    shared = dask.delayed((forest, terms, unit), pure=False)
    sums = [dask.delayed(_sums)(part, shared, target, weight, i) for i, part in enumerate(parts)]
    while len(sums) > 1:
        sums = [dask.delayed(merge_all)(sums[i : i + TOGETHER]) for i in range(0, len(sums), TOGETHER)]
    (totals,) = dask.compute(sums[0])
    models = [solved(of_leaf, total, unit) for of_leaf, total in zip(terms, totals, strict=True)]
    grown = refitted(forest, models, totals, model.clip)
    shared = dask.delayed(grown.forest, pure=False)
    counts = dask.compute(*[dask.delayed(_beyond)(part, shared, target, weight) for part in parts])
    beyond = np.sum(counts, axis=0)
    models = [dataclasses.replace(one, n_clipped=int(n)) for one, n in zip(models, beyond, strict=True)]
    grown = dataclasses.replace(grown, models=tuple(models))
    model.forest_ = Forest(grown.forest)
    model.leaves_, model.leaf_summary_ = leaf_table([grown], grown.forest)
    model._importances, model._explained = feature_importances(grown, unit)


def _unit(leaves: dict[str, Any]) -> float:
    """Range of the target."""
    return float(leaves["high"].max() - leaves["low"].min()) or 1.0


def _sums(
    part: Any, shared: tuple[TreeEnsemble, list[Terms], float], target: str, weight: str | None, number: int
) -> list[LeafSums]:
    """Take the sums over a partition, by leaf."""
    forest, terms, unit = shared
    rows, y, weights, leaves = _routed(part, forest, target, weight)
    if not np.isfinite(y).all() or np.isinf(rows).any() or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"partition {number} has targets that are not finite, infinite features, or weights that are negative or "
            "not finite; drop these rows, or mark missing features by NaN"
        )
    counted = weights > 0
    members = [np.flatnonzero((leaves == leaf) & counted) for leaf in range(forest.n_leaves)]
    return [sums_of(one, rows[at], y[at], weights[at], unit) for one, at in zip(terms, members, strict=True)]


def _beyond(part: Any, forest: TreeEnsemble, target: str, weight: str | None) -> Int64s:
    """Count the rows of each leaf whose equation exceeds its limits."""
    if len(forest.leaf_range) == 0:
        return np.zeros(forest.n_leaves, np.int64)
    _, _, weights, leaves = _routed(part, forest, target, weight)
    free = dataclasses.replace(forest, leaf_range=np.broadcast_to([-np.inf, np.inf], forest.leaf_range.shape).copy())
    X, _, _ = _divided(part, target, weight)
    margin, limits = Forest(free).predict(X, "margin", device="cpu", n_jobs=1), forest.leaf_range[leaves]
    outside = ((margin < limits[:, 0]) | (margin > limits[:, 1])) & (weights > 0)
    return np.bincount(leaves[outside], minlength=forest.n_leaves)


def _routed(part: Any, forest: TreeEnsemble, target: str, weight: str | None) -> tuple[Any, Doubles, Doubles, Any]:
    """Rows, targets, weights and leaves of a partition."""
    X, y, weights = _divided(part, target, weight)
    rows = as_rows(X, forest)
    leaves = Forest(forest).predict(X, "leaf", device="cpu", n_jobs=1)[:, 0]
    return rows, y, np.ones(len(y)) if weights is None else weights, leaves
