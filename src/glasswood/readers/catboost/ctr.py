"""Target statistics in CatBoost's two documents."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.model.target_statistics import (
    BORDERS,
    BUCKETS,
    COUNTER,
    FREQUENCY,
    KINDS,
    MEAN,
    Projection,
    Statistic,
    StatisticTable,
)
from glasswood.readers.catboost.model import CtrFeature
from glasswood.readers.documents import as_array, get, get_int, to_float32
from glasswood.readers.flatbuffer import UINT32, FlatTable

if TYPE_CHECKING:
    from glasswood.readers.catboost.model import CategoryFeature, NumberFeature

KIND_NUMBERS = (BORDERS, BUCKETS, MEAN, "FloatTargetMeanValue", COUNTER, FREQUENCY)
EMPTY = 2**64 - 1
"""Key of the unused places of a hash table."""
BUCKET = np.dtype([("key", "<u8"), ("place", "<u4")])
MEAN_ENTRY = np.dtype([("sum", "<f4"), ("count", "<i4")])
BORDER_ENTRY, EQUAL_ENTRY = np.dtype([("index", "<i4"), ("border", "<f4")]), np.dtype(("<i4", (2,)))


class Fields:
    """Field numbers of the FlatBuffers."""

    CTR, BORDERS = 0, 1
    BASE, TARGET_BORDER, PRIOR, PRIOR_WEIGHT, SHIFT, SCALE = range(6)
    COMBINATION, KIND = 0, 1
    CATEGORIES, FLOAT_SPLITS, EQUALITIES = 0, 1, 2
    TABLE_BASE, INDEX, BLOB, DENOMINATOR, N_CLASSES = range(5)


def _kind(name: str) -> str:
    if name not in KINDS:
        raise NotImplementedError(f"target statistics of the kind {name!r} are not supported, {', '.join(KINDS)} are")
    return name


def _column(features: Sequence[NumberFeature | CategoryFeature], index: int) -> int:
    if not 0 <= index < len(features):
        raise ValueError(f"a target statistic combines feature {index} of {len(features)}")
    return features[index].column


# --- JSON ---


def read_json(
    document: dict[str, Any],
    ctrs: list[dict[str, Any]],
    numbers: list[NumberFeature],
    categories: list[CategoryFeature],
) -> tuple[list[CtrFeature], list[StatisticTable]]:
    """Read ``features_info.ctrs`` and ``ctr_data``.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    data = get(document, "ctr_data", dict)
    places: dict[str, int] = {}
    features: list[CtrFeature] = []
    tables: list[StatisticTable] = []
    for ctr in ctrs:
        identifier, kind = get(ctr, "identifier", str), _kind(get(ctr, "ctr_type", str))
        if identifier not in places:
            places[identifier] = len(tables)
            projection = _json_projection(get(ctr, "elements", list), numbers, categories)
            tables.append(_json_table(get(data, identifier, dict), projection, kind))
        statistic = Statistic(
            table=places[identifier],
            kind=kind,
            target_border=get_int(ctr, "target_border_idx", 0),
            prior=_number(ctr, "prior_numerator"),
            prior_weight=_number(ctr, "prior_denomerator"),
            shift=_number(ctr, "shift"),
            scale=_number(ctr, "scale"),
        )
        features.append(CtrFeature(statistic, to_float32(as_array(ctr.get("borders"), "borders"))))
    return features, tables


def _number(parent: dict[str, Any], key: str) -> float:
    value = parent.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key!r} is {value!r}, expected a number")
    return float(value)


def _json_projection(
    elements: list[Any], numbers: list[NumberFeature], categories: list[CategoryFeature]
) -> Projection:
    hashed, borders, equals = [], [], []
    for element in elements:
        if not isinstance(element, dict):
            raise ValueError("'elements' holds something other than objects")
        kind = get(element, "combination_element", str)
        if kind == "cat_feature_value":
            hashed.append(_column(categories, get_int(element, "cat_feature_index")))
        elif kind == "float_feature":
            border = float(to_float32(np.array([_number(element, "border")]))[0])
            borders.append((_column(numbers, get_int(element, "float_feature_index")), border))
        elif kind == "cat_feature_exact_value":
            column = _column(categories, get_int(element, "cat_feature_index"))
            equals.append((column, get_int(element, "value")))
        else:
            raise NotImplementedError(f"target statistics of {kind!r} are not supported")
    return Projection(tuple(hashed), tuple(borders), tuple(equals))


def _json_table(data: dict[str, Any], projection: Projection, kind: str) -> StatisticTable:
    stride, entries = get_int(data, "hash_stride"), get(data, "hash_map", list)
    if stride < 2 or len(entries) % stride:
        raise ValueError(f"'hash_map' has {len(entries)} entries, not a multiple of its stride {stride}")
    keys = np.array([_key(entry) for entry in entries[::stride]], np.uint64)
    columns = [as_array(entries[i::stride], "hash_map") for i in range(1, stride)]
    counts = np.column_stack(columns) if len(keys) else np.zeros((0, stride - 1))
    return make_table(projection, kind, keys, counts, get_int(data, "counter_denominator", 0))


def _key(entry: Any) -> int:
    if not isinstance(entry, str | int) or isinstance(entry, bool) or not 0 <= int(entry) <= EMPTY:
        raise ValueError(f"'hash_map' holds the key {entry!r}, expected a number of 64 bits")
    return int(entry)


def make_table(projection: Projection, kind: str, keys: Any, counts: Any, denominator: int) -> StatisticTable:
    """Sort the entries of a table, without the places that are not used.

    Raises
    ------
    ValueError
        If a key is there twice, or the table has other columns than its kind.
    """
    width = counts.shape[1]
    expected = {MEAN: (2, 2), COUNTER: (1, 1), FREQUENCY: (1, 1)}.get(kind, (2, 2**16))
    if not expected[0] <= width <= expected[1]:
        raise ValueError(f"a table of the kind {kind} has {width} counts an entry")
    kept = keys != np.uint64(EMPTY)
    keys, counts = keys[kept], counts[kept]
    order = np.argsort(keys, kind="stable")
    if (keys[order][1:] == keys[order][:-1]).any():
        raise ValueError("a table of target statistics has a key twice")
    if not np.isfinite(counts).all():
        raise ValueError("a table of target statistics holds no numbers")
    return StatisticTable(projection, keys[order], counts[order], denominator)


# --- .cbm ---


def read_cbm(
    trees: Sequence[FlatTable], rest: bytes, numbers: list[NumberFeature], categories: list[CategoryFeature]
) -> tuple[list[CtrFeature], list[StatisticTable]]:
    """Read the statistics of the FlatBuffer, and the tables behind it."""
    tables: list[StatisticTable] = []
    places: dict[tuple[Projection, str], int] = {}
    for buffer in _parts(rest):
        base = _required(buffer.table(Fields.TABLE_BASE))
        key = _base(base, numbers, categories)
        places[key] = len(tables)
        tables.append(_cbm_table(buffer, *key))
    features = []
    for feature in trees:
        ctr = _required(feature.table(Fields.CTR))
        key = _base(_required(ctr.table(Fields.BASE)), numbers, categories)
        if key not in places:
            raise ValueError(f"it holds no table for the target statistic {key[1]} of {key[0].columns}")
        statistic = Statistic(
            table=places[key],
            kind=key[1],
            target_border=ctr.integer(Fields.TARGET_BORDER, "i", 0),
            prior=_single(ctr, Fields.PRIOR),
            prior_weight=_single(ctr, Fields.PRIOR_WEIGHT, 1.0),
            shift=_single(ctr, Fields.SHIFT),
            scale=_single(ctr, Fields.SCALE, 1.0),
        )
        features.append(CtrFeature(statistic, feature.array(Fields.BORDERS, "<f4")))
    return features, tables


def _required(table: FlatTable | None) -> FlatTable:
    if table is None:
        raise ValueError("a target statistic lacks its description")
    return table


def _single(table: FlatTable, field: int, default: float = 0.0) -> float:
    """Read a float32 by the bits of an integer."""
    bits = table.integer(field, "I", int(struct.unpack("<I", struct.pack("<f", default))[0]))
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _base(base: FlatTable, numbers: list[NumberFeature], categories: list[CategoryFeature]) -> tuple[Projection, str]:
    kind = base.integer(Fields.KIND, "b", 0)
    name = _kind(KIND_NUMBERS[kind] if 0 <= kind < len(KIND_NUMBERS) else str(kind))
    combination = _required(base.table(Fields.COMBINATION))
    splits = combination.array(Fields.FLOAT_SPLITS, BORDER_ENTRY)
    equals = combination.array(Fields.EQUALITIES, EQUAL_ENTRY).reshape(-1, 2)
    projection = Projection(
        tuple(_column(categories, int(index)) for index in combination.array(Fields.CATEGORIES, "<i4")),
        tuple((_column(numbers, int(one["index"])), float(one["border"])) for one in splits),
        tuple((_column(categories, int(index)), int(value)) for index, value in equals.tolist()),
    )
    return projection, name


def _parts(rest: bytes) -> list[FlatTable]:
    """Divide what follows the core: a count, then tables, each behind its size."""
    if len(rest) < UINT32.size:
        raise ValueError("it ends before its tables of target statistics")
    (count,), at = UINT32.unpack_from(rest), UINT32.size
    parts: list[FlatTable] = []
    for _ in range(count):
        if len(rest) < at + UINT32.size:
            raise ValueError(f"it announces {count} tables of target statistics and holds {len(parts)}")
        (size,) = UINT32.unpack_from(rest, at)
        at += UINT32.size
        if len(rest) < at + size:
            raise ValueError(f"a table of target statistics announces {size} bytes, {len(rest) - at} follow")
        parts.append(FlatTable.root(rest[at : at + size]))
        at += size
    return parts


def _cbm_table(buffer: FlatTable, projection: Projection, kind: str) -> StatisticTable:
    index, blob = buffer.array(Fields.INDEX, "u1"), buffer.array(Fields.BLOB, "u1")
    if len(index) % BUCKET.itemsize:
        raise ValueError(f"an index of target statistics has {len(index)} bytes, not a whole number of entries")
    buckets = np.frombuffer(index.tobytes(), BUCKET)
    buckets = buckets[buckets["key"] != EMPTY]
    if kind == MEAN:
        entries = _entries(blob, MEAN_ENTRY)
        with np.errstate(invalid="ignore"):  # signalling NaN, which make_table refuses
            counts = np.column_stack([entries["sum"], entries["count"]])
    else:
        width = 1 if kind in {COUNTER, FREQUENCY} else buffer.integer(Fields.N_CLASSES, "i", 0)
        if not 1 <= width <= 2**16:
            raise ValueError(f"a table of target statistics has {width} classes")
        counts = _entries(blob, np.dtype(("<i4", (width,)))).astype(np.int64).reshape(-1, width)
    if len(buckets) and buckets["place"].max() >= len(counts):
        raise ValueError(f"an index of target statistics names entry {buckets['place'].max()} of {len(counts)}")
    return make_table(
        projection, kind, buckets["key"], counts[buckets["place"]], buffer.integer(Fields.DENOMINATOR, "i", 0)
    )


def _entries(blob: Any, dtype: np.dtype[Any]) -> Any:
    if len(blob) % dtype.itemsize:
        raise ValueError(f"target statistics have {len(blob)} bytes, not a whole number of entries of {dtype.itemsize}")
    return np.frombuffer(blob.tobytes(), dtype)
