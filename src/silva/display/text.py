"""A tree as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.loading import load
from silva.rules import common_range, cover_texts, equation, leaf_of_node, number_text, range_text, test_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from silva.forest import Forest


def export_text(model: object, tree: int = 0, digits: int = 4) -> str:
    """Write a tree as indented rules, one line a test or leaf, and what confines the predictions of all leaves.

    Leaves have the numbers of ``apply``, ``leaves_`` and ``leaf_summary_``, in other forests those of
    ``predict(X, output="leaf")``. Sides that missing values take are named where training rows had missing values, or
    may have had.

    Parameters
    ----------
    model : ModelTreeRegressor, Forest, or anything `silva.load` reads
        A fitted `ModelTreeRegressor` also shows the error of each leaf, and how many of its rows are clipped.
    tree : int, default=0
        Which tree.
    digits : int, default=4
        Significant digits of numbers, enough to read an equation, not always to compute with it: a large intercept
        and large terms of opposite signs cancel. 17 digits are exact.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the forest has no such tree.
    """
    forest = load(model)
    check_tree(forest, tree)
    common = common_range(forest, tree, digits)
    lines = _lines(forest, tree, 0, "", digits, facts_of(model), cover_texts(forest, tree))
    notes = [f"Predictions are clipped to {common}."] if common else []
    if forest.source == "silva" and np.diff(forest.tree_offsets)[tree] == 1:
        notes.append("No split paid off: this holds for all rows.")
    return "\n".join([*lines, *notes])


def check_tree(forest: Forest, tree: int) -> None:
    """Raise ValueError unless the forest has a tree of this number."""
    if not 0 <= tree < forest.n_trees:
        raise ValueError(f"tree is {tree}, the forest has {forest.n_trees} trees: expected 0 to {forest.n_trees - 1}")


def facts_of(model: object) -> Any:
    """Table of the leaves, None if the model does not know it."""
    return getattr(model, "leaf_summary_", None)


def leaf_text(forest: Forest, tree: int, node: int, digits: int, summary: Any, size: str) -> str:
    """Write the equation, the rows and, where known, the error of a leaf, and what it is clipped to by itself."""
    leaf = leaf_of_node(forest, node)
    facts = [size] if size else []
    if summary is not None:
        n_rows = f"{summary['n_rows'][leaf]} rows"
        facts = [n_rows] if size == n_rows else [n_rows, f"weight {number_text(forest.cover[node], digits)}"]
        error = "rmse" if "rmse" in summary else "log_loss"
        facts.append(f"{error.replace('_', '-')} {number_text(summary[error][leaf], digits)}")
        if summary["n_clipped"][leaf]:
            facts.append(f"{summary['n_clipped'][leaf]} clipped")
    if forest.has_linear_leaves and np.isfinite(forest.leaf_range[leaf]).all() and not common_range(forest, tree, 4):
        facts.append(f"clipped to {range_text(forest.leaf_range[leaf], digits)}")
    number = leaf if summary is not None else forest.leaf_id[leaf]
    known = f"   ({', '.join(facts)})" if facts else ""
    return f"leaf {number}: {equation(forest, leaf, digits)}{known}"


def _lines(
    forest: Forest, tree: int, node: int, indent: str, digits: int, summary: Any, sizes: Sequence[str]
) -> Iterator[str]:
    at = int(forest.tree_offsets[tree]) + node
    if forest.feature[at] < 0:
        yield indent + leaf_text(forest, tree, at, digits, summary, sizes[node])
        return
    for test, child in zip(test_text(forest, at, digits), (0, 1), strict=True):
        yield f"{indent}{test}"
        yield from _lines(forest, tree, int(forest.left[at]) + child, indent + "|   ", digits, summary, sizes)
