"""XGBoost's binary format: damaged, hostile, and under other names; tests/readers/test_versions.py has real files."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.formats import binary_numbers

import glasswood

DATA = Path(__file__).parent / "data" / "versions"
FILES = {
    name: (DATA / f"xgboost-{name}.model").read_bytes() for name in ("0.80-dart", "0.90-poisson", "3.0.5-softprob")
}
NEW = FILES["3.0.5-softprob"]
LEARNER, PARAMETERS, NODES, *_ = binary_numbers(NEW)
TREE = PARAMETERS[8:]


def load(tmp_path, data, name="model.bin"):
    (tmp_path / name).write_bytes(data)
    return glasswood.load(tmp_path / name)


def changed(data, at, value, layout="<i"):
    return data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :]


@pytest.mark.parametrize(
    "name", ["model", "model.model", "model.bst", "xgboost-model", "model.json", "m.txt", "m.onnx"]
)
def test_any_name(tmp_path, name):
    for data in FILES.values():
        forest = load(tmp_path, data, name)
        assert forest.n_trees == 3 * forest.n_outputs
    assert forest.source == "xgboost 3.0"
    assert forest.feature_names is None
    assert load(tmp_path, FILES["0.80-dart"]).source == "xgboost before 1.0"
    assert glasswood.load(tmp_path / "model.bin", format="xgboost").n_trees == 3


def test_the_first_bytes_may_be_left_out(tmp_path):
    """XGBoost wrote "binf" since 1.0 and read files without it."""
    both = [load(tmp_path, data).predict(np.eye(4)) for data in (NEW, NEW[4:])]
    np.testing.assert_array_equal(*both)


HOSTILE = {
    "many trees": (PARAMETERS[0], 2**31 - 1, "declares 2147483647 trees, more than"),
    "no such count of trees": (PARAMETERS[0], -1, "declares -1 trees"),
    "two roots": (TREE[0], 2, "tree 0 has 2 roots"),
    "many nodes": (TREE[1], 2**31 - 1, "tree 0 declares 2147483647 nodes, expected 1 to"),
    "no nodes": (TREE[1], 0, "tree 0 declares 0 nodes"),
    "vectors": (TREE[5], 3, "3 values a leaf"),
    "more classes": (LEARNER[2], 2**30, "classes"),
    "fewer classes": (LEARNER[2], 2, "trees add to outputs 0 to 2, it has 2"),
    "fewer than no classes": (LEARNER[2], -1, "trees add to outputs"),
    "fewer features": (LEARNER[1], 1, "a split on a feature beyond the 1 declared"),
    "a later version": (LEARNER[5], 4, "XGBoost 4.0 wrote it, which wrote this format up to 3.0"),
    "a left child of another tree": (NODES[1], 99, "tree 0 names child 99"),
    "a cycle": (NODES[1], 0, "tree 0 reaches node 0 twice"),
    "a child twice": (NODES[1], 2, "tree 0 reaches node 2 twice"),
    "a threshold that is NaN": (NODES[4], 0x7FC00000, "tree 0 has a threshold that is NaN"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_numbers_are_refused(tmp_path, name):
    at, value, message = HOSTILE[name]
    with pytest.raises(ValueError, match=rf"model\.bin holds no valid XGBoost model: .*({message})"):
        load(tmp_path, changed(NEW, at, value))


@pytest.mark.parametrize("name", FILES)
def test_pieces_are_refused(tmp_path, name):
    data = FILES[name]
    for n_bytes in (5, 140, 200, 330, len(data) // 2, len(data) - 4, len(data) - 1):
        with pytest.raises(ValueError, match=r"model\.bin"):
            load(tmp_path, data[:n_bytes])
    with pytest.raises(ValueError, match="1 bytes follow its end"):
        load(tmp_path, data + b"\0")


def test_linear_boosters_are_refused_by_name(tmp_path):
    at = NEW.index(b"gbtree") - 8
    with pytest.raises(NotImplementedError, match="the booster 'gblinear' is not supported"):
        load(tmp_path, NEW[:at] + struct.pack("<Q", 8) + b"gblinear" + NEW[at + 14 :])


def test_base_scores_of_1_3_0_are_uncertain(tmp_path):
    shutil.copy(DATA / "xgboost-1.3.3-logitraw.model", tmp_path / "a.model")
    with pytest.warns(UserWarning, match=r"XGBoost 1\.3\.0, whose base_score of binary:logitraw is a probability"):
        glasswood.load(tmp_path / "a.model")
