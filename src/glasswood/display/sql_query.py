"""Queries of a table: categories become bits once, each tree is a column, and some trees are added at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glasswood.base.escapes import quoted
from glasswood.display.dialects import WORD_BITS, Sql
from glasswood.model.ensemble import TreeEnsemble

QUERY_TREES = 200
"""Trees that are columns of one table: sums and tables have limits (1,000 levels, 1,600 columns)."""

RESULT = "prediction"
"""Column of a query that holds what the model returns."""


def words_of(forest: TreeEnsemble, names: Sequence[str]) -> tuple[list[str], dict[int, list[str]]]:
    """Name the columns of a query that features become: numbers, or words of bits where there is a table of categories.

    They begin as no column of the table does. Words have one bit for missing values and unseen categories.
    """
    prefix = "g_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix = f"g{prefix}"
    words = {}
    for feature, table in enumerate(forest.categories or ()):
        if table is not None and math.isnan(forest.missing) and not forest.unseen_apart:
            n_words = len(table) // WORD_BITS + 1
            words[feature] = [f"{prefix}b{feature}_{number}" for number in range(n_words)]
    return [f"{prefix}x{feature}" for feature in range(forest.n_features)], words


def written_query(
    source: Sql,
    coded: Sql,
    categories: Mapping[int, Sequence[Any]],
    table: Sequence[str],
    keep: Sequence[str],
    base: str,
    trees: Sequence[str],
    response: Callable[[str], str],
) -> str:
    """Write a query.

    Parameters
    ----------
    source, coded : Sql
        The features as columns of the table, and as those of the query.
    categories : dict of int to sequence
        All categories of the features that become words.
    table : sequence of str
        Parts of its name.
    keep : sequence of str
        Columns of the table that the result has.
    base : str
        The number that trees are added to.
    trees : sequence of str
        Expressions over the columns of `coded`.
    response : callable
        What the result is of the sum.
    """
    kind = type(source)
    if RESULT in {name.lower() for name in keep}:
        raise ValueError(f"keep holds {quoted(RESULT)}, which the query's own column is called; rename the table's")
    kept, prefix = [kind.name(name) for name in keep], coded.columns[0].partition("x")[0] if coded.columns else "g_"
    text = "\n".join(trees)
    features: dict[str, str] = {}
    for feature, column in enumerate(coded.columns):
        if feature in coded.words:
            found = {
                name: source.word(feature, categories[feature], number)
                for number, name in enumerate(coded.words[feature])
            }
        else:
            found = {column: source.value(feature)}
        features |= {name: value for name, value in found.items() if _is_used(name, text)}
    named = ", ".join([*kept, *(f"{value} AS {name}" for name, value in features.items())]) or "1 AS g_none"
    passed, tables = [*kept, *features], [f"{prefix}codes {kind.once} (SELECT {named} FROM {_named(kind, table)})"]
    last, total = f"{prefix}codes", base
    for first in range(0, max(len(trees), 1), QUERY_TREES):
        some = {f"{prefix}t{first + i}": tree for i, tree in enumerate(trees[first : first + QUERY_TREES])}
        carried = [*passed, *([] if total == base else [total])]
        selected = ",\n  ".join([*carried, *(f"{tree} AS {name}" for name, tree in some.items())])
        tables.append(f"{prefix}trees{first} {kind.once} (SELECT\n  {selected}\n  FROM {last})")
        summed = " + ".join([total, *some])
        total = f"{prefix}total"
        sums = ", ".join([*passed, f"{summed} AS {total}"])
        tables.append(f"{prefix}sums{first} {kind.once} (SELECT {sums}\n  FROM {prefix}trees{first})")
        last = f"{prefix}sums{first}"
    result = ", ".join([*kept, f"{response(total)} AS {RESULT}"])
    return "WITH " + ",\n".join(tables) + f"\nSELECT {result} FROM {last}"


def _is_used(name: str, text: str) -> bool:
    """Whether a column is read: no other begins with its name and a letter or digit behind it."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if end == len(text) or not (text[end].isalnum() or text[end] == "_"):
            return True
        at = text.find(name, end)
    return False


def _named(kind: type[Sql], table: Sequence[str]) -> str:
    return ".".join(kind.name(part) for part in table)
