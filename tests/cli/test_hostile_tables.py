"""Arrow and Parquet files that are not what they say: refused in a sentence, never read beyond their bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glasswood.cli.tables.reader import TableReader

SCRIPT = """
import sys
from pathlib import Path
from glasswood.cli.tables.reader import TableReader
for path in sys.argv[1:]:
    try:
        for batch in TableReader(Path(path)).batches(["a", "k"], [], [], 10):
            batch.to_pylist()
        print("read")
    except ValueError as error:
        print(error)
"""
TABLE = pa.table({"a": [0.0, 1.0, 2.0], "k": ["u", "v", "w"]})
CODED = pa.table({"a": [0.0, 1.0, 2.0], "k": pa.array(["u", "v", "w"]).dictionary_encode()})
OFFSETS = np.array([0, 1, 2, 3], np.int32).tobytes()
CODES = np.array([0, 1, 2], np.int32).tobytes()


def content(table, make):
    sink = pa.BufferOutputStream()
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def changed(data, old, new):
    at = data.rfind(old)
    assert at > 0
    return data[:at] + new + data[at + len(new) :]


def said(*paths, data=None):
    """What a process of its own, which may crash, says of each file."""
    command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
    found = subprocess.run(command, capture_output=True, input=data, check=False)
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout.decode().splitlines()


BEYOND = ([0, -500_000, 2, 3], [0, 1, 2, 2**30], [0, 3, 1, 3], [-(2**31), 1, 2, 3], [2**31 - 1, 1, 2, 3])


def test_texts_beyond_their_bytes_are_refused(tmp_path):
    """An .arrow file of 650 bytes ended the process by SIGSEGV."""
    paths = []
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        for offsets in BEYOND:
            paths.append(tmp_path / f"rows{len(paths)}.arrow")
            paths[-1].write_bytes(changed(content(TABLE, make), OFFSETS, np.array(offsets, np.int32).tobytes()))
    whole = tmp_path / "whole.arrow"
    whole.write_bytes(content(TABLE, pa.ipc.new_file))
    *told, last = said(*paths, whole)
    assert last == "read"
    assert all(words.startswith(f"cannot read {path}: ") for path, words in zip(paths, told, strict=True))
    for path in (paths[0], paths[len(BEYOND)]):
        (words,) = said("-", data=path.read_bytes())
        assert words.startswith("cannot read standard input: ")


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("codes", [[0, 9, 2], [-1, 0, 1], [2**31 - 1, 0, 0]])
def test_codes_of_no_category_are_refused(tmp_path, make, codes):
    """They raised IndexError."""
    path = tmp_path / "rows.feather"
    path.write_bytes(changed(content(CODED, make), CODES, np.array(codes, np.int32).tobytes()))
    with pytest.raises(ValueError, match=r"cannot read .*rows.feather"):
        list(TableReader(path).batches(["a", "k"], [], [], 10))
    with pytest.raises(ValueError, match=r"cannot read .*rows.feather"):
        TableReader(path).whole()


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_texts_that_are_no_utf_8_are_refused(tmp_path, make):
    path = tmp_path / "rows.arrow"
    path.write_bytes(changed(content(TABLE, make), b"uvw", b"\xff\xfe\xfd"))
    with pytest.raises(ValueError, match=r"cannot read .*rows.arrow"):
        list(TableReader(path).batches(["a", "k"], [], [], 10))


def test_texts_of_parquet_that_are_no_utf_8_are_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"a": [0.0, 1.0], "k": ["zz", "qzqzq"]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(changed(path.read_bytes(), b"qzqzq", b"\xff" * 5))
    with pytest.raises(ValueError, match=r"cannot read .*rows.parquet"):
        list(TableReader(path).batches(["a", "k"], [], [], 10))


def test_a_file_that_is_cut_off_meanwhile_is_refused(tmp_path):
    """Mapped into memory, it ended the process by SIGBUS."""
    path = tmp_path / "rows.arrow"
    table = pa.table({"a": np.random.default_rng(0).normal(size=200_000), "k": ["text"] * 200_000})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=20_000)
    batches = TableReader(path).batches(["a", "k"], [], [], 1000)
    next(batches)
    os.truncate(path, 5000)
    with pytest.raises(ValueError, match=r"cannot read .*rows\.arrow"):
        list(batches)
