"""What exported code says of itself in comments: what it was made from, what it returns, and what its columns hold."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from glasswood.base.escapes import comment
from glasswood.base.wording import counted
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import exposure_text, feature_names, output_names

WIDTH = 120
"""Characters of a line."""

MOST_CATEGORIES, MOST_LETTERS = 30, 40
"""Categories of a feature that are listed, and letters of each."""


def origin(forest: TreeEnsemble) -> str:
    """Say what the code was made from, and whether its predictions are for one unit of exposure."""
    made = f"{counted(forest.n_trees, 'tree')} of {comment(forest.source or 'glasswood')}, written by glasswood."
    return " ".join(filter(None, [made, exposure_text(forest)]))


def returned(forest: TreeEnsemble, output: int) -> str:
    """Say what the code returns: the response of a single output, the margin of one of several."""
    if forest.n_outputs > 1:
        name = comment(output_names(forest, forest.n_outputs)[output])
        return f"the margin of output {output} ({name}), before any link"
    if forest.link == "exp":
        return "the response, exp(margin)"
    if forest.link != "logistic":
        return "the margin; the forest has no link"
    labels: list[object] = forest.classes[0].tolist() if len(forest.classes) == 1 else []
    of_class = f' of class "{comment(str(labels[1]))}"' if len(labels) == 2 else ""
    return f"the probability{of_class}, not its margin"


def columns_of_c(forest: TreeEnsemble) -> str:
    """Name each feature in a line, and below it the codes of its first categories."""
    return "\n".join(_column(forest, feature, name) for feature, name in enumerate(feature_names(forest)))


def _column(forest: TreeEnsemble, feature: int, name: str) -> str:
    line = f'   x[{feature}]: "{comment(name)}"'
    table = forest.categories[feature] if forest.categories else None
    if table is None:
        return line
    shown = ", ".join(_codes(table[:MOST_CATEGORIES].tolist()))
    more = f" and {len(table) - MOST_CATEGORIES} more" if len(table) > MOST_CATEGORIES else ""
    # Names stay in one piece: their spaces are no places to break a line at.
    lines = textwrap.wrap(
        shown + more,
        WIDTH,
        initial_indent="     ",
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join([f"{line}, a category's code", *lines]).replace("\0", " ")


def _codes(categories: list[object]) -> Iterator[str]:
    """Write the codes of categories; a NUL is a space of a name."""
    for code, category in enumerate(categories):
        text = str(category)
        cut = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
        yield f'{code}\0=\0"{comment(cut)}"'.replace(" ", "\0")
