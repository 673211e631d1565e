"""Rows by name become what a frame of one row becomes."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas
import pytest

import glasswood
from glasswood.inputs import as_rows
from tests.strategies import full_forest

NAMES = ("age", "job", "code", "x")
TEXTS, CODES = np.array(["cook", "nurse", "Nurse", "e\u0301"], object), np.array([5, 7, 2**40])
VALUES = {
    "age": [31, 2.5, np.float32(0.1), None, np.nan, True, 2**60 + 1, -(10**30)],
    "job": ["nurse", "Nurse", "NURSE", "", "\u00e9", "e\u0301", None, "cook"],
    "code": [5, 7.0, np.int64(7), True, 2**40, 2**60, -1, None],
    "x": [np.inf, -np.inf, 0, 1e300, None, 3, 4, 5],
}


def forest_of(source="LightGBM 4.7", **changes):
    forest = full_forest(0, 9, 4, 4, "float64" if "LightGBM" in source else "float32")
    tables = {"categories": (None, TEXTS, CODES, None)} | changes
    return dataclasses.replace(forest, feature_names=NAMES, source=source, **tables)


def rows():
    """Each value at least once, beside others."""
    rng = np.random.default_rng(0)
    for place in range(8):
        for name in NAMES:
            drawn = {other: VALUES[other][rng.integers(8)] for other in NAMES}
            yield drawn | {name: VALUES[name][place]}


@pytest.mark.parametrize("source", ["LightGBM 4.7", "XGBoost 3.2", "scikit-learn 1.9"])
def test_rows_become_what_a_frame_becomes(source):
    forest = forest_of(source)
    encoder, predictor = forest.encoder(), forest.predictor("margin", names=True)
    for row in rows():
        frame = pandas.DataFrame({name: pandas.Series([value], dtype=object) for name, value in row.items()})
        expected = as_rows(frame, forest)[0]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(encoder(row).astype(forest.threshold.dtype), expected)
        wanted = forest.predict(frame, "margin")[0]
        assert predictor(row) == predictor(tuple(row.values())) == predictor(encoder(row)) == wanted
        assert predictor(dict(reversed(row.items()))) == wanted


def test_hashed_categories():
    hashes = np.array([int(number) for number in glasswood._core.category_hashes(["cook", "nurse", "7"])])
    forest = forest_of("CatBoost 1.2", categories=(None, hashes, hashes, None), category_hash="city64")
    predictor = forest.predictor("margin", names=True)
    for job in ("cook", "Cook", "nurse", "7", 7, "cook"):
        row = {"age": 1.5, "job": job, "code": "7", "x": None}
        frame = pandas.DataFrame({name: pandas.Series([value], dtype=object) for name, value in row.items()})
        assert predictor(row) == forest.predict(frame, "margin")[0]
    with pytest.raises(ValueError, match="missing categories"):
        predictor((1.5, None, "7", 0))
    with pytest.raises(TypeError, match="text or whole numbers"):
        predictor((1.5, 7.0, "7", 0))


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"age": 1, "job": "cook", "code": 5}, ValueError, "the row lacks 'x'"),
        ({"age": 1, "job": "cook", "code": 5, "x": 1, "y": 2}, ValueError, "the row has 'y'"),
        ({"age": 1, "job": "cook", "code": 5, "z": 1}, ValueError, "the row lacks 'x' and has 'z'"),
        (
            {"Age": 1},
            ValueError,
            r"the row lacks 'age', 'job', .*has 'Age', .* \(did you mean age\?\).*None where a val",
        ),
        ({"y": 1, "z": 2, "v": 3, "w": 4}, ValueError, "the row lacks 'age', 'job', 'code', 'x' and has 'y', 'z'"),
        ((1, "cook", 5), ValueError, "the row has 3 values, expected 4"),
        ("cook", TypeError, "the row is a str, expected a mapping"),
        ((1, 2, 5, 0), TypeError, "trained on categories like 'cook'"),
        ((1, "cook", "five", 0), TypeError, "trained on categories like 5"),
        (("old", "cook", 5, 0), TypeError, "'age' of the row holds text"),
        ((1, "cook", 5, [1]), TypeError, "expected numbers"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row, error, message):
    with pytest.raises(error, match=message):
        forest_of().predictor(names=True)(row)


def test_names_that_are_meant_obey_no_control_characters():
    forest = dataclasses.replace(forest_of(), feature_names=("a\x1b[2Jge", "job", "code", "x"))
    with pytest.raises(ValueError, match=r"did you mean a\\u001b\[2Jge\?"):
        forest.encoder()({"A\x1b[2JGE": 1})


def test_names_as_lightgbm_spells_them():
    forest = dataclasses.replace(forest_of(), feature_names=("a_b", "job", "code", "x"))
    row = {"a b": 1, "job": "cook", "code": 5, "x": 2}
    assert forest.encoder()(row).tolist() == [1, 0, 0, 2]


def test_pickles():
    forest = forest_of()
    row = (1, "cook", 5, 0)
    for made in (forest.encoder(), forest.predictor(names=True)):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(made))(row), made(row))


def test_a_forest_without_names_takes_tuples():
    forest = dataclasses.replace(forest_of(), feature_names=None)
    assert forest.encoder()((1, "cook", 7, 0)).tolist() == [1, 0, 1, 0]
    with pytest.raises(ValueError, match="pass a tuple"):
        forest.encoder()({"age": 1})


@pytest.mark.parametrize("source", ["LightGBM 4.7", "XGBoost 3.2", "scikit-learn 1.9"])
def test_values_that_are_no_categories_are_counted_or_refused(source):
    forest = forest_of(source)
    known = {"age": 31, "job": "nurse", "code": 7, "x": None}
    predictor, encoder = forest.predictor("margin", names=True), forest.encoder()
    for job in ("nurs", "nurs", "cook", None, np.nan, pandas.NA, "chef"):
        predictor(known | {"job": job})
        encoder(known | {"job": job})
    encoder(known | {"code": 6})
    assert predictor.unseen == {"job": 3}
    assert encoder.unseen == {"job": 3, "code": 1}
    strict = forest.predictor("margin", names=True, strict=True)
    assert strict(known) == predictor(known)
    assert strict(known | {"job": None}) == predictor(known | {"job": None})
    for one in (strict, pickle.loads(pickle.dumps(strict)), forest.encoder(strict=True)):
        with pytest.raises(ValueError, match=r"^job is 'nurs', none of the 4 categories .* did you mean 'nurse'\?$"):
            one(known | {"job": "nurs"})
        with pytest.raises(ValueError, match=r"^code is 6, none of the 3 categories that the model knows$"):
            one(known | {"code": 6})
    with pytest.raises(ValueError, match="needs names=True"):
        forest.predictor(strict=True)
    with pytest.raises(TypeError, match=r"^'job' of the row holds 3"):
        predictor(known | {"job": 3})


def test_catboosts_models_cannot_be_strict():
    hashes = np.array([1, 2])
    forest = forest_of("CatBoost 1.2", categories=(None, hashes, hashes, None), category_hash="city64")
    with pytest.raises(NotImplementedError, match="those alone that a split tests"):
        forest.predictor(names=True, strict=True)
    encoder = forest.encoder()
    encoder({"age": 1.5, "job": "cook", "code": "7", "x": None})
    assert encoder.unseen == {}
