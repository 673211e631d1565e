"""Model files to begin with, and mutators of each format that repair what only says that a file is whole."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import struct
import tempfile
import zipfile
import zlib
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

import glasswood
from glasswood.base.sources import MODEL_SUFFIXES
from glasswood.explain.stored import explainer_bytes
from glasswood.loading import load
from glasswood.model.storage import ATTACHED, MAGIC, PREFIX, _padding
from glasswood.readers.ubjson import decode
from glasswood.writers.onnx import onnx_bytes
from tests.example_forests import empty_forest, whole_forest, with_models
from tests.fuzz import checkpoints, protobuf, ubjson
from tests.fuzz.mutators import FLOATS, INTEGERS, mutate_bytes, mutate_document, mutate_text, pick
from tests.readers import spark_models
from tests.strategies import Options, full_forest, random_forest, random_rows

DATA = Path(__file__).parent.parent / "readers" / "data"
FOLDERS = (Path(__file__).parent / "seeds", DATA, DATA / "versions", DATA / "old")
NO_SEEDS = (".told.json", "predictions.json", "2.2.2_forest_poisson.txt")
"""Ends of the names of files that hold rows and what a library predicted for them, and of a model that is refused."""
METADATA = 14
"""Field of a model's metadata in ONNX."""

SUFFIXES = (*MODEL_SUFFIXES, ".model", ".treelite", ".spark", ".glasswood", ".explainer")
"""Of models of other libraries (.model: XGBoost's binary files), and of glasswood's own files."""


def find_seeds(only="*"):
    """Models by format: {suffix: [bytes, ...]}, in one order on every machine; `only`: patterns of names."""
    found = {suffix: [] for suffix in SUFFIXES}
    for folder in FOLDERS:
        for path in sorted(folder.iterdir()):
            is_model = path.suffix in found and not path.name.endswith(NO_SEEDS)
            if is_model and any(fnmatch(path.name, pattern) for pattern in only.split(",")):
                found[path.suffix].append(path.read_bytes())
    found[".glasswood"] += [saved(forest) for forest in glasswood_forests() if only == "*"]
    if any(fnmatch("onnx-glasswood", pattern) for pattern in only.split(",")):
        found[".onnx"] += [onnx_bytes(forest) for forest in onnx_forests()]
    if any(fnmatch("explainer", pattern) for pattern in only.split(",")):
        found[".explainer"] += [explainer_bytes(one.game, one.settings) for one in explainers()]
    return {suffix: seeds for suffix, seeds in found.items() if seeds}


def glasswood_options():
    """Kinds of forests: categories, vectors in leaves, for linear models, and plain."""
    several = Options(n_trees=4, n_features=5, n_outputs=3, categorical=True, row_type="float64", missing="zeros")
    vectors = Options(n_trees=4, n_features=4, n_outputs=3, vector_leaves=True, covers="zeros", missing="marker")
    return several, vectors, Options(n_trees=3, n_features=5, shape="mixed"), Options(n_trees=3, n_features=4)


def glasswood_forests():
    """Forests that between them have every field of a `.glasswood` file, and every kind of leaf and split."""
    several, vectors, models, _ = glasswood_options()
    yield from (whole_forest(), empty_forest(), with_models(random_forest(4, models), 5, -1, 2))
    yield load(Path(__file__).parent / "seeds" / "catboost-ctr-combined-Counter.cbm")
    yield from (random_forest(1, several), random_forest(2, vectors), full_forest(3, 5, 7, 6))


def onnx_forests():
    """Forests whose ONNX models are read back."""
    sets = Options(n_trees=4, n_features=5, n_outputs=3, categorical=True, row_type="float64")
    plain = {"link": "identity", "classes": (), "prediction": "response", "missing": float("nan")}
    yield dataclasses.replace(random_forest(1, sets), **plain)
    yield full_forest(3, 5, 4, 6)


def explainers():
    """Explainers whose files have every setting, and every kind of background."""
    several, vectors, models, whole = glasswood_options()
    rng = np.random.default_rng(0)
    yield glasswood.Explainer(full_forest(0, 3, 3, 4), groups={"both": [0, 2]}, feature_names=["a", "b", "c"])
    for seed, options in enumerate((several, vectors, models, whole)):
        forest = random_forest(seed + 1, options)
        forest = with_models(forest, 5, -1, 2) if options is models else forest
        rows = random_rows(seed, forest, 20)
        weight, finite = 1 + np.arange(20) % 3, np.nan_to_num(rows, posinf=1, neginf=-1).clip(-9, 9)
        yield glasswood.Explainer(forest, finite if options is models else rows, background_weight=weight)
    forest = dataclasses.replace(full_forest(3, 5, 3, 6), link="logistic", classes=(np.array([0, 1]),))
    for output in ("probability", "log_loss"):
        yield glasswood.Explainer(forest, rng.normal(size=(20, 6)), output=output, output_names=["x"], dtype="float64")


def saved(forest):
    """Bytes of its `.glasswood` file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forest.glasswood"
        forest.save(path)
        return path.read_bytes()


def mutate(rng, suffix, seeds):
    """One of the seeds of a format, changed."""
    data, other = pick(rng, seeds), pick(rng, seeds)
    if suffix not in {".treelite", ".spark"} and rng.random() < 0.25:
        return mutate_bytes(rng, data, other)
    return MUTATORS[suffix](rng, data, other)


def mutate_json(rng, data, _):
    """A document with other values; NaN and infinity as Python writes them."""
    try:
        return json.dumps(mutate_document(rng, json.loads(data))).encode()
    except ValueError:  # a document within itself
        return data


def mutate_ubj(rng, data, _):
    """XGBoost's document, as JSON holds it, in typed arrays."""
    try:
        return ubjson.encode(mutate_document(rng, to_lists(decode(data))))
    except RecursionError:  # a document within itself, many times over
        return data


def to_lists(value):
    """Typed arrays as lists."""
    if isinstance(value, dict):
        return {key: to_lists(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [to_lists(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def mutate_txt(rng, data, _):
    """LightGBM's text with other words; its sizes of trees are those of the seed or of the result."""
    text = mutate_text(rng, data.decode())
    return (text if rng.random() < 0.3 else repair_sizes(text)).encode(errors="replace")


def repair_sizes(text):
    """Let `tree_sizes` say how many bytes each tree takes."""
    end = "\nend of trees" if "\nend of trees" in text else "\n\nfeature importances:"  # of old versions
    head, *trees = text.partition(end)[0].split("\nTree=")
    sizes = " ".join(str(len("Tree=" + tree) + 1) for tree in trees)
    lines = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    return "\n".join(lines) + text[len(head) :]


def mutate_cbm(rng, data, other):
    """CatBoost's flat buffer with other bytes, whose number the file announces; or the tables behind it."""
    (core, rest), (other_core, other_rest) = split_cbm(data), split_cbm(other)
    if rest and rng.random() < 0.5:
        rest = mutate_bytes(rng, rest, other_rest or rest)
    else:
        core = mutate_bytes(rng, core, other_core)
    return data[:4] + struct.pack("<I", len(core)) + core + rest


def split_cbm(data):
    """The flat buffer, and what follows it."""
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    return data[8:end], data[end:]


def mutate_onnx(rng, data, _):
    """A model with other attributes, whose lengths fit, or other trees; or glasswood's own with another note."""
    change = protobuf.mutate if rng.random() < 0.4 else protobuf.mutate_structure
    fields = change(rng, protobuf.decode(data))
    note = next((place for place, field in enumerate(fields) if field[0] == METADATA), None)
    if note is not None:
        fields[note][2] = _mutate_note(rng, fields, fields[note][2])
    return protobuf.encode(fields)


def _mutate_note(rng, fields, entry):
    """The note of a model that glasswood wrote, changed at times, with the checksum of the graph as it is now."""
    try:
        named = protobuf.decode(entry)
        note = json.loads(named[1][2])
        note = mutate_document(rng, note) if rng.random() < 0.5 else note
        if rng.random() < 0.9:
            graph = next(field[2] for field in fields if field[0] == 7)
            note["crc32"] = zlib.crc32(protobuf.encode(graph))
        named[1][2] = json.dumps(note).encode()
        return protobuf.encode(named)
    except (IndexError, KeyError, StopIteration, TypeError, ValueError):  # already mutated
        return entry


def mutate_treelite(rng, data, _):
    """A checkpoint with other fields: its bytes are not glasswood's to read."""
    return checkpoints.mutate(rng, data)


def mutate_glasswood(rng, data, other):
    """Header or arrays with other values, and checksums that fit; or what one of them misses."""
    version, header, arrays = split_glasswood(data)
    if rng.random() < 0.5:
        header = mutate_document(rng, header)
    else:
        arrays = (
            _mutate_array(rng, header["arrays"], arrays) if rng.random() < 0.8 else mutate_bytes(rng, arrays, other)
        )
    if isinstance(header, dict) and rng.random() < 0.95:
        header |= {"size": len(arrays), "crc32": zlib.crc32(arrays)}
    return join_glasswood(version, header, arrays)


def mutate_explainer(rng, data, _):
    """What stands beside the forest with other values: note, arrays, or where and what these are."""
    version, header, arrays = split_glasswood(data)
    attached = [entry for entry in header["arrays"] if entry["name"].startswith(ATTACHED)]
    roll = rng.random()
    if roll < 0.35 or not attached:
        header["attachment"] = mutate_document(rng, header["attachment"])
    elif roll < 0.85:
        arrays = _mutate_array(rng, attached, arrays)
    else:
        changed = mutate_document(rng, attached)
        rest = [entry for entry in header["arrays"] if entry not in attached]
        header["arrays"] = rest + changed if isinstance(changed, list) else changed
    header |= {"size": len(arrays), "crc32": zlib.crc32(arrays)}
    return join_glasswood(version, header, arrays)


def split_glasswood(data):
    """Version, header and bytes of the arrays of a sound `.glasswood` file."""
    _, version, length, _ = PREFIX.unpack_from(data)
    end = PREFIX.size + length
    return version, json.loads(data[PREFIX.size : end]), data[end + _padding(end) :]


def join_glasswood(version, header, arrays):
    """A `.glasswood` file whose header's checksum is right; the header may be bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    prefix = PREFIX.pack(MAGIC, version, len(text), zlib.crc32(text))
    return prefix + text + bytes(_padding(len(prefix) + len(text))) + arrays


def _mutate_array(rng, entries, arrays):
    """Change entries of one array to values that are special in its type, or to those of other entries.

    Half of the arrays of integers have one entry that is one more or less, so that places point to a neighbour.
    """
    arrays = bytearray(arrays)
    entry = pick(rng, [entry for entry in entries if np.prod(entry["shape"])])
    dtype = np.dtype(entry["dtype"])
    view = np.frombuffer(arrays, dtype, int(np.prod(entry["shape"])), entry["offset"])
    if dtype.kind in "iu" and rng.random() < 0.5:
        with np.errstate(over="ignore"):
            view[int(rng.integers(len(view)))] += pick(rng, (1, -1)) if dtype.kind == "i" else 1
        return bytes(arrays)
    for _ in range(int(rng.integers(1, 4))):
        value = pick(rng, view) if rng.random() < 0.3 else pick(rng, (*INTEGERS, *FLOATS))
        with np.errstate(all="ignore"):
            if dtype.kind in "iu" and isinstance(value, int):
                value = value % 2 ** (8 * dtype.itemsize)
                value -= 2 ** (8 * dtype.itemsize) * (dtype.kind == "i" and value >= 2 ** (8 * dtype.itemsize - 1))
            elif dtype.kind in "iu" and isinstance(value, float):
                value = int(rng.integers(100))
            view[int(rng.integers(len(view)))] = value
    return bytes(arrays)


def mutate_spark(rng, data, other):
    """An archive of a folder of Spark with one file changed: its JSON, its rows, or its bytes."""
    with tempfile.TemporaryDirectory() as work:
        folder, others = spark_models.unpack(data, f"{work}/one"), spark_models.unpack(other, f"{work}/other")
        path = pick(rng, sorted(path for path in folder.rglob("*") if path.is_file()))
        roll = rng.random()
        if path.suffix != ".parquet" and roll < 0.9:
            path.write_bytes(mutate_json(rng, path.read_bytes(), None))
        elif path.suffix == ".parquet" and roll < 0.6:
            _mutate_rows(rng, path)
        else:
            similar = pick(rng, sorted(others.rglob(f"*{path.suffix}")) or [path])
            path.write_bytes(mutate_bytes(rng, path.read_bytes(), similar.read_bytes() if similar.is_file() else b""))
        return spark_models.pack(folder)


def _mutate_rows(rng, path):
    """Rows with other values, in the columns and types that they had where these can hold them."""
    table = parquet.read_table(path)
    rows = mutate_document(rng, table.to_pylist())
    schema = table.schema if rng.random() < 0.8 else None
    with contextlib.suppress(arrow.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        parquet.write_table(arrow.Table.from_pylist(rows, schema), path)


def mutate_zip(rng, data, other):
    """A MOJO of H2O with one member changed: its text, its bytes, or none of them but the archive's own."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(io.BytesIO(other)) as another:
        members = {name: archive.read(name) for name in archive.namelist() if not name.startswith("experimental")}
        name = "model.ini" if rng.random() < 0.3 else pick(rng, sorted(members))
        similar = another.read(name if name in another.namelist() else "model.ini")
    is_text = not name.endswith((".bin", "boosterBytes"))
    members[name] = (
        mutate_text(rng, members[name].decode()).encode(errors="replace")
        if is_text and rng.random() < 0.8
        else mutate_bytes(rng, members[name], similar)
    )
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)  # of no time: cases repeat
    return result.getvalue()


SINGLES = (0.5, -0.0, 1e-45, 3.4028235e38, float("nan"), float("inf"))


def mutate_model(rng, data, _):
    """XGBoost's binary file with other numbers in its parameters, nodes or statistics, or other texts."""
    data = bytearray(data)
    starts = binary_numbers(data)
    for _ in range(1 + int(rng.integers(3))):
        at = pick(rng, pick(rng, starts))
        word = (
            np.float32(pick(rng, SINGLES)).tobytes()
            if rng.random() < 0.3
            else struct.pack("<q", pick(rng, INTEGERS))[:4]
        )
        data[at : at + 4] = word
    return bytes(data)


def binary_numbers(data):
    """Where numbers of 4 bytes stand in XGBoost's binary file: of the learner, of trees, of nodes, behind them."""
    at = 4 if data.startswith(b"binf") else 0
    learner = range(at, at + 36, 4)
    at += 136
    for _ in range(2):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    (n_trees,) = struct.unpack_from("<i", data, at)
    parameters, nodes = list(range(at, at + 32, 4)), []
    at += 160
    for _ in range(n_trees):
        (n_nodes,) = struct.unpack_from("<i", data, at + 4)
        parameters += range(at, at + 24, 4)
        nodes += range(at + 148, at + 148 + 36 * n_nodes, 4)
        at += 148 + 36 * n_nodes
    return learner, parameters, nodes, nodes, range(at, len(data) - 4)


MUTATORS = {
    ".json": mutate_json,
    ".ubj": mutate_ubj,
    ".txt": mutate_txt,
    ".cbm": mutate_cbm,
    ".onnx": mutate_onnx,
    ".treelite": mutate_treelite,
    ".glasswood": mutate_glasswood,
    ".explainer": mutate_explainer,
    ".spark": mutate_spark,
    ".zip": mutate_zip,
    ".model": mutate_model,
}
