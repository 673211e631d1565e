"""The quality of predictions for rows with targets: curves and tables of classifiers, residuals of regressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.extras import import_extra
from glasswood.base.typing import Array, Doubles
from glasswood.display.report.rows import REDACTED_ROWS

if TYPE_CHECKING:
    from glasswood.display.report.rows import ReportRows

POINTS, GROUPS, BINS, CLASSES, DOTS = 120, 10, 40, 12, 600
"""Points of a curve, groups of a calibration, bars of a histogram, classes with curves, dots of a scatter."""


COSTS = ("true_positive", "false_positive", "true_negative", "false_negative")
"""What decisions about two classes cost, by scikit-learn's names of their outcomes."""


def performance(rows: ReportRows, redact: bool, costs: Mapping[str, float] | None = None) -> dict[str, Any] | None:
    """Measure predictions against targets; None without these."""
    if rows.y is None or (not rows.classes and rows.responses.shape[1] > 1):
        return None
    if not rows.classes or not rows.forest.classes:
        return _of_numbers(rows, rows.responses[:, 0], rows.y, redact)
    places = rows.y.astype(int)
    shown = [1] if len(rows.classes) == 2 else range(min(len(rows.classes), CLASSES))
    return {
        "n": len(places),
        "counts": np.bincount(places, minlength=len(rows.classes)),
        "matrix": _matrix(places, rows.responses),
        "classes": [_of_class(rows.responses[:, k], places == k) | {"class": k} for k in shown],
        "costs": None if costs is None else {name: float(costs.get(name, 0.0)) for name in COSTS},
    }


def check_costs(costs: Mapping[str, float] | None, classes: Sequence[str]) -> None:
    """Raise ValueError unless costs are numbers of outcomes of two classes, and errors cost more than what is right."""
    if costs is None:
        return
    if len(classes) != 2:
        raise ValueError(f"costs are those of decisions between two classes; the model has {len(classes)}")
    if unknown := sorted(set(costs) - set(COSTS)):
        raise ValueError(f"costs names {quoted(unknown[0])}, expected some of {', '.join(COSTS)}")
    found = {name: float(costs.get(name, 0.0)) for name in COSTS}
    if not np.isfinite(list(found.values())).all():
        raise ValueError(f"costs are {quoted(dict(costs))}, expected finite numbers")
    for wrong, right in (("false_positive", "true_negative"), ("false_negative", "true_positive")):
        if not found[wrong] > found[right]:
            raise ValueError(f"costs: {wrong} costs {found[wrong]:g}, expected more than {right}, {found[right]:g}")


def thresholds(probability: Doubles) -> Doubles:
    """Thresholds that a reader may choose: numbers of two digits, as `percent_text` writes them, where rows are."""
    tenths = np.concatenate([np.arange(10, 100) * 10.0**power for power in range(-7, -2)])
    tenths = tenths[tenths < 0.0995]
    found = np.concatenate([[0.0], tenths, np.arange(10, 91) / 100, 1 - tenths[::-1], [1.0]]).round(9)
    low, high = np.searchsorted(found, [probability.min(), probability.max()])
    found = found[max(low - 1, 0) : high + 1]
    # Of thresholds that the same rows reach one is enough.
    reached = np.searchsorted(np.sort(probability), found)
    kept: Doubles = found[np.unique(reached, return_index=True)[1]]
    return kept


def _matrix(places: Array, responses: Doubles) -> Array:
    """Count the rows of each class (down) that are predicted as each class (across)."""
    k = responses.shape[1]
    return np.bincount(k * places + responses.argmax(axis=1), minlength=k * k).reshape(k, k)


def _of_class(probability: Doubles, is_class: Array) -> dict[str, Any]:
    """Curves of one class against the others; without curves where there is only one kind of rows."""
    cuts = thresholds(probability)
    inside, outside = np.sort(probability[is_class]), np.sort(probability[~is_class])
    found = {
        "cuts": cuts,
        "hits": len(inside) - np.searchsorted(inside, cuts),
        "alarms": len(outside) - np.searchsorted(outside, cuts),
        "positive": len(inside),
        "negative": len(outside),
        "share": float(is_class.mean()) if len(is_class) else 0.0,
    }
    if not len(inside) or not len(outside):
        return found
    metrics = import_extra("sklearn.metrics", "sklearn", "reports of classifiers with targets need scikit-learn")
    calibration = import_extra("sklearn.calibration", "sklearn", "reports of classifiers need scikit-learn")
    alarms, hits, _ = metrics.roc_curve(is_class, probability)
    precision, recall, _ = metrics.precision_recall_curve(is_class, probability)
    observed, predicted = calibration.calibration_curve(is_class, probability, n_bins=GROUPS, strategy="quantile")
    error = 2 * np.sqrt(observed * (1 - observed) / max(len(is_class) / len(observed), 1))
    share = is_class.mean()
    return found | {
        "auc": float(metrics.roc_auc_score(is_class, probability)),
        "averagePrecision": float(metrics.average_precision_score(is_class, probability)),
        "roc": _curve(alarms, hits),
        "pr": _curve(recall[::-1], precision[::-1]),
        "gains": _curve(hits * share + alarms * (1 - share), hits),
        "calibration": {"x": predicted, "y": observed, "error": error},
    }


def _curve(x: Doubles, y: Doubles) -> dict[str, Any]:
    """Take some points of a curve, evenly along its way."""
    way = np.concatenate([[0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    at = np.unique(np.searchsorted(way, np.linspace(0, way[-1], POINTS)).clip(max=len(x) - 1))
    return {"x": [float(f"{v:.4g}") for v in x[at]], "y": [float(f"{v:.4g}") for v in y[at]]}


class Errors(NamedTuple):
    """Errors of predicted numbers, of rates over their exposures; R² is None where all targets are equal."""

    r2: float | None
    rmse: float
    mae: float


def errors_of(rows: ReportRows) -> Errors:
    """Measure the errors of rows with targets that are numbers."""
    assert rows.y is not None
    residuals = rows.responses[:, 0] - rows.y
    variance, square = rows.mean((rows.y - rows.mean(rows.y)) ** 2), rows.mean(residuals**2)
    r2 = 1 - square / variance if variance else None
    return Errors(r2, square**0.5, rows.mean(np.abs(residuals)))


def _of_numbers(rows: ReportRows, predicted: Doubles, y: Doubles, redact: bool) -> dict[str, Any]:
    """Residuals and what targets are at each predicted value."""
    residuals = y - predicted
    order = np.argsort(predicted, kind="stable")
    groups = np.array_split(order, min(2 * GROUPS, max(1, len(order) // REDACTED_ROWS)))
    ends = [0.005, 0.995] if len(y) > 10 * REDACTED_ROWS else [0, 1]
    low, high = np.quantile(residuals, ends)
    counts, edges = np.histogram(residuals.clip(low, high), bins=BINS if high > low else 1)
    some = np.linspace(0, len(y) - 1, min(DOTS, len(y))).astype(int)
    return {
        "n": len(y),
        "groups": {
            "x": [rows.mean(predicted, group) for group in groups],
            "y": [rows.mean(y, group) for group in groups],
            "low": [float(np.quantile(y[group], 0.1)) for group in groups],
            "high": [float(np.quantile(y[group], 0.9)) for group in groups],
        },
        "residuals": {"counts": counts, "edges": edges},
        "dots": None if redact else {"x": predicted[some], "y": y[some]},
    }
