"""Categorical splits of LightGBM, and the category tables of its training DataFrames."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Bools, Int64s
from glasswood.readers.lightgbm.nodes import count_up

if TYPE_CHECKING:
    from glasswood.readers.lightgbm.nodes import Layout
    from glasswood.readers.lightgbm.text import Document

WORD = 2**32


@dataclass(frozen=True, eq=False)
class CategorySets:
    """The sets of all categorical splits.

    Attributes
    ----------
    of_split : (n_splits,) or None
        Index of the split's set, -1 at numerical splits; None if there are none.
    zero_left : (n_splits,)
        Whether category 0 goes left.
    fields : dict
        The sets as fields of TreeEnsemble; the text's bits are the same.
    """

    of_split: Int64s | None
    zero_left: Bools
    fields: dict[str, Array] = field(default_factory=dict)


def category_sets(document: Document, layout: Layout) -> CategorySets:
    """Read ``cat_boundaries`` and ``cat_threshold``.

    Raises
    ------
    ValueError
        If they do not fit together or to the splits; the message names the tree.
    NotImplementedError
        If a feature is split both as category and as number.
    """
    if not layout.is_categorical.any():
        return CategorySets(None, np.zeros(len(layout.kind), np.bool_))
    n_sets = document.tree_integers("num_cat")
    if (n_sets < 0).any():
        raise ValueError(f"tree {np.argmin(n_sets)} declares {n_sets.min()} categorical splits")
    of_split = _set_of_split(layout, n_sets)
    _refuse_mixed_features(document, layout)
    sizes, n_words = _set_sizes(document, layout, n_sets)
    words = document.tree_arrays("cat_threshold", n_words, np.int64)
    word_tree = np.repeat(np.arange(len(n_sets)), n_words)
    layout.refuse((words < 0) | (words >= WORD), "has a cat_threshold that is not a 32-bit word", word_tree)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    fields: dict[str, Array] = {
        "set_offsets": offsets,
        "set_words": words.astype(np.uint32),
        "set_others_left": np.zeros(len(sizes), np.bool_),
    }
    has_zero = sizes > 0
    has_zero[has_zero] = (words[offsets[:-1][has_zero]] & 1).astype(np.bool_)
    return CategorySets(of_split, (of_split >= 0) & has_zero[of_split], fields)


def _refuse_mixed_features(document: Document, layout: Layout) -> None:
    mixed = np.intersect1d(layout.feature[layout.is_categorical], layout.feature[~layout.is_categorical])
    if len(mixed):
        raise NotImplementedError(
            f"feature {document.feature_names[mixed[0]]!r} is split as a category in some trees and as a number in "
            "others; such a model is not supported, train all of it with one setting of categorical_feature"
        )


def _set_of_split(layout: Layout, n_sets: Int64s) -> Int64s:
    """Find each split's set among those of all trees; its threshold is the set's number in its own tree."""
    number, is_set = layout.threshold, layout.is_categorical
    wrong = (number < 0) | (number >= n_sets[layout.split_tree]) | (number != np.floor(number))
    layout.refuse(is_set & wrong, "has a categorical split without its set")
    before = np.cumsum(n_sets) - n_sets
    return np.where(is_set, before[layout.split_tree] + np.where(is_set, number, 0).astype(np.int64), -1)


def _set_sizes(document: Document, layout: Layout, n_sets: Int64s) -> tuple[Int64s, Int64s]:
    """Count the words of each set, and of each tree."""
    n_bounds = np.where(n_sets > 0, n_sets + 1, 0)
    bounds = document.tree_arrays("cat_boundaries", n_bounds, np.int64)
    tree, is_first = np.repeat(np.arange(len(n_sets)), n_bounds), count_up(n_bounds) == 0
    steps = np.diff(bounds, prepend=0)
    wrong = np.where(is_first, bounds != 0, (steps < 0) | (bounds >= WORD))
    layout.refuse(wrong, "has cat_boundaries that do not rise from 0", tree)
    n_words = np.zeros(len(n_sets), np.int64)
    n_words[n_sets > 0] = bounds[np.cumsum(n_bounds)[n_sets > 0] - 1]
    return steps[~is_first], n_words


def category_tables(document: Document, n_features: int) -> dict[str, Any]:
    """Return the tables of categories as fields of TreeEnsemble.

    The text lists the tables in the order of the DataFrame's columns of dtype category but does not say which columns
    those were: neither is `categorical_feature` limited to them, nor must it name them. What the text says of the
    values of each feature rules places out; where it leaves one place for every table, these are theirs. Otherwise the
    tables stay open, until rows tell which of their columns are of dtype category.

    Raises
    ------
    NotImplementedError
        If tables hold values that are neither text nor numbers.
    ValueError
        If they fit nowhere.
    """
    tables = document.pandas_categorical
    if tables is None:
        return {}
    infos = document.header.get("feature_infos", "").split()
    if len(infos) != n_features:
        raise ValueError(f"there are {len(infos)} feature_infos for {n_features} features")
    values = tuple(_values(table) for table in tables)
    bounds = [_codes(info) for info in infos]
    fits = np.array([[_can_be(numbers, len(table)) for numbers in bounds] for table in tables], np.bool_)
    first = _places(fits)
    last = [n_features - 1 - place for place in _places(fits[::-1, ::-1])[::-1]]
    if first != last:
        return {"open_tables": values, "table_places": _reachable(fits, first, last)}
    result: list[Array | None] = [None] * n_features
    for feature, table in zip(first, values, strict=True):
        result[feature] = table
    return {"categories": tuple(result)}


def _codes(info: str) -> list[float]:
    """Codes of a feature that LightGBM was told to be categorical, else its range; none for a constant."""
    try:
        return [float(word) for word in info.strip("[]").split(":")] if info != "none" else []
    except ValueError:
        raise ValueError(f"feature_infos holds {info[:40]!r}, expected codes, a range or 'none'") from None


def _can_be(numbers: list[float], n_categories: int) -> bool:
    """Whether all numbers are codes of a table of `n_categories` categories."""
    return all(-1 <= number < n_categories and number.is_integer() for number in numbers)


def _places(fits: Bools) -> list[int]:
    """Find the first feature that each table fits behind that of the table before it."""
    places, start = [], 0
    for table in fits:
        behind = np.flatnonzero(table[start:])
        if not len(behind):
            raise ValueError("pandas_categorical does not fit the features that feature_infos describes")
        places.append(start + int(behind[0]))
        start = places[-1] + 1
    return places


def _reachable(fits: Bools, first: list[int], last: list[int]) -> Bools:
    """Leave out places before the first and behind the last that leave room for the other tables."""
    features = np.arange(fits.shape[1])
    within: Bools = (features >= np.array(first)[:, None]) & (features <= np.array(last)[:, None])
    return fits & within


def _values(table: list[Any]) -> Array:
    kinds = {type(value) for value in table}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        return np.array(table)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise NotImplementedError(f"pandas_categorical has a table of {names}; text, booleans or numbers are supported")
