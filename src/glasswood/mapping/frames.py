"""Batches of Arrow, pandas and polars: their columns by name, and results as the same kind of batch."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from glasswood.base.escapes import shown
from glasswood.base.extras import import_arrow
from glasswood.base.typing import Array
from glasswood.inputs.frames import Frame, to_frame
from glasswood.inputs.matching import listed, refuse_repeated
from glasswood.mapping.columns import check_unique, is_text, plain

EXPECTED = "an Arrow, pandas or polars batch, or a NumPy array"


def as_frame(batch: object) -> Frame:
    """Read the columns of a batch.

    Raises
    ------
    TypeError
        If it has none.
    """
    frame = None if isinstance(batch, dict) else to_frame(batch)
    if frame is None:
        raise TypeError(
            f"the batch is a {type(batch).__name__}, expected {EXPECTED}; engines have an option for it, such "
            "as batch_format='pyarrow' of Ray"
        )
    return frame


def features_of(frame: Frame, inputs: Sequence[str], names: tuple[str, ...]) -> Frame:
    """Select the columns `inputs` under the names of the model's features."""
    if frame.names == tuple(inputs):
        return dataclasses.replace(frame, names=names)
    order = [frame.names.index(name) for name in inputs]
    block = None if frame.block is None else frame.block[:, order]
    return Frame(names, frame.n_rows, lambda i: frame.column(order[i]), block)


def check_columns(names: Sequence[str], wanted: Sequence[str], where: str) -> None:
    """Raise ValueError unless there is exactly one column of each name wanted."""
    if lacking := [name for name in wanted if name not in names]:
        raise ValueError(f"{shown(where)} has no columns {listed(lacking)}; it has {listed(names)}")
    refuse_repeated([name for name in names if name in set(wanted)])


def result(batch: Any, kept: Sequence[str], types: Mapping[str, Any], columns: Mapping[str, Array]) -> Any:
    """Columns of the batch that are kept, then computed ones, as the same kind of batch."""
    check_unique([*kept, *columns])
    for library, make in (("pandas", _pandas), ("polars", _polars)):
        module = sys.modules.get(library)
        if module is not None and isinstance(batch, module.DataFrame):
            return make(module, batch, kept, types, columns)
    return _arrow(import_arrow(), batch, kept, types, columns)


def _pandas(
    pandas: Any, batch: Any, kept: Sequence[str], types: Mapping[str, Any], columns: Mapping[str, Array]
) -> Any:
    made = {name: pandas.array(plain(values), "str") if is_text(values) else values for name, values in columns.items()}
    computed = pandas.DataFrame(made, index=batch.index)
    if not kept:
        return computed
    dtypes = {name: import_arrow().array([], types[name]).to_pandas().dtype for name in kept if name in types}
    return pandas.concat([batch[list(kept)].astype(dtypes), computed], axis=1)


def _polars(
    polars: Any, batch: Any, kept: Sequence[str], types: Mapping[str, Any], columns: Mapping[str, Array]
) -> Any:
    dtypes = polars.Schema(import_arrow().schema(types.items())) if types else {}
    made = {
        name: polars.Series(name, plain(values), dtype=polars.String if is_text(values) else None)
        for name, values in columns.items()
    }
    return polars.DataFrame({**{name: batch[name].cast(dtypes.get(name, batch[name].dtype)) for name in kept}, **made})


def _arrow(
    pyarrow: Any, batch: Any, kept: Sequence[str], types: Mapping[str, Any], columns: Mapping[str, Array]
) -> Any:
    if not isinstance(batch, pyarrow.Table | pyarrow.RecordBatch):
        batch = pyarrow.table(batch)
    left = {name: batch.column(name).cast(types[name]) if name in types else batch.column(name) for name in kept}
    made = arrow_batch(columns)
    return type(batch).from_arrays([*left.values(), *made.columns], names=[*left, *made.schema.names])


def arrow_batch(columns: Mapping[str, Array]) -> Any:
    """Make a record batch of arrays."""
    pyarrow = import_arrow()
    arrays = [
        pyarrow.array(plain(values), pyarrow.string() if is_text(values) else None) for values in columns.values()
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))
