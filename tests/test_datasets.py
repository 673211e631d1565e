"""The data sets that ship with glasswood."""

import pytest

import glasswood

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def test_california():
    X, y = glasswood.datasets.california()
    assert X.shape == (20640, 8)
    assert y.name == "MedHouseVal"
    assert not X.isna().any().any()
    assert 2 < y.mean() < 2.2  # of $100,000


def test_adult():
    X, y = glasswood.datasets.adult()
    assert X.shape == (48842, 14)
    assert sum(column.dtype.kind in "OUST" or str(column.dtype) == "str" for _, column in X.items()) == 8
    assert y.value_counts().to_dict() == {"<=50K": 37155, ">50K": 11687}


def test_each_call_has_data_of_its_own():
    X, _ = glasswood.datasets.california()
    X.iloc[:, 0] = 0.0
    assert glasswood.datasets.california()[0].iloc[:, 0].mean() > 1
