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


@pytest.mark.parametrize("change", [{"outputs": -1}, {"outputs": "1"}, {"more": 1}])
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


def rewritten(path, forest, attachment, **changes):
    save_forest(forest, path, Attachment(attachment.about, {**attachment.arrays, **changes}))
    return path


def moved(offsets, rows, n):
    """The lists of an index whose first tree lists its last row twice and another row not at all."""
    leaf = next(
        leaf
        for leaf in range(len(offsets) - 1)
        if offsets[leaf + 1] - offsets[leaf] > 1 and rows[offsets[leaf + 1] - 1] < n - 2
    )
    result = rows.copy()
    result[offsets[leaf + 1] - 1] = n - 1
    return result


def test_a_row_in_two_leaves_is_refused(saved, tmp_path):
    """Answers once came from memory that nobody had written."""
    forest, attachment = load_attachment(saved[1])
    arrays = attachment.arrays
    rows = moved(arrays["offsets"], arrays["rows"], len(arrays["training"]))
    path = rewritten(tmp_path / "twice.glasswood", forest, attachment, rows=rows)
    with pytest.raises(ValueError, match=r"twice.glasswood is truncated or corrupt.*tree 0 does not list row"):
        glasswood.Neighbors.load(path)


def test_targets_without_axes_are_refused(saved, tmp_path):
    forest, attachment = load_attachment(saved[1])
    path = rewritten(tmp_path / "scalar.glasswood", forest, attachment, targets=np.array(1.0))
    with pytest.raises(ValueError, match=r"scalar.glasswood is truncated or corrupt.*targets has the shape \(\)"):
        glasswood.Neighbors.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", lambda a: np.where(np.arange(len(a)) == 3, np.nan, a)),
        ("targets", lambda a: a + 1),
        ("targets", lambda a: np.stack([a, a], axis=1)),
        ("row_weight", lambda _: np.full(400, -1.0)),
        ("row_weight", lambda _: np.zeros(400)),
        ("scores", lambda _: np.array([2.0, 1.0])),
        ("scores", lambda _: np.array([np.nan])),
        ("scores", lambda _: np.zeros(0)),
        ("target0.rows", lambda a: a[::-1].copy()),
        ("target0.mass", lambda a: a - 1),
        ("target0.mass", lambda a: np.full_like(a, np.nan)),
        ("target0.mass", lambda a: a[:0]),
        ("bags", lambda a: a * 0),
    ],
)
def test_numbers_that_no_index_has_are_refused(saved, name, change, tmp_path):
    forest, attachment = load_attachment(saved[1])
    found = change(attachment.arrays.get(name))
    path = rewritten(tmp_path / "numbers.glasswood", forest, attachment, **{name: found})
    with pytest.raises(ValueError, match=r"numbers.glasswood is truncated or corrupt"):
        glasswood.Neighbors.load(path)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_all_that_is_saved_is_read(random_forest, numbers, weights, n_targets, tmp_path):
    X, y = numbers[0], np.random.default_rng(0).integers(5, size=(len(numbers[0]), n_targets)).astype(float)
    sample_weight = np.random.default_rng(1).integers(3, size=len(X)) / 7 if weights else None
    neighbors = glasswood.Neighbors(random_forest, X, y, sample_weight=sample_weight, check=False)
    neighbors.save(tmp_path / "some.glasswood")
    read = glasswood.Neighbors.load(tmp_path / "some.glasswood")
    np.testing.assert_array_equal(read.quantile(numbers[2], [0.2, 0.7]), neighbors.quantile(numbers[2], [0.2, 0.7]))
