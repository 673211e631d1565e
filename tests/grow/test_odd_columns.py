"""Columns and targets that are no numbers: what is read, and what is refused by a sentence with the column."""

import datetime
import uuid

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
import pandas as pd

import glasswood

QUICK = {"generations": 2, "max_leaves": 2, "n_jobs": 1}
N = 60
x = np.random.default_rng(0).normal(size=N)
y = x + 0.1 * np.random.default_rng(1).normal(size=N)

ODD = {
    "dates": [datetime.date(2024, 1, 1 + i % 28) for i in range(N)],
    "periods": list(pd.period_range("2024", periods=N, freq="D")),
    "bytes": [b"a", b"b"] * (N // 2),
    "uuids": [uuid.UUID(int=i % 3) for i in range(N)],
    "lists": [[1]] * N,
}


@pytest.mark.parametrize("kind", list(ODD))
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("model", [
    glasswood.ModelTreeRegressor(**QUICK), glasswood.ModelTreeClassifier(generations=2, n_jobs=1),
    glasswood.ModelTreeEnsembleRegressor(glasswood.ModelTreeRegressor(**QUICK), n_estimators=1, n_jobs=1),
])  # fmt: skip
def test_columns_of_other_objects_are_named(kind, beside, model):
    frame = pd.DataFrame({"x": x, "odd": pd.Series(ODD[kind], dtype=object)})
    if beside:
        frame["text"] = ["a", "b"] * (N // 2)
    with pytest.raises(TypeError, match=r"column 'odd' of X holds .* in row 0, expected numbers"):
        model.fit(frame, y > 0 if hasattr(model, "predict_proba") else y)


@pytest.mark.parametrize("beside", [False, True])
def test_numbers_as_objects_are_numbers(beside):
    frame = pd.DataFrame({"x": pd.Series(x).astype(object).mask(x > 1, pd.NA)})
    plain = pd.DataFrame({"x": np.where(x > 1, np.nan, x)})
    if beside:
        frame["g"] = plain["g"] = ["a", "b"] * (N // 2)
    one, other = (glasswood.ModelTreeRegressor(**QUICK).fit(rows, y) for rows in (frame, plain))
    np.testing.assert_array_equal(one.predict(frame), other.predict(plain))
    np.testing.assert_array_equal(one.predict(plain), other.predict(frame))


def test_text_in_a_column_of_numbers_is_refused():
    tree = glasswood.ModelTreeRegressor(**QUICK).fit(pd.DataFrame({"b": x > 0}), y)
    with pytest.raises(TypeError, match=r"column '?b'? of X"):
        tree.predict(pd.DataFrame({"b": ["True"]}))


def test_targets_are_numbers_or_labels_of_one_kind():
    with pytest.raises(ValueError, match=r"y holds dates or times .2024"):
        glasswood.ModelTreeRegressor(**QUICK).fit(x[:, None], pd.date_range("2024", periods=N))
    with pytest.raises(ValueError, match=r"y holds text .'a'. and other labels .1., expected labels of one kind"):
        glasswood.ModelTreeClassifier().fit(x[:, None], np.array([1, "a"] * (N // 2), dtype=object))


@pytest.mark.parametrize("size", [1e-200, 1e155, 1e200])
def test_columns_of_any_size(size):
    X = np.column_stack([x, np.random.default_rng(2).normal(size=N)])
    one, other = (glasswood.ModelTreeRegressor(**QUICK).fit(X * unit, y) for unit in (1.0, size))
    np.testing.assert_allclose(other.predict(X * size), one.predict(X), rtol=1e-6, atol=1e-6)
