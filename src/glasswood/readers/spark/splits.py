"""Splits on entries of vectors as splits on the columns of a frame that these entries are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base import escapes
from glasswood.readers.assemble import less_than, pack_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glasswood.base.typing import Array, Bools, Doubles, Int64s
    from glasswood.readers.spark.nodes import Nodes
    from glasswood.readers.spark.stages import Entry

MOST_MEMBERS = 2**26
"""Categories that the sets of all splits may have together."""


@dataclass(frozen=True, eq=False)
class Tests:
    """What the splits of all nodes test.

    Attributes
    ----------
    feature, threshold, default_left, category_set : (n_nodes,)
        As NodeArrays has them.
    fields : dict
        Fields of TreeEnsemble: features, categories and sets.
    """

    __test__ = False  # pytest would take it for a test

    feature: Int64s
    threshold: Doubles
    default_left: Bools
    category_set: Int64s | None
    fields: dict[str, Any]


def thresholds(nodes: Nodes, is_test: Bools) -> Doubles:
    """Threshold of each split of numbers.

    Raises
    ------
    ValueError
        If one has several, or none.
    """
    if (nodes.n_sides[is_test] != 1).any():
        raise ValueError("a split of numbers has several thresholds, or none")
    result = np.zeros(len(is_test))
    result[is_test] = nodes.sides[(np.cumsum(nodes.n_sides) - nodes.n_sides)[is_test]]
    return result


def of_columns(nodes: Nodes, is_split: Bools, entries: list[Entry], most: int) -> Tests:
    """Translate splits on entries into splits on columns, in the order in which entries name them first.

    Raises
    ------
    ValueError
        If a split has other categories than its entry can have.
    NotImplementedError
        If a column is split as a number and as a category, or has two tables.
    """
    is_nominal = is_split & (nodes.n_categories >= 0)
    entries = _with_tables(nodes, is_nominal, entries, most)
    sources = list(dict.fromkeys(entry.source for entry in entries))
    tables = _tables(entries, sources)
    places = {source: place for place, source in enumerate(sources)}
    place = np.array([places[entry.source] for entry in entries])
    is_set = is_split & np.array([entry.labels is not None for entry in entries])[np.where(is_split, nodes.feature, 0)]
    borders = thresholds(nodes, is_split & ~is_nominal)
    default_left, sets, room = np.zeros(len(is_split), np.bool_), [], MOST_MEMBERS
    first = np.cumsum(nodes.n_sides) - nodes.n_sides
    for node in np.flatnonzero(is_split).tolist():
        entry = entries[int(nodes.feature[node])]
        if is_nominal[node]:
            members, count = nodes.sides[first[node] : first[node] + nodes.n_sides[node]], int(nodes.n_categories[node])
            if not ((members >= 0) & (members < count) & (members == np.floor(members))).all():
                raise ValueError(f"a split on {count} categories sends others left")
            values = np.array([*(() if entry.values is None else entry.values), _number(entry.other)])
            inside = np.isin(values, members)
            goes_left = inside if len(members) <= count // 2 else inside | ~((values >= 0) & (values < count))
        else:
            values = np.array([*(() if entry.values is None else entry.values), _number(entry.other)])
            goes_left = values <= borders[node]
        default_left[node] = goes_left[-1]
        if is_set[node]:
            table, room = tables[place[nodes.feature[node]]], room - len(goes_left)
            if room < 0:
                raise ValueError(f"its splits name more than {MOST_MEMBERS} categories")
            sets.append(_in_order(entry, goes_left, table))
    is_used = np.where(is_split, place[np.where(is_split, nodes.feature, 0)], -1)
    fields: dict[str, Any] = {
        "n_features": len(sources),
        "feature_names": tuple(sources) if all(entry.is_named for entry in entries) else None,
        "categories": tuple(tables) if any(table is not None for table in tables) else None,
        **_missing(entries, sources),
    }
    if sets:
        offsets, words = pack_sets(sets, default_left[is_set])
        fields |= {"set_offsets": offsets, "set_words": words, "set_others_left": default_left[is_set]}
    return Tests(
        feature=is_used,
        threshold=np.where(is_set, 0.0, less_than(np.where(is_set, 0.0, borders), np.float64)),
        default_left=default_left,
        category_set=np.where(is_set, np.cumsum(is_set) - 1, -1) if sets else None,
        fields=fields,
    )


def _number(other: float | None) -> float:
    return np.nan if other is None else other


def _with_tables(nodes: Nodes, is_nominal: Bools, entries: list[Entry], most: int) -> list[Entry]:
    """Give numbers that are split as categories the table of their codes."""
    counts = np.zeros(len(entries), np.int64)
    np.maximum.at(counts, nodes.feature[is_nominal], nodes.n_categories[is_nominal])
    if counts.max(initial=0) > most:
        raise ValueError(f"a split has {counts.max()} categories, at most {most} are supported")
    result = list(entries)
    for place in np.flatnonzero(counts).tolist():
        if entries[place].labels is None:
            codes = np.arange(counts[place], dtype=np.float64)
            result[place] = replace(entries[place], labels=codes, values=codes)
    return result


def _tables(entries: Sequence[Entry], sources: list[str]) -> list[Array | None]:
    """Categories of each column."""
    found: dict[str, Array | None] = {}
    for entry in entries:
        known = found.setdefault(entry.source, entry.labels)
        if (known is None) != (entry.labels is None):
            name = escapes.shown(entry.source)
            raise NotImplementedError(
                f"the column {name} is split as a number and as a category; this is not supported"
            )
        if known is entry.labels or known is None or entry.labels is None:
            continue
        if set(known.tolist()) != set(entry.labels.tolist()):
            raise NotImplementedError(f"the column {escapes.shown(entry.source)} has two lists of categories")
    return [found[source] for source in sources]


def _in_order(entry: Entry, goes_left: Bools, table: Array | None) -> Bools:
    """Sides of the categories in the order of the column's table."""
    if table is None or entry.labels is None or entry.labels is table:
        return goes_left[:-1]
    place = {label: at for at, label in enumerate(entry.labels.tolist())}
    return goes_left[[place[label] for label in table.tolist()]]


def _missing(entries: Sequence[Entry], sources: list[str]) -> dict[str, Any]:
    """Find the columns that may be missing, or of categories that training lacks: those that no stage refuses then."""
    allowed = dict.fromkeys(sources, True)
    for entry in entries:
        allowed[entry.source] &= entry.other is not None
    if all(allowed.values()):
        return {}
    fields: dict[str, Any] = {"nan_allowed": False}
    return fields | {"nan_allowed_in": np.array(list(allowed.values()))} if any(allowed.values()) else fields
