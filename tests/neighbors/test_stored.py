"""Neighbours in files: the same answers, mapped or read, and damaged files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import glasswood
from glasswood.model.storage import Attachment, load_attachment, save_forest


@pytest.fixture
def saved(random_forest, numbers, tmp_path):
    neighbors = glasswood.Neighbors(random_forest, *numbers[:2]).conformalize(*numbers[2:])
    neighbors.save(tmp_path / "neighbors.glasswood")
    return neighbors, tmp_path / "neighbors.glasswood"


@pytest.mark.parametrize("mmap", [False, True])
def test_files_answer_the_same(saved, numbers, mmap):
    neighbors, path = saved
    read = glasswood.Neighbors.load(path, mmap=mmap)
    rows = numbers[2]
    assert neighbors.quantile(rows, [0.1, 0.9]).tobytes() == read.quantile(rows, [0.1, 0.9]).tobytes()
    for one, other in zip(neighbors.kneighbors(rows, 4), read.kneighbors(rows, 4), strict=True):
        np.testing.assert_array_equal(one, other)
    for method in ("split", "jackknife+"):
        np.testing.assert_array_equal(
            neighbors.predict_interval(rows, method=method), read.predict_interval(rows, method=method)
        )
    np.testing.assert_array_equal(neighbors.influence(rows, 3)[0], read.influence(rows, 3)[0])
    np.testing.assert_array_equal(neighbors.sample(rows, 5, random_state=1), read.sample(rows, 5, random_state=1))


def test_forests_of_such_files_load(saved, random_forest, numbers):
    np.testing.assert_allclose(glasswood.load(saved[1]).predict(numbers[2]), random_forest.predict(numbers[2]))
    forest = glasswood.load(random_forest)
    forest.save(saved[1].with_name("forest.glasswood"))
    with pytest.raises(ValueError, match="holds no neighbours; pass its forest"):
        glasswood.Neighbors.load(saved[1].with_name("forest.glasswood"))


def test_neighbours_can_be_pickled(saved, numbers):
    neighbors, _ = saved
    neighbors.quantile(numbers[2])
    read = pickle.loads(pickle.dumps(neighbors))
    np.testing.assert_array_equal(neighbors.quantile(numbers[2]), read.quantile(numbers[2]))
    np.testing.assert_array_equal(neighbors.kneighbors(n_neighbors=2)[1], read.kneighbors(n_neighbors=2)[1])


def test_without_targets(classifier, numbers, classes, tmp_path):
    path = tmp_path / "some.glasswood"
    for targets in (None, classes):
        glasswood.Neighbors(classifier, numbers[0], targets).save(path)
        read = glasswood.Neighbors.load(path)
        assert read.kneighbors(numbers[2], 2)[1].shape == (100, 2)
    np.testing.assert_array_equal(
        read.outlier_score(), glasswood.Neighbors(classifier, numbers[0], classes).outlier_score()
    )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda a: np.where(a == 3, 400, a).astype(np.int32)),
        ("rows", lambda a: a[::-1].copy()),
        ("offsets", lambda a: a + 1),
        ("offsets", lambda a: a[:-1]),
        ("weights", lambda a: a * 70_000),
        ("weights", lambda a: -a),
        ("training", lambda a: a[:, :2]),
        ("bags", lambda a: a[:5]),
        ("targets", lambda a: a[:5]),
        ("targets", lambda a: a.astype(np.int32)),
        ("target0.values", lambda a: a[::-1].copy()),
        ("target0.rows", lambda a: a + 400),
        ("target0.mass", lambda a: a[:3]),
        ("target0.mass", None),
        ("else", lambda _: np.zeros(1)),
    ],
)
def test_damaged_files_are_refused(saved, name, change, tmp_path):
    forest, attachment = load_attachment(saved[1])
    arrays = dict(attachment.arrays)
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays.get(name))
    path = tmp_path / "damaged.glasswood"
    save_forest(forest, path, Attachment(attachment.about, arrays))
    with pytest.raises(ValueError, match=r"damaged.glasswood is truncated or corrupt"):
        glasswood.Neighbors.load(path)


@pytest.mark.parametrize("change", [{"outputs": -1}, {"outputs": "1"}, {"by_position": 1}, {"more": 1}])
def test_damaged_headers_are_refused(saved, change, tmp_path):
    forest, attachment = load_attachment(saved[1])
    path = tmp_path / "damaged.glasswood"
    save_forest(forest, path, Attachment({**attachment.about, **change}, attachment.arrays))
    with pytest.raises(ValueError, match=r"damaged.glasswood is truncated or corrupt"):
        glasswood.Neighbors.load(path)


def test_later_versions_are_refused(saved, tmp_path):
    forest, attachment = load_attachment(saved[1])
    path = tmp_path / "later.glasswood"
    save_forest(forest, path, Attachment({**attachment.about, "version": 2}, attachment.arrays))
    with pytest.raises(ValueError, match="version 2, this glasswood reads up to 1; upgrade"):
        glasswood.Neighbors.load(path)
