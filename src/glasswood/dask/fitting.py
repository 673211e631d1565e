"""`glasswood.dask.fit`: a tree searched on a sample, its equations fitted on all rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Int64s
from glasswood.dask.columns import Columns, PlacedRows, labels_of
from glasswood.dask.engine import import_dask
from glasswood.dask.leaves import refitted, solved
from glasswood.dask.likelihood import free, of_classes, outcomes, reweighted
from glasswood.dask.triangles import leaf_terms, merge_all, sums_of
from glasswood.forest import Forest
from glasswood.grow import ModelTreeClassifier, ModelTreeRegressor
from glasswood.grow.classifier import classes_of
from glasswood.grow.losses import RATES, PowerLoss, check_range, level_of
from glasswood.grow.table import feature_importances, leaf_table
from glasswood.inputs.matching import listed

if TYPE_CHECKING:
    from glasswood.dask.triangles import LeafSums, Terms
    from glasswood.grow.tree.assembly import GrownTree
    from glasswood.model.ensemble import TreeEnsemble

SAMPLE_ROWS = 10_000_000
TOGETHER = 8
"""Parts whose sums one task adds up."""

Model = ModelTreeRegressor | ModelTreeClassifier


def fit(
    model: ModelTreeRegressor | ModelTreeClassifier,
    data: Any,
    target: str,
    weight: str | None = None,
    sample_rows: int = SAMPLE_ROWS,
    exposure: str | None = None,
) -> ModelTreeRegressor | ModelTreeClassifier:
    """Grow a model tree on a Dask data frame: search on a sample, then fit the leaves' equations on all rows.

    Parameters
    ----------
    model : ModelTreeRegressor or ModelTreeClassifier
        The estimator to fit. Regressors have the loss ``squared``, ``poisson``, ``gamma`` or ``tweedie``, and
        ``smoothing`` "auto" or 0.
    data : dask DataFrame
        Features, target, weight and exposure; all partitions have the same columns. glasswood reads the rows four times
        (numbers of rows, sample, sums, residuals), and about ten times more for losses other than squares and for each
        tree of classes, so persist data that are slow to compute.
    target, weight, exposure : str
        Names of columns. Weights are at least 0; exposures are those of `ModelTreeRegressor.fit`.
    sample_rows : int
        Largest number of rows to search on, in the memory of one worker. glasswood draws them from each partition in
        proportion to its rows, without replacement, with seeds from ``model.random_state`` and the partition's number.
        A class that none of them has comes in with its first row.

    Returns
    -------
    ModelTreeRegressor or ModelTreeClassifier
        `model`. Splits, terms, `history_`, `fitness_`, `ridges_` and importances of classifiers come from the sample;
        `leaves_`, `leaf_summary_`, covers and limits from all rows. ``n_rows_searched_`` and ``n_rows_`` are the
        numbers of these rows. If all rows are in the sample, trees of classes and of losses other than squares are
        those of `fit`.

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
    of the leaves. Other losses take Newton's steps, each a pass. If the categories of a feature share a coefficient,
    their codes come from the sample.
    """
    dask = import_dask()
    _check(model, data, [target, weight, exposure], sample_rows)
    parts, columns = data.to_delayed(), Columns(target, weight, exposure)
    n_rows = np.array(dask.compute(*[dask.delayed(len)(part) for part in parts]))
    if n_rows.sum() == 0:
        raise ValueError("data have no rows")
    job = _Job(dask, parts)
    labels = job.over(labels_of, columns) if isinstance(model, ModelTreeClassifier) else [{} for _ in parts]
    columns = _with_classes(model, columns, labels)
    shares, first = _shares(n_rows, sample_rows), _first_labels(labels)
    seed, names = _seed(model.random_state), list(data.columns)
    sample = [
        dask.delayed(_sampled)(part, count, seed, i, names, columns, own)
        for i, (part, count, own) in enumerate(zip(parts, shares.tolist(), first, strict=True))
    ]
    found, n_searched, columns = dask.compute(dask.delayed(_searched)(model, sample, columns))[0]
    model.__dict__.update(found.__dict__)
    if isinstance(model, ModelTreeRegressor) and model.loss == "squared":
        _refit(job, model, columns)
    elif n_searched < n_rows.sum():
        _refit_by_likelihood(job, model, columns)
    model.n_rows_, model.n_rows_searched_ = int(n_rows.sum()), n_searched
    return model


@dataclasses.dataclass(frozen=True, eq=False)
class _Job:
    """Dask and the partitions."""

    dask: Any
    parts: Sequence[Any]

    def over(self, function: Any, *given: Any) -> list[Any]:
        """Call a function for each partition with its number and what is given, and compute what it returns."""
        delayed = self.dask.delayed
        shared = delayed(given, pure=False)
        tasks = [delayed(_called)(function, part, number, shared) for number, part in enumerate(self.parts)]
        return list(self.dask.compute(*tasks))


def _called(function: Any, part: Any, number: int, given: tuple[Any, ...]) -> Any:
    return function(part, number, *given)


def _check(model: Any, data: Any, names: list[str | None], sample_rows: int) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"model is a {type(model).__name__}, expected a ModelTreeRegressor or ModelTreeClassifier")
    if not hasattr(data, "to_delayed") or not hasattr(data, "map_partitions"):
        raise TypeError(f"data is a {type(data).__name__}, expected a Dask DataFrame; for rows in memory use model.fit")
    if lacking := [name for name in names if name is not None and name not in data.columns]:
        raise ValueError(f"data have no columns {listed(lacking)}; they have {listed(map(str, data.columns))}")
    if isinstance(model, ModelTreeRegressor):
        if model.loss not in {"squared", *RATES} or model.honest:
            raise ValueError(
                "glasswood.dask.fit requires loss='squared', 'poisson', 'gamma' or 'tweedie', and honest=0; set these "
                "parameters"
            )
        if model.smoothing not in {"auto", 0}:
            raise ValueError(
                f"smoothing is {quoted(model.smoothing)}, but glasswood.dask.fit does not smooth leaves; set it to 0"
            )
    if names[2] is not None and getattr(model, "loss", "") not in RATES:
        raise ValueError("exposure is for rates, which loss='poisson', loss='gamma' and loss='tweedie' predict")
    for name in ("monotonic_cst", "coefficient_signs"):
        if getattr(model, name) is not None:
            raise ValueError(f"glasswood.dask.fit does not support {name}; fit a sample in one process")
    if model.curves:
        raise ValueError(f"curves is {quoted(model.curves)}, but glasswood.dask.fit adds no curves; set it to False")
    if not isinstance(sample_rows, Integral) or isinstance(sample_rows, bool) or sample_rows < 1:
        raise ValueError(f"sample_rows is {quoted(sample_rows)}, expected a whole number of at least 1")


def _with_classes(model: Model, columns: Columns, labels: list[dict[Any, int]]) -> Columns:
    """Add the classes of all partitions, and the factors of their weights."""
    if not isinstance(model, ModelTreeClassifier):
        return columns
    counts: dict[Any, int] = {}
    for own in labels:
        for label, n in own.items():
            counts[label] = counts.get(label, 0) + n
    classes, _ = classes_of(model, np.array(list(counts)) if _one_kind(counts) else np.array(list(counts), object))
    if model.class_weight is None:
        return dataclasses.replace(columns, classes=classes)
    rows = np.repeat(classes, [counts[label] for label in classes.tolist()])
    factors = compute_class_weight(model.class_weight, classes=classes, y=rows)
    return dataclasses.replace(columns, classes=classes, factors=np.asarray(factors, np.float64))


def _one_kind(labels: dict[Any, int]) -> bool:
    """Whether all labels are texts, or none is: NumPy would make texts of the others."""
    return len({isinstance(label, str) for label in labels}) == 1


def _first_labels(labels: list[dict[Any, int]]) -> list[list[Any]]:
    """Labels of each partition that none before it has."""
    known: set[Any] = set()
    found = []
    for own in labels:
        found.append([label for label in own if label not in known])
        known.update(own)
    return found


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


def _sampled(
    part: Any, count: int, seed: int, number: int, names: Sequence[str], columns: Columns, labels: Sequence[Any] = ()
) -> Any:
    """Draw rows of a partition, in their order, and one at least of each of the labels."""
    if list(part.columns) != list(names):
        raise ValueError(
            f"partition {number} has the columns {listed(map(str, part.columns))}, expected {listed(map(str, names))}"
        )
    if count >= len(part):
        return part
    drawn = np.random.default_rng([seed, number]).choice(len(part), count, replace=False)
    if len(labels):
        values = columns.labels(part)
        lacking = [label for label in labels if not (values[drawn] == label).any()]
        drawn = np.append(drawn, [int(np.argmax(values == label)) for label in lacking]).astype(np.intp)
    return part.iloc[np.sort(drawn)]


def _searched(model: Model, parts: Sequence[Any], columns: Columns) -> tuple[Any, int, Columns]:
    """Fit a copy of the model on the sample; also its rows, and what exposures are to all rows."""
    from sklearn.base import clone

    frame = _joined([part for part in parts if len(part)])
    X, weights, own = columns.features(frame), columns.numbers(frame, columns.weight), clone(model)
    own.set_params(alternatives=0)
    given: dict[str, Any] = {"sample_weight": weights}
    if columns.classes is not None:
        if columns.factors is not None:
            own.set_params(class_weight=dict(zip(columns.classes.tolist(), columns.factors.tolist(), strict=True)))
        own.fit(X, columns.labels(frame), **given)
        return own.set_params(alternatives=model.alternatives, class_weight=model.class_weight), len(frame), columns
    y = columns.numbers(frame, columns.target)
    if (exposed := columns.numbers(frame, columns.exposure)) is not None:
        given["exposure"] = exposed
    own.set_params(smoothing=0).fit(X, y, **given)
    own.set_params(alternatives=model.alternatives, smoothing=model.smoothing)
    if exposed is not None:
        columns = dataclasses.replace(columns, power=2 - level_of(model), unit=float(np.median(exposed)))
    return own, len(frame), columns


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


def _refit(job: _Job, model: Any, columns: Columns) -> None:
    """Two passes over all rows: sums for the equations, then what rows say of the limits."""
    dask, forest = job.dask, model.forest_.ensemble
    terms, unit = leaf_terms(forest), _unit(model.leaf_summary_)
    shared = dask.delayed((forest, terms, unit, columns), pure=False)
    sums = [dask.delayed(_called)(_sums, part, i, shared) for i, part in enumerate(job.parts)]
    while len(sums) > 1:
        sums = [dask.delayed(merge_all)(sums[i : i + TOGETHER]) for i in range(0, len(sums), TOGETHER)]
    (totals,) = dask.compute(sums[0])
    models = [solved(of_leaf, total, unit) for of_leaf, total in zip(terms, totals, strict=True)]
    grown = refitted(forest, models, totals, model.clip)
    beyond = np.sum(job.over(_beyond, grown.forest, columns), axis=0)
    models = [dataclasses.replace(one, n_clipped=int(n)) for one, n in zip(models, beyond, strict=True)]
    grown = dataclasses.replace(grown, models=tuple(models))
    _keep(model, grown)
    model._importances, model._explained = feature_importances(grown, unit)


def _keep(model: Any, grown: GrownTree) -> None:
    """Put other equations in."""
    model.forest_ = Forest(grown.forest)
    model.leaves_, model.leaf_summary_ = leaf_table([grown], grown.forest)


def _refit_by_likelihood(job: _Job, model: Any, columns: Columns) -> None:
    """Fit the equations of other losses on all rows."""
    forest: TreeEnsemble = model.forest_.ensemble
    if isinstance(model, ModelTreeClassifier):
        grown = of_classes(job.over, forest, columns, model.ridges_)
        _keep(model, grown)
        model.leaf_summary_["log_loss"] = model.leaf_summary_.pop("rmse")
        model.leaf_summary_["share"] = np.array([one.share for one in grown.models])
        return
    job.over(_check_range, columns, model.loss)
    grown = reweighted(job.over, forest, columns, PowerLoss(level_of(model)), model.clip)
    _keep(model, grown)
    model._importances, model._explained = feature_importances(grown, 1.0)
    limits = {name: np.exp(model.leaf_summary_[name]) for name in ("lowest", "highest")}
    model.leaf_summary_ |= outcomes(job.over, grown.forest, columns) | limits


def _check_range(part: Any, number: int, columns: Columns, loss: str) -> None:
    """Raise ValueError if a target is out of the range of the loss."""
    y, weight = columns.outcomes(part, number)
    try:
        check_range(loss, np.append(y[weight > 0], 1.0))
    except ValueError as error:
        raise ValueError(f"partition {number}: {shown(str(error))}") from error


def _unit(leaves: dict[str, Any]) -> float:
    """Range of the target."""
    return float(leaves["high"].max() - leaves["low"].min()) or 1.0


def _sums(
    part: Any, number: int, forest: TreeEnsemble, terms: list[Terms], unit: float, columns: Columns
) -> list[LeafSums]:
    """Take the sums over a partition, by leaf."""
    placed = PlacedRows.of(part, number, columns, forest)
    members = [placed.members(leaf) for leaf in range(forest.n_leaves)]
    return [
        sums_of(one, placed.rows[at], placed.y[at], placed.weight[at], unit)
        for one, at in zip(terms, members, strict=True)
    ]


def _beyond(part: Any, number: int, forest: TreeEnsemble, columns: Columns) -> Int64s:
    """Count the rows of each leaf whose equation exceeds its limits."""
    if len(forest.leaf_range) == 0:
        return np.zeros(forest.n_leaves, np.int64)
    placed = PlacedRows.of(part, number, columns, free(forest))
    leaves, margin = placed.leaves[:, 0], placed.margins[:, 0]
    limits = forest.leaf_range[leaves]
    outside = ((margin < limits[:, 0]) | (margin > limits[:, 1])) & (placed.weight > 0)
    return np.bincount(leaves[outside], minlength=forest.n_leaves)
