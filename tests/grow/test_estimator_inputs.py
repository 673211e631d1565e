"""ModelTreeRegressor on inputs that users have, and on inputs that are wrong."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from tests.grow.engines import piecewise

FAST = {"n_iter_no_change": 10, "n_jobs": 1}


@pytest.fixture(scope="module")
def data():
    return piecewise(600)


def test_missing_values_take_a_learned_side():
    """Rows without x0 follow the right-hand plane: only a learned side can know."""
    X, y = piecewise(1500, seed=4)
    right = (X[:, 0] >= 2) & (X[:, 1] < 3)
    hidden = right & (np.random.default_rng(0).random(len(y)) < 0.4)
    y = np.where(hidden, 4.0, y)
    X = np.where(hidden[:, None] & [True, False, False], np.nan, X)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert np.sqrt(np.mean((tree.predict(X) - y)[~hidden] ** 2)) < 0.3
    assert np.isfinite(tree.predict(np.full((2, 3), np.nan))).all()


def test_missing_value_in_an_equation_counts_as_the_leaf_mean(data):
    X, y = data
    tree = glasswood.ModelTreeRegressor(**FAST, max_leaves=1).fit(X, y)
    means = X.mean(axis=0)
    np.testing.assert_allclose(tree.predict(np.full((1, 3), np.nan)), tree.predict(means[None]), rtol=1e-12)


def test_pandas_categories_and_names():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    colour = rng.choice(["red", "green", "blue", "grey"], 800)
    x = rng.uniform(0, 1, 800)
    y = np.where(np.isin(colour, ["red", "grey"]), 5 * x, 3 - 2 * x) + 0.01 * rng.standard_normal(800)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "x": x})
    tree = glasswood.ModelTreeRegressor(**FAST).fit(frame, y)
    assert tree.n_leaves_ == 2
    assert list(tree.feature_names_in_) == ["colour", "x"]
    assert np.sqrt(np.mean((tree.predict(frame) - y) ** 2)) < 0.02
    text = glasswood.export_text(tree)
    assert "colour in {" in text
    shuffled = frame.assign(colour=pd.Categorical(colour, categories=["grey", "blue", "red", "green"]))
    np.testing.assert_array_equal(tree.predict(shuffled), tree.predict(frame))
    unseen = pd.DataFrame({"colour": pd.Categorical(["mauve", None]), "x": [0.5, 0.5]})
    assert np.isfinite(tree.predict(unseen)).all()


def test_categorical_columns_of_an_array():
    rng = np.random.default_rng(1)
    code = rng.integers(0, 5, 800).astype(float)
    x = rng.uniform(0, 1, 800)
    y = np.where(np.isin(code, [1, 4]), 5 * x, 3 - 2 * x)
    X = np.column_stack([code * 10, x])
    tree = glasswood.ModelTreeRegressor(**FAST, categorical_features=[0]).fit(X, y)
    assert tree.n_leaves_ == 2
    np.testing.assert_allclose(tree.predict(X), y, atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_targets(data, bad):
    X, y = data
    y = y.copy()
    y[3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity|finite"):
        glasswood.ModelTreeRegressor(**FAST).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "the target y is None"),
        (["yes", "no", "no"], r"y holds text \(yes\), expected numbers; use glasswood.ModelTreeClassifier for classes"),
        ([1.0, 2.0], "y has 2 values, X has 3 rows"),
        ([1.0, np.nan, 2.0], "y is nan in row 1"),
    ],
)
def test_bad_targets_of_categories(y, message):
    with pytest.raises(ValueError, match=message):
        glasswood.ModelTreeRegressor(categorical_features=[0], **FAST).fit([["a", 1], ["b", 2], ["c", 3]], y)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_text_among_numbers(as_text):
    """It does not make categories of them, unless somebody says so or there are few numbers."""
    pd = pytest.importorskip("pandas")
    numbers = [str(k) if as_text else float(k) for k in range(60)]
    frame = pd.DataFrame({"a": pd.Series([*numbers[:5], "n/a", *numbers[5:]], dtype=object), "b": range(61)})
    message = "column 'a' of X holds 60 different numbers and text, such as 'n/a' in row 5; mark missing numbers by NaN"
    with pytest.raises(ValueError, match=message):
        glasswood.ModelTreeRegressor(**FAST).fit(frame, np.arange(61.0))
    glasswood.ModelTreeRegressor(categorical_features=["a"], **FAST).fit(frame, np.arange(61.0))
    glasswood.ModelTreeRegressor(**FAST).fit(frame.astype({"a": "category"}), np.arange(61.0))
    frame["a"] = ["n/a", "B 4", *(k % 19 for k in range(59))]
    glasswood.ModelTreeRegressor(**FAST).fit(frame, np.arange(61.0))


def test_bad_frames():
    pd = pytest.importorskip("pandas")
    for frame, message in [
        (pd.DataFrame([["a", 1]], columns=["x", "x"]), "X has several columns named 'x'; rename or drop"),
        (pd.DataFrame({"x": ["a"]})[:0], "X has 0 rows, expected at least 1"),
        (pd.DataFrame({"x": ["a"], "z": ["b"]}), "column 'z' of X holds text; name it in categorical_features"),
    ]:
        features = ["x"] if "z" in frame.columns else None
        with pytest.raises(ValueError, match=message):
            glasswood.ModelTreeRegressor(categorical_features=features, **FAST).fit(frame, np.zeros(len(frame)))


def test_text_in_arrays_and_lists_of_rows():
    rng = np.random.default_rng(0)
    kinds, numbers = rng.choice(["a", "b", None], 300), rng.uniform(0, 1, 300)
    y = np.where(kinds == "a", 5.0, 1.0) + numbers
    X = np.column_stack([kinds.astype(object), numbers.astype(object)])
    trees = [glasswood.ModelTreeRegressor(categorical_features=[0], **FAST).fit(rows, y) for rows in (X, X.tolist())]
    for tree in trees:
        assert set(tree.forest_.ensemble.categories[0]) == {"a", "b"}
        np.testing.assert_allclose(tree.predict(X), y, atol=1e-9)
        np.testing.assert_array_equal(tree.predict(X.tolist()), tree.predict(X))


def test_bad_weights(data):
    X, y = data
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match=r"non-zero|0 everywhere"):
        glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 8])
def test_fewer_rows_than_attributes(n_rows):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n_rows, 10)), rng.standard_normal(n_rows)
    tree = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert tree.n_leaves_ == 1
    assert np.isfinite(tree.predict(X)).all()
    assert len(tree.forest_.ensemble.linear_feature) <= max(n_rows - 2, 0)


def test_duplicate_constant_and_missing_columns(data):
    X, y = data
    odd = np.column_stack([X, X[:, 0], np.full(600, 3.0), np.full(600, np.nan)])
    tree = glasswood.ModelTreeRegressor(**FAST).fit(odd, y)
    assert tree.n_leaves_ == 3
    assert np.sqrt(np.mean((tree.predict(odd) - y) ** 2)) < 0.11


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_huge_scales(data, scale):
    X, y = data
    plain = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    scaled = glasswood.ModelTreeRegressor(**FAST).fit(X * scale, y * scale)
    assert scaled.n_leaves_ == 3
    np.testing.assert_allclose(scaled.predict(X * scale) / scale, plain.predict(X), rtol=1e-9)


@pytest.mark.parametrize("kind", ["table", "batch", "chunked target", "polars"])
def test_frames_grow_the_tree_of_the_array(kind):
    pyarrow = pytest.importorskip("pyarrow")
    X, y = piecewise(300, 2)
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1]})
    target = pyarrow.chunked_array([y[:100], y[100:]]) if kind == "chunked target" else y
    frame = table.to_batches()[0] if kind == "batch" else table
    if kind == "polars":
        frame = pytest.importorskip("polars").DataFrame({"a": X[:, 0], "b": X[:, 1]})
    found = glasswood.ModelTreeRegressor(generations=3, **FAST).fit(frame, target)
    expected = glasswood.ModelTreeRegressor(generations=3, **FAST).fit(X, y)
    np.testing.assert_array_equal(found.predict(frame), expected.predict(X))
