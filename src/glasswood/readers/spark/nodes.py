"""Nodes of Spark's trees, from Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasswood.base.extras import import_extra
from glasswood.base.typing import Array, Doubles, Int64s

MOST_EXPANSION, LEAST_ROOM = 2**8, 2**22
"""Limits of a decompressed file in bytes: a factor of the file's size, and a minimum."""

MOST_ROW_GROUPS = 2**16

MOST_BYTES = 2**24
"""Bytes of the labels or categories of a stage."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, tree after tree, each tree's by their ids.

    Attributes
    ----------
    tree, id, left, right : (n_nodes,)
        A leaf's children are -1.
    prediction : (n_nodes,)
    statistics, n_statistics : (sum of the counts,), (n_nodes,)
        What training saw at each node, behind each other, and how many numbers of each: the weight of each class or,
        of regressions, weight, sum and sum of squares of the targets.
    feature, n_categories : (n_nodes,)
        Feature and number of categories of the split; -1 if it has no categories.
    sides, n_sides : (sum of the counts,), (n_nodes,)
        The threshold, or the categories that go left, behind each other, and how many of each node.
    """

    tree: Int64s
    id: Int64s
    left: Int64s
    right: Int64s
    prediction: Doubles
    statistics: Doubles
    n_statistics: Int64s
    feature: Int64s
    n_categories: Int64s
    sides: Doubles
    n_sides: Int64s


def read_nodes(folder: Path, is_single: bool) -> Nodes:
    """Read the files of a folder; trees of an ensemble stand in a column ``nodeData``.

    Raises
    ------
    ValueError
        If they are not Parquet files, or hold other columns.
    """
    table = _read_table(folder)
    tree = np.zeros(len(table), np.int64) if is_single else _numbers(table, "treeID", "i")
    order = np.lexsort([_numbers(table if is_single else _members(table, "nodeData"), "id", "i"), tree])
    table = (table if is_single else _members(table, "nodeData")).take(order)
    split = _members(table, "split")
    statistics, n_statistics = _lists(table, "impurityStats")
    sides, n_sides = _lists(split, "leftCategoriesOrThreshold")
    return Nodes(
        tree=tree[order],
        id=_numbers(table, "id", "i"),
        left=_numbers(table, "leftChild", "i"),
        right=_numbers(table, "rightChild", "i"),
        prediction=_numbers(table, "prediction", "f"),
        statistics=statistics,
        n_statistics=n_statistics,
        feature=_numbers(split, "featureIndex", "i"),
        n_categories=_numbers(split, "numCategories", "i"),
        sides=sides,
        n_sides=n_sides,
    )


def read_weights(folder: Path) -> Doubles:
    """Read the weights of the trees of an ensemble, in their order.

    Raises
    ------
    ValueError
        As `read_nodes`.
    """
    table = _read_table(folder)
    tree, weight = ("treeID", "weights") if "treeID" in table.column_names else ("_1", "_3")  # up to 4.0, since 4.1
    order = np.argsort(_numbers(table, tree, "i"), kind="stable")
    return _numbers(table, weight, "f")[order]


def read_columns(folder: Path) -> dict[str, list[Any]]:
    """Read the columns of a stage's files, whose few rows may hold lists and maps.

    Raises
    ------
    ValueError
        If they are not Parquet files, have no rows, or more entries than a stage has.
    """
    table = _read_table(folder)
    if not len(table) or table.nbytes > MOST_BYTES:
        raise ValueError(f"{folder.parent.name} holds {len(table)} rows of {table.nbytes} bytes")
    return {name: table.column(i).to_pylist() for i, name in enumerate(table.column_names)}


def _read_table(folder: Path) -> Any:
    """Read the Parquet files of a folder as one table of pyarrow."""
    arrow = import_extra("pyarrow", "files", "models of Spark need pyarrow")
    paths = sorted(path for path in folder.glob("part-*.parquet") if path.is_file())  # no pipes, nor devices
    if not paths:
        raise ValueError(f"{folder.name} has no part-*.parquet file")
    try:
        tables = [_read_file(path) for path in paths]
        return arrow.concat_tables(tables).combine_chunks()
    except (arrow.ArrowException, OSError, MemoryError) as error:
        raise ValueError(f"{folder.name} holds no Parquet files that can be read ({str(error)[:200]})") from error


def _read_file(path: Path) -> Any:
    """Read a file, which may not declare much more than its bytes can hold."""
    parquet = import_extra("pyarrow.parquet", "files", "models of Spark need pyarrow")
    with parquet.ParquetFile(path) as file:
        about, room = file.metadata, LEAST_ROOM + MOST_EXPANSION * path.stat().st_size
        groups = range(min(about.num_row_groups, MOST_ROW_GROUPS))
        if max(about.num_rows, sum(about.row_group(i).total_byte_size for i in groups)) > room:
            raise ValueError(f"{path.name} declares {about.num_rows} rows, more than its size allows")
        table = file.read(use_threads=False)
        table.validate(full=True)
        return table


def _column(table: Any, name: str) -> Any:
    """Return a column as one array of pyarrow, none of whose entries is null."""
    if table.column_names.count(name) != 1:
        raise ValueError(f"the column {name!r} is missing")
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise ValueError(f"the column {name!r} has no value somewhere")
    return column


def _numbers(table: Any, name: str, kind: str) -> Array:
    """Whole numbers ("i") as int64, others ("f") as float64."""
    values = _as_numbers(_column(table, name), name)
    if values.dtype.kind != kind:
        raise ValueError(f"the column {name!r} holds {values.dtype}")
    return values.astype(np.int64 if kind == "i" else np.float64)


def _as_numbers(values: Any, name: str) -> Array:
    arrow = import_extra("pyarrow", "files", "models of Spark need pyarrow")
    if not (arrow.types.is_signed_integer(values.type) or arrow.types.is_floating(values.type)) or values.null_count:
        raise ValueError(f"the column {name!r} holds {values.type}, expected numbers")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _members(table: Any, name: str) -> Any:
    """Return the members of a struct as a table."""
    arrow = import_extra("pyarrow", "files", "models of Spark need pyarrow")
    column = _column(table, name)
    if not arrow.types.is_struct(column.type):
        raise ValueError(f"the column {name!r} holds {column.type}, expected a struct")
    return arrow.Table.from_struct_array(column)


def _lists(table: Any, name: str) -> tuple[Doubles, Int64s]:
    """Return the values of all lists behind each other, and the number in each."""
    arrow = import_extra("pyarrow", "files", "models of Spark need pyarrow")
    column = _column(table, name)
    if not arrow.types.is_list(column.type):
        raise ValueError(f"the column {name!r} holds {column.type}, expected lists")
    values = _as_numbers(column.flatten(), name).astype(np.float64)
    return values, np.diff(np.asarray(column.offsets)).astype(np.int64)
