"""The model card: what the model is, what the rows were, and how well they agree."""

from __future__ import annotations

import datetime
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.extras import import_extra
from glasswood.base.wording import number_text, percent_text
from glasswood.display.report.rows import data_hash
from glasswood.model.facts import forest_facts

if TYPE_CHECKING:
    from glasswood.base.typing import Bools, Doubles
    from glasswood.display.report.explained import Explained
    from glasswood.display.report.rows import ReportRows

NAMES = ("AUC (by chance 0.5)", "average precision", "base rate", "log-loss")
"""Figures of two classes."""

RARE = 0.1
"""Share of an event below which figures are compared with it."""

COMBINED = "; what a statistic of several columns contributes is divided equally among them"


def model_card(
    rows: ReportRows, found: Explained, redact: bool, sets: dict[str, ReportRows]
) -> dict[str, dict[str, str]]:
    """Facts by section."""
    from glasswood import __version__

    model = forest_facts(rows.forest)
    del model["memory"], model["row type"]
    error, share = found.error
    what = "probability" if found.is_probability else "margin"
    data = {
        "rows": f"{len(rows):,}",
        "SHA-256 of rows and targets": data_hash(rows),
        "single rows in this file": "none (redacted)" if redact else f"{len(found.values):,}",
    }
    checks = {
        "SHAP values": f"{_kind(found)}{COMBINED if rows.source else ''}",
        "expected value": ", ".join(number_text(value, 6) for value in found.expected[:12]),
        "additivity": f"largest |expected value + Σ φ − {what}| = {error:.2g}, {share:.2g} of what rounding allows "
        f"({'passed' if share <= 1 else 'FAILED'})",
    }
    made = {
        "glasswood": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    fit = {f"Figures on {name or 'these'} rows": figures(one) for name, one in sets.items()}
    return {"Model": model, "Data": data, **fit, "Explanation": checks, "Made by": made}


def _kind(found: Explained) -> str:
    if not found.n_background:
        return f"path-dependent values of the {'probability' if found.is_probability else 'margin'}"
    return f"exact values of the probability, with {found.n_background} random rows as background"


def figures(rows: ReportRows) -> dict[str, str]:
    """Measure how well predictions fit the targets; empty without targets."""
    y = rows.y
    if y is None:
        return {}
    if not rows.classes or not rows.forest.classes:
        residuals = rows.responses[:, 0] - y
        variance = float(np.var(y))
        square = float(np.mean(residuals**2))
        return {
            "R²": f"{1 - square / variance:.4f}" if variance else "not defined: all targets are equal",
            "root mean squared error": number_text(square**0.5, 4),
            "mean absolute error": number_text(np.abs(residuals).mean(), 4),
        }
    probabilities = rows.responses
    chosen = np.clip(probabilities[np.arange(len(y)), y.astype(int)], 1e-15, 1)
    if len(rows.classes) == 2:
        return _of_event(probabilities[:, 1], y == 1, -float(np.log(chosen).mean()))
    return {
        "accuracy": f"{np.mean(probabilities.argmax(axis=1) == y):.4f}",
        "log-loss": f"{abs(np.log(chosen).mean()):.4f}",
        "most frequent class": f"{np.bincount(y.astype(int)).max() / len(y):.4f} of the rows",
    }


def _of_event(probability: Doubles, is_event: Bools, log_loss: float) -> dict[str, str]:
    """Figures of two classes that say something where one is rare too, beside those of the base rate alone."""
    metrics = import_extra("sklearn.metrics", "sklearn", "reports of classifiers with targets need scikit-learn")
    share = float(is_event.mean())
    if share in {0.0, 1.0}:
        unknown = "not defined: all rows have one class"
        return dict.fromkeys(NAMES[:2], unknown) | {NAMES[2]: percent_text(share), NAMES[3]: f"{abs(log_loss):.4f}"}
    precision = float(metrics.average_precision_score(is_event, probability))
    base = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    decimals = 3 - int(np.floor(np.log10(base)))
    times = f", {number_text(precision / share, 2)} × the base rate" if share < RARE else ""
    auc = f"{metrics.roc_auc_score(is_event, probability):.4f}"
    losses = f"{abs(log_loss):.{decimals}f}, base rate alone {base:.{decimals}f}"
    return dict(zip(NAMES, (auc, f"{percent_text(precision)}{times}", percent_text(share), losses), strict=True))


def history(model: object) -> dict[str, Any] | None:
    """Error and size over the search, and the least error at each size; None where there was no search."""
    table = getattr(model, "history_", None)
    if table is None or not len(table["generation"]):
        return None
    step = max(1, len(table["generation"]) // 400)
    names = ("generation", "rmse", "n_leaves", "mean_leaves")
    sizes = np.unique(table["n_leaves"])
    least = [float(table["rmse"][table["n_leaves"] == size].min()) for size in sizes]
    return {name: table[name][::step] for name in names} | {"sizes": sizes, "least": least}
