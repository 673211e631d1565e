"""The model card: what the model is, what the rows were, and how well they agree."""

from __future__ import annotations

import datetime
import os
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.extras import import_extra
from glasswood.base.wording import number_text, percent_text
from glasswood.display.report.performance import errors_of
from glasswood.display.report.rows import data_hash
from glasswood.display.report.sentences import is_number
from glasswood.model.facts import forest_facts

if TYPE_CHECKING:
    from glasswood.base.phrases import Phrases
    from glasswood.base.typing import Bools, Doubles
    from glasswood.display.report.explained import Explained
    from glasswood.display.report.rows import ReportRows

RARE = 0.1
"""Share of an event below which figures are compared with it."""


def model_card(
    rows: ReportRows, found: Explained, redact: bool, sets: dict[str, ReportRows], phrases: Phrases
) -> dict[str, dict[str, str]]:
    """Facts by section."""
    from glasswood import __version__

    model = forest_facts(rows.forest, phrases)
    del model[phrases.text("fact memory")], model[phrases.text("fact row type")]
    data = {
        "rows": phrases.count(len(rows)),
        "hash": data_hash(rows),
        "single rows": phrases.text("redacted") if redact else phrases.count(len(found.values)),
    }
    made = {
        "glasswood": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "made": _now().strftime("%Y-%m-%d %H:%M UTC"),
    }
    fit = {
        phrases.text("figures on", rows=phrases.text(f"{name or 'these'} rows")): figures(one, phrases)
        for name, one in sets.items()
    }
    parts = {"model": model, "data": _named(data, phrases)}
    after = {"explanation": _named(_checks(rows, found, phrases), phrases), "made by": _named(made, phrases)}
    return _titled(parts, phrases) | fit | _titled(after, phrases)


def _now() -> datetime.datetime:
    """Tell the time, or the one that ``SOURCE_DATE_EPOCH`` sets: equal inputs then make equal files."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdecimal() and epoch.isascii():
        # Seconds beyond the year 9999 are no date.
        return datetime.datetime.fromtimestamp(min(int(epoch), 253402300799), datetime.UTC)
    return datetime.datetime.now(datetime.UTC)


def _titled(parts: dict[str, dict[str, str]], phrases: Phrases) -> dict[str, dict[str, str]]:
    return {phrases.text(f"card {name}"): facts for name, facts in parts.items()}


def _named(facts: dict[str, str], phrases: Phrases) -> dict[str, str]:
    return {phrases.text(f"fact {name}"): fact for name, fact in facts.items()}


def _checks(rows: ReportRows, found: Explained, phrases: Phrases) -> dict[str, str]:
    error, share = found.error
    sums = {
        "what": phrases.text("explained probability" if found.is_probability else "explained margin"),
        "error": phrases.number(f"{error:.2g}"),
        "share": phrases.number(f"{share:.2g}"),
        "verdict": phrases.text("passed" if share <= 1 else "failed"),
    }
    expected = [phrases.number(number_text(value, 6)) for value in found.expected[:12]]
    return {
        "SHAP values": f"{_kind(found, phrases)}{phrases.text('combined columns') if rows.source else ''}",
        "expected value": phrases.text("list separator").join(expected),
        "additivity": phrases.text("additivity", **sums),
    }


def _kind(found: Explained, phrases: Phrases) -> str:
    if found.n_background:
        return phrases.text("exact values", n=str(found.n_background))
    return phrases.text("path-dependent probability" if found.is_probability else "path-dependent margin")


def figures(rows: ReportRows, phrases: Phrases) -> dict[str, str]:
    """Measure how well predictions fit the targets; empty without targets."""
    found = _figures(rows, phrases)
    return {phrases.text(f"figure name {name}"): value for name, value in found.items()}


def _figures(rows: ReportRows, phrases: Phrases) -> dict[str, str]:
    y, number = rows.y, phrases.number
    if y is None:
        return {}
    if is_number(rows):
        errors = errors_of(rows)
        return {
            "R²": phrases.text("targets are equal") if errors.r2 is None else number(f"{errors.r2:.4f}"),
            "RMSE": number(number_text(errors.rmse, 4)),
            "MAE": number(number_text(errors.mae, 4)),
        }
    probabilities = rows.responses
    chosen = np.clip(probabilities[np.arange(len(y)), y.astype(int)], 1e-15, 1)
    if len(rows.classes) == 2:
        return _of_event(probabilities[:, 1], y == 1, -float(np.log(chosen).mean()), phrases)
    most = number(f"{np.bincount(y.astype(int)).max() / len(y):.4f}")
    return {
        "accuracy": number(f"{np.mean(probabilities.argmax(axis=1) == y):.4f}"),
        "log-loss": number(f"{abs(np.log(chosen).mean()):.4f}"),
        "most frequent": phrases.text("of the rows", share=most),
    }


def _of_event(probability: Doubles, is_event: Bools, log_loss: float, phrases: Phrases) -> dict[str, str]:
    """Figures of two classes that say something where one is rare too, beside those of the base rate alone."""
    metrics = import_extra("sklearn.metrics", "sklearn", "reports of classifiers with targets need scikit-learn")
    share, number = float(is_event.mean()), phrases.number
    rate = number(percent_text(share))
    if share in {0.0, 1.0}:
        unknown = phrases.text("one class only")
        return {"AUC": unknown, "AP": unknown, "base rate": rate, "log-loss": number(f"{abs(log_loss):.4f}")}
    precision = float(metrics.average_precision_score(is_event, probability))
    base = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    decimals = 3 - int(np.floor(np.log10(base)))
    named = number(percent_text(precision))
    if share < RARE:
        named = phrases.text("times base rate", value=named, times=number(number_text(precision / share, 2)))
    losses = number(f"{abs(log_loss):.{decimals}f}"), number(f"{base:.{decimals}f}")
    return {
        "AUC": number(f"{metrics.roc_auc_score(is_event, probability):.4f}"),
        "AP": named,
        "base rate": rate,
        "log-loss": phrases.text("beside base rate", value=losses[0], base=losses[1]),
    }


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
