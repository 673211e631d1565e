"""Categorical splits of LightGBM, and the category tables of its training DataFrames."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.readers.lightgbm.nodes import count_up

if TYPE_CHECKING:
    from glasswood.base.typing import Array, Bools, Doubles, Int64s
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


def category_tables(document: Document, n_features: int) -> tuple[Array | None, ...] | None:
    """Return the category values of each feature, None where it has no table.

    The text lists the tables in the order of the DataFrame's categorical columns but does not say which columns those
    were: categorical features, whose information lists codes, are; ordered categoricals look like integers.

    Raises
    ------
    NotImplementedError
        If the tables fit several columns equally well, or hold values that are neither text nor numbers.
    ValueError
        If they fit nowhere.
    """
    tables = document.pandas_categorical
    if tables is None:
        return None
    infos = document.header.get("feature_infos", "").split()
    if len(infos) != n_features:
        raise ValueError(f"there are {len(infos)} feature_infos for {n_features} features")
    lengths = [len(table) for table in tables]
    fits = np.array([[_fit(info, length) for info in infos] for length in lengths])
    result: list[Array | None] = [None] * n_features
    for feature, table in zip(_best_places(fits), tables, strict=True):
        result[feature] = _values(table)
    return tuple(result)


def _fit(info: str, n_categories: int) -> float:
    """Say how well a table suits a feature: 1 if the feature is categorical, 0 if it could be, -inf if it cannot."""
    is_range = info.startswith("[")
    try:
        bounds = [float(word) for word in info.strip("[]").split(":")] if info != "none" else []
    except ValueError:
        raise ValueError(f"feature_infos holds {info[:40]!r}, expected codes, a range or 'none'") from None
    if any(not (-1 <= bound < n_categories and bound.is_integer()) for bound in bounds):
        return -np.inf
    return 0.0 if is_range or not bounds else 1.0


def _best_places(fits: Doubles) -> list[int]:
    """Choose a feature for each table, in their order, so that all suit best: dynamic programming over both."""
    n_tables, n_features = fits.shape
    best = np.full((n_tables + 1, n_features + 1), -np.inf)
    ways = np.zeros((n_tables + 1, n_features + 1))
    best[0], ways[0] = 0, 1
    for table in range(n_tables):
        for feature in range(n_features):
            options = best[table + 1, feature], best[table, feature] + fits[table, feature]
            counts = ways[table + 1, feature], ways[table, feature]
            best[table + 1, feature + 1] = max(options)
            ways[table + 1, feature + 1] = sum(
                n for n, value in zip(counts, options, strict=True) if value == max(options)
            )
    if best[-1, -1] == -np.inf:
        raise ValueError("pandas_categorical does not fit the features that feature_infos describes")
    if ways[-1, -1] > 1:
        raise NotImplementedError(
            "LightGBM does not record which columns its pandas_categorical tables belong to, and here several would "
            "do; train on codes instead of ordered categoricals"
        )
    return _places(best)


def _places(best: Doubles) -> list[int]:
    """Walk back through the table of the best choices."""
    places, feature = [], best.shape[1] - 1
    for table in range(best.shape[0] - 1, 0, -1):
        while best[table, feature] == best[table, feature - 1]:
            feature -= 1
        feature -= 1
        places.append(feature)
    return places[::-1]


def _values(table: list[Any]) -> Array:
    kinds = {type(value) for value in table}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        return np.array(table)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise NotImplementedError(f"pandas_categorical has a table of {names}; text, booleans or numbers are supported")
