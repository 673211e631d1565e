"""What a small file may cost: every attack is refused, or read, in little time and memory."""

from __future__ import annotations

import sys

import pytest
from tests.readers.door_attacks import DOORS
from tests.readers.resource_attacks import MEGABYTE, attacks
from tests.readers.resource_costs import BYTES, SECONDS, cost_of, place, small_process

import glasswood
from glasswood.base.sources import BINARY, FILES
from glasswood.cli.tables.formats import SUFFIXES
from glasswood.readers.spark.stages import STAGES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="how much is used is read as Linux tells it")


@pytest.fixture(scope="module")
def small():
    with small_process() as cost_of_one:
        yield cost_of_one


@pytest.mark.parametrize("name", attacks())
def test_a_small_file_costs_little(tmp_path, small, name):
    attack = attacks()[name]
    data = attack.build()
    assert len(data) <= 1.01 * MEGABYTE
    path = place(data, attack.suffix, tmp_path)
    cost = small(path, attack.door)
    assert cost.seconds < SECONDS
    assert cost.peak < BYTES
    assert not cost.ran_out
    assert cost.told is None or str(path) in cost.told


def test_what_costs_much_is_found(tmp_path, monkeypatch):
    """Memory that is used, and memory that is asked for and refused by the system."""
    monkeypatch.setitem(DOORS, "much", lambda _: bytes(range(256)) * 2**22)
    monkeypatch.setitem(DOORS, "too much", refusing)
    assert cost_of(tmp_path / "x", "much").peak > BYTES
    assert cost_of(tmp_path / "x", "too much").ran_out


def refusing(path):
    """Ask for what no machine has, and say something else."""
    try:
        bytearray(2**46)
    except MemoryError as error:
        raise ValueError(f"{path} is corrupt") from error


@pytest.mark.parametrize("name", [name for name in attacks() if "root" in name or "child" in name])
def test_trees_that_share_nodes_are_refused(tmp_path, small, name):
    path = place(attacks()[name].build(), ".onnx", tmp_path)
    assert "is reached on two ways: its trees are cyclic or share nodes" in small(path, "load").told


def test_every_kind_of_file_has_attacks():
    """A new reader needs its own: files by suffix, XGBoost's binary files, folders."""
    attacked = {attack.suffix for attack in attacks().values() if attack.door == "load"}
    assert {"" if kind == BINARY else kind for kind in (*FILES, ".glasswood", ".spark")} == attacked


def test_every_door_has_attacks():
    """Whatever reads a stored object, and every format of tables."""
    attacked = {attack.door for attack in attacks().values()}
    classes = [getattr(glasswood, name) for name in glasswood.__all__ if isinstance(getattr(glasswood, name), type)]
    own = [one for one in classes if hasattr(one, "load") and not any(base in classes for base in one.__mro__[1:])]
    loading = {f"{one.__name__}.load" for one in own}
    assert loading | {"load", "tables"} == attacked == DOORS.keys()
    of_tables = {attack.suffix for attack in attacks().values() if attack.door == "tables"}
    assert {SUFFIXES[suffix] for suffix in of_tables} == {*SUFFIXES.values()}


def test_every_stage_of_spark_has_attacks():
    names = " ".join(attacks())
    assert not [stage for stage in STAGES if stage.removesuffix("Model") not in names]
