"""`silva explain --top`: the strongest features of each row, by name, in the place of all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cli.tables.formats import import_pyarrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyarrow import RecordBatch


def strongest_of(mapper: Callable[[Any], RecordBatch], players: Sequence[str], top: int) -> Callable[[Any], Any]:
    """Make a mapper whose results have feature_1, phi_1, feature_2, ... instead of one column a feature.

    Raises
    ------
    ValueError
        If there are fewer features.
    """
    if top > len(players):
        raise ValueError(f"--top is {top}, the model has {len(players)} features")
    labels = np.array([*players], object)
    columns = [f"phi_{name}" for name in players]

    def mapped(batch: Any) -> Any:
        found, pyarrow = mapper(batch), import_pyarrow()
        values = np.column_stack([found.column(name).to_numpy(zero_copy_only=False) for name in columns])
        order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :top]
        arrays: dict[str, Any] = {}
        for name, column in zip(found.schema.names, found.columns, strict=True):
            if name == columns[0]:
                for place in range(top):
                    arrays[f"feature_{place + 1}"] = pyarrow.array(labels[order[:, place]], pyarrow.string())
                    arrays[f"phi_{place + 1}"] = pyarrow.array(values[np.arange(len(values)), order[:, place]])
            if name not in columns:
                arrays[name] = column
        return pyarrow.RecordBatch.from_pydict(arrays)

    return mapped
