"""What a small file may cost: every attack is refused, or read, in little time and memory."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import pytest
from tests.readers import spark_models
from tests.readers.resource_attacks import MEGABYTE, attacks

import glasswood
from glasswood.base.sources import BINARY, FILES

resource = pytest.importorskip("resource", reason="limits of POSIX")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="how much is used is read as Linux tells it")

SECONDS, BYTES = 2.0, 500_000_000
"""For a file of a megabyte at most: processor time and memory."""


@pytest.mark.parametrize("name", attacks())
def test_a_small_file_costs_little(tmp_path, name):
    suffix, build = attacks()[name]
    data = build()
    assert len(data) <= 1.01 * MEGABYTE
    path = tmp_path / f"model{suffix}"
    path.write_bytes(data)
    if suffix == ".spark":
        path = spark_models.unpack(data, tmp_path / "folder")
    start = time.process_time()
    with memory_of(BYTES):
        told = read(path)
    assert time.process_time() - start < SECONDS
    assert told is None or str(path) in told


@contextlib.contextmanager
def memory_of(n_bytes):
    """So much more address space than is used already, and no more."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def read(path):
    """What is said of a file that is refused."""
    try:
        glasswood.load(path)
    except (ValueError, NotImplementedError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [name for name in attacks() if "root" in name or "child" in name])
def test_trees_that_share_nodes_are_refused(tmp_path, name):
    (tmp_path / "model.onnx").write_bytes(attacks()[name][1]())
    assert "is reached on two ways: its trees are cyclic or share nodes" in read(tmp_path / "model.onnx")


def test_every_kind_of_file_has_attacks():
    """A new reader needs its own: files by suffix, XGBoost's binary files, folders."""
    attacked = {suffix for suffix, _ in attacks().values()}
    assert {"" if kind == BINARY else kind for kind in (*FILES, ".glasswood", ".spark")} == attacked
