"""Rows that ask much of a forest: numbers at, beside and between thresholds, missing ones, categories of all kinds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.sources import BY_VALUE

if TYPE_CHECKING:
    from numpy.random import Generator

    from glasswood.base.typing import Array, Doubles
    from glasswood.model.ensemble import TreeEnsemble

N_ROWS = 64
MOST_NUMBERS = 2**20
"""Most entries of all rows: forests of very many features get fewer rows."""

FEWEST_ROWS = 8
MOST_FEATURES = 2**21
"""Most features of rows that are made: those of more would take hundreds of MB, and libraries copy them."""

MOST_NODES = 2**12
"""Splits whose thresholds are drawn from, so that large forests take no longer."""

SHARE_MISSING, SHARE_UNKNOWN, SHARE_ZERO = 0.1, 0.1, 0.05
UNSEEN = "glasswood: unseen"
LARGEST = {"float32": 1e37, "float64": 1e300}
"""Largest magnitude of a number: libraries refuse infinity, and some what rounds to it."""


def made_rows(forest: TreeEnsemble) -> Doubles:
    """Make rows of the features of a forest's trees, the same ones each time.

    Returns
    -------
    float64, (n, n_features)
        Numbers of the row type, categories as codes; NaN where missing, if the forest takes it.

    Notes
    -----
    O(n × n_features), and of `MOST_NODES` splits.
    """
    rng = np.random.default_rng(0)
    n = int(np.clip(MOST_NUMBERS // max(forest.n_features, 1), FEWEST_ROWS, N_ROWS))
    rows = np.zeros((n, forest.n_features))
    splits = np.flatnonzero(forest.feature >= 0)
    if len(splits) > MOST_NODES:
        splits = rng.choice(splits, MOST_NODES, replace=False)
    is_set = forest.category_set[splits] >= 0 if forest.is_categorical else np.zeros(len(splits), np.bool_)
    _draw_numbers(rows, forest, splits[~is_set], rng)
    for feature in np.unique(forest.feature[splits[is_set]]):
        codes = _most_codes(forest, int(feature))
        rows[:, feature] = rng.integers(0, codes, n)
        rows[rng.random(n) < SHARE_UNKNOWN, feature] = codes
    for feature in np.unique(forest.linear_feature):
        # what equations multiply should be of the size of thresholds, or near 1
        if not rows[:, feature].any():
            rows[:, feature] = np.round(rng.normal(size=n), 3)
    rows[rng.random(rows.shape) < SHARE_ZERO] = 0.0
    if forest.nan_allowed:
        is_missing = rng.random(rows.shape) < SHARE_MISSING
        rows[is_missing] = np.nan
        if forest.missing == forest.missing:  # a marker beside NaN
            rows[is_missing & (rng.random(rows.shape) < 0.5)] = forest.missing
    return rows


def _draw_numbers(rows: Doubles, forest: TreeEnsemble, splits: Array, rng: Generator) -> None:
    """Draw each feature's numbers from what lies at, before and behind its thresholds."""
    dtype = forest.threshold.dtype
    threshold, feature = forest.threshold[splits], forest.feature[splits]
    is_usual = np.abs(threshold) < LARGEST[dtype.name]
    threshold, feature = threshold[is_usual], feature[is_usual]
    order = np.lexsort((threshold, feature))
    threshold, feature = threshold[order], feature[order]
    if not len(threshold):
        return
    following = np.append(threshold[1:], threshold[-1:])
    is_last = np.append(feature[1:] != feature[:-1], True)
    step = np.maximum(np.abs(threshold) / 2, dtype.type(1))
    between = np.where(is_last, threshold + step, threshold / 2 + following / 2)
    below = np.nextafter(threshold, dtype.type(-np.inf))
    pool = np.stack([threshold, below, between.astype(dtype)], axis=1).ravel().astype(np.float64)
    used, first, count = np.unique(feature, return_index=True, return_counts=True)
    place = 3 * first + np.floor(rng.random((len(rows), len(used))) * 3 * count).astype(np.int64)
    rows[:, used] = pool[place]


def _most_codes(forest: TreeEnsemble, feature: int) -> int:
    """Count the codes of a feature that a set or the table knows; the next one is unknown."""
    if forest.categories is not None and (table := forest.categories[feature]) is not None:
        return max(len(table), 1)
    sets = forest.category_set[forest.feature == feature]
    last = forest.set_offsets[sets[sets >= 0] + 1] - forest.set_offsets[sets[sets >= 0]]
    return max(32 * int(last.max(initial=1)), 1)


def shaped(numbers: Doubles, forest: TreeEnsemble, takes_unknown: bool = True) -> Any:
    """Make of the numbers rows of the kind that the model was trained with: a frame where it knows names or categories.

    Parameters
    ----------
    numbers : (n, n_features)
        Of `made_rows`.
    forest : TreeEnsemble
    takes_unknown : bool
        Whether the library takes categories that training did not know; they are missing otherwise.
    """
    tables = forest.categories
    rows = numbers.astype(forest.threshold.dtype)
    if forest.open_tables:
        return rows  # arrays of codes, which do not depend on tables
    if tables is None:
        return _named(rows, forest)
    by_value = forest.source.lower().startswith(BY_VALUE)
    if by_value and forest.feature_names is None and all(t is None or t.dtype.kind in "biuf" for t in tables):
        for feature, table in enumerate(tables):
            if table is not None:
                known = np.append(np.asarray(table, np.float64), np.max(table, initial=0) + 1)
                rows[:, feature] = _taken(known, numbers[:, feature], np.nan)
        return rows
    import pandas

    names = forest.feature_names or tuple(f"x{i}" for i in range(forest.n_features))
    columns = {}
    for feature, (name, table) in enumerate(zip(names, tables, strict=True)):
        if table is None:
            columns[name] = rows[:, feature]
        else:
            columns[name] = _category_column(numbers[:, feature], table, takes_unknown)
    return pandas.DataFrame(columns)


def _category_column(codes: Doubles, table: Array, takes_unknown: bool) -> Any:
    import pandas

    # Beside a number, pandas before 3 makes numbers of truth values, which categories of these do not know.
    known: Any = pandas.Index(table, dtype=object if table.dtype.kind == "b" else None)
    if takes_unknown:
        is_text = any(isinstance(value, str) for value in table.tolist())
        known = known.append(pandas.Index([UNSEEN if is_text else max(table.tolist(), default=0) + 1]))
    places = np.where(np.isnan(codes) | (codes >= len(known)) | (codes < 0), -1, codes).astype(np.int64)
    return pandas.Categorical.from_codes(places, known)


def _taken(known: Array, codes: Doubles, missing: Any) -> Array:
    places = np.where(np.isnan(codes) | (codes < 0), 0, np.minimum(codes, len(known) - 1)).astype(np.int64)
    return np.where(np.isnan(codes), missing, known[places])


def _named(rows: Array, forest: TreeEnsemble) -> Any:
    """Name the columns as training did, which then has loaded pandas or another library of frames."""
    pandas = sys.modules.get("pandas")
    if forest.feature_names is None or pandas is None:
        return rows
    return pandas.DataFrame(rows, columns=list(forest.feature_names))
