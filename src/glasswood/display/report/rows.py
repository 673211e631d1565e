"""The rows that a report is about, and the few of them that it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.device import on_host
from glasswood.base.seeds import generator_of
from glasswood.base.typing import Array, Doubles, Int64s, Rows
from glasswood.display.report.page import exact_type
from glasswood.display.report.source import SourceColumns
from glasswood.evaluate.evaluator import Evaluator
from glasswood.inputs import arranged, as_rows
from glasswood.inputs.shown import own_values
from glasswood.inputs.targets import as_targets, class_places, exposures_of, rates_of, refuse_text
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import column_names, feature_names, is_per_exposure, output_names

CHUNK = 100_000
"""Rows that are predicted and explained at a time."""

SHOWN_ROWS, SHOWN_BYTES = 2000, 240_000
"""Rows that a report holds, and bytes of what it knows of them, so that the file stays below a megabyte."""

EXTREMES = 10
"""Rows of the lowest and of the highest predictions that are always among them."""

SHOWN_FEATURES, SHOWN_CATEGORIES = 30, 200

REDACTED_ROWS = 10
"""Rows that share what a redacted report says."""


@dataclass(frozen=True, eq=False)
class ReportRows:
    """Rows as the forest reads them and as their user knows them, margins, responses and targets.

    Attributes
    ----------
    settled : (n, F)
        What `as_rows` made.
    columns : (n, C)
        What the page shows: `settled`, or the columns that a model computes its features from (`SourceColumns`).
    own : (n, C)
        Values of the columns as their user has them.
    names : list of str
        Names of the columns.
    tables : sequence of array or None
        What codes of categories stand for; None for columns of numbers.
    source : SourceColumns or None
        For models with target statistics.
    margins : float64, (n, k)
    responses : float64, (n, m)
        Predictions, of classifiers the probabilities of all classes.
    classes : list of str
        Names of the responses' columns; empty for a single number.
    y : ndarray or None
        Numbers, or places in `classes`; with exposures, rates.
    exposure : float64, (n,), or None
        What targets were counted over: weights of the rates.
    """

    forest: TreeEnsemble
    settled: Array
    columns: Array
    own: Array
    names: list[str]
    tables: Sequence[Array | None]
    source: SourceColumns | None
    margins: Doubles
    responses: Doubles
    classes: list[str]
    y: Array | None
    exposure: Doubles | None

    def __len__(self) -> int:
        return len(self.settled)

    def chunks(self) -> Iterator[slice]:
        """Split the rows into parts that are worked on at a time."""
        for first in range(0, len(self), CHUNK):
            yield slice(first, min(first + CHUNK, len(self)))

    def weights(self, at: Any) -> Doubles | None:
        """Weights of the targets of some rows: of rates their exposures, None of others."""
        return None if self.exposure is None else self.exposure[at]

    def mean(self, values: Array, at: Any = slice(None)) -> float:
        """Mean of the values of some rows: of rates, over their exposures."""
        return float(np.average(values[at], weights=self.weights(at)))


def read_rows(forest: TreeEnsemble, X: Rows, y: ArrayLike | None, exposure: ArrayLike | None = None) -> ReportRows:
    """Read rows and targets, and predict the rows; targets with exposures become rates.

    Raises
    ------
    ValueError
        If X has no rows, or y does not fit them or the model's classes, or the model predicts rates and nothing says
        what y was counted over.
    """
    X = on_host(X)
    source = SourceColumns.of(X, forest)
    X = arranged(X, forest) if source is None else source.features()
    settled = as_rows(X, forest)
    if not len(settled):
        raise ValueError("X has no rows, expected at least one")
    evaluator = Evaluator(forest)
    margins = np.asarray(evaluator.predict_rows(settled, "margin", None), np.float64).reshape(len(settled), -1)
    responses = margins
    if forest.classes and len(forest.classes) == 1:
        responses = np.asarray(evaluator.predict_rows(settled, "probability", None), np.float64)
    elif not forest.classes:
        responses = np.asarray(evaluator.predict_rows(settled, "prediction", None), np.float64)
    responses = responses.reshape(len(settled), -1)
    classes = _class_names(forest, responses.shape[1])
    target = None if y is None else _target(forest, y, len(settled), responses.shape[1])
    target, exposed = _rates(forest, target, exposure, responses.shape[1])
    columns, own = (settled, own_values(X, forest)) if source is None else (source.codes(), source.texts())
    tables = forest.categories or (None,) * forest.n_features if source is None else source.tables()
    names = list(column_names(forest) if source else feature_names(forest))
    found = margins, responses, classes, target, exposed
    return ReportRows(forest, settled, columns, own, names, tables, source, *found)


def _class_names(forest: TreeEnsemble, n_responses: int) -> list[str]:
    if forest.classes and len(forest.classes) == 1 and len(forest.classes[0]) == n_responses:
        return [str(label) for label in forest.classes[0].tolist()]
    return output_names(forest, n_responses) if n_responses > 1 else []


def _target(forest: TreeEnsemble, y: ArrayLike, n_rows: int, n_responses: int) -> Array:
    """Targets as numbers, or as places among the classes."""
    values = as_targets(y, n_rows)
    if values.ndim > 1:
        raise ValueError(f"y has shape {values.shape}, expected ({n_rows},), one target for each row of X")
    if not forest.classes or len(forest.classes) > 1 or len(forest.classes[0]) != n_responses:
        refuse_text(values)
        numbers = values.astype(np.float64)
        if len(unknown := np.flatnonzero(~np.isfinite(numbers))):
            raise ValueError(
                f"y holds {len(unknown):,} values that are NaN or infinite, the first in row {unknown[0]}; "
                "pass the rows whose target is known, with their y, or no y"
            )
        return numbers
    return class_places(values, forest)


def _rates(
    forest: TreeEnsemble, target: Array | None, exposure: ArrayLike | None, n_responses: int
) -> tuple[Array | None, Doubles | None]:
    """Divide targets by what they were counted over."""
    if exposure is None:
        if target is not None and is_per_exposure(forest):
            raise ValueError(
                "the model predicts rates for one unit of exposure, and y may be counts or amounts; pass exposure=, or "
                "ones if y are rates"
            )
        return target, None
    if target is None or forest.classes or n_responses > 1:
        raise ValueError("exposure divides y, and is for models that predict one number; leave it out, or pass y")
    exposed = exposures_of(on_host(exposure), len(target))
    return rates_of(target, exposed), exposed


def chosen(rows: ReportRows, seed: int) -> Int64s:
    """Pick the rows that the report holds: those of extreme predictions, and others by chance, in their order."""
    explained = min(len(rows.names), SHOWN_FEATURES) * rows.margins.shape[1]
    some = numbers(rows, np.arange(min(len(rows), 1000)))
    of_values = sum(int(exact_type(column)[2:]) for column in some.T)
    of_effects = (6 if rows.classes else 4) * explained  # of classes with their errors
    width = of_values + of_effects + 8 * (2 * rows.margins.shape[1] + rows.responses.shape[1]) + 40
    count = min(len(rows), SHOWN_ROWS, max(SHOWN_BYTES // width, 5 * EXTREMES))
    order = np.argsort(rows.margins[:, 0], kind="stable")
    ends = np.unique(np.concatenate([order[:EXTREMES], order[-EXTREMES:]]))[:count]
    others = generator_of(seed).permutation(np.setdiff1d(np.arange(len(rows)), ends))
    return np.sort(np.concatenate([ends, others[: count - len(ends)]])).astype(np.int64)


def data_hash(rows: ReportRows) -> str:
    """SHA-256 of the rows as the forest reads them, their shape, and the targets."""
    digest = hashlib.sha256(repr((rows.settled.shape, rows.settled.dtype.str)).encode())
    for part in rows.chunks():
        digest.update(np.ascontiguousarray(rows.settled[part]).tobytes())
    if rows.y is not None:
        digest.update(np.ascontiguousarray(rows.y).tobytes())
    if rows.exposure is not None:
        digest.update(np.ascontiguousarray(rows.exposure).tobytes())
    return digest.hexdigest()


def feature_entries(rows: ReportRows, at: Int64s, redact: bool, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Describe each feature: its name, its kind, the range of its numbers or the texts of its categories."""
    entries = [_entry(rows, name, feature, at, redact) for feature, name in enumerate(rows.names)]
    return [entry | {"unit": units.get(entry["name"], "")} for entry in entries]


def _entry(rows: ReportRows, name: str, feature: int, at: Int64s, redact: bool) -> dict[str, Any]:
    column, own = rows.columns[:, feature], rows.own[:, feature]
    entry: dict[str, Any] = {"name": name, "missing": bool(np.isnan(column).any())}
    table = rows.tables[feature]
    if table is not None or (own.dtype == object and any(isinstance(value, str) for value in own[at])):
        at = at[np.isin(column[at], shared(column))] if redact else at
        return entry | {
            "categories": _texts(column, own, at, None if rows.forest.category_hash or rows.source else table)
        }
    present = column[~np.isnan(column)].astype(np.float64)
    if len(present) < (REDACTED_ROWS if redact else 1):
        return entry | {"low": 0.0, "high": 0.0, "whole": False}
    ends = inner_range(present) if redact else (present.min(), present.max())
    whole = bool((present[:10_000] == np.round(present[:10_000])).all())
    deviation = float(present.std())
    return entry | {"low": float(ends[0]), "high": float(ends[1]), "whole": whole, "deviation": deviation}


def inner_range(column: Array) -> tuple[float, float]:
    """Take the range of a column without its extremes: quantiles, or means of the outermost rows where they are few."""
    present = np.sort(column[~np.isnan(column)].astype(np.float64))
    low, high = np.quantile(present, [0.01, 0.99]).tolist()
    return max(low, float(present[:REDACTED_ROWS].mean())), min(high, float(present[-REDACTED_ROWS:].mean()))


def shared(column: Array) -> Array:
    """List the values that many rows have."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return values[counts >= REDACTED_ROWS]


def most_frequent(column: Array, codes: Array, n: int) -> Int64s:
    """Choose n of some codes, the most frequent in a column, in their order."""
    order = np.argsort(codes)
    places = np.searchsorted(codes, column, sorter=order).clip(max=len(codes) - 1)
    counts = np.bincount(order[places[codes[order[places]] == column]], minlength=len(codes))
    return np.sort(np.argsort(-counts, kind="stable")[:n])


def _texts(column: Array, own: Array, at: Int64s, table: Array | None) -> dict[str, str]:
    """Text of each code that occurs in chosen rows, and of the first codes of the model's table."""
    found: dict[int, str] = {}
    if table is not None:
        found = {code: str(value) for code, value in enumerate(table[:SHOWN_CATEGORIES].tolist())}
    for code, value in zip(column[at].tolist(), own[at].tolist(), strict=True):
        if code == code:
            found.setdefault(int(code), str(value))
    return {str(code): text for code, text in sorted(found.items())}


def numbers(rows: ReportRows, at: Int64s) -> Doubles:
    """Values of some rows for the page: numbers as users gave them, codes of categories, NaN where missing."""
    result = rows.columns[at].astype(np.float64)
    for feature, table in enumerate(rows.tables):
        own = rows.own[at, feature]
        if table is not None or any(isinstance(value, str) for value in (own if own.dtype == object else ())):
            continue
        result[:, feature] = np.where(np.isnan(result[:, feature]), np.nan, own.astype(np.float64))
    return result
