"""Tables of categories whose columns a model's file leaves open: the columns of rows tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.typing import Array
from glasswood.base.wording import spelled
from glasswood.inputs.matching import listed
from glasswood.model.ensemble import OF_NUMBERS, TreeEnsemble
from glasswood.model.facts import feature_names

ADVICE = "pass a frame whose columns have the dtypes of training, or use forest.with_categories(X) with such a frame"


def with_named_tables(names: Sequence[str], forest: TreeEnsemble) -> TreeEnsemble:
    """Give open tables to features by their names, in the order of the model's columns.

    Raises
    ------
    ValueError
        If a name is unknown, or as `tables_at`.
    """
    if not forest.open_tables:
        return forest
    known = list(feature_names(forest))
    names = spelled(names, known)
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no feature is called {shown(repr(unknown[0]))}; expected one of {listed(known)}")
    return with_tables_at(sorted({known.index(name) for name in names}), forest)


def refuse_open_tables(forest: TreeEnsemble, what: str) -> None:
    """Raise ValueError where a feature's values depend on tables whose columns nothing has told yet."""
    if forest.open_tables:
        raise ValueError(
            f"{what} needs the categories of each feature: {open_tables_text(forest)}; use forest.with_categories(X) "
            "with a frame X that has the dtypes of training, or its columns of dtype category by name"
        )


def with_tables_at(places: list[int], forest: TreeEnsemble) -> TreeEnsemble:
    """Make a forest whose tables are no longer open."""
    return dataclasses.replace(
        forest, categories=tables_at(places, forest), open_tables=(), table_places=np.zeros((0, 0), np.bool_)
    )


def tables_at(places: Sequence[int], forest: TreeEnsemble) -> tuple[Array | None, ...]:
    """Give the open tables to features in their order, as LightGBM does to a frame's columns of dtype category.

    Raises
    ------
    ValueError
        If there are more or fewer features than tables, or one held other values in training.
    """
    tables, names = forest.open_tables, feature_names(forest)
    if len(places) != len(tables):
        found = f" ({listed(names[i] for i in places)})" if places else ""
        raise ValueError(
            f"X has {len(places)} columns of categories{found}, the model was trained on {len(tables)}: "
            f"{open_tables_text(forest)}; {ADVICE}"
        )
    result: list[Array | None] = [None] * forest.n_features
    for number, feature in enumerate(places):
        if not forest.table_places[number, feature]:
            raise ValueError(
                f"column {shown(repr(names[feature]))} of X holds categories, and in training it held values that are "
                f"no codes of the model's table {number}, {_listed_values(tables[number])}; {ADVICE}"
            )
        result[feature] = tables[number]
    return tuple(result)


def open_tables_text(forest: TreeEnsemble) -> str:
    """Say which columns the open tables may belong to."""
    names = feature_names(forest)
    could = listed(names[i] for i in np.flatnonzero(forest.table_places.any(axis=0)))
    return f"LightGBM does not record which columns its tables of categories belong to, and {could} would do"


def _listed_values(table: Array) -> str:
    return shown(listed(table.tolist()))


def with_sets(forest: TreeEnsemble) -> TreeEnsemble:
    """Let splits that compare the codes of a feature's categories with a threshold name the categories instead.

    LightGBM splits ordered categories so, and those that `categorical_feature` leaves out. Every row of categories
    reaches the same leaf; what shows the forest, or computes with values in place of codes, then shows categories.

    Raises
    ------
    NotImplementedError
        If an equation multiplies codes of categories.
    """
    if forest.categories is None or forest.category_hash:
        return forest
    has_table = np.array([table is not None for table in forest.categories])
    in_equation = has_table[forest.linear_feature] & np.isin(forest.linear_category, OF_NUMBERS)
    if in_equation.any():
        name = feature_names(forest)[int(forest.linear_feature[np.argmax(in_equation)])]
        raise NotImplementedError(
            f"equations of this model multiply the codes of the categories of {shown(repr(name))}, which have no "
            "meaning as numbers; predict with glasswood"
        )
    own = forest.category_set if forest.is_categorical else np.full(forest.n_nodes, -1, np.int32)
    nodes = np.flatnonzero((forest.feature >= 0) & (own < 0) & has_table[forest.feature])
    if not len(nodes):
        return forest
    sets, zero_missing = own.copy(), forest.zero_missing.copy()
    words = [forest.set_words]
    sizes = [np.diff(forest.set_offsets)]
    sets[nodes] = len(forest.set_others_left) + np.arange(len(nodes))
    for node in nodes:
        feature = int(forest.feature[node])
        codes = np.arange(len(cast("Array", forest.categories[feature])), dtype=forest.threshold.dtype)
        is_left = (codes < forest.threshold[node]) | np.isinf(forest.threshold[node])
        if len(forest.zero_missing) and forest.zero_missing[feature]:
            is_left[:1], zero_missing[feature] = forest.default_left[node], False
        bits = np.zeros(-(-len(codes) // 32) * 32, np.uint8)
        bits[: len(codes)] = is_left
        words.append(np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32))
        sizes.append(np.array([len(words[-1])]))
    threshold = forest.threshold.copy()
    threshold[nodes] = 0
    return dataclasses.replace(
        forest,
        threshold=threshold,
        category_set=sets.astype(np.int32),
        set_words=np.concatenate(words),
        set_offsets=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64),
        set_others_left=np.concatenate([forest.set_others_left, np.zeros(len(nodes), np.bool_)]),
        zero_missing=zero_missing,
    )
