"""CatBoost's own file format: a FlatBuffer behind eight bytes, and data of target statistics behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.readers.catboost.ctr import read_cbm
from glasswood.readers.catboost.model import (
    MAX_OUTPUTS,
    CategoryFeature,
    Model,
    NumberFeature,
    StepTrees,
    refuse_estimated,
)
from glasswood.readers.flatbuffer import UINT32, FlatTable

MAGIC = b"CBM1"
FORMAT = "FlabuffersModel_v1"
NAN_AS_TRUE = 2


class Core:
    """Field numbers of the FlatBuffer's root."""

    FORMAT, TREES, INFO = 0, 1, 2


class Trees:
    """Field numbers of the trees."""

    N_OUTPUTS, SPLITS, SIZES = 0, 1, 2
    CATEGORIES, NUMBERS, ONE_HOT, CTR = 4, 5, 6, 7
    LEAF_VALUE, LEAF_WEIGHT, STEP, LEAF = 8, 9, 10, 11
    TEXT, ESTIMATED = 12, 13
    SCALE, BIAS, BIASES = 14, 15, 16
    EMBEDDING = 18


class Feature:
    """Field numbers of features: numerical ones, categorical ones, tests of categories."""

    HAS_NAN, NUMBER_COLUMN, BORDERS, NUMBER_NAME, NAN = 0, 2, 3, 4, 5
    CATEGORY, CATEGORY_COLUMN, CATEGORY_NAME = 0, 1, 2
    TESTED, HASHES = 0, 1


REFUSED = {
    Trees.TEXT: "text",
    Trees.EMBEDDING: "embeddings",
    Trees.ESTIMATED: "text or embeddings",
}


def parse_cbm(data: bytes) -> Model:
    """Read the bytes of a .cbm file.

    Raises
    ------
    ValueError
        If they are truncated or no model of CatBoost.
    NotImplementedError
        If trees test computed features.
    """
    core = FlatTable.root(_core_bytes(data))
    if (found := core.text(Core.FORMAT)) != FORMAT:
        raise ValueError(f"its format is {found!r}, expected {FORMAT!r}")
    trees = core.table(Core.TREES)
    if trees is None:
        raise ValueError("it holds no trees")
    for field, what in REFUSED.items():
        if trees.tables(field):
            refuse_estimated(what)
    n_outputs = trees.integer(Trees.N_OUTPUTS, "i", 0)
    if not 1 <= n_outputs <= MAX_OUTPUTS:
        raise ValueError(f"it declares {n_outputs} outputs")
    numbers, categories = _numbers(trees, len(data)), _categories(trees, len(data))
    described = trees.tables(Trees.CTR)
    ctrs, tables = read_cbm(described, _behind_core(data), numbers, categories) if described else ([], [])
    check_shared([ctr.borders for ctr in ctrs], len(data))
    return Model(
        numbers=numbers,
        categories=categories,
        ctrs=ctrs,
        tables=tables,
        n_outputs=n_outputs,
        sizes=trees.array(Trees.SIZES, "<i4").astype(np.int64),
        splits=trees.array(Trees.SPLITS, "<i4").astype(np.int64),
        leaf_value=trees.array(Trees.LEAF_VALUE, "<f8"),
        leaf_weight=trees.array(Trees.LEAF_WEIGHT, "<f8"),
        steps=_steps(trees),
        scale=trees.number(Trees.SCALE, 1.0),
        bias=_bias(trees, n_outputs),
        info={entry.text(0): entry.text(1) for entry in core.tables(Core.INFO)},
    )


def _core_bytes(data: bytes) -> bytes:
    """Cut out the FlatBuffer."""
    start = len(MAGIC) + UINT32.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise ValueError(f"it starts with {data[:4]!r}, expected {MAGIC!r}")
    size = UINT32.unpack_from(data, len(MAGIC))[0]
    if len(data) < start + size:
        raise ValueError(f"it announces {size} bytes and holds {len(data) - start}")
    return data[start : start + size]


def _behind_core(data: bytes) -> bytes:
    return data[len(MAGIC) + UINT32.size + UINT32.unpack_from(data, len(MAGIC))[0] :]


def _numbers(trees: FlatTable, n_bytes: int) -> list[NumberFeature]:
    features = [
        NumberFeature(
            column=feature.integer(Feature.NUMBER_COLUMN, "i", -1),
            name=feature.text(Feature.NUMBER_NAME),
            borders=feature.array(Feature.BORDERS, "<f4"),
            nan_is_right=bool(feature.integer(Feature.HAS_NAN, "B", 0))
            and feature.integer(Feature.NAN, "b", 0) == NAN_AS_TRUE,
        )
        for feature in trees.tables(Trees.NUMBERS)
    ]
    check_shared([feature.borders for feature in features], n_bytes)
    return features


def _categories(trees: FlatTable, n_bytes: int) -> list[CategoryFeature]:
    tested = [(table.integer(Feature.TESTED, "i", -1), table) for table in trees.tables(Trees.ONE_HOT)]
    hashes = {index: table.array(Feature.HASHES, "<i4") for index, table in tested}
    check_shared(list(hashes.values()), n_bytes)
    tables = [(table.integer(Feature.CATEGORY, "i", -1), table) for table in trees.tables(Trees.CATEGORIES)]
    known = [index for index, _ in tables]
    # Tests are numbered in the order of these tables, which is that of the features.
    if [index for index, _ in tested] != [index for index in known if index in hashes] or len(tested) > len(hashes):
        raise ValueError("its categorical features and the tests of categories do not fit together")
    return [
        CategoryFeature(
            column=table.integer(Feature.CATEGORY_COLUMN, "i", -1),
            name=table.text(Feature.CATEGORY_NAME),
            hashes=hashes.get(index, np.zeros(0, np.int32)),
        )
        for index, table in tables
    ]


def check_shared(arrays: Sequence[Array], n_bytes: int) -> None:
    """Refuse tables that all point to the same long vector: together they would take more memory than the file."""
    if sum(array.nbytes for array in arrays) > n_bytes:
        raise ValueError("its features share their borders or categories")


def _steps(trees: FlatTable) -> StepTrees | None:
    step = trees.array(Trees.STEP, np.dtype(("<u2", (2,))))
    if not len(step):
        return None
    return StepTrees(step.reshape(-1, 2).astype(np.int64), trees.array(Trees.LEAF, "<u4").astype(np.int64))


def _bias(trees: FlatTable, n_outputs: int) -> Doubles:
    """Read the bias of each output; documents before 0.25 have one number."""
    biases = trees.array(Trees.BIASES, "<f8")
    if not len(biases):
        return np.full(n_outputs, trees.number(Trees.BIAS, 0.0))
    return biases
