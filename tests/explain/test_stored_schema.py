"""Files of explainers that say something else: each is refused by its name before anything is made of it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import glasswood
from glasswood.explain.stored import validate_stored
from glasswood.model.storage import Attachment, load_attachment
from tests.example_forests import with_models
from tests.fuzz.formats import join_glasswood, split_glasswood
from tests.strategies import Options, full_forest, random_forest


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Forest and attachment of an explainer against rows of classes."""
    path = tmp_path_factory.mktemp("stored") / "explainer.glasswood"
    forest = full_forest(0, n_trees=3, depth=3, n_features=4)
    glasswood.Explainer(forest, np.random.default_rng(0).normal(size=(30, 4)), groups={"both": [0, 2]}).save(path)
    return load_attachment(path)


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """The same of linear leaves, which keep the rows."""
    path = tmp_path_factory.mktemp("stored") / "explainer.glasswood"
    forest = with_models(random_forest(4, Options(n_trees=3, n_features=5, shape="mixed")), 5, -1, 2)
    glasswood.Explainer(forest, np.random.default_rng(0).normal(size=(30, 5))).save(path)
    return load_attachment(path)


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


WRONG_NOTES = {
    "more": ({"more": 1}, "entries"),
    "settings": ({"settings": []}, "settings"),
    "a setting that is lost": ({"settings": {"algorithm": "auto"}}, "settings"),
    "version": ({"version": 2}, "version is 2"),
    "version of another type": ({"version": "3"}, "version is '3'"),
    "background": ({"background": "rows"}, "background is 'rows'"),
    "background of another type": ({"background": ["classes"]}, "background"),
    "arrays without a background": ({"background": None}, "arrays"),
}

WRONG_SETTINGS = {
    "algorithm": ["fast", None, ["auto"], {}],
    "output": ["raw", 1, {}],
    "dtype": ["float16", "<f4", None],
    "table_bytes": [-1, 2**63, 1.5, "1", True],
    "groups": [[], "x", {"a": 1}, {"a": ["x"]}, {"a": [True]}, {"a": [0.0]}],
    "feature_names": ["abc", [1], {}],
    "output_names": ["abc", [None]],
}

WRONG_ARRAYS = {
    "weight of 0": ("weight", lambda array: changed(array, 1, 0)),
    "weight of -50": ("weight", lambda array: changed(array, 1, -50)),
    "weights beyond what adds up": ("weight", lambda array: changed(array, slice(2), 2**61 + 1)),
    "weights whose sum overflows": ("weight", lambda array: changed(array, slice(None), 2**62)),
    "weights that are no integers": ("weight", lambda array: array.astype(np.float64)),
    "weights of fewer rows": ("weight", lambda array: array[:-1]),
    "no weights": ("weight", lambda array: array[:0]),
    "class of -1": ("classes", lambda array: changed(array.astype(np.int32), (1, 2), -1)),
    "class beyond the feature's": ("classes", lambda array: changed(array, (1, 2), 200)),
    "classes of two columns": ("classes", lambda array: array[:, :2]),
    "classes in one line": ("classes", lambda array: array.reshape(-1)),
    "classes of another type": ("classes", lambda array: array.astype(np.float32)),
    "offsets that fall": ("offsets", lambda array: array[::-1]),
    "offsets of more features": ("offsets", lambda array: np.append(array, array[-1])),
    "offsets that do not end": ("offsets", lambda array: changed(array, -1, array[-1] + 1)),
    "values of the other type": ("values", lambda array: array.astype(np.float64)),
    "values that do not rise": ("values", lambda array: changed(array, 1, array[0])),
    "NaN before a number": ("values", lambda array: changed(array, 0, np.nan)),
}


@pytest.mark.parametrize("case", WRONG_NOTES)
def test_notes(stored, case):
    forest, attachment = stored
    change, told = WRONG_NOTES[case]
    with pytest.raises(ValueError, match=f"corrupt explainer: .*{told}"):
        validate_stored(Attachment(attachment.about | change, attachment.arrays), forest)


@pytest.mark.parametrize("name", WRONG_SETTINGS)
def test_settings(stored, name):
    forest, attachment = stored
    for value in WRONG_SETTINGS[name]:
        settings = attachment.about["settings"] | {name: value}
        with pytest.raises(ValueError, match=f"corrupt explainer: {name} is "):
            validate_stored(attachment._replace(about=attachment.about | {"settings": settings}), forest)


@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_arrays(stored, case):
    forest, attachment = stored
    name, change = WRONG_ARRAYS[case]
    arrays = attachment.arrays | {name: change(attachment.arrays[name])}
    with pytest.raises(ValueError, match="corrupt explainer: "):
        validate_stored(attachment._replace(arrays=arrays), forest)


@pytest.mark.parametrize("change", [lambda rows: rows[:, :2], lambda rows: rows[1:], lambda rows: rows.astype("<i4")])
def test_rows_of_linear_leaves(linear, change):
    forest, attachment = linear
    validate_stored(attachment, forest)
    with pytest.raises(ValueError, match="corrupt explainer: rows"):
        validate_stored(
            attachment._replace(arrays=attachment.arrays | {"rows": change(attachment.arrays["rows"])}), forest
        )


def test_missing_values_where_the_forest_refuses_them(stored, linear):
    for (forest, attachment), name, at in ((stored, "values", -1), (linear, "rows", (0, 0))):
        arrays = attachment.arrays | {name: changed(attachment.arrays[name], at, np.nan)}
        validate_stored(attachment._replace(arrays=arrays), forest)
        with pytest.raises(ValueError, match=f"{name} holds NaN"):
            validate_stored(attachment._replace(arrays=arrays), dataclasses.replace(forest, nan_allowed=False))


def explainer_file(path, change):
    """Write an explainer whose header `change` has changed, with checksums that fit."""
    forest = full_forest(0, n_trees=3, depth=3, n_features=4)
    glasswood.Explainer(forest, np.zeros((3, 4))).save(path)
    version, header, arrays = split_glasswood(path.read_bytes())
    change(header)
    path.write_bytes(join_glasswood(version, header, arrays))
    return path


FILES = {
    "an attachment that is a list": lambda header: header.update(attachment=["x"]),
    "an attachment of no kind": lambda header: header["attachment"].update(kind=None),
    "settings that contradict each other": lambda header: header["attachment"]["settings"].update(algorithm="paths"),
    "an output of other forests": lambda header: header["attachment"]["settings"].update(output="log_loss"),
    "names of more features": lambda header: header["attachment"]["settings"].update(feature_names=["a"]),
    "groups that overlap": lambda header: header["attachment"]["settings"].update(groups={"a": [0], "b": [0]}),
    "an array twice": lambda header: header["arrays"].append(header["arrays"][-1]),
    "an array that nobody asks for": lambda header: header["arrays"].append({
        "name": "attached.more", "dtype": "<f4", "shape": [0], "offset": 0,
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_are_named(tmp_path, case):
    path = explainer_file(tmp_path / "explainer.glasswood", FILES[case])
    with pytest.raises(ValueError, match=r"explainer\.glasswood is truncated or corrupt: .*; save it again"):
        glasswood.Explainer.load(path)
    with pytest.raises(ValueError, match="a model in memory is truncated or corrupt"):
        glasswood.Explainer.load(path.read_bytes())


@pytest.mark.parametrize("header", [b"[]", b"1", b'{"attachment": ["x"]}', b'{"attachment": 3', b"\xff"])
def test_headers_that_are_no_header(tmp_path, header):
    from glasswood.model.storage import read_attachment_note

    path = explainer_file(tmp_path / "explainer.glasswood", lambda _: None)
    version, _, arrays = split_glasswood(path.read_bytes())
    path.write_bytes(join_glasswood(version, header, arrays))
    for read in (glasswood.load, glasswood.Explainer.load, glasswood.Explainer, read_attachment_note):
        with pytest.raises(ValueError, match=r"explainer\.glasswood is truncated or corrupt"):
            read(path)


def test_info_says_so_in_a_sentence(tmp_path):
    path = explainer_file(tmp_path / "explainer.glasswood", FILES["an attachment that is a list"])
    done = subprocess.run(
        [sys.executable, "-m", "glasswood", "info", path], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "explainer.glasswood is truncated or corrupt" in done.stderr
