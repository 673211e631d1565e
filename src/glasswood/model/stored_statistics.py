"""Tables of target statistics in `.glasswood` files: plain values for the header, and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.base.typing import Array
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
    TargetStatistics,
)

PREFIX = "statistics."
NUMBERS = ("prior", "prior_weight", "shift", "scale")


def to_parts(model: TargetStatistics) -> tuple[dict[str, Any], dict[str, Array]]:
    """Divide into plain values and arrays by name."""
    arrays: dict[str, Array] = {}
    for column, hashes in enumerate(model.hashes):
        if hashes is not None:
            arrays[f"{PREFIX}hashes.{column}"] = np.asarray(hashes, np.int64)
    tables = []
    for number, table in enumerate(model.tables):
        arrays[f"{PREFIX}keys.{number}"] = table.keys
        arrays[f"{PREFIX}counts.{number}"] = table.counts
        one = table.projection
        tables.append({
            "categories": list(one.categories),
            "borders": [[column, border.hex()] for column, border in one.borders],
            "equals": [list(pair) for pair in one.equals],
            "denominator": int(table.denominator),
        })  # fmt: skip
    statistics = [
        {"table": one.table, "kind": one.kind, "target_border": one.target_border}
        | {name: float(getattr(one, name)).hex() for name in NUMBERS}
        for one in model.statistics
    ]
    names = None if model.names is None else list(model.names)
    return {"names": names, "nan_above": list(model.nan_above), "tables": tables, "statistics": statistics}, arrays


def from_parts(about: dict[str, Any], arrays: dict[str, Array]) -> TargetStatistics:
    """Put together what `to_parts` divided.

    Raises
    ------
    ValueError, TypeError, KeyError, IndexError
        If it did not.
    """
    nan_above = tuple(bool(value) for value in about["nan_above"])
    hashes = tuple(arrays.get(f"{PREFIX}hashes.{column}") for column in range(len(nan_above)))
    tables = tuple(
        StatisticTable(
            Projection(
                tuple(one["categories"]),
                tuple((column, float.fromhex(border)) for column, border in one["borders"]),
                tuple((column, value) for column, value in one["equals"]),
            ),
            arrays[f"{PREFIX}keys.{number}"],
            arrays[f"{PREFIX}counts.{number}"],
            one["denominator"],
        )
        for number, one in enumerate(about["tables"])
    )
    statistics = tuple(
        Statistic(one["table"], one["kind"], one["target_border"], *(float.fromhex(one[name]) for name in NUMBERS))
        for one in about["statistics"]
    )
    names = None if about["names"] is None else tuple(about["names"])
    model = TargetStatistics(names, hashes, nan_above, tables, statistics)
    _check(model)
    return model


def _check(model: TargetStatistics) -> None:
    """Raise ValueError where parts of a file do not fit together."""
    n_columns = model.n_columns
    if model.names is not None and (len(model.names) != n_columns or not all(isinstance(n, str) for n in model.names)):
        raise ValueError(f"target statistics have {len(model.names)} names for {n_columns} columns")
    if any(hashes is not None and (hashes.ndim != 1 or hashes.dtype != np.int64) for hashes in model.hashes):
        raise ValueError("hashes of categories are not a list of integers")
    for table in model.tables:
        one = table.projection
        hashed = (*one.categories, *(column for column, _ in one.equals))
        of_numbers = tuple(column for column, _ in one.borders)
        if not all(_is_index(column, n_columns) for column in (*hashed, *of_numbers)):
            raise ValueError(f"a table of target statistics combines columns beyond the {n_columns} of the model")
        if any(model.hashes[c] is None for c in hashed) or any(model.hashes[c] is not None for c in of_numbers):
            raise ValueError(
                "a table of target statistics has a number in place of a category, or a category in place of a number"
            )
        if not all(isinstance(value, int) for _, value in one.equals) or not isinstance(table.denominator, int):
            raise ValueError("a table of target statistics holds something other than whole numbers")
        keys, counts = table.keys, table.counts
        if keys.dtype != np.uint64 or keys.ndim != 1 or (keys[1:] <= keys[:-1]).any():
            raise ValueError("the keys of a table of target statistics do not rise")
        if counts.ndim != 2 or len(counts) != len(keys):
            raise ValueError(f"a table of target statistics has counts of shape {counts.shape} for {len(keys)} keys")
    for statistic in model.statistics:
        _check_statistic(statistic, model.tables)


def _check_statistic(one: Statistic, tables: tuple[StatisticTable, ...]) -> None:
    if one.kind not in KINDS or not _is_index(one.table, len(tables)):
        raise ValueError(f"a target statistic is of the kind {quoted(one.kind)} and looks up table {quoted(one.table)}")
    width = tables[one.table].counts.shape[1]
    expected = {MEAN: (2, 2), COUNTER: (1, 1), FREQUENCY: (1, 1)}.get(one.kind, (2, 2**16))
    last = {BORDERS: width - 2, BUCKETS: width - 1}.get(one.kind, 2**31)
    if not expected[0] <= width <= expected[1] or not _is_index(one.target_border, last + 1):
        raise ValueError(f"a target statistic {one.kind} of class {quoted(one.target_border)} looks up {width} counts")


def _is_index(value: object, n: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n
