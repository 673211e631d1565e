"""`silva.report`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.display.report.card import history, model_card
from silva.display.report.dependence import dependence
from silva.display.report.explained import explained
from silva.display.report.page import packed, write_page
from silva.display.report.rows import SHOWN_FEATURES, chosen, feature_entries, numbers, read_rows
from silva.display.report.trees import are_shown, drawn, embedded, is_small
from silva.facts import output_names
from silva.files import check_output
from silva.loading import load

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

    from silva.display.report.explained import Explained
    from silva.display.report.rows import ReportRows
    from silva.typing import Int64s, Rows


def report(
    model: object,
    X: Rows,
    y: ArrayLike | None = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    redact: bool = False,
    by_position: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Path:
    """Write a report of a model and its explanations: one HTML file that needs no network.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` takes
        Of an estimator of silva the report also shows standard errors, errors of leaves and the search.
    X : array-like or frame of shape (n, n_features)
        Rows that the report is about: any number, of which it holds at most 2,000.
    y : array-like of shape (n,), optional
        Targets, or class labels: for errors, and for the means at the nodes of a tree.
    path : path
        Of the file to write; it appears complete or not at all, and replaces one that is there.
    title : str, optional
        Default: what the model is.
    redact : bool
        Leave all single rows out: no points, no lines of rows, no table of rows, and ranges of features without their
        extreme values. Means over rows stay, and so does the model.
    by_position : bool
        Take the columns of a frame in their order, whatever their names.
    random_state : int
        Seed of the choice of rows.
    n_jobs : int, optional
        Threads; None or -1 for all.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    ValueError
        If X has no rows or does not fit the model, y does not fit X, or the model cannot be explained.
    TypeError
        If y is a path.
    OSError
        If the file cannot be written; nothing is left behind.

    Notes
    -----
    Runs on the CPU: all rows are explained, a million rows of 100 trees of depth 8 in some seconds. Models of at most
    4,000 nodes are in the file as a whole, below 2 MB: the page predicts with them. Trees are drawn up to 250
    leaves.

    Examples
    --------
    >>> silva.report(model, X, y, "report.html")  # doctest: +SKIP
    """
    if isinstance(y, str | os.PathLike):
        raise TypeError(f"y is a path, {os.fspath(y)!r}: pass it as path=, or the targets before it")
    target = check_output(path)
    forest = load(model)
    if not forest.means_known:
        forest = forest.with_means(X, by_position)
    rows = read_rows(forest, X, y, n_jobs, by_position)
    at = chosen(rows, random_state)
    found = explained(rows, at)
    order = np.argsort(-found.importance.sum(axis=1), kind="stable")
    content: dict[str, Any] = {
        "title": title or f"{forest.source or 'Forest'}: {forest.n_trees} tree{'s' * (forest.n_trees != 1)}",
        "features": feature_entries(rows, at, redact),
        "outputs": output_names(forest, forest.n_outputs) if forest.n_outputs > 1 else [],
        "classes": rows.classes,
        "isClassifier": bool(forest.classes),
        "expected": found.expected,
        "importance": found.importance,
        "order": order,
        "pairs": found.pairs,
        "pairRows": found.pair_rows,
        "partners": found.partners,
        "dependence": dependence(rows, order, at, redact),
        "model": embedded(forest) if is_small(rows) else None,
        "trees": drawn(rows, model, redact) if is_small(rows) and are_shown(forest) else None,
        "history": history(model),
        "card": model_card(rows, found, redact),
        "nRows": len(rows),
        "rows": None if redact else shown_rows(rows, found, at, order),
        "start": start_row(rows),
    }
    write_page(content, target)
    return target


def shown_rows(rows: ReportRows, found: Explained, at: Int64s, order: Int64s) -> dict[str, Any]:
    """Values, SHAP values, margins and responses of the chosen rows, of the most important features."""
    kept = order[:SHOWN_FEATURES]
    values = numbers(rows, at)
    exact = is_small(rows)
    return {
        "index": at,
        "features": kept,
        "values": packed(values if exact else values[:, kept], "<f8" if exact else "<f4"),
        "allValues": exact,
        "phi": packed(found.values[:, kept]),
        "margins": packed(rows.margins[at], "<f8"),
        "responses": packed(rows.responses[at], "<f8"),
        "y": None if rows.y is None else packed(rows.y[at], "<f8"),
    }


def start_row(rows: ReportRows) -> list[float]:
    """Make a row to start from that is nobody's: medians of numbers, the most frequent categories."""
    values = numbers(rows, np.arange(min(len(rows), 20_000)))
    result = []
    for feature in range(values.shape[1]):
        column = values[:, feature][~np.isnan(values[:, feature])]
        if not len(column):
            result.append(float("nan"))
        elif rows.tables[feature] is not None:
            codes, counts = np.unique(column, return_counts=True)
            result.append(float(codes[counts.argmax()]))
        else:
            result.append(float(np.median(column)))
    return result
