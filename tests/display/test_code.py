"""Forests as code, executed by databases, Python and a C compiler."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import re
import sqlite3
import subprocess

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.tree import DecisionTreeRegressor

import silva
from tests.example_forests import with_models
from tests.native import COMPILER
from tests.strategies import Options, chain_forest, full_forest, random_forest

N_ROWS = 200


def make_frame(seed=0, n=N_ROWS):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a b": np.round(rng.normal(size=n), 2),
            'quo"te': rng.normal(size=n),
            "city": rng.choice(["Oslo", "L'Aquila", "oslo", "Bonn"], n),
            "count": rng.integers(-3, 9, n).astype(float),
        }
    )
    frame.loc[::7, "a b"] = np.nan
    frame.loc[::11, "city"] = None
    return frame


def make_target(frame):
    is_aquila = frame["city"].eq("L'Aquila").to_numpy()
    return np.where(is_aquila, 3 * frame['quo"te'], np.nan_to_num(frame["a b"], nan=2.0) + frame["count"] / 3)


def grown(**settings):
    frame = make_frame()
    return silva.ModelTreeRegressor(random_state=0, generations=30, **settings).fit(frame, make_target(frame)).forest_


def labelled():
    frame = make_frame()
    model = silva.ModelTreeClassifier(random_state=0, generations=20)
    return model.fit(frame, make_target(frame) > 1).forest_


def several():
    frame = make_frame()
    tree = silva.ModelTreeRegressor(generations=10)
    model = silva.ModelTreeEnsembleRegressor(tree, n_estimators=3, random_state=0)
    return model.fit(frame, make_target(frame)).forest_


def of_lightgbm(**options):
    frame = make_frame()[["a b", 'quo"te', "count"]].set_axis(["p", "q", "r"], axis=1)
    settings = {"n_estimators": 4, "num_leaves": 6, "verbose": -1, "min_child_samples": 5}
    return silva.load(lightgbm.LGBMRegressor(**settings, **options).fit(frame, make_target(make_frame())).booster_)


def of_xgboost():
    frame = make_frame()[["a b", 'quo"te', "count"]]
    return silva.load(xgboost.XGBRegressor(n_estimators=4, max_depth=3).fit(frame, make_target(make_frame())))


def of_sklearn():
    frame = make_frame()[["a b", 'quo"te', "count"]]
    return silva.load(DecisionTreeRegressor(max_depth=4).fit(frame, make_target(make_frame())))


RANDOM = Options(n_trees=4, n_features=4, row_type="float64")
FORESTS = {
    "grown": grown,
    "constant leaves": lambda: grown(leaf_model="constant"),
    "clipped by leaf": lambda: grown(clip="leaf"),
    "not clipped": lambda: grown(clip="none", smoothing=0),
    "classifier": labelled,
    "ensemble": several,
    "LightGBM": of_lightgbm,
    "LightGBM, linear": lambda: of_lightgbm(linear_tree=True),
    "XGBoost": of_xgboost,
    "scikit-learn": of_sklearn,
    "random, clipped": lambda: with_models(random_forest(3, RANDOM), 1, -1, 1),
    "categories by code": lambda: random_forest(5, dataclasses.replace(RANDOM, categorical=True)),
}


@pytest.fixture(scope="module", params=FORESTS)
def forest(request):
    made = FORESTS[request.param]()
    if made.link not in {"identity", "logistic"}:
        made = dataclasses.replace(made, link="identity", prediction="response")
    return dataclasses.replace(made, missing=math.nan)


def rows_of(forest):
    """Rows at, one ulp beside and between the thresholds, with gaps and categories that training did not see."""
    rng = np.random.default_rng(1)
    n = 400
    columns = {}
    for feature in range(forest.n_features):
        name = forest.feature_names[feature] if forest.feature_names else f"x{feature}"
        table = forest.categories[feature] if forest.categories else None
        if table is not None:
            columns[name] = rng.choice([*table.tolist(), "unseen", None], n)
            continue
        is_set = forest.is_categorical and (forest.category_set[forest.feature == feature] >= 0).any()
        at = forest.threshold[(forest.feature == feature) & np.isfinite(forest.threshold)].astype(float)
        if is_set:
            columns[name] = rng.choice([*range(70), np.nan], n).astype(float)
            continue
        near = [np.nextafter(at, side) for side in (-np.inf, np.inf)]
        pool = np.concatenate([at, *near, rng.normal(size=50), [0.0, -0.0, 1e-36, -1e-36]])
        values = rng.choice(pool, n)
        if forest.nan_allowed:
            values[rng.random(n) < 0.2] = np.nan
        columns[name] = values
    return pd.DataFrame(columns)


def expected_of(forest, rows):
    """Responses where the code has the link, margins of others."""
    if forest.link == "logistic":
        return forest.predict(rows, output="probability")[:, -1]
    return forest.predict(rows, output="margin")


def check(found, forest, rows):
    expected = expected_of(forest, rows)
    if forest.link == "identity" and forest.result_dtype == "float64":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6 if forest.result_dtype == "float32" else 1e-15)


@pytest.mark.parametrize("output", [0, 1])
def test_duckdb(forest, output):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    if output >= forest.n_outputs:
        pytest.skip("one output")
    rows = rows_of(forest)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        found = connection.execute(f"SELECT {silva.export_sql(forest, output=output)} AS y FROM rows").fetchnumpy()["y"]
    if forest.n_outputs > 1:
        np.testing.assert_array_equal(found, forest.predict(rows, output="margin")[:, output])
        return
    check(np.asarray(found, np.float64), forest, rows)


def test_sqlite(forest):
    if forest.threshold.dtype == np.float32:
        with pytest.raises(NotImplementedError, match="SQLite has no float32"):
            silva.export_sql(forest, "sqlite")
        return
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    connection = sqlite3.connect(":memory:")
    connection.create_function("EXP", 1, math.exp)
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in rows.columns)
    connection.execute(f"CREATE TABLE rows ({names})")
    values = rows.astype(object).where(rows.notna(), None).values.tolist()
    connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * rows.shape[1])})", values)
    found = connection.execute(f"SELECT {silva.export_sql(forest, 'sqlite')} FROM rows").fetchall()
    connection.close()
    check(np.array(found)[:, 0], forest, rows)


def stumps(n_trees):
    return full_forest(0, n_trees, 1, 2, "float64")


def test_many_trees():
    """Databases and parsers take sums of some thousand levels only."""
    forest = dataclasses.replace(stumps(7000), link="identity", prediction="response", missing=math.nan)
    rows = rows_of(forest)[:5]
    space: dict = {}
    exec(silva.export_python(forest), space)
    check(np.array([space["predict"](row) for row in rows.to_dict("records")]), forest, rows)
    for dialect in ("duckdb", "sqlite"):
        with pytest.raises(NotImplementedError, match=rf"7000 trees .* {dialect} takes 1000; use export_python"):
            silva.export_sql(forest, dialect)
    assert silva.export_sql(forest, "postgresql")


def test_as_many_trees_as_databases_take():
    forest = dataclasses.replace(stumps(980), link="logistic", missing=math.nan, link_scale=2.0)
    with sqlite3.connect(":memory:") as connection:
        connection.create_function("EXP", 1, math.exp)
        connection.execute("CREATE TABLE rows (x0, x1)")
        connection.execute(f"SELECT {silva.export_sql(forest, 'sqlite')} FROM rows")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (x0 DOUBLE, x1 DOUBLE)")
        connection.execute(f"SELECT {silva.export_sql(forest)} FROM rows")


def test_postgresql_is_written():
    """Without a server: the text differs from DuckDB's by its literals alone."""
    text = silva.export_sql(grown(), "postgresql")
    assert "::float8" in text
    assert "DOUBLE" not in text


def test_python(forest):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    space: dict = {}
    exec(silva.export_python(forest, "evaluate"), space)
    found = [space["evaluate"](row) for row in rows.astype(object).where(rows.notna(), None).to_dict("records")]
    check(np.array(found), forest, rows)
    with_nan = [space["evaluate"](row) for row in rows.to_dict("records")]
    np.testing.assert_array_equal(with_nan, found)


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
def test_c(forest, tmp_path):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    (tmp_path / "model.c").write_text(silva.export_c(forest, "evaluate"))
    command = ["gcc", "-x", "c", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-parentheses"]
    command += ["-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*command, str(tmp_path / "model.c"), "-o", str(tmp_path / "model.so"), "-lm"], check=True)
    evaluate = ctypes.CDLL(str(tmp_path / "model.so")).evaluate
    evaluate.restype, evaluate.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]
    codes = np.column_stack([code_column(forest, rows, feature) for feature in range(forest.n_features)])
    found = [evaluate(np.ascontiguousarray(row).ctypes.data_as(ctypes.POINTER(ctypes.c_double))) for row in codes]
    check(np.array(found), forest, rows)


def code_column(forest, rows, feature):
    column = rows.iloc[:, feature]
    table = forest.categories[feature] if forest.categories else None
    if table is None:
        return column.to_numpy(float)
    place = {value: float(i) for i, value in enumerate(table.tolist())}
    return np.array([place.get(value, math.nan) for value in column])


SHEET = {
    "IF": lambda test, yes, no: yes if test else no,
    "OR": lambda *tests: any(tests),
    "AND": lambda *tests: all(tests),
    "NOT": lambda test: not test,
    "MIN": min,
    "MAX": max,
    "EXP": math.exp,
    "EXACT": lambda one, other: one == other,
    "ISBLANK": lambda cell: cell is None,
    "TRUE": True,
    "FALSE": False,
}


class Blank(float):
    """An empty cell counts as 0 in sums; choices are eager here, lazy in a spreadsheet."""


def test_excel(forest):
    """Formulas as Python: the functions by their names, = as ==."""
    if forest.threshold.dtype == np.float32:
        with pytest.raises(NotImplementedError, match="spreadsheets have no float32"):
            silva.export_excel(forest)
        return
    if forest.n_outputs > 1 or forest.depth > 8:
        pytest.skip("too large")
    try:
        formula = silva.export_excel(forest)
    except NotImplementedError:
        pytest.skip("too long")
    rows = rows_of(forest)[:100]
    text = re.sub(r"(?<![<>=])=(?!=)", "==", formula[1:]).replace('""', '\\"')
    compiled = compile(text, "formula", "eval")
    found = []
    for row in rows.itertuples(index=False):
        cells = {f"{chr(65 + i)}2": cell_of(value) for i, value in enumerate(row)}
        found.append(eval(compiled, {**SHEET, "ISBLANK": lambda cell: isinstance(cell, Blank), **cells}))
    np.testing.assert_allclose(found, expected_of(forest, rows), rtol=1e-9, atol=1e-12)


def cell_of(value):
    return Blank(0) if value is None or value != value else value


@pytest.mark.parametrize("name", ["class", "exp", "_clip", "float", "a b", "", "naïve"])
def test_names_that_no_python_function_has(name):
    with pytest.raises(ValueError, match=f"name is '{name}'.* expected the name of a function"):
        silva.export_python(stumps(1), name)


@pytest.mark.parametrize("name", ["double", "for", "exp", "clip", "main", "a b"])
def test_names_that_no_c_function_has(name):
    with pytest.raises(ValueError, match=f"name is '{name}'.* expected the name of a function"):
        silva.export_c(stumps(1), name)


def test_deep_trees_and_other_forests_are_refused():
    with pytest.raises(NotImplementedError, match=r"trees of 6\d levels"):
        silva.export_python(chain_forest(65, 1e-3))
    vectors = random_forest(1, Options(n_trees=2, n_features=3, n_outputs=3, vector_leaves=True))
    if vectors.leaf_width > 1:
        with pytest.raises(NotImplementedError, match="leaves of several values"):
            silva.export_c(vectors)
    forest = of_sklearn()
    with pytest.raises(ValueError, match="dialect is 'oracle'"):
        silva.export_sql(forest, "oracle")
    with pytest.raises(ValueError, match="output is 1, the forest has 1"):
        silva.export_sql(forest, output=1)
    with pytest.raises(ValueError, match="expected the name of a function"):
        silva.export_python(forest, "a b")
    with pytest.raises(NotImplementedError, match="letters, a cell takes 8192"):
        silva.export_excel(with_models(random_forest(3, dataclasses.replace(RANDOM, n_trees=60)), 1))
    with pytest.raises(ValueError, match="cells has 1 entries, expected 4"):
        silva.export_excel(grown(), cells=["A1"])
    poisson = dataclasses.replace(forest, link="softmax")
    with pytest.raises(NotImplementedError, match="the link 'softmax'"):
        silva.export_python(poisson)
