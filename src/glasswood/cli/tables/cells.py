"""Texts in the cells of a CSV file, made safe for the programs that show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glasswood.base.escapes import shown
from glasswood.cli.tables.formats import import_pyarrow

if TYPE_CHECKING:
    from pyarrow import RecordBatch

FORMULA = r"\A([\x00-\x20\x{a0}\x{feff}]*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]|[\t\r\n])"
"""Beginnings of cells that spreadsheets take for formulas, or may after an import: OWASP's list of CSV injection."""


def without_formulas(batch: RecordBatch) -> RecordBatch:
    """Put an apostrophe before every text and name of a column that a spreadsheet would take for a formula."""
    compute = import_pyarrow().compute
    return _with_texts(batch, lambda texts: compute.replace_substring_regex(texts, FORMULA, r"'\1"))


def for_terminals(batch: RecordBatch) -> RecordBatch:
    """Write control characters in texts and names of columns as their numbers: terminals obey them."""
    pa = import_pyarrow()

    def escaped(texts: Any) -> Any:
        return pa.array([None if text is None else shown(text) for text in texts.to_pylist()], pa.string())

    return _with_texts(batch, escaped)


def _with_texts(batch: RecordBatch, change: Callable[[Any], Any]) -> RecordBatch:
    """Change all texts of a batch, and the names of its columns."""
    pa = import_pyarrow()
    columns = []
    for column in batch.columns:
        values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        columns.append(change(values) if is_text else column)
    names = change(pa.array(batch.schema.names, pa.string())).to_pylist()
    return pa.RecordBatch.from_arrays(columns, names=names)
