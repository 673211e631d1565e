"""Files of forests: nothing is lost, nothing corrupt is loaded, nothing is left half-written."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import resource
import stat
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasswood import Explainer, Forest, load
from glasswood.base.files import replacing
from glasswood.cli import main
from glasswood.datasets import DATA
from glasswood.model import storage
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.storage import load_forest, save_forest
from tests.example_forests import assert_same, small_forest, whole_forest
from tests.fuzz.formats import join_glasswood, split_glasswood
from tests.strategies import forests


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.glasswood"
    save_forest(whole_forest(), path)
    return path


def test_no_field_of_the_stored_forest_is_at_its_default():
    """Otherwise a field that the format forgets would go unnoticed."""
    forest = whole_forest()
    for field in dataclasses.fields(TreeEnsemble):
        if field.name in {"transform", *storage.ADDED}:  # no file holds it, or only those of later versions
            continue
        default = field.default_factory() if callable(field.default_factory) else field.default
        assert not np.array_equal(getattr(forest, field.name), default, equal_nan=False), field.name


def test_round_trip_keeps_everything(file):
    assert_same(load_forest(file), whole_forest())


@given(forest=forests())
def test_any_forest_survives_the_round_trip(tmp_path_factory, forest):
    path = tmp_path_factory.mktemp("forest") / "model.glasswood"
    forest.save(path)
    loaded = load_forest(path)
    assert_same(loaded, forest)
    assert np.signbit(loaded.threshold).tolist() == np.signbit(forest.ensemble.threshold).tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1, 1, np.float32(0.1), np.int64(3)])
def test_every_float_survives_the_round_trip(tmp_path, value):
    save_forest(dataclasses.replace(small_forest(), missing=value), tmp_path / "a")
    assert load_forest(tmp_path / "a").missing.hex() == float(value).hex()


def test_numbers_of_numpy_are_stored_as_plain_ones(tmp_path):
    shape = (np.int64(2), np.int32(1))
    forest = dataclasses.replace(small_forest(), n_features=np.int64(2), is_estimator=np.True_, leaf_shape=shape)
    save_forest(forest, tmp_path / "a")
    loaded = load_forest(tmp_path / "a")
    assert (loaded.n_features, loaded.is_estimator, loaded.leaf_shape) == (2, True, (2, 1))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([b"bytes"]),
        np.array([1j]),
        np.array([(1, 2), None], object)[:1],
        np.array([1], np.longdouble),
    ],
    ids=str,
)
def test_labels_that_cannot_be_stored_are_refused(tmp_path, labels):
    forest = dataclasses.replace(small_forest(), classes=(labels,))
    with pytest.raises(TypeError, match=r"classes holds .* a \.glasswood file stores strings and numbers"):
        save_forest(forest, tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_numpy_scalars_in_object_labels_become_plain(tmp_path):
    labels = np.empty(2, object)
    labels[:] = [np.int64(3), np.str_("a")]
    save_forest(dataclasses.replace(small_forest(), classes=(labels,)), tmp_path / "a")
    assert load_forest(tmp_path / "a").classes[0].tolist() == [3, "a"]


def test_a_loaded_forest_does_not_follow_its_file(file):
    forest, size = load(file), file.stat().st_size
    file.write_bytes(b"\0" * size)
    assert_same(forest, whole_forest())
    os.truncate(file, 0)
    assert_same(forest, whole_forest())


@pytest.mark.parametrize("model", [Forest(small_forest().ensemble), DATA / "california_housing.json"])
def test_only_glasswood_files_are_mapped(model):
    with pytest.raises(
        ValueError, match=r"mmap=True maps \.glasswood files, not (Forest|\S+housing\.json); pass the path of one"
    ):
        load(model, mmap=True)


def test_arrays_are_mapped_on_request(file):
    forest = load(file, mmap=True)
    assert_same(forest, whole_forest())
    for field in dataclasses.fields(TreeEnsemble):
        array = getattr(forest.ensemble, field.name)
        if isinstance(array, np.ndarray) and field.name != "table_places":
            assert not array.flags.writeable, field.name
            assert array.flags.aligned, field.name
            while array.base is not None and not isinstance(array, np.memmap):
                array = array.base
            assert isinstance(array, np.memmap), field.name


def test_mapped_forest_survives_being_saved_over_itself(file):
    forest = load_forest(file, mmap=True)
    save_forest(forest, file)
    assert_same(load_forest(file), whole_forest())
    assert_same(forest, whole_forest())


def test_truncated_file_is_refused_at_every_length(file):
    for length in reversed(range(file.stat().st_size)):
        os.truncate(file, length)
        with pytest.raises(ValueError, match=r"is truncated or corrupt|is not a \.glasswood file"):
            load_forest(file)


def test_appended_bytes_are_refused(file):
    with file.open("ab") as handle:
        handle.write(b"\0")
    with pytest.raises(ValueError, match=r"is truncated or corrupt: .* bytes of arrays"):
        load_forest(file)


def error_of(path) -> str | None:
    """Why the file is refused; None if it is not. Any error but ValueError escapes."""
    try:
        load_forest(path)
    except ValueError as error:
        return str(error)
    return None


def test_flipped_bits_are_noticed(file):
    """Only the padding after the header is not covered by a checksum, and nothing reads it."""
    content, accepted = file.read_bytes(), []
    with file.open("r+b", buffering=0) as handle:
        for position, byte in enumerate(content):
            os.pwrite(handle.fileno(), bytes([byte ^ 1 << position % 8]), position)
            if error_of(file) is None:
                accepted.append(position)
                assert_same(load_forest(file), whole_forest())
            os.pwrite(handle.fileno(), bytes([byte]), position)
    assert len(accepted) < storage.ALIGNMENT


def test_later_version_is_refused(file):
    content = bytearray(file.read_bytes())
    content[8:12] = struct.pack("<I", storage.VERSION + 1)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="has format version 4, this glasswood reads up to 3; upgrade glasswood"):
        load_forest(file)


def test_huge_declared_header_is_refused(file):
    content = bytearray(file.read_bytes())
    content[12:16] = struct.pack("<I", 2**32 - 1)
    file.write_bytes(content)
    with pytest.raises(ValueError, match="header of 4294967295 bytes is incomplete"):
        load_forest(file)


@pytest.mark.parametrize("content", [b"", b"\x93", b"PK\3\4 and so on", b"\x89GLASS\r\n" + bytes(200)])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a \.glasswood file: it starts with"):
        load_forest(tmp_path / "a")


def test_absent_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_forest(tmp_path / "nowhere")


def rewrite(path, change_header=lambda header: header, change_arrays=lambda arrays: arrays) -> None:
    """Forge a file: valid checksums over a changed header (an object, or text) and changed arrays."""
    content = path.read_bytes()
    _, version, length, _ = storage.PREFIX.unpack(content[: storage.PREFIX.size])
    end = storage.PREFIX.size + length
    header = json.loads(content[storage.PREFIX.size : end])
    arrays = change_arrays(content[end + -end % storage.ALIGNMENT :])
    header |= {"size": len(arrays), "crc32": zlib.crc32(arrays)}
    changed = change_header(header)
    text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    prefix = storage.PREFIX.pack(storage.MAGIC, version, len(text), zlib.crc32(text))
    path.write_bytes(prefix + text + bytes(-(len(prefix) + len(text)) % storage.ALIGNMENT) + arrays)


def with_entry(**changes):
    """Change the header's entry of the first array, tree_offsets."""
    return lambda header: header | {"arrays": [header["arrays"][0] | changes, *header["arrays"][1:]]}


def with_fields(**changes):
    return lambda header: header | {"fields": header["fields"] | changes}


def without(name):
    def change(header):
        arrays = [entry for entry in header["arrays"] if entry["name"] != name]
        fields = {key: value for key, value in header["fields"].items() if key != name}
        return header | {"arrays": arrays, "fields": fields}

    return change


FORGED = {
    "no object": lambda header: [header],
    "no JSON": lambda header: b"{" + str(header).encode(),
    "no UTF-8": lambda header: b"\xff" * len(header),
    "nested too deep": lambda header: b"[" * 10**6,  # noqa: ARG005
    "huge number": lambda header: b"9" * 10**5,  # noqa: ARG005
    "no fields": lambda header: header | {"fields": None},
    "fields a list": lambda header: header | {"fields": list(header["fields"])},
    "no arrays": lambda header: header | {"arrays": 7},
    "array without name": lambda header: header | {"arrays": [{}]},
    "size a string": lambda header: header | {"size": "9"},
    "size too large": lambda header: header | {"size": 10**30},
    "checksum wrong": lambda header: header | {"crc32": 1},
    "array of objects": with_entry(dtype="|O"),
    "array of records": with_entry(dtype="<f8,<f8"),
    "dtype a list": with_entry(dtype=[["a", "<f8"]]),
    "big-endian": with_entry(dtype=">i8"),
    "huge shape": with_entry(shape=[10**18]),
    "empty huge shape": with_entry(shape=[0, 10**30]),
    "negative shape": with_entry(shape=[-1]),
    "fractional shape": with_entry(shape=[1.5]),
    "shape a number": with_entry(shape=3),
    "no dimensions": with_entry(shape=[]),
    "33 dimensions": with_entry(shape=[1] * 33),
    "offset unaligned": with_entry(offset=1),
    "offset negative": with_entry(offset=-64),
    "offset beyond the end": with_entry(offset=2**62),
    "offset a string": with_entry(offset="0"),
    "name unhashable": with_entry(name=[]),
    "unknown array": with_entry(name="surprise"),
    "array missing": without("cover"),
    "field missing": without("link"),
    "unknown field": with_fields(surprise=1),
    "n_features a string": with_fields(n_features="5"),
    "n_features a fraction": with_fields(n_features=5.0),
    "n_features huge": with_fields(n_features=10**12),
    "feature names a number": with_fields(feature_names=5),
    "feature names numbers": with_fields(feature_names=[1, 2, 3, 4, 5]),
    "float a number": with_fields(missing=0.5),
    "float nonsense": with_fields(missing="0xzz"),
    "float too large": with_fields(missing="0x1p99999"),
    "link an object": with_fields(link={}),
    "classes a number": with_fields(classes=3),
    "classes without dtype": with_fields(classes=[{"values": [1]}]),
    "classes nested": with_fields(classes=[{"dtype": "object", "values": [[1], [2, 3]]}]),
    "classes of another kind": with_fields(classes=[{"dtype": "<i8", "values": ["a"]}]),
    "classes out of range": with_fields(classes=[{"dtype": "|i1", "values": [10**9]}]),
    "classes of huge strings": with_fields(classes=[{"dtype": "<U999999999", "values": ["a"]}]),
    "classes of dates": with_fields(classes=[{"dtype": "<M8[s]", "values": [1]}]),
    "classes of records": with_fields(classes=[{"dtype": "(9999,9999)f8", "values": [1]}]),
    "leaf shape nested": with_fields(leaf_shape=[[2]]),
    "leaf shape huge": with_fields(leaf_shape=[10**30]),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_header_is_refused(file, name):
    rewrite(file, FORGED[name])
    with pytest.raises(ValueError, match="is truncated or corrupt"):
        load_forest(file)


def test_forging_itself_is_sound(file):
    rewrite(file)
    assert_same(load_forest(file), whole_forest())


@given(seed=st.integers(0, 2**32 - 1))
def test_forged_arrays_are_refused_or_valid(tmp_path_factory, seed):
    """Whatever the bytes: a ValueError, or arrays that pass every check."""
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("forged") / "model.glasswood"
    save_forest(whole_forest(), path)

    def scramble(arrays: bytes) -> bytes:
        changed = np.frombuffer(arrays, np.uint8).copy()
        where = rng.integers(len(changed), size=rng.integers(1, 4))
        changed[where] = rng.integers(256, size=len(where))
        return changed.tobytes()

    rewrite(path, change_arrays=scramble)
    error = error_of(path)
    assert error is None or "corrupt forest: " in error


def test_mapped_forest_outlives_its_file_in_a_pickle(file):
    content = pickle.dumps(load_forest(file, mmap=True))
    file.unlink()
    forest = pickle.loads(content)
    assert_same(forest, whole_forest())
    assert forest.depth == whole_forest().depth


def test_new_file_has_the_usual_mode(tmp_path):
    umask = os.umask(0o027)
    try:
        small_forest().save(tmp_path / "a")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_replaced_file_keeps_its_mode_and_links(tmp_path):
    target, link = tmp_path / "a", tmp_path / "b"
    target.write_text("old")
    target.chmod(0o604)
    link.symlink_to(target)
    small_forest().save(link)
    assert link.is_symlink()
    assert_same(load_forest(target), small_forest())
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_full_disk_leaves_the_old_file(tmp_path):
    """A limit on the size of files fails like a full disk does, in the middle of a write."""
    target = tmp_path / "model.glasswood"
    target.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            whole_forest().save(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.glasswood"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_interrupt_leaves_nothing(tmp_path, error):
    def half_written():
        with replacing(tmp_path / "a") as path:
            path.write_text("half")
            raise error

    with pytest.raises(error):
        half_written()
    assert not list(tmp_path.iterdir())


def test_interrupt_while_saving_leaves_nothing(tmp_path, monkeypatch):
    written = []

    def interrupted(file, content):
        written.append(file.write(content))
        if len(written) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(storage, "_write_padded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whole_forest().save(tmp_path / "a")
    assert sum(written) > 0
    assert not list(tmp_path.iterdir())


def test_absent_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist; create it first"):
        small_forest().save(tmp_path / "nowhere" / "a")


@pytest.mark.parametrize("name", ["model.json", "model.UBJ", "model.txt", "model.cbm"])
def test_suffixes_of_other_libraries_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"has the suffix '\.\w+' of another library's models, expected \.glasswood"):
        small_forest().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model.pickle", "model.PKL", "model.joblib"])
def test_suffixes_of_pickles_are_refused(tmp_path, name):
    for saved in (small_forest(), Explainer(small_forest())):
        with pytest.raises(ValueError, match=r"has the suffix '\.\w+' of pickles, expected \.glasswood"):
            saved.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["/dev/null", "."])
def test_what_is_no_file_is_not_replaced(path):
    with pytest.raises(ValueError, match="it is not a regular file; give the path of a file"):
        small_forest().save(path)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_metadata_is_kept(tmp_path, capsys):
    said = {"author": "credit team", "trained": "2026-11-28", "auc": 0.81, "data": {"rows": 3, "files": ["a", None]}}
    path, again = tmp_path / "model.glasswood", tmp_path / "again.glasswood"
    forest = small_forest()
    forest.save(path, metadata=said)
    assert load(path).ensemble.metadata == said
    load(path).save(again)
    assert load(again).ensemble.metadata == said
    load(path).save(again, metadata={})
    assert load(again).ensemble.metadata == {}
    assert forest.ensemble.metadata is None
    Explainer(load(path)).save(again)
    assert load(again).ensemble.metadata == said
    main(["info", str(path)])
    shown = 'author = credit team; trained = 2026-11-28; auc = 0.81; data = {"rows": 3, "files": ["a", null]}'
    assert shown in capsys.readouterr().out


def test_metadata_without_control_characters(tmp_path, capsys):
    small_forest().save(tmp_path / "model.glasswood", metadata={"a\x1b[2J": "\x1b[31m"})
    main(["info", str(tmp_path / "model.glasswood")])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("a text", "metadata is a str, expected a dict"),
        ({"a": {1, 2}}, "cannot be written as JSON: Object of type set"),
        ({"a": float("nan")}, "cannot be written as JSON"),
        ({1: "a"}, "keys that are not texts"),
        ({"a": (1, 2)}, "tuples; expected texts as keys, and lists"),
        ({"a": "x" * 2**20}, "characters as JSON, expected at most"),
    ],
)
def test_metadata_that_files_cannot_hold(metadata, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        small_forest().save(tmp_path / "model.glasswood", metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_onnx_files_take_no_metadata(tmp_path):
    with pytest.raises(ValueError, match="takes no metadata"):
        small_forest().save(tmp_path / "model.onnx", metadata={"a": 1})


def test_a_file_whose_metadata_is_no_mapping(tmp_path):
    path = tmp_path / "model.glasswood"
    small_forest().save(path, metadata={"a": 1})
    version, header, arrays = split_glasswood(path.read_bytes())
    path.write_bytes(join_glasswood(version, header | {"metadata": [1]}, arrays))
    with pytest.raises(ValueError, match="truncated or corrupt: metadata is a list"):
        load(path)
