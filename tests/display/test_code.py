"""Forests as code, executed by databases, Python and a C compiler."""

from __future__ import annotations

import contextlib
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

import glasswood
from glasswood.display.expressions import least_rounded
from glasswood.words.curves import curve_trees, features_of
from tests.array_forest import ArrayForest
from tests.display.runners import (
    call_c,
    check,
    code_columns,
    compile_c,
    expected_of,
    objects,
    run_duckdb,
    run_postgresql,
    run_python,
    run_sqlite,
)
from tests.display.spreadsheet import compute, letters
from tests.example_forests import with_models
from tests.native import COMPILER
from tests.strategies import Node, Options, chain_forest, flatten, full_forest, random_forest

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
    return (
        glasswood.ModelTreeRegressor(random_state=0, generations=30, **settings).fit(frame, make_target(frame)).forest_
    )


def labelled():
    frame = make_frame()
    model = glasswood.ModelTreeClassifier(random_state=0, generations=20)
    return model.fit(frame, make_target(frame) > 1).forest_


def several():
    frame = make_frame()
    tree = glasswood.ModelTreeRegressor(generations=10)
    model = glasswood.ModelTreeEnsembleRegressor(tree, n_estimators=3, random_state=0)
    return model.fit(frame, make_target(frame)).forest_


def of_lightgbm(**options):
    frame = make_frame()[["a b", 'quo"te', "count"]].set_axis(["p", "q", "r"], axis=1)
    settings = {"n_estimators": 4, "num_leaves": 6, "verbose": -1, "min_child_samples": 5}
    return glasswood.load(lightgbm.LGBMRegressor(**settings, **options).fit(frame, make_target(make_frame())).booster_)


def of_xgboost():
    frame = make_frame()[["a b", 'quo"te', "count"]]
    return glasswood.load(xgboost.XGBRegressor(n_estimators=4, max_depth=3).fit(frame, make_target(make_frame())))


def of_sklearn():
    frame = make_frame()[["a b", 'quo"te', "count"]]
    return glasswood.load(DecisionTreeRegressor(max_depth=4).fit(frame, make_target(make_frame())))


def glass_box(kind=glasswood.AdditiveRegressor):
    """Curves, and surfaces of two numbers, one of them missing at times, and of a category and a number."""
    frame = make_frame()
    target = make_target(frame) + frame["a b"].fillna(0) * frame["count"] / 4
    model = kind(interactions=[("city", 'quo"te'), ("a b", "count")], random_state=0)
    model.fit(frame, target > 1 if kind is glasswood.AdditiveClassifier else target)
    assert {1, 2} == {len(features_of(model.forest_.ensemble, t)) for t in curve_trees(model.forest_.ensemble)}
    return model.forest_


def bent_tree():
    frame = make_frame()
    target = make_target(frame) + np.sin(3 * frame['quo"te']) + frame["a b"].fillna(0) * frame["count"] / 4
    model = glasswood.ModelTreeRegressor(max_leaves=3, generations=10, curves=True, pairs=3, random_state=0)
    return model.fit(frame, target).forest_


def of_booster():
    """Curves and surfaces of float32."""
    frame = make_frame()[["a b", 'quo"te', "count"]]
    model = xgboost.XGBRegressor(n_estimators=6, max_depth=2).fit(frame, make_target(make_frame()))
    return glasswood.additive(model, frame).forest_


EXTREMES = (0.0, -0.0, 1e-36, -1e-36, 1e-46, np.inf, -np.inf, 1e39, -1e39, 2.0**128 - 2.0**103, 3.4028235e38, -7.0)
RANDOM = Options(n_trees=4, n_features=4, row_type="float64")
SINGLE = dataclasses.replace(RANDOM, row_type="float32")


def linked(forest, link, scale):
    return dataclasses.replace(forest, link=link, link_scale=scale, missing=math.nan)


def with_logarithms(forest):
    """Half of the terms."""
    forest = ArrayForest(forest.ensemble)
    kinds = np.resize([-3, -1], len(forest.ensemble.linear_feature)).astype(np.int32)
    return dataclasses.replace(forest, linear_category=kinds)


def marked(forest):
    return dataclasses.replace(forest, missing=0.1)


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
    "random, of logarithms": lambda: with_logarithms(with_models(random_forest(3, RANDOM), 1, -1, 1)),
    "LightGBM, linear, of logarithms": lambda: with_logarithms(of_lightgbm(linear_tree=True)),
    "random, of float32": lambda: random_forest(4, dataclasses.replace(SINGLE, thresholds="ties")),
    "random, of float32, through exp": lambda: linked(random_forest(5, SINGLE), "exp", 1.0),
    "random, far margins": lambda: linked(random_forest(6, RANDOM), "logistic", 400.0),
    "a number that is missing": lambda: marked(random_forest(7, dataclasses.replace(SINGLE, shape="stump"))),
    "categories by code": lambda: random_forest(5, dataclasses.replace(RANDOM, categorical=True)),
    "glass box": glass_box,
    "glass box of classes": lambda: glass_box(glasswood.AdditiveClassifier),
    "tree and curves": bent_tree,
    "curves of XGBoost": of_booster,
}


@pytest.fixture(scope="module", params=FORESTS)
def forest(request):
    return settled(FORESTS[request.param]())


def settled(made):
    """A forest of links and missing values that code has."""
    made = ArrayForest(made.ensemble)
    if made.link not in {"identity", "logistic", "exp"}:
        made = dataclasses.replace(made, link="identity", prediction="response")
    return made if made.missing == 0.1 else dataclasses.replace(made, missing=math.nan)


def rows_of(forest):
    """Rows at, one ulp beside and between the thresholds, with gaps and categories that training did not see."""
    rng = np.random.default_rng(1)
    n = 400
    columns = {}
    for feature in range(forest.n_features):
        name = forest.feature_names[feature] if forest.feature_names else f"x{feature}"
        table = forest.ensemble.categories[feature] if forest.ensemble.categories else None
        if table is not None:
            columns[name] = rng.choice([*table.tolist(), "unseen", None], n)
            continue
        is_set = (
            forest.ensemble.is_categorical
            and (forest.ensemble.category_set[forest.ensemble.feature == feature] >= 0).any()
        )
        at = forest.ensemble.threshold[
            (forest.ensemble.feature == feature) & np.isfinite(forest.ensemble.threshold)
        ].astype(float)
        if is_set:
            columns[name] = rng.choice([*range(70), np.nan], n).astype(float)
            continue
        singles = at.astype(np.float32)
        ties = [(at + np.nextafter(singles, np.float32(side)).astype(float)) / 2 for side in (-np.inf, np.inf)]
        at = np.concatenate([at, *ties])
        near = [np.nextafter(at, side) for side in (-np.inf, np.inf)]
        pool = np.concatenate([at, *near, rng.normal(size=50), np.repeat(EXTREMES, 2)])
        values = rng.choice(pool, n)
        if forest.ensemble.nan_allowed:
            values[rng.random(n) < 0.2] = np.nan
        columns[name] = values
    return pd.DataFrame(columns)


@pytest.mark.parametrize("output", [0, 1])
def test_duckdb(forest, output):
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    if output >= forest.n_outputs:
        pytest.skip("one output")
    rows = rows_of(forest)
    found = run_duckdb(glasswood.export_sql(forest, output=output), rows)
    if forest.n_outputs > 1:
        np.testing.assert_array_equal(found, forest.predict(rows, output="margin")[:, output])
        return
    check(found, forest, rows)


def test_sqlite(forest):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    check(run_sqlite(glasswood.export_sql(forest, "sqlite"), rows), forest, rows)


def test_postgresql(forest, server):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    check(run_postgresql(server, glasswood.export_sql(forest, "postgresql"), rows), forest, rows)


def stumps(n_trees):
    return full_forest(0, n_trees, 1, 2, "float64")


def test_many_trees():
    """Databases and parsers take sums of some thousand levels only."""
    forest = dataclasses.replace(stumps(7000), link="identity", prediction="response", missing=math.nan)
    rows = rows_of(forest)[:5]
    check(run_python(glasswood.export_python(forest), rows), forest, rows)
    for dialect in ("duckdb", "sqlite"):
        with pytest.raises(NotImplementedError, match=rf"7000 trees .* {dialect} supports 1000; use export_python"):
            glasswood.export_sql(forest, dialect)
    assert glasswood.export_sql(forest, "postgresql")


def test_as_many_trees_as_sqlite_takes():
    forest = dataclasses.replace(stumps(980), link="logistic", missing=math.nan, link_scale=2.0)
    with sqlite3.connect(":memory:") as connection:
        connection.create_function("EXP", 1, math.exp)
        connection.execute("CREATE TABLE rows (x0, x1)")
        connection.execute(f"SELECT {glasswood.export_sql(forest, 'sqlite')} FROM rows")


@pytest.mark.slow
def test_as_many_trees_as_duckdb_takes():
    forest = dataclasses.replace(stumps(980), link="logistic", missing=math.nan, link_scale=2.0)
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (x0 DOUBLE, x1 DOUBLE)")
        connection.execute(f"SELECT {glasswood.export_sql(forest)} FROM rows")


def test_python(forest):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    check(run_python(glasswood.export_python(forest, "evaluate"), rows, "evaluate"), forest, rows)


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
def test_c(forest, tmp_path):
    if forest.n_outputs > 1:
        pytest.skip("several outputs")
    rows = rows_of(forest)
    library = compile_c(glasswood.export_c(forest, "evaluate"), tmp_path)
    check(call_c(library.evaluate, code_columns(forest, rows)), forest, rows)


EXPLAINED = {
    "LightGBM, categories": lambda: of_lightgbm(),
    "XGBoost": of_xgboost,
    "weights": lambda: random_forest(3, dataclasses.replace(RANDOM, n_outputs=2)),
    "categories by code": lambda: random_forest(5, dataclasses.replace(RANDOM, categorical=True)),
    "splits without cover": lambda: without_cover(random_forest(4, RANDOM)),
    "stumps": lambda: stumps(5),
    "deep": lambda: full_forest(1, 2, 9, 4, "float64"),
}


def without_cover(forest):
    """Some splits that no training row reached, and sides that none took."""
    cover, ensemble = np.array(forest.ensemble.cover), forest.ensemble
    for tree in range(ensemble.n_trees):
        root = int(ensemble.tree_offsets[tree])
        for node in np.flatnonzero(ensemble.feature[root : ensemble.tree_offsets[tree + 1]] >= 0)[1:3] + root:
            cover[node] = 0
    return dataclasses.replace(forest, cover=cover)


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize("made", EXPLAINED)
def test_explainers_in_c(made, tmp_path):
    forest = settled(EXPLAINED[made]())
    rows = rows_of(forest)
    check_explainer_in_c(glasswood.Explainer(forest, dtype="float64", algorithm="quadrature"), rows, tmp_path)


def check_explainer_in_c(explainer, rows, tmp_path):
    forest = explainer.forest
    for output in range(forest.n_outputs):
        (tmp_path / str(output)).mkdir()
        library = compile_c(glasswood.export_c(explainer, f"explain{output}", output), tmp_path / str(output))
        function = getattr(library, f"explain{output}")
        phi = np.zeros(len(explainer.players))
        pointer = ctypes.POINTER(ctypes.c_double)
        function.restype, function.argtypes = ctypes.c_double, [pointer, pointer]
        matrix = np.ascontiguousarray(code_columns(forest, rows), np.float64)
        expected = explainer.shap_values(rows).reshape(len(rows), len(phi), -1)[:, :, output]
        found = np.empty_like(expected)
        for row, values in zip(matrix, found, strict=True):
            base = function(row.ctypes.data_as(pointer), phi.ctypes.data_as(pointer))
            values[:] = phi
        assert base == np.atleast_1d(explainer.expected_value)[output]
        scale = np.abs(forest.ensemble.tree_weight).sum() * max(np.abs(forest.ensemble.leaf_value).max(), 1e-300)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize("made", ["LightGBM, categories", "deep"])
def test_groups_of_features_in_c(made, tmp_path):
    forest = settled(EXPLAINED[made]())
    groups = {"all */ but one": range(1, forest.n_features)} if made == "deep" else {"two": [2, 0]}
    explainer = glasswood.Explainer(forest, groups=groups, dtype="float64")
    check_explainer_in_c(explainer, rows_of(forest), tmp_path)


def test_explainers_that_c_does_not_compute():
    forest = full_forest(0, 3, 2, 4, "float64")
    X = np.zeros((3, 4))
    for explainer, what in (
        (glasswood.Explainer(forest, X), "a background"),
        (glasswood.Explainer(forest, X, output="response"), "a background"),
        (glasswood.Explainer(with_models(forest, 1)), "linear leaves"),
    ):
        with pytest.raises(NotImplementedError, match=f"cannot write explainers with {what} as code; (make|explain)"):
            glasswood.export_c(explainer)


SHEET = {
    "IF": lambda test, yes, no: yes if test else no,
    "OR": lambda *tests: any(tests),
    "AND": lambda *tests: all(tests),
    "NOT": lambda test: not test,
    "MIN": min,
    "MAX": max,
    "EXP": math.exp,
    "LN": lambda x: math.log(x) if x > 0 else math.nan,
    "EXACT": lambda one, other: one == other,
    "ISBLANK": lambda cell: cell is None,
    "TRUE": True,
    "FALSE": False,
}


class Blank(float):
    """An empty cell counts as 0 in sums; choices are eager here, lazy in a spreadsheet."""


def test_excel(forest):
    """Formulas as Python: the functions by their names, = as ==."""
    if forest.n_outputs > 1 or forest.depth > 8:
        pytest.skip("too large")
    try:
        formula = glasswood.export_excel(forest)
    except NotImplementedError:
        pytest.skip("too long")
    rows = finite(rows_of(forest))[:100]
    text = re.sub(r"(?<![<>=])=(?!=)", "==", formula[1:]).replace('""', '\\"')
    compiled = compile(text, "formula", "eval")
    found = []
    for row in rows.itertuples(index=False):
        cells = {f"{chr(65 + i)}2": cell_of(value) for i, value in enumerate(row)}
        found.append(eval(compiled, {**SHEET, "ISBLANK": lambda cell: isinstance(cell, Blank), **cells}))
    check_digits(found, forest, rows)


def finite(rows):
    """Rows that cells can hold."""
    return rows[~rows.isin([np.inf, -np.inf]).any(axis=1)]


def check_digits(found, forest, rows):
    """Spreadsheets keep 15 digits; predict may keep fewer."""
    expected = expected_of(forest, rows)
    is_double = expected.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-9 if is_double else 1e-6, atol=1e-12 if is_double else 1e-7)


def test_libreoffice(tmp_path):
    """All forests in one workbook: a row of the sheet is a row of one of them, and its formula."""
    sheet, cases = [], []
    for make in FORESTS.values():
        forest = settled(make())
        rows = distinct(forest, finite(rows_of(forest)))[:40]
        try:
            formulas = [formula_at(forest, len(sheet) + at) for at in range(1, len(rows) + 1)]
        except NotImplementedError:
            continue
        sheet += [[formula, *row] for formula, row in zip(formulas, objects(rows), strict=True)]
        cases.append((forest, rows))
    found = iter(float(row[0]) for row in compute(sheet, tmp_path))
    assert len(cases) > 6
    for forest, rows in cases:
        check_digits([next(found) for _ in range(len(rows))], forest, rows)


def distinct(forest, rows):
    """Rows whose numbers are no threshold's neighbours: spreadsheets take what differs in the 15th digit for equal."""
    keeps = np.ones(len(rows), bool)
    for feature in range(forest.n_features):
        values = rows.iloc[:, feature]
        if values.dtype.kind == "f":
            limits = forest.ensemble.threshold[
                (forest.ensemble.feature == feature) & np.isfinite(forest.ensemble.threshold)
            ].astype(float)
            if forest.ensemble.threshold.dtype == np.float32:
                limits = np.array([least_rounded(np.float32(limit)) for limit in limits])
            apart = np.abs(values.to_numpy()[:, None] - limits)
            keeps &= ~((apart > 0) & (apart <= 1e-12 * np.abs(limits))).any(axis=1)
    return rows[keeps]


def formula_at(forest, row):
    return glasswood.export_excel(
        forest, cells=[f"{letters(1 + feature)}{row}" for feature in range(forest.n_features)]
    )


def cell_of(value):
    return Blank(0) if value is None or value != value else value


@pytest.mark.parametrize("name", ["class", "exp", "_clip", "float", "__debug__", "a b", "", "naïve"])
def test_names_that_no_python_function_has(name):
    with pytest.raises(ValueError, match=f"name is '{name}'.* expected the name of a function"):
        glasswood.export_python(stumps(1), name)


C_NAMES = ["double", "for", "exp", "clip", "main", "sin", "sinf", "y0", "isnan", "linux", "_Bool", "__FILE__", "M_PI"]


@pytest.mark.parametrize("name", [*C_NAMES, "NAN", "FP_NAN", "a b", "", "naïve"])
def test_names_that_no_c_function_has(name):
    with pytest.raises(ValueError, match=f"name is '{name}'.* expected the name of a function"):
        glasswood.export_c(stumps(1), name)


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
def test_every_other_name_compiles():
    """What <math.h> declares, in the compiler's own words: each name is refused, or it compiles without a warning."""
    headers = [["-E", "-P", "-D_GNU_SOURCE"], ["-E", "-dM", "-D_GNU_SOURCE"]]
    texts = [run_gcc(flags, "#include <math.h>\n") for flags in headers]
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", " ".join(texts))) - {"defined"})
    forest, accepted = stumps(1), []
    for name in names:
        with contextlib.suppress(ValueError):
            accepted.append((name, glasswood.export_c(forest, name)))
    assert len(names) > 1000
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-parentheses"]
    for standard in ("-std=c99", "-std=gnu17"):
        prototypes = [f"double {name}(const double *x);" for name, _ in accepted]
        run_gcc([*flags, standard], "\n".join(["#include <math.h>", *prototypes]))
    run_gcc(flags, next(source for name, source in accepted if name == "x"))


def run_gcc(flags, source):
    done = subprocess.run(["gcc", *flags, "-x", "c", "-"], input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def test_deep_trees_and_other_forests_are_refused():
    with pytest.raises(NotImplementedError, match=r"trees of 6\d levels"):
        glasswood.export_python(chain_forest(65, 1e-3))
    vectors = random_forest(1, Options(n_trees=2, n_features=3, n_outputs=3, vector_leaves=True))
    if vectors.leaf_width > 1:
        with pytest.raises(NotImplementedError, match="leaves of several values"):
            glasswood.export_c(vectors)
    forest = of_sklearn()
    with pytest.raises(ValueError, match="dialect is 'oracle'"):
        glasswood.export_sql(forest, "oracle")
    with pytest.raises(ValueError, match="output is 1, the forest has 1"):
        glasswood.export_sql(forest, output=1)
    with pytest.raises(ValueError, match="expected the name of a function"):
        glasswood.export_python(forest, "a b")
    with pytest.raises(NotImplementedError, match="characters, more than the 8192 of a cell"):
        glasswood.export_excel(with_models(random_forest(3, dataclasses.replace(RANDOM, n_trees=60)), 1))
    with pytest.raises(ValueError, match="cells has 1 entries, expected 4"):
        glasswood.export_excel(grown(), cells=["A1"])
    poisson = dataclasses.replace(ArrayForest(forest.ensemble), link="softmax")
    with pytest.raises(NotImplementedError, match="the link 'softmax'"):
        glasswood.export_python(poisson)


def called(*names):
    """A forest that tests every feature."""
    forest = full_forest(0, 3, 2, len(names), "float64")
    return dataclasses.replace(forest, link="identity", prediction="response", missing=math.nan, feature_names=names)


def test_columns_that_databases_do_not_tell_apart():
    """DuckDB and SQLite match names without the case of ASCII, PostgreSQL by 63 bytes."""
    for dialect in ("duckdb", "sqlite"):
        with pytest.raises(ValueError, match=f"features 0 and 2 are called 'x' and 'X', which {dialect} does not tell"):
            glasswood.export_sql(called("x", "y", "X"), dialect)
    long = 31 * "é"
    with pytest.raises(ValueError, match="which postgresql does not tell apart"):
        glasswood.export_sql(called(f"{long}éa", f"{long}éb"), "postgresql")
    for export in (
        glasswood.export_python,
        glasswood.export_sql,
        lambda forest: glasswood.export_sql(forest, "postgresql"),
    ):
        with pytest.raises(ValueError, match="features 0 and 1 are called 'x' and 'x'"):
            export(called("x", "x"))


def test_columns_that_databases_tell_apart(server):
    forest = called("é", "É", "x", "\u017f")
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 4)), columns=forest.feature_names)
    expected = forest.predict(rows)
    np.testing.assert_array_equal(run_duckdb(glasswood.export_sql(forest), rows), expected)
    np.testing.assert_array_equal(run_sqlite(glasswood.export_sql(forest, "sqlite"), rows), expected)
    forest, rows = called("x", "X", "é", 40 * "é"), rows.set_axis(["x", "X", "é", 40 * "é"], axis=1)
    found = run_postgresql(server, glasswood.export_sql(forest, "postgresql"), rows)
    np.testing.assert_array_equal(found, expected)


def test_missing_columns_are_errors(server):
    """SQLite would take names in double quotes for texts."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    forest = called("a", "b")
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE rows (a)")
        with pytest.raises(sqlite3.OperationalError, match="no such column: b"):
            connection.execute(f"SELECT {glasswood.export_sql(forest, 'sqlite')} FROM rows")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (a DOUBLE)")
        with pytest.raises(duckdb.BinderException, match='"b" not found'):
            connection.execute(f"SELECT {glasswood.export_sql(forest)} FROM rows")
    server.run("CREATE TABLE lacking (a float8)")
    assert 'column "b" does not exist' in server.run(
        f"SELECT {glasswood.export_sql(forest, 'postgresql')} FROM lacking", check=False
    )
    with pytest.raises(KeyError, match="b"):
        run_python(glasswood.export_python(forest), pd.DataFrame({"a": [0.0]}))


@pytest.mark.parametrize(("name", "dialect"), [("rowid", "duckdb"), ("ROWID", "sqlite"), ("oid", "sqlite")])
def test_numbers_of_rows_are_no_features(name, dialect):
    """A table without such a column would silently give the number of its row."""
    with pytest.raises(ValueError, match=f"'{name}' is the row number if a table has no such column"):
        glasswood.export_sql(called(name, "b"), dialect)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgresql"])
def test_names_that_no_column_has(name, dialect):
    with pytest.raises(ValueError, match=r"which (database text|no database column) can"):
        glasswood.export_sql(called(name, "b"), dialect)


def with_categories(*labels):
    """A stump that sends the first and the last of the categories left."""
    words = np.array([1 | 1 << (len(labels) - 1)], np.uint32)
    node = Node(children=(Node(value=1.0), Node(value=2.0)), feature=0, threshold=0.0, category_set=0)
    meaning = {"feature_names": ("a",), "categories": (np.array(labels, object),), "missing": math.nan}
    return flatten([node], 1, "float64", [(words, False)], **meaning)


def test_categories_are_numbers_booleans_or_text():
    for labels in ((1, 2.5, 3), (True, False), (np.int64(1), np.float64(2.0), np.str_("c"))):
        forest = with_categories(*labels)
        rows = pd.DataFrame({"a": pd.Series(labels, dtype=object)})
        np.testing.assert_array_equal(run_python(glasswood.export_python(forest), rows), forest.predict(rows))
    for label in (b"a", None, math.inf, 1j):
        with pytest.raises(NotImplementedError, match=r"the category .* is not a text, a boolean or a finite number"):
            glasswood.export_python(with_categories("b", label))


def test_code_says_what_it_returns_and_what_codes_stand_for():
    X = pd.DataFrame({"n": np.arange(60.0), "city": [f"the city {i % 35:02}" for i in range(60)]}).astype(
        {"city": "category"}
    )
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True).fit(X, np.arange(60) % 2)
    forest = glasswood.load(model, class_names=["no", "yes"])
    source = glasswood.export_c(forest, "score")
    assert 'score(x) returns the probability of class "yes", not its margin.' in source
    assert 'x[1]: "city", a category\'s code\n     0 = "the city 00", 1 = "the city 01",' in source
    assert '29 = "the city 29" and 5 more\n' in source
    assert "the city 30" not in source
    assert 'Returns the probability of class "yes", not its margin.' in glasswood.export_python(forest)
    margins = glasswood.load(xgboost.XGBClassifier(n_estimators=2).fit(X[["n"]], np.arange(60) % 3))
    assert "returns the margin of output 2 (2), before any link." in glasswood.export_c(margins, output=2)
    assert "returns the margin; the forest has no link." in glasswood.export_c(of_xgboost())
    counts = xgboost.XGBRegressor(n_estimators=2, objective="count:poisson").fit(X[["n"]], X["n"])
    assert "returns the response, exp(margin)." in glasswood.export_c(counts)
