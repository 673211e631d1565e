"""A note beside the graph of an ONNX model that glasswood wrote, by which glasswood reads it back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.stored_fields import field_from_json, field_to_json

NAME, VERSION = "glasswood", 1
FIELDS = (
    "classes", "feature_names", "is_estimator", "link", "link_scale", "missing", "nan_allowed", "objective",
    "prediction", "prediction_offset", "result_dtype", "zero_threshold",
)  # fmt: skip
"""Fields of TreeEnsemble that operators around the trees compute, or that no operator needs."""

NEVER = 2**24
"""Member of an empty set, which no code reaches."""


def note_of(forest: TreeEnsemble) -> Callable[[bytes], tuple[str, str]]:
    """Write the metadata of a forest's model, given the bytes of its graph: their checksum tells a changed graph."""

    def write(graph: bytes) -> tuple[str, str]:
        note = {
            "version": VERSION,
            "crc32": zlib.crc32(graph),
            "has_linear_leaves": forest.has_linear_leaves,
            "fields": {name: field_to_json(name, getattr(forest, name)) for name in FIELDS},
            "base_score": [score.hex() for score in forest.base_score.tolist()],
            "zero_missing": forest.zero_missing.tolist(),
        }
        return NAME, json.dumps(note)

    return write


def fields_of(text: str, graph: bytes) -> dict[str, Any] | None:
    """Read the fields of TreeEnsemble that `note_of` wrote for this graph; None if the graph is another by now.

    Raises
    ------
    ValueError
        If it did not write this.
    NotImplementedError
        If a later glasswood wrote it, or leaves are linear.
    """
    try:
        note = json.loads(text)
        if note["crc32"] != zlib.crc32(graph):
            return None
        if note["version"] > VERSION:
            raise NotImplementedError(
                f"a later glasswood wrote it (note {quoted(note['version'])}, read up to {VERSION})"
            )
        if note["has_linear_leaves"]:
            raise NotImplementedError(
                "linear leaves, which stand outside the trees, are not read; keep a .glasswood file"
            )
        fields = {name: field_from_json(name, note["fields"][name]) for name in FIELDS}
        fields["base_score"] = np.array([float.fromhex(score) for score in note["base_score"]])
        fields["zero_missing"] = np.array(note["zero_missing"], np.bool_)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"what glasswood noted in it is damaged ({quoted(error)})") from error
    return fields
