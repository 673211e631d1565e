"""Categorical splits and category tables of XGBoost documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Bools, Int32s, Int64s
from glasswood.readers.assemble import WORD_BITS
from glasswood.readers.documents import as_array, concatenate, get, get_int, to_int32

CATEGORICAL = 1
MAX_CATEGORIES = 2**24
"""XGBoost itself refuses codes from here on."""
MAX_SET_WORDS = 2**26
INDEX_DTYPES = {9: "i1", 10: "u1", 11: "i2", 12: "u2", 13: "i4", 14: "u4", 15: "i8", 16: "u8"}
"""XGBoost's numbers for the types of category values that are integers."""
FIRST_WHOLE_TEXT = (3, 4)
"""Earlier versions cut category tables of pandas off where their texts are not ASCII."""


def read_sets(trees: Sequence[dict[str, Any]], counts: Int64s) -> tuple[Int32s | None, dict[str, Any]]:
    """Read the category set of each node (None if no split is categorical) and the fields about the sets.

    XGBoost lists the categories that go right; every other number goes left. Documents before 1.3 list none.
    """
    if all("split_type" not in tree for tree in trees):
        return None, {}
    nodes, n_nodes = _ints(trees, "categories_nodes")
    nodes = nodes + np.repeat(np.cumsum(counts) - counts, n_nodes)
    is_categorical = _is_categorical(trees, counts)
    if not np.array_equal(nodes, np.flatnonzero(is_categorical)):
        raise ValueError("'categories_nodes' and 'split_type' name different categorical splits")
    if not len(nodes):
        return None, {}
    offsets, words = _pack(*_members(trees, n_nodes))
    category_set = np.full(int(counts.sum()), -1, np.int32)
    category_set[nodes] = np.arange(len(nodes))
    return category_set, {
        "set_offsets": offsets,
        "set_words": words,
        "set_others_left": np.ones(len(nodes), np.bool_),
    }


def _is_categorical(trees: Sequence[dict[str, Any]], counts: Int64s) -> Bools:
    """Tell which splits are categorical."""
    types, lengths = _ints(trees, "split_type")
    if (wrong := lengths != counts).any():
        at = int(np.argmax(wrong))
        raise ValueError(f"'split_type' of tree {at} has {lengths[at]} entries, expected {counts[at]}")
    return np.equal(types, CATEGORICAL)


def _ints(trees: Sequence[dict[str, Any]], name: str) -> tuple[Int64s, Int64s]:
    values, lengths = concatenate([tree.get(name) for tree in trees], name)
    return to_int32(values, name).astype(np.int64), lengths


def _members(trees: Sequence[dict[str, Any]], n_nodes: Int64s) -> tuple[Int64s, Int64s]:
    """Categories of all sets one after the other, and the number in each set."""
    categories, n_categories = _ints(trees, "categories")
    segments, n_segments = _ints(trees, "categories_segments")
    sizes, n_sizes = _ints(trees, "categories_sizes")
    if (n_segments != n_nodes).any() or (n_sizes != n_nodes).any():
        raise ValueError("'categories_segments' and 'categories_sizes' need an entry for each categorical split")
    available = np.repeat(n_categories, n_nodes)
    if ((segments < 0) | (sizes < 1) | (segments + sizes > available)).any():
        raise ValueError("a categorical split lists categories that 'categories' does not hold")
    # With each category in one set, as XGBoost writes them, the total cannot exceed what the document holds.
    if sizes.sum() > len(categories):
        raise ValueError("'categories_sizes' adds up to more than the entries of 'categories'")
    first = segments + np.repeat(np.cumsum(n_categories) - n_categories, n_nodes)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return categories[np.repeat(first, sizes) + within], sizes


def _pack(categories: Int64s, sizes: Int64s) -> tuple[Int64s, NDArray[np.uint32]]:
    """Bit sets of all categories up to the largest listed one, without those listed."""
    if categories.min() < 0 or categories.max() >= MAX_CATEGORIES:
        raise ValueError(f"'categories' holds {categories.min()} to {categories.max()}, expected 0 to 2^24 - 1")
    largest = np.maximum.reduceat(categories, np.cumsum(sizes) - sizes)
    offsets = np.concatenate([[0], np.cumsum(largest // WORD_BITS + 1)])
    if offsets[-1] > MAX_SET_WORDS:
        raise ValueError(f"its category sets need {offsets[-1]} words, at most {MAX_SET_WORDS} are supported")
    words = np.full(int(offsets[-1]), 0xFFFFFFFF, np.uint32)
    bits = np.left_shift(np.uint32(1), (categories % WORD_BITS).astype(np.uint32))
    np.bitwise_and.at(words, np.repeat(offsets[:-1], sizes) + categories // WORD_BITS, ~bits)
    return offsets, words


def read_tables(cats: Any, n_features: int, version: tuple[int, ...]) -> tuple[Array | None, ...] | None:
    """Category values of each feature, by which XGBoost has recoded DataFrames since 3.1; None if there are none."""
    if not isinstance(cats, dict):
        return None
    encodings = get(cats, "enc", list)
    if not encodings:
        return None
    if len(encodings) != n_features:
        raise ValueError(f"'enc' describes {len(encodings)} features of {n_features}")
    tables = tuple(_table(encoding, at, version) for at, encoding in enumerate(encodings))
    return tables if any(table is not None for table in tables) else None


def _table(encoding: Any, feature: int, version: tuple[int, ...]) -> Array | None:
    """Texts or integers; None for a numerical feature."""
    if not isinstance(encoding, dict):
        raise ValueError(f"the categories of feature {feature} are a {type(encoding).__name__}, expected an object")
    values = as_array(encoding.get("values"), "values")
    if not len(values):
        return None
    if "offsets" in encoding:
        offsets = to_int32(as_array(encoding["offsets"], "offsets"), "offsets")
        return _texts(offsets, to_int32(values, "values"), feature, version)
    kind = get_int(encoding, "type")
    if kind not in INDEX_DTYPES or values.dtype.kind not in "iu":
        raise ValueError(f"the categories of feature {feature} have the unknown type {kind}")
    dtype = np.dtype(INDEX_DTYPES[kind])
    # UBJSON holds unsigned values as signed ones of the same width.
    native = values.astype(values.dtype.newbyteorder("="))
    return native.view(dtype) if dtype.itemsize == native.itemsize else native.astype(dtype)


def _texts(offsets: Int32s, values: Int32s, feature: int, version: tuple[int, ...]) -> NDArray[np.object_]:
    """Texts from the bytes between offsets."""
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
        raise ValueError(f"the category texts of feature {feature} do not lie within their bytes")
    data = (values & 0xFF).astype(np.uint8).tobytes()
    if version < FIRST_WHOLE_TEXT and not data.isascii():
        raise NotImplementedError(
            f"the categories of feature {feature} are not ASCII, and XGBoost {'.'.join(map(str, version))} cuts such "
            "texts off; train with XGBoost 3.4 or later, or with ASCII categories"
        )
    bounds = offsets.tolist()
    texts = [data[start:end].decode() for start, end in pairwise(bounds)]
    return np.array(texts, dtype=object)
