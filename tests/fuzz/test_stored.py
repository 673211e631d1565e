"""The attack on files of neighbours, summaries and tables: briefly, and that it finds what it is for."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

import glasswood
from glasswood.cli.tables import columnar
from glasswood.model.storage import Attachment, load_attachment, save_forest
from glasswood.neighbors import stored as stored_neighbors
from tests.cli.test_hostile_tables import CODED, CODES, changed, content
from tests.fuzz.stored import attack, main, make_case, seeds
from tests.neighbors.test_stored import moved
from tests.strategies import full_forest


@pytest.mark.skipif(sys.platform != "linux", reason="limits of POSIX")
def test_nothing_is_found_in_the_first_cases(capsys):
    assert main(["--cases=60", "--seed=1"]) == 0
    assert "60 files of neighbours, summaries and tables, 0 findings" in capsys.readouterr().out


def test_cases_depend_on_seed_and_number(tmp_path):
    found = seeds(tmp_path)
    cases = [make_case(found, seed, number) for seed in (1, 2) for number in (5, 6)]
    assert [make_case(found, seed, number) for seed in (1, 2) for number in (5, 6)] == cases
    assert len({data for _, data in cases}) == 4


def first_of_kind(kind, tmp_path, n=150):
    """What is found first, in the first cases of a kind."""
    found = seeds(tmp_path)
    for number in range(n):
        case, data = make_case(found, 1, number)
        if case == kind:
            path = tmp_path / "case.file"
            path = path.with_suffix({"neighbors": ".glasswood", "summary": ".json"}.get(kind, ".arrow"))
            path.write_bytes(data)
            if finding := attack(kind, path):
                return finding
    return None


def test_rows_listed_twice_are_found_again(tmp_path, monkeypatch):
    """Without the check of lists, answers come from memory that nobody has written, or an error names no file."""

    def unchecked(index):
        n, leaf = len(index), np.repeat(np.arange(index.forest.n_leaves), np.diff(index.lists.offsets))
        result = [np.zeros(n, np.int32) for _ in range(index.forest.n_trees)]
        for tree, one in enumerate(result):
            one[index.lists.rows[tree * n : (tree + 1) * n]] = leaf[tree * n : (tree + 1) * n]
        return result

    X = np.random.default_rng(0).normal(size=(60, 3))
    glasswood.Neighbors(full_forest(0, 4, 3, 3), X, X[:, 0], check=False).save(tmp_path / "twice.glasswood")
    forest, attachment = load_attachment(tmp_path / "twice.glasswood")
    arrays = attachment.arrays
    arrays["rows"] = moved(arrays["offsets"], arrays["rows"], 60)
    save_forest(forest, tmp_path / "twice.glasswood", Attachment(attachment.about, arrays))
    assert attack("neighbors", tmp_path / "twice.glasswood") is None
    monkeypatch.setattr(stored_neighbors, "_leaves_of_trees", unchecked)
    monkeypatch.setattr(stored_neighbors, "_check_target", lambda *_: None)
    assert attack("neighbors", tmp_path / "twice.glasswood") is not None


def test_summaries_without_checks_are_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr(glasswood.explain.results.summary, "checked_state", lambda state, _: state)
    assert first_of_kind("summary", tmp_path)


def test_tables_without_checks_are_found_again(tmp_path, monkeypatch):
    path = tmp_path / "codes.arrow"
    codes = np.array([0, 9, 2], np.int32).tobytes()
    path.write_bytes(changed(content(CODED, pa.ipc.new_file), CODES, codes))
    assert attack("arrow", path) is None
    monkeypatch.setattr(columnar, "validated", lambda rows: rows)
    assert "IndexError" in attack("arrow", path)
