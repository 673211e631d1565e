"""The `.glasswood` file format: versioned, checksummed, little-endian; it can be mapped into memory.

Layout: 8 bytes magic, uint32 format version, uint32 length and uint32 CRC-32 of the header, the header (JSON, UTF-8),
zeros up to a multiple of 64, then the arrays, each at a multiple of 64. The header holds the scalar fields of
TreeEnsemble, for each array its name, dtype, shape and offset from the first array, the size and CRC-32 of the arrays
together, and null or what is said of an attachment (an explainer's), whose arrays' names start with "attached.". Since
version 2 the header may describe target statistics (`glasswood.model.stored_statistics`), whose arrays' names start
with "statistics."; version 3 adds tables of categories whose features are open, what absent entries mean to trees, and
the trees of a boosting round.
Files that need none of this are still written as version 1. A reader of version v refuses files of a later version; a
file holds every field of its version and no other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.files import replacing
from glasswood.base.sources import MODEL_SUFFIXES
from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.stored_fields import check_metadata, check_of, columns_of, field_from_json, field_to_json
from glasswood.model.stored_statistics import PREFIX as STATISTICS
from glasswood.model.stored_statistics import from_parts, to_parts
from glasswood.model.target_statistics import TargetStatistics

MAGIC = b"\x93GLASS\r\n"
VERSION = 3
WITH_STATISTICS = 2
FIRST_VERSION = 1
ADDED = {"open_tables": 3, "table_places": 3, "absent_missing": 3, "round_trees": 3, "nan_allowed_in": 3, "n_curves": 3}
"""First version that has a field; others are in all."""

KEPT_APART = ("transform", "checked", "metadata", "columns")
"""Fields that files hold in another form, as entries of the header: target statistics, what was compared and said, and
how columns are matched, where it is not by name."""

ALIGNMENT = 64
PREFIX = struct.Struct("<8sIII")
DTYPES = ("<f4", "<f8", "<i4", "<i8", "<u2", "<u4", "<u8", "|b1")
ATTACHED = "attached."
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What Python raises for a header of other entries, or entries of other types."""


class Attachment(NamedTuple):
    """Data that another job keeps beside a forest: plain values for the header, and arrays."""

    about: dict[str, Any]
    arrays: dict[str, Array]


PICKLES = {".pkl", ".pickle", ".joblib"}
"""Suffixes whose files people open by unpickling them."""


def save_forest(forest: TreeEnsemble, path: str | os.PathLike[str], attachment: Attachment | None = None) -> None:
    """Write a forest to `path`, complete or not at all.

    Raises
    ------
    TypeError
        If a class label or category is not a string, number or boolean.
    ValueError
        If the suffix is one of other libraries' models, as which `glasswood.load` would read the file, or of pickles.
    OSError
        If the file cannot be written.
    """
    if (suffix := Path(path).suffix.lower()) in MODEL_SUFFIXES:
        raise ValueError(
            f"{shown(path)} has the suffix {quoted(suffix)} of another library's models, expected .glasswood"
        )
    if suffix in PICKLES:
        raise ValueError(
            f"{shown(path)} has the suffix {quoted(suffix)} of pickles, expected .glasswood; pickle.dump writes "
            "a pickle"
        )
    with replacing(path) as temporary, open(temporary, "wb") as file:
        _write(file, forest, attachment)


def forest_bytes(forest: TreeEnsemble, attachment: Attachment | None = None) -> bytes:
    """Content of the file that `save_forest` would write."""
    file = io.BytesIO()
    _write(file, forest, attachment)
    return file.getvalue()


def _write(file: BinaryIO, forest: TreeEnsemble, attachment: Attachment | None) -> None:
    has_statistics = isinstance(forest.transform, TargetStatistics)
    arrays_added = forest.open_tables, forest.absent_missing, forest.nan_allowed_in
    is_new = any(len(one) > 0 for one in arrays_added) or forest.round_trees > 1 or forest.n_curves > 0
    version = VERSION if is_new else WITH_STATISTICS if has_statistics else FIRST_VERSION
    scalars, arrays = _split_fields(forest, version)
    if attachment is not None:
        arrays |= {ATTACHED + name: _little_endian(array) for name, array in attachment.arrays.items()}
    about = attachment and attachment.about
    statistics: dict[str, Any] = {}
    if isinstance(forest.transform, TargetStatistics):
        statistics["statistics"], more = to_parts(forest.transform)
        arrays |= {name: _little_endian(array) for name, array in more.items()}
    entries, size, checksum = [], 0, 0
    for name, array in arrays.items():
        entries.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": size})
        size += _padded(array.nbytes)
        checksum = zlib.crc32(bytes(_padding(array.nbytes)), zlib.crc32(_raw(array), checksum))
    header = json.dumps(
        {
            "fields": scalars,
            "arrays": entries,
            "size": size,
            "crc32": checksum,
            "attachment": about,
            **statistics,
            **_noted_check(forest),
            **({} if forest.columns == "name" else {"columns": forest.columns}),
            **({} if forest.metadata is None else {"metadata": dict(forest.metadata)}),
        }
    ).encode()
    file.write(PREFIX.pack(MAGIC, version, len(header), zlib.crc32(header)))
    _write_padded(file, header)
    for array in arrays.values():
        _write_padded(file, _raw(array))


def load_forest(path: str | os.PathLike[str], mmap: bool = False) -> TreeEnsemble:
    """Read a `.glasswood` file, or map its arrays: they then share memory with the file, and with other processes.

    Raises
    ------
    ValueError
        If the file is not a `.glasswood` file, of a later version, truncated or corrupt.
    """
    return load_attachment(path, mmap)[0]


def load_attachment(path: str | os.PathLike[str] | bytes, mmap: bool = False) -> tuple[TreeEnsemble, Attachment | None]:
    """Read the forest of a `.glasswood` file, or of its content as bytes, and what is kept beside it, if anything is.

    Raises
    ------
    ValueError
        As `load_forest`.
    """
    with _opened(path) as file:
        text, start, version = _read_header(path, file)
        buffer = _map(file)[start:] if mmap else _read(file, start)
    with naming(path, *UNREADABLE):
        header = json.loads(text)
        if len(buffer) != header["size"]:
            raise ValueError(f"{len(buffer)} of {quoted(header['size'])} bytes of arrays")
        if zlib.crc32(buffer.data) != header["crc32"]:
            raise ValueError("the arrays do not match their checksum")
        note, statistics = _note(header), header.get("statistics")
        entries = _entries(header)
        attached = {name: entries.pop(ATTACHED + name) for name in _behind(ATTACHED, entries, note)}
        made = {STATISTICS + name: entries.pop(STATISTICS + name) for name in _behind(STATISTICS, entries, statistics)}
        _check_fields(header["fields"].keys() | entries.keys(), version)
        fields = {name: field_from_json(name, value) for name, value in header["fields"].items()}
        fields |= {name: _array(buffer, entry) for name, entry in entries.items()}
        model = _statistics(statistics, {name: _array(buffer, entry) for name, entry in made.items()})
        said = header.get("metadata")
        forest = TreeEnsemble(
            **fields,
            transform=model,
            checked=check_of(header.get("checked")),
            columns=columns_of(header.get("columns", "name")),
            metadata=None if said is None else check_metadata(said),
        )
        _check_statistics(forest)
        if note is None:
            return forest, None
        return forest, Attachment(note, {name: _array(buffer, entry) for name, entry in attached.items()})


def read_attachment_note(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read what a file says of what it keeps beside a forest; None if that is nothing, or it is of another kind."""
    if os.path.isdir(path):  # of a model of Spark
        return None
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        file.seek(0)
        text = _read_header(path, file)[0]
    with naming(path, *UNREADABLE):
        return _note(json.loads(text))


@contextlib.contextmanager
def _opened(source: str | os.PathLike[str] | bytes) -> Iterator[BinaryIO]:
    """Yield a file, or what reads like one."""
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    with open(source, "rb") as file:
        yield file


def name_of(source: str | os.PathLike[str] | bytes) -> str:
    """Name a file, or its content, in messages."""
    return "a model in memory" if isinstance(source, bytes) else os.fspath(source)


def corrupt(source: str | os.PathLike[str] | bytes, why: object) -> ValueError:
    """Error of a file that does not hold what it should."""
    return ValueError(f"{shown(name_of(source))} is truncated or corrupt: {shown(why)}; save it again")


@contextlib.contextmanager
def naming(source: str | os.PathLike[str] | bytes, *errors: type[Exception]) -> Iterator[None]:
    """Let errors of these types in reading what a file holds name it."""
    try:
        yield
    except errors as error:
        raise corrupt(source, error) from error


def check_array(name: str, array: Array, shape: Sequence[int | None], *dtypes: Any) -> None:
    """Raise ValueError unless an array of an attachment has one of the types and the shape; None is any length."""
    if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
        raise ValueError(f"{name} holds {array.dtype}, expected {np.dtype(dtypes[0])}")
    lengths = [found if wanted is None else wanted for found, wanted in zip(array.shape, shape, strict=False)]
    if array.ndim != len(shape) or array.shape != tuple(lengths):
        raise ValueError(
            f"{name} has the shape {array.shape}, expected {tuple('any' if n is None else n for n in shape)}"
        )


def _padding(n_bytes: int) -> int:
    return -n_bytes % ALIGNMENT


def _padded(n_bytes: int) -> int:
    return n_bytes + _padding(n_bytes)


def _raw(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_padded(file: BinaryIO, content: bytes | memoryview) -> None:
    """Write `content` and zeros up to the next multiple of ALIGNMENT in the file."""
    file.write(content)
    file.write(bytes(_padding(file.tell())))


def _split_fields(forest: TreeEnsemble, version: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """Fields for the header, and arrays by name."""
    scalars: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    if forest.transform is not None and not isinstance(forest.transform, TargetStatistics):
        raise TypeError(
            "the forest is the last step of a pipeline, whose other steps .glasswood files do not hold; "
            "save glasswood.load(pipeline[-1]), which expects the rows after these steps, or the pipeline with its own "
            "library"
        )
    for field in _stored_fields(version):
        value = getattr(forest, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = _little_endian(value)
        else:
            scalars[field.name] = field_to_json(field.name, value)
    return scalars, arrays


def _stored_fields(version: int) -> list[dataclasses.Field[Any]]:
    fields = dataclasses.fields(TreeEnsemble)
    return [field for field in fields if field.name not in KEPT_APART and ADDED.get(field.name, 1) <= version]


def _noted_check(forest: TreeEnsemble) -> dict[str, Any]:
    """Entry of the header that earlier readers pass over, if there is anything to say."""
    return {} if forest.checked is None else {"checked": list(forest.checked)}


def _statistics(about: dict[str, Any] | None, arrays: dict[str, Array]) -> TargetStatistics | None:
    return None if about is None else from_parts(about, arrays)


def _check_statistics(forest: TreeEnsemble) -> None:
    model = forest.transform
    if model is not None and forest.n_features != model.n_columns + len(model.statistics):
        raise ValueError(
            f"it has {model.n_columns} columns and {len(model.statistics)} target statistics for {forest.n_features} "
            "features"
        )


def _little_endian(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _check_fields(names: set[str], version: int) -> None:
    if strange := {field.name for field in _stored_fields(version)} ^ names:
        raise ValueError(
            f"its fields differ from those of format {version} in {', '.join(map(shown, sorted(strange)[:9]))}"
        )


def _map(file: BinaryIO) -> Array:
    return np.memmap(file, np.uint8, "r").view(np.ndarray)


def _read(file: BinaryIO, start: int) -> Array:
    """Read what follows `start`: no byte that another process writes later gets past the checksum."""
    buffer = np.empty(max(_size(file) - start, 0), np.uint8)
    file.seek(start)
    return buffer[: cast("io.BufferedReader", file).readinto(buffer.data)]


def _size(file: BinaryIO) -> int:
    """Bytes of the file; it is read on from where it was."""
    place = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(place)
    return size


def _read_header(path: str | os.PathLike[str] | bytes, file: BinaryIO) -> tuple[bytes, int, int]:
    """Text of the header, where the arrays start, and the version of the format."""
    where, prefix = name_of(path), file.read(PREFIX.size)
    if not prefix.startswith(MAGIC):
        raise ValueError(
            f"{shown(where)} is not a .glasswood file: it starts with {quoted(prefix[:8])}, expected {quoted(MAGIC)}"
        )
    if len(prefix) < PREFIX.size:
        raise corrupt(path, f"it ends after {len(prefix)} bytes")
    _, version, length, checksum = PREFIX.unpack(prefix)
    if version > VERSION:
        raise ValueError(
            f"{shown(where)} has format version {version}, this glasswood reads up to {VERSION}; upgrade glasswood"
        )
    if length > _size(file):
        raise corrupt(path, f"its header of {length} bytes is incomplete")
    text = file.read(length)
    if version < 1 or len(text) < length or zlib.crc32(text) != checksum:
        raise corrupt(path, "its header does not match its checksum")
    return text, _padded(PREFIX.size + length), version


def _note(header: dict[str, Any]) -> dict[str, Any] | None:
    """Look up what the header says of an attachment: its kind, and whatever its job has written."""
    note: dict[str, Any] | None = header.get("attachment")
    if note is not None and not (isinstance(note, dict) and isinstance(note.get("kind"), str)):
        raise ValueError("its attachment has no kind")
    return note


def _entries(header: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Where each array lies, by its name."""
    entries = {entry["name"]: entry for entry in header["arrays"]}
    if len(entries) < len(header["arrays"]):
        raise ValueError("several of its arrays have the same name")
    return entries


def _behind(prefix: str, entries: dict[str, dict[str, Any]], about: Any) -> list[str]:
    """List what stands behind the prefix in names of arrays, which only a header that speaks of them may have."""
    names = [name.removeprefix(prefix) for name in entries if name.startswith(prefix)]
    if about is None and names:
        raise ValueError(f"the header says nothing of its array {quoted(prefix + names[0])}")
    return names


def _array(buffer: Array, entry: dict[str, Any]) -> Array:
    """View of an array's bytes; copied only where the machine is big-endian."""
    name, shape, offset = entry["name"], tuple(entry["shape"]), entry["offset"]
    if entry["dtype"] not in DTYPES or any(not isinstance(n, int) or n < 0 for n in (*shape, offset)):
        raise ValueError(f"array {quoted(name)} has dtype {quoted(entry['dtype'])}, shape {shape} and offset {offset}")
    dtype = np.dtype(entry["dtype"])
    n_bytes = math.prod(shape) * dtype.itemsize
    if offset % ALIGNMENT or offset + n_bytes > len(buffer):
        raise ValueError(f"array {quoted(name)} lies outside the file")
    array: Array = buffer[offset : offset + n_bytes].view(dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)
