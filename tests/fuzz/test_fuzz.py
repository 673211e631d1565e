"""A few seconds of `make fuzz`, and that it would find something."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from glasswood.readers.ubjson import decode
from tests.fuzz import ubjson
from tests.fuzz.child import make_case
from tests.fuzz.formats import SUFFIXES, find_seeds, join_glasswood, repair_sizes, split_glasswood, to_lists
from tests.fuzz.one_input import DOORS, TestOneInput, corpus
from tests.fuzz.run import Fuzzer, main, parse
from tests.fuzz.target import attack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")


def fuzz(tmp_path, *options):
    fuzzer = Fuzzer(parse(["--workers=1", f"--keep={tmp_path / 'kept'}", *options]))
    fuzzer.run()
    return fuzzer


def test_nothing_is_found_in_the_first_cases(tmp_path, capsys):
    code = main(["--workers=1", f"--cases={50 * len(SUFFIXES)}", "--seed=0", f"--keep={tmp_path / 'kept'}"])
    report = capsys.readouterr().out
    assert code == 0, report
    counts = [list(map(int, row)) for row in re.findall(r"^\.\w+ +(\d+) +(\d+) +(\d+) +0$", report, re.MULTILINE)]
    assert len(counts) == len(SUFFIXES)
    for cases, loaded, refused in counts:
        assert cases == loaded + refused == 50
        assert 0 < loaded < 50


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ("crash", "crash (exit code -6)"),
        ("raw_error", "KeyError"),
        *(pytest.param(*fault, marks=pytest.mark.slow) for fault in (("hang", "hang"), ("gorge", "MemoryError"))),
    ],
)
def test_faults_are_found_and_kept(tmp_path, fault, place):
    seconds = 1 if fault == "hang" else 20  # a busy machine takes more than one for the others
    options = (f"--target=tests.fuzz.planted:{fault}", "--cases=2", "--seed=1", f"--case-seconds={seconds}")
    fuzzer = fuzz(tmp_path, *options)
    assert fuzzer.findings
    assert all(place in finding for finding in fuzzer.findings)
    for path in (tmp_path / "kept").glob("1-*[!g]"):
        suffix, data = make_case(1, int(path.stem.partition("-")[2]), fuzzer.seeds)
        assert path.suffix == suffix
        assert path.read_bytes() == data


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_seeds_are_whole_and_load(tmp_path, suffix):
    seeds = find_seeds()[suffix]
    assert len(seeds) > 4
    for data in seeds:
        path = tmp_path / f"model{suffix}"
        path.write_bytes(data)
        assert attack(path, seeds) == "loaded"


def test_one_input_of_fuzzing_drivers_holds_for_the_seeds():
    """One whole file and one cut file of each door; nothing is raised, as drivers take it for a finding."""
    by_door = {}
    for data in corpus():
        by_door.setdefault(DOORS[data[0]], data)
    assert list(by_door) == DOORS
    for data in by_door.values():
        TestOneInput(data)
        TestOneInput(data[: len(data) // 2])
    TestOneInput(b"")


def test_one_input_of_fuzzing_drivers_raises_what_is_wrong(monkeypatch):
    monkeypatch.setattr("tests.fuzz.one_input.is_archive", lambda _: True)
    for module, name in (("tests.fuzz.one_input", "attack"), ("tests.fuzz.stored", "attack")):
        monkeypatch.setattr(f"{module}.{name}", lambda *_: {}["planted"])
    for door in range(len(DOORS)):
        with pytest.raises(KeyError, match="planted"):
            TestOneInput(bytes([door]) + b"file")


def test_what_mutators_write_is_what_they_read():
    seeds = find_seeds()
    for data in seeds[".ubj"]:
        document = to_lists(decode(data))
        assert repr(to_lists(decode(ubjson.encode(document)))) == repr(document)  # NaN among the thresholds
    for data in seeds[".glasswood"]:
        assert join_glasswood(*split_glasswood(data)) == data
    for data in seeds[".txt"]:
        assert repair_sizes(data.decode()) == data.decode()


def test_cases_depend_on_seed_and_number():
    seeds = find_seeds()
    for number in range(10):
        assert make_case(3, number, seeds) == make_case(3, number, seeds)
    assert len({make_case(seed, 4, seeds)[1] for seed in range(20)}) > 10
    assert np.array_equal([make_case(0, n, seeds)[0] for n in range(len(SUFFIXES))], SUFFIXES)
