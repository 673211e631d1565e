"""Small files that ask for much, for what reads other files than `glasswood.load`: stored objects and tables.

They are (name, door, suffix, function that returns bytes); the doors are in `DOORS`.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as arrow
from pyarrow import ipc, parquet
from tests.fuzz.formats import join_glasswood, split_glasswood
from tests.strategies import full_forest

import glasswood
from glasswood.cli.tables.reader import TableReader

MEGABYTE = 2**20


def read_table(path):
    """Read a table batch by batch, as commands do."""
    reader = TableReader(path)
    for batch in reader.batches(reader.names, [], [], 65_536):
        batch.num_rows  # noqa: B018


DOORS = {
    "load": glasswood.load,
    "Explainer.load": glasswood.Explainer.load,
    "Neighbors.load": glasswood.Neighbors.load,
    "ScoreValues.load": glasswood.ScoreValues.load,
    "Summary.load": glasswood.Summary.load,
    "tables": read_table,
}


def stored(make, suffix=".glasswood"):
    """Bytes that an object's `save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"seed{suffix}"
        make().save(path)
        return path.read_bytes()


def rows(n=60, n_features=3):
    return np.random.default_rng(0).normal(size=(n, n_features))


def summary_attacks():
    """Attacks on `Summary.load`."""
    forest = full_forest(0, 4, 3, 3)
    state = json.loads(stored(lambda: glasswood.Explainer(forest).summary(rows(), pair_rows=5), ".json"))
    texts = [""] * 120_000
    for name, changed in (
        ("many features and outputs", {"names": texts, "output_names": texts}),
        ("many features", {"names": texts}),
        ("many outputs of few features", {"names": texts[:3000], "output_names": texts[:3000]}),
        ("many rows", {"n_rows": 2**63 - 1, "n_pair_rows": 2**63 - 1}),
        ("a place far off", {"places": [2**62], "counts": [1]}),
        ("many places", {"places": list(range(60_000)), "counts": [1] * 60_000}),
        ("a number of many digits", {"total": [int("9" * 4000)] * 200}),
        ("a scale without end", {"scale": 1e308}),
        ("many pairs", {"pair_magnitudes": [0] * 300_000}),
    ):
        yield name, partial(bytes, json.dumps(state | changed).encode())
    yield "brackets", lambda: b"[" * MEGABYTE
    yield "a text of a megabyte", lambda: b'"' + b"x" * (MEGABYTE - 9) + b'"'


def score_attacks():
    """Attacks on `ScoreValues.load`."""
    state = {"names": ["a"], "loss": "l2", "n_rows": 9, "baseline": 1.0, "moments": [[1.0]] * 6}
    for name, changed in (
        ("many names", {"names": [""] * 250_000}),
        ("many names and moments", {"names": [""] * 40_000, "moments": [[0] * 40_000] * 6}),
        ("moments of many axes", {"moments": json.loads("[" * 60 + "1.0" + "]" * 60)}),
        ("moments of no entries", {"moments": [[]] * 250_000}),
        ("moments of unequal lengths", {"moments": [[0], [0, 0]] * 60_000}),
        ("a number of many digits", {"n_rows": int("9" * 4000)}),
    ):
        yield name, partial(bytes, json.dumps(state | changed).encode())
    yield "brackets", lambda: b"[" * MEGABYTE


def changed_file(data, header=None, about=None, entries=None):
    """A `.glasswood` file that says other things of itself."""
    version, head, arrays = split_glasswood(data)
    head |= header or {}
    head["attachment"] |= about or {}
    for entry in head["arrays"]:
        entry |= (entries or {}).get(entry["name"], {})
    return join_glasswood(version, head, arrays)


def attached(data):
    """Names of the arrays beside the forest."""
    return [entry["name"] for entry in split_glasswood(data)[1]["arrays"] if entry["name"].startswith("attached.")]


def file_attacks(data, counts):
    """Attacks on what reads forests with other things beside: shapes that are huge, empty or of many axes."""
    for name in attached(data):
        for shape in ([2**40], [2**31 - 1, 0], [1] * 60):
            yield (
                f"{name} of the shape {str(shape)[:20]}",
                partial(changed_file, data, entries={name: {"shape": shape}}),
            )
    for key in counts:
        for value in (2**31 - 1, 2**62):
            yield f"{key} of {value}", partial(changed_file, data, about={key: value})
    version, header, arrays = split_glasswood(data)
    one = next(entry for entry in header["arrays"] if entry["name"].startswith("attached."))
    many = [one | {"name": f"attached.x{i}"} for i in range(7000)]
    yield "many arrays", partial(join_glasswood, version, header | {"arrays": header["arrays"] + many}, arrays)
    deep = b'{"attachment":' + b"[" * 500_000
    yield "a nested note", partial(join_glasswood, version, deep, arrays)


def neighbors_attacks():
    """Attacks on `Neighbors.load`."""
    X = rows()
    data = stored(lambda: glasswood.Neighbors(full_forest(0, 4, 3, 3), X, X[:, 0], check=False))
    yield from file_attacks(data, ("outputs", "version"))
    wide = full_forest(0, 1, 1, 2)
    yield (
        "many trees of few rows",
        lambda: stored(lambda: glasswood.Neighbors(full_forest(0, 2500, 1, 2), rows(2, 2), check=False)),
    )
    yield (
        "many rows of one tree",
        lambda: stored(lambda: glasswood.Neighbors(wide, rows(30_000, 2).astype(np.float32), check=False)),
    )
    targets = rows(60, 400)
    yield "many targets", lambda: stored(lambda: glasswood.Neighbors(full_forest(0, 4, 3, 3), X, targets, check=False))


def explainer_attacks():
    """Attacks on `Explainer.load`, which builds its tables."""
    background = rows(40)
    data = stored(lambda: glasswood.Explainer(full_forest(0, 4, 3, 3), background))
    yield from file_attacks(data, ("version",))
    settings = split_glasswood(data)[1]["attachment"]["settings"]
    for name, changed in (
        ("many groups", {"groups": {f"g{i}": [0] for i in range(60_000)}}),
        ("groups of one feature many times", {"groups": {"g": [0] * 300_000}}),
        ("many names", {"feature_names": [""] * 250_000}),
        ("many names of outputs", {"output_names": [""] * 250_000}),
        ("tables of 2^62 bytes", {"table_bytes": 2**62}),
    ):
        yield name, partial(changed_file, data, about={"settings": settings | changed})
    for depth, n_trees, n_features in ((13, 1, 13), (10, 8, 10), (6, 150, 30), (1, 5000, 500)):
        forest = partial(full_forest, 0, n_trees, depth, n_features)
        for n in (0, 50):
            yield (
                f"{n_trees} trees of depth {depth}, {n} background rows",
                partial(
                    stored,
                    lambda n=n, forest=forest, f=n_features: glasswood.Explainer(forest(), rows(n, f) if n else None),
                ),
            )


def written(write, table, **options):
    """Bytes of a table."""
    sink = arrow.BufferOutputStream()
    write(table, sink, **options)
    return sink.getvalue().to_pybytes()


def arrow_bytes(table, make, **options):
    """Bytes of an Arrow file or stream."""
    sink = arrow.BufferOutputStream()
    with make(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def table_attacks():
    """Attacks on what commands read: (name, suffix, function)."""
    n = 5_000_000
    zeros = arrow.table({"a": np.zeros(n)})
    text = arrow.table({"k": arrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 30])})
    long = arrow.table({"k": arrow.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), ["x" * 500_000])})
    yield "zeros", ".parquet", lambda: written(parquet.write_table, zeros, compression="zstd")
    yield "one text many times", ".parquet", lambda: written(parquet.write_table, text)
    wide = arrow.table({f"c{i}": arrow.array([0.5]) for i in range(4000)})
    yield "many columns", ".parquet", lambda: written(parquet.write_table, wide.slice(0, 0))
    yield (
        "many row groups",
        ".parquet",
        lambda: written(parquet.write_table, arrow.table({"a": np.arange(4000.0)}), row_group_size=1),
    )
    for make, name in ((ipc.new_file, "file"), (ipc.new_stream, "stream")):
        yield f"zeros, compressed, {name}", ".arrow", partial(arrow_bytes, zeros, make, compression="zstd")
        yield f"one long text many times, {name}", ".arrow", partial(arrow_bytes, long, make, compression="zstd")
        yield f"many columns, {name}", ".arrow", partial(arrow_bytes, wide.select(range(3000)).slice(0, 0), make)
        nothing = arrow.table({"a": arrow.nulls(2**40 // 2**10)})
        yield f"nulls without end, {name}", ".arrow", partial(arrow_bytes, nothing, make)
    yield "many columns", ".csv", lambda: b",".join(b"c%d" % i for i in range(130_000)) + b"\n"
    yield "one line", ".csv", lambda: b"a," * (MEGABYTE // 2)
    yield "line ends", ".csv", lambda: b"a\n" + b"\n" * (MEGABYTE - 4)
    yield "an open quote", ".csv", lambda: b'a,b\n"' + b"x" * (MEGABYTE - 9)
    yield (
        "many columns and rows",
        ".csv",
        lambda: b",".join(b"c%d" % i for i in range(3000)) + b"\n" + (b"," * 2999 + b"\n") * 300,
    )
    yield "zeros, compressed", ".csv.gz", lambda: gzip.compress(b"a\n" + b"0\n" * 20_000_000, 6)
    yield "one line, compressed", ".csv.gz", lambda: gzip.compress(b"a," * 20_000_000, 6)


def door_attacks():
    """All of them."""
    for door, made in (
        ("Summary.load", summary_attacks()),
        ("ScoreValues.load", score_attacks()),
        ("Neighbors.load", neighbors_attacks()),
        ("Explainer.load", explainer_attacks()),
    ):
        suffix = ".json" if door in {"Summary.load", "ScoreValues.load"} else ".glasswood"
        yield from ((f"{door}: {name}", door, suffix, build) for name, build in made)
    yield from ((f"{suffix[1:]}: {name}", "tables", suffix, build) for name, suffix, build in table_attacks())
