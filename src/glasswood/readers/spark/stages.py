"""Stages of Spark's pipelines before the trees: what each entry of the trees' vector is of the columns of a frame.

An entry depends on one column: it is its number, or the value that its category has. So splits on entries become splits
on columns, one-hot entries too, and a forest takes the rows of the frame that the first stage takes.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base import escapes
from glasswood.model.validation import MOST_FEATURES
from glasswood.readers.documents import get
from glasswood.readers.spark.nodes import read_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from glasswood.base.typing import Array, Doubles

    Make = Callable[[int | None], list["Entry"]]

MOST_ENTRIES = 2**22
"""Entries of tables that a pipeline may have together: a one-hot encoder of n categories has n * n."""

MOST_MADE = 2**18 + 2**12
"""Entries of vectors that its stages may make together: as many as Spark's hashed words have by default, and some."""

NUMBERS = re.compile(r"-?\d+\.\d+(E-?\d+)?")
"""How Spark writes the labels of a column of numbers."""


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """An entry of a vector.

    Attributes
    ----------
    source : str
        Column that it depends on.
    labels, values : (n_categories,) or None
        Categories of the column, and the entry's value for each; None where the entry is the column's number.
    other : float or None
        Its value for a missing number, or for a category that is missing or not among the labels: NaN stays NaN, None
        is refused.
    is_named : bool
        False for entries of a column that holds vectors.
    """

    source: str
    labels: Array | None = None
    values: Doubles | None = None
    other: float | None = np.nan
    is_named: bool = True


class Columns:
    """Columns of a frame as stages add to them; those that no stage has made are the frame's own."""

    def __init__(self) -> None:
        self._made: dict[str, Make] = {}
        self._room, self._vectors = MOST_ENTRIES, MOST_MADE
        self.labels: dict[str, list[str]] = {}

    def add(self, folder: Path, document: dict[str, Any]) -> None:
        """Take a stage.

        Raises
        ------
        NotImplementedError
            If it is none of those that are read.
        """
        kind = get(document, "class", str).rpartition(".")[2]
        if kind not in STAGES:
            raise NotImplementedError(
                f"a pipeline with the stage {escapes.shown(kind[:60])} is not supported, those with "
                f"{', '.join(STAGES)} before the trees are; load the folder of the trees' stage, whose rows are what "
                "these stages make"
            )
        STAGES[kind](self, folder, document)

    def entries(self, name: str, size: int | None = None) -> list[Entry]:
        """Entries of a column: one of a column of numbers or texts, `size` of a vector."""
        if name in self._made:
            found = self._made[name](size)
        elif size is None or size == 1:
            found = [Entry(name)]
        else:
            self.count(size)
            found = [Entry(f"{name}[{i}]", is_named=False) for i in range(size)]
        if size is not None and len(found) != size:
            raise ValueError(f"the column {name[:60]!r} has {len(found)} entries, expected {size}")
        return found

    def made(self, name: str) -> bool:
        """Whether a stage has made a column."""
        return name in self._made

    def one(self, name: str) -> Entry:
        """Entry of a column of numbers or texts."""
        (entry,) = self.entries(name, 1)
        return entry

    def make(self, name: str, entries: Make) -> None:
        """Add a column, whose entries are made when they are asked for, of a size that may be known then."""
        self._made[name] = entries

    def take(self, n: int) -> None:
        """Count entries of tables."""
        self._room -= n
        if self._room < 0:
            raise ValueError(f"its stages have more than {MOST_ENTRIES} entries of categories")

    def count(self, n: int) -> None:
        """Count entries of a vector, before they are made."""
        self._vectors -= n
        if self._vectors < 0:
            raise ValueError(f"its stages make vectors of more than {MOST_MADE} entries")


def parameter(document: dict[str, Any], name: str, default: Any = None) -> Any:
    """Return a parameter of a stage, or its default."""
    for key in ("paramMap", "defaultParamMap"):
        found = document.get(key, {})
        if isinstance(found, dict) and name in found:
            return found[name]
    return default


def _names(document: dict[str, Any], one: str, several: str) -> list[str]:
    """Names of the columns that a stage takes or makes."""
    found = get(document, "paramMap", dict).get(several)
    found = [parameter(document, one)] if found is None else found
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        raise ValueError(f"the stage {str(document.get('uid'))[:60]!r} has no {one!r}")
    return found


def _pairs(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Columns that a stage takes, each with the one that it makes of it."""
    given, made = _names(document, "inputCol", "inputCols"), _names(document, "outputCol", "outputCols")
    if len(given) != len(made):
        raise ValueError(f"a stage makes {len(made)} columns of {len(given)}")
    return list(zip(given, made, strict=True))


def _string_indexer(columns: Columns, folder: Path, document: dict[str, Any]) -> None:
    """Positions of labels; others are one more position, or refused."""
    table = read_columns(folder / "data")
    lists = table.get("labelsArray", table.get("labels"))
    if not lists or lists[0] is None:
        raise ValueError(f"{folder.name} has no labels")
    lists = lists[0] if "labelsArray" in table else [lists[0]]
    pairs, keeps = _pairs(document), parameter(document, "handleInvalid") == "keep"
    if len(lists) != len(pairs):
        raise ValueError(f"{folder.name} has the labels of {len(lists)} columns, expected {len(pairs)}")
    for (given, made), labels in zip(pairs, lists, strict=True):
        if not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
            raise ValueError(f"the labels of {folder.name} are no texts")
        if columns.made(given):
            raise NotImplementedError("a StringIndexer of a column that another stage makes is not supported")
        columns.take(len(labels))
        columns.labels[made] = labels
        values = np.arange(len(labels), dtype=np.float64)
        entry = Entry(given, _labels(labels), values, float(len(labels)) if keeps else None)
        columns.make(made, partial(_same, entry))


def _same(entry: Entry, _: int | None) -> list[Entry]:
    return [entry]


def _labels(texts: list[str]) -> Array:
    """Categories as a frame has them: numbers where Spark has written all of them as numbers with a point."""
    if texts and all(NUMBERS.fullmatch(text) for text in texts):
        return np.array([float(text) for text in texts])
    return np.array(texts, object)


def _one_hot(columns: Columns, folder: Path, document: dict[str, Any]) -> None:
    """One entry a category, without the last unless told otherwise."""
    pairs = _pairs(document)
    if document["class"].endswith("Model"):
        sizes = read_columns(folder / "data").get("categorySizes") or [None]
        if not isinstance(sizes[0], list) or len(sizes[0]) != len(pairs):
            raise ValueError(f"{folder.name} does not say how many categories {len(pairs)} columns have")
        sizes = sizes[0]
    else:  # before 3.0 the encoder asked the column itself
        sizes = [_size(columns.one(given)) for given, _ in pairs]
    drops, keeps = parameter(document, "dropLast", True) is not False, parameter(document, "handleInvalid") == "keep"
    for (given, made), size in zip(pairs, sizes, strict=True):
        if not isinstance(size, int) or not 0 < size <= MOST_FEATURES:
            raise ValueError(f"{folder.name} has a column of {size} categories")
        columns.make(made, _hot_entries(columns, given, size + keeps, size + keeps - drops, size if keeps else None))


def _size(entry: Entry) -> int:
    if entry.labels is None:
        raise NotImplementedError("a OneHotEncoder of Spark 2 on a column without a StringIndexer is not supported")
    return len(entry.labels) + (entry.other is not None)


def _hot_entries(columns: Columns, given: str, size: int, n: int, invalid: int | None) -> Make:
    def entries(_: int | None) -> list[Entry]:
        base = columns.one(given)
        if base.labels is None:
            columns.take(size)
            base = dataclasses.replace(
                base, labels=np.arange(size, dtype=np.float64), values=np.arange(size, dtype=np.float64), other=invalid
            )
        values, other = base.values, base.other
        if values is None:
            raise ValueError(f"the column {given[:60]!r} has no categories")
        columns.take(n * len(values))
        columns.count(n)
        if ((values >= size) & (invalid is None)).any():
            raise ValueError(f"the column {given[:60]!r} has more than {size} categories")
        values = np.minimum(values, size - 1)
        if other is not None and other >= size - (invalid is not None):
            other = invalid
        return [
            dataclasses.replace(base, values=(values == k) * 1.0, other=None if other is None else float(other == k))
            for k in range(n)
        ]

    return entries


def _imputer(columns: Columns, folder: Path, document: dict[str, Any]) -> None:
    """Numbers in place of missing ones."""
    missing = parameter(document, "missingValue", "NaN")
    if missing != "NaN" and missing == missing:
        raise NotImplementedError(f"an Imputer of {missing} in place of missing numbers is not supported")
    table = read_columns(folder / "data")
    for given, made in _pairs(document):
        fill = table.get(given, [None])[:1]
        if len(fill) != 1 or not isinstance(fill[0], int | float):
            raise ValueError(f"{folder.name} has no number for the column {given[:60]!r}")

        def entries(_: int | None, given: str = given, fill: float = float(fill[0])) -> list[Entry]:
            base = columns.one(given)
            if base.labels is not None:
                raise NotImplementedError("an Imputer of a column of categories is not supported")
            return [dataclasses.replace(base, other=fill)]

        columns.make(made, entries)


def _assembler(columns: Columns, folder: Path, document: dict[str, Any]) -> None:
    """Columns side by side; one of them may be a vector, whose size follows from that of all."""
    inputs, made = _names(document, "inputCol", "inputCols"), _names(document, "outputCol", "outputCols")
    keeps = parameter(document, "handleInvalid", "error") == "keep"

    def entries(size: int | None) -> list[Entry]:
        columns.count(len(inputs))
        parts = [columns.entries(name) for name in inputs]
        own = [i for i, name in enumerate(inputs) if not columns.made(name)]
        rest = 0 if size is None else size - sum(map(len, parts))
        if rest and len(own) != 1:
            raise NotImplementedError(
                f"{folder.name[:60]} makes {size} entries of {len(inputs)} columns, and which of these are vectors is "
                "not stored; load the folder of the trees' stage"
            )
        if rest:
            parts[own[0]] = columns.entries(inputs[own[0]], 1 + rest)
        found = [entry for part in parts for entry in part]
        return found if keeps else [_without_missing(one) for one in found]

    columns.make(made[0], entries)


def _without_missing(entry: Entry) -> Entry:
    """Refuse the missing numbers of an entry; NaN is not itself."""
    if entry.labels is not None or entry.other is None or entry.other == entry.other:
        return entry
    return Entry(entry.source, None, entry.values, None, entry.is_named)


def _vector_indexer(columns: Columns, folder: Path, document: dict[str, Any]) -> None:
    """Positions in place of the values of some entries."""
    table = read_columns(folder / "data")
    if "numFeatures" not in table or "categoryMaps" not in table:
        raise ValueError(f"{folder.name} has no numFeatures or categoryMaps")
    size, maps = table["numFeatures"][0], dict(table["categoryMaps"][0])
    keeps = parameter(document, "handleInvalid") == "keep"
    (given,), (made,) = _names(document, "inputCol", "inputCols"), _names(document, "outputCol", "outputCols")
    if not isinstance(size, int) or not 0 < size <= MOST_FEATURES:
        raise ValueError(f"{folder.name} has {size} features")

    def entries(_: int | None) -> list[Entry]:
        found = columns.entries(given, size)
        for place, pairs in maps.items():
            if not 0 <= place < size:
                raise ValueError(f"{folder.name} has categories of feature {place}")
            found[place] = _mapped(columns, found[place], dict(pairs), keeps)
        return found

    columns.make(made, entries)


def _mapped(columns: Columns, entry: Entry, positions: dict[float, int], keeps: bool) -> Entry:
    """Let an entry have the positions of its values; others are one more position, or refused."""
    invalid = float(len(positions)) if keeps else None
    columns.take(len(positions))
    if entry.labels is None:
        values = np.array(list(positions.values()), np.float64)
        fills = entry.other is not None and not np.isnan(entry.other)
        other = None if entry.other is None else invalid
        if entry.other is not None and fills and entry.other in positions:
            raise NotImplementedError("a VectorIndexer of entries whose missing numbers are filled is not supported")
        return dataclasses.replace(entry, labels=np.array(list(positions), np.float64), values=values, other=other)
    known = np.array([positions.get(value, np.nan) for value in (entry.values if entry.values is not None else ())])
    if np.isnan(known).any() and invalid is None:
        if entry.other is not None:
            raise NotImplementedError("a VectorIndexer that refuses some labels of a StringIndexer is not supported")
        labels = entry.labels[~np.isnan(known)]
        entry, known = dataclasses.replace(entry, labels=labels), known[~np.isnan(known)]
    values = np.where(np.isnan(known), float(len(positions)), known)
    other = None if entry.other is None else positions.get(entry.other, invalid)
    return dataclasses.replace(entry, values=values, other=None if other is None else float(other))


STAGES: dict[str, Callable[[Columns, Path, dict[str, Any]], None]] = {
    "StringIndexerModel": _string_indexer,
    "OneHotEncoderModel": _one_hot,
    "OneHotEncoder": _one_hot,
    "ImputerModel": _imputer,
    "VectorAssembler": _assembler,
    "VectorIndexerModel": _vector_indexer,
}
"""Stages by the last word of their class."""


def labels_of(stage: dict[str, Any], columns: Columns, label: str) -> list[str]:
    """Return the labels that an IndexToString gives a prediction: its own, or those of the column of labels."""
    own = parameter(stage, "labels")
    found = own or columns.labels.get(label)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise NotImplementedError("an IndexToString whose labels are not stored is not supported")
    return found
