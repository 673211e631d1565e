"""`glasswood.report`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import quoted
from glasswood.base.files import check_output
from glasswood.base.phrases import Phrases
from glasswood.base.typing import Int64s, Language, Rows
from glasswood.base.wording import Wording, checked_wording
from glasswood.display.report.alternatives import other_trees
from glasswood.display.report.card import figures, history, model_card
from glasswood.display.report.curves import curves_section
from glasswood.display.report.dependence import dependence, joint_effects
from glasswood.display.report.explained import explained
from glasswood.display.report.page import packed, packed_columns, write_page
from glasswood.display.report.performance import check_costs, performance
from glasswood.display.report.rows import SHOWN_FEATURES, chosen, feature_entries, numbers, read_rows
from glasswood.display.report.score import score_section
from glasswood.display.report.sentences import sentences
from glasswood.display.report.similar import intervals, similar_rows
from glasswood.display.report.trees import are_shown, drawn, embedded, is_small, n_held, not_held
from glasswood.evaluate.links import has_probabilities
from glasswood.explain.results.sentences import PREDICTION, scale_of
from glasswood.forest import Forest
from glasswood.inputs import with_tables
from glasswood.inputs.tables import refuse_open_tables, with_sets
from glasswood.inputs.targets import own_labels
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.events import of_event, speaks_of_second
from glasswood.model.facts import feature_names, output_names
from glasswood.populations import compare

if TYPE_CHECKING:
    from glasswood.display.report.explained import Explained
    from glasswood.display.report.rows import ReportRows

WHOLE = 1e6
"""Medians below which six digits are enough to begin with."""

SEED = 0
"""Of the choice of rows."""

CHANGED_FEATURES = 30
"""Features of a table."""


def report(
    model: object,
    X: Rows,
    y: ArrayLike | None = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    test: tuple[Rows, ArrayLike] | tuple[Rows, ArrayLike, ArrayLike] | None = None,
    exposure: ArrayLike | None = None,
    before: Rows | None = None,
    title: str | None = None,
    max_terms: int | None = 5,
    units: Mapping[str, str] | None = None,
    redact: bool = False,
    positive: object = None,
    costs: Mapping[str, float] | None = None,
    language: Language = "en",
) -> Path:
    """Write a report of a model and its explanations: one HTML file that needs no network.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `glasswood.load` reads
        For glasswood's estimators, the report also shows standard errors, errors of leaves and the search.
    X : array-like or frame of shape (n, n_features)
        Rows that the report is about; the file contains at most 2,000 of them.
    y : array-like of shape (n,), optional
        Targets, or class labels: for errors, and for the means at the nodes of a tree.
    path : path
        The file to write. It appears complete or not at all, and replaces an existing file.
    test : tuple of rows and targets, optional
        Rows that the model has not been trained on. Figures and curves are then labelled **training** for X and y, and
        **test** for these rows. With `exposure`, the third entry is theirs.
    exposure : array-like of shape (n,), optional
        What y was counted over, such as years, above 0. Targets are then rates, y for each unit of it, and means and
        errors weigh rows by it. A model that was fitted with exposures needs it, if there is y: ones if y are rates.
    before : array-like or frame, optional
        Rows of an earlier population. A section then says which features changed the mean prediction from these rows
        to X (`glasswood.compare`).
    title : str, optional
        Default: the name of y, if it has one, and the kind of model.
    max_terms : int or None, default=5
        Number of terms of a leaf's equation to show; None shows all.
    units : mapping of str to str, optional
        Units by the name of the feature, for axes and tests; ``prediction`` is what the model predicts.
    redact : bool
        Leave out all single rows: points, lines and the table of rows, and the extremes of the features' ranges. Means
        over rows and the model remain.
    positive : object, optional
        Which of two classes is the event, of which the report speaks. Default: the rarer one in y; without y the one
        that the model finds less probable.
    costs : mapping of str to float, optional
        For two classes, what decisions cost: ``{"false_positive": 1, "false_negative": 50}``, and, if they are not 0,
        ``"true_positive"`` and ``"true_negative"``. The page then shows the cost of a threshold, and begins with the
        one that costs least on the last rows.
    language : {"en", "de", "fr", "es"}, default="en"
        Language of the page. Names, categories and what the model itself calls its objective stay as they are.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If X has no rows or does not fit the model, y does not fit X or is not finite, the model cannot be explained, or
        `positive` or `costs` do not fit the model, or there are no texts of `language`; if the model predicts rates and
        y comes without exposures.
    TypeError
        If y is a path.
    OSError
        If the file cannot be written; nothing is left behind.

    Notes
    -----
    Runs on the CPU. For a classifier, SHAP values explain the probabilities exactly, for the rows in the report with
    100 rows of X (at least 20) as background, if that takes only a few seconds; the page says so. Otherwise they are
    path-dependent values of the margin for all rows, which take some seconds for a million rows and 100 trees of depth
    8. The file contains models of at most 4,000 nodes, so that the page can predict. Trees are drawn up to 250 leaves.

    Examples
    --------
    >>> glasswood.report(model, X, y, "report.html")  # doctest: +SKIP
    """
    if isinstance(y, str | os.PathLike):
        raise TypeError(f"y is a path, {quoted(os.fspath(y))}: pass it as path=, or the targets before it")
    target, phrases = check_output(path), Phrases(language)
    forest = load(model).ensemble
    _refuse_scores(forest)
    target_name = _name_of(y)
    forest, X, y, test = _of_event(_completed(forest, X), X, y, test, positive)
    rows = read_rows(forest, X, y, exposure)
    wording = Wording(max_terms=max_terms, units=units or {}, style="centered", phrases=phrases)
    wording = checked_wording(wording, {*feature_names(forest), *rows.names, PREDICTION})
    unseen = None if test is None else read_rows(forest, *_checked_test(test, y, exposure))
    sets = {"": rows} if unseen is None else {"training": rows, "test": unseen}
    check_costs(costs, rows.classes)
    measured = {name: performance(one, redact, costs) for name, one in sets.items()}
    at = chosen(rows, SEED)
    found = explained(rows, at, SEED)
    order = np.argsort(-found.importance.sum(axis=1), kind="stable")
    shown = dependence(rows, order, at, redact)
    content: dict[str, Any] = {
        "title": title or _title(model, forest, target_name, phrases),
        "target": target_name,
        "language": phrases.language,
        "texts": phrases.page,
        "sentences": sentences(sets, measured, target_name, shown, found.importance.sum(axis=1), wording),
        "performance": {name: one for name, one in measured.items() if one is not None},
        "figures": {name: figures(one, phrases) for name, one in sets.items()},
        "features": feature_entries(rows, at, redact, wording.units),
        "classes": rows.classes,
        "isClassifier": bool(forest.classes),
        "hasExposure": rows.exposure is not None,
        "scale": scale_of(forest, "probability" if found.n_background else "margin")._asdict(),
        "unit": wording.units.get(PREDICTION, ""),
        **_values(rows, found),
        "order": order,
        "dependence": [{key: part for key, part in entry.items() if key != "codes"} for entry in shown],
        "joint": joint_effects(rows, order, at, redact),
        "score": score_section(rows, list(sets.values())[-1], SEED),
        "change": None if before is None else _changes(forest, before, X),
        **_trees(rows, model, redact, wording),
        "card": model_card(rows, found, redact, sets, phrases),
        "nRows": len(rows),
        **_single_rows(rows, found, unseen, at, order, redact),
    }
    write_page(content, target)
    return target


def _refuse_scores(forest: TreeEnsemble) -> None:
    if forest.classes and not has_probabilities(forest):
        raise ValueError(
            f"the report of a classifier shows probabilities, and a model trained for {quoted(forest.objective)} "
            "predicts none; train it for binary:logistic"
        )


def _completed(forest: TreeEnsemble, X: Rows) -> TreeEnsemble:
    """Complete a forest by what its rows tell: tables of categories, means of linear leaves."""
    forest = with_tables(X, forest)
    refuse_open_tables(forest, "a report")
    forest = with_sets(forest)
    return forest if forest.means_known else Forest(forest).with_means(X).ensemble


def _of_event(
    forest: TreeEnsemble,
    X: Rows,
    y: Any,
    test: Any,
    positive: object,
) -> tuple[TreeEnsemble, Rows, Any, Any]:
    """Make the event the second of two classes, and labels of targets that may be places."""
    if not speaks_of_second(forest):
        of_event(forest, positive)
        return forest, X, y, test
    if y is not None:
        y, share = own_labels(y, forest)
        if test is not None:
            test = _checked_test(test, y, None)
            test = test[0], own_labels(test[1], forest)[0]
        return of_event(forest, positive, share)[0], X, y, test
    turned, _ = of_event(forest, positive, lambda: _mean_probability(forest, X))
    return turned, X, y, test


def _mean_probability(forest: TreeEnsemble, X: Rows) -> float | None:
    """Mean probability of the second of two classes; None where the model tells none."""
    responses = read_rows(forest, X, None).responses
    return float(responses[:, 1].mean()) if responses.shape[1] == 2 else None


def _checked_test(test: Any, y: object, exposure: object) -> tuple[Any, ...]:
    """Check that test rows come with targets, beside targets of the other rows, and with exposures beside theirs."""
    if not isinstance(test, tuple | list) or len(test) not in {2, 3}:
        raise TypeError(f"test is a {type(test).__name__}, expected a pair of rows and their targets: test=(X, y)")
    if (len(test) == 3) != (exposure is not None):
        raise ValueError(
            f"test has {len(test)} entries; rows with exposures come with theirs: exposure=exposure, "
            "test=(X_test, y_test, exposure_test), and others without"
        )
    if y is None:
        raise ValueError("test needs y, the targets of X, to compare with: report(model, X, y, test=(X_test, y_test))")
    return tuple(test)


def _name_of(y: Any) -> str:
    """Name of a series, or of the column of a frame; empty where there is none."""
    name = y.columns[0] if hasattr(y, "columns") and len(y.columns) == 1 else getattr(y, "name", None)
    return str(name) if isinstance(name, str | int) else ""


def _title(model: object, forest: TreeEnsemble, target: str, phrases: Phrases) -> str:
    """Name what is predicted, and what the model is."""
    kind = (
        type(model).__name__
        if forest.source == "glasswood" and type(model).__module__.startswith("glasswood.grow")
        else ""
    )
    kind = kind or forest.source or phrases.text("forest")
    is_tree = forest.n_trees == 1
    size = phrases.counted(forest.n_leaves, "n leaves") if is_tree else phrases.counted(forest.n_trees, "n trees")
    return phrases.text("title of target" if target else "title", target=target, kind=kind, size=size)


def _values(rows: ReportRows, found: Explained) -> dict[str, Any]:
    """Collect what the rows say of the features together."""
    return {
        "outputs": _outputs(rows, found),
        "expected": found.expected,
        "importance": found.importance,
        "pairs": found.pairs,
        "pairRows": found.pair_rows,
        "partners": found.partners,
        "isProbability": found.is_probability,
        "nExplained": found.n_rows,
        "nBackground": found.n_background,
    }


def _trees(rows: ReportRows, model: object, redact: bool, wording: Wording) -> dict[str, Any]:
    """Collect what the page says of the model itself."""
    forest, n_trees = rows.forest, n_held(rows)
    return {
        "model": embedded(forest, n_trees, wording) if n_trees is not None else None,
        "size": {"trees": forest.n_trees, "leaves": forest.n_leaves},
        "notHeld": not_held(rows, wording.phrases),
        "curves": curves_section(rows, model, redact),
        "trees": drawn(rows, model, redact, wording) if n_trees and are_shown(forest) else None,
        "alternatives": other_trees(model, forest, wording),
        "history": history(model),
    }


def _single_rows(
    rows: ReportRows, found: Explained, unseen: ReportRows | None, at: Int64s, order: Int64s, redact: bool
) -> dict[str, Any]:
    """Collect what the page says of rows one by one: nothing of those given if they are redacted."""
    return {
        "rows": None if redact else shown_rows(rows, found, at, order),
        "similar": None if redact else similar_rows(rows, at),
        "intervals": None if redact else intervals(rows, unseen, at),
        "start": start_row(rows),
    }


def _outputs(rows: ReportRows, found: Explained) -> list[str]:
    """Names of what is explained; empty for one number."""
    n = len(found.expected)
    if n == 1:
        return []
    return rows.classes if found.is_probability else output_names(rows.forest, n)


def shown_rows(rows: ReportRows, found: Explained, at: Int64s, order: Int64s) -> dict[str, Any]:
    """Feature values, SHAP values, their totals and the responses of the selected rows."""
    kept = order[:SHOWN_FEATURES]
    values = numbers(rows, at)
    exact = is_small(rows)
    return {
        "index": at,
        "features": kept,
        "values": packed_columns(values if exact else values[:, kept].astype(np.float32)),
        "allValues": exact,
        "phi": packed(found.values[:, kept]),
        **_errors(found, kept),
        "ends": packed(found.ends, "<f8"),
        "responses": packed(rows.responses[at], "<f8"),
        "y": None if rows.y is None else packed(rows.y[at], "<f8"),
    }


def _errors(found: Explained, kept: Int64s) -> dict[str, Any]:
    """Write standard errors in two bytes each, and what these are multiplied with."""
    if found.errors is None:
        return {"errors": None}
    errors = found.errors[:, kept]
    unit = float(errors.max(initial=0)) / np.iinfo(np.int16).max or 1.0
    return {"errors": packed(np.rint(errors / unit), "<i2"), "errorUnit": unit}


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
            median = float(np.median(column))
            result.append(float(f"{median:.6g}") if abs(median) < WHOLE else median)
    return result


def _changes(forest: TreeEnsemble, before: Rows, X: Rows) -> dict[str, Any]:
    """Compare the populations: for each output, the strongest features."""
    found = compare(before, X, model=Forest(forest), random_state=SEED)
    return {
        "explained": found.explained,
        "before": found.before,
        "after": found.after,
        "rows": found.n_rows,
        "features": [found.rows(output)[:CHANGED_FEATURES] for output in range(len(found.before))],
        "left": len(found.names) - CHANGED_FEATURES,
    }
