"""Queries of a table in eight dialects: run by DuckDB, SQLite, PostgreSQL, MariaDB and Spark, or through sqlglot."""

from __future__ import annotations

import dataclasses
import math
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.display.dialects import Sqlite
from tests.display import mysql
from tests.display.runners import check, exp, objects, quoted, run_postgresql
from tests.display.test_code import FORESTS, called, grown, rows_of, settled, stumps, with_categories
from tests.readers.spark_models import session

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")

NAMES = {"sqlserver": "tsql", "mysql": "mysql", "snowflake": "snowflake", "bigquery": "bigquery", "spark": "spark"}
"""What sqlglot calls the dialects that no database runs here, and MariaDB's."""

HOSTILE = (
    "Oslo",
    "oslo",
    "Oslo ",
    "L'Aquila",
    "a\\b",
    "a\\\\b",
    'q"q',
    "two\nlines",
    "% of _",
    "naïve",
    "`tick`",
    "\u0131",
)
"""Categories that databases may take for one another, or read as something else."""


@pytest.fixture(scope="module")
def mariadb():
    with mysql.serve() as server:
        yield server


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    running = session()
    yield running
    running.stop()


@pytest.fixture(scope="module", params=FORESTS)
def forest(request):
    made = settled(FORESTS[request.param]())
    if made.n_outputs > 1:
        pytest.skip("several outputs")
    return made


def in_duckdb(query, rows):
    with duckdb.connect() as connection:
        connection.register("t", rows.assign(row=np.arange(len(rows))))
        found = connection.execute(f"SELECT * FROM ({query}) ORDER BY row").fetchnumpy()
    assert list(found) == ["row", "prediction"]
    return np.asarray(np.ma.filled(found["prediction"], np.nan), np.float64)


def in_spark(spark, query, rows):
    """Numbers are doubles, texts and truths as they are, and missing ones NULL."""
    from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

    kinds = {name: kind_of(rows[name], BooleanType, DoubleType, StringType) for name in rows}
    fields = [StructField(name, kind()) for name, kind in kinds.items()]
    numbered = [[*row, i] for i, row in enumerate(objects(as_kinds(rows, kinds, DoubleType)))]
    frame = spark.createDataFrame(numbered, StructType([*fields, StructField("row", LongType())]))
    frame.createOrReplaceTempView("t")
    found = spark.sql(f"SELECT * FROM ({query}) ORDER BY row").collect()
    return np.array([math.nan if one["prediction"] is None else one["prediction"] for one in found])


def kind_of(column, truth, number, text):
    values = column.dropna()
    if column.dtype == bool or (len(values) and all(isinstance(value, bool | np.bool_) for value in values)):
        return truth
    is_text = column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype)
    return text if is_text and any(isinstance(value, str) for value in values) else number


def as_kinds(rows, kinds, number):
    return pd.DataFrame({name: rows[name].astype(float) if kinds[name] is number else rows[name] for name in rows})


def in_sqlite(query, rows):
    with sqlite3.connect(":memory:") as connection:
        connection.create_function("EXP", 1, exp)
        columns = [*rows.columns, "row"]
        connection.execute(f"CREATE TABLE t ({', '.join(map(quoted, columns))})")
        numbered = [[*row, i] for i, row in enumerate(objects(rows))]
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", numbered)
        found = connection.execute(f"{query} ORDER BY `row`").fetchall()
    return np.array([math.nan if value is None else value for _, value in found])


def query_of(forest, dialect, **settings):
    return glasswood.export_sql(forest, dialect, table="t", keep=["row"], **settings)


def selected(forest, dialect):
    """A query with the model as one expression."""
    return f"SELECT row, {glasswood.export_sql(forest, dialect)} AS prediction FROM t"


def test_duckdb(forest):
    rows = rows_of(forest)
    check(in_duckdb(query_of(forest, "duckdb"), rows), forest, rows)


def test_sqlite(forest):
    rows = rows_of(forest)
    check(in_sqlite(query_of(forest, "sqlite"), rows), forest, rows)


def test_postgresql(forest, server):
    rows = rows_of(forest)
    query = glasswood.export_sql(forest, "postgresql", table="rows", keep=["place"])
    check(run_postgresql(server, f"prediction FROM ({query}) AS q ORDER BY place; --", rows), forest, rows)


def test_mysql(forest, mariadb):
    rows = finite(rows_of(forest))
    query = glasswood.export_sql(forest, "mysql", table="d.t", keep=["row"])
    found = mysql.run_mysql(mariadb, f"{query} ORDER BY `row`", rows.assign(row=np.arange(len(rows))))
    np.testing.assert_allclose(found, expected_double(forest, rows), rtol=1e-14, atol=1e-300)


@pytest.mark.slow
def test_spark(forest, spark):
    rows = rows_of(forest)[:300]
    for query in (query_of(forest, "spark"), selected(forest, "spark")):
        np.testing.assert_allclose(in_spark(spark, query, rows), expected_double(forest, rows), rtol=1e-14, atol=1e-300)


def finite(rows):
    """Rows that databases without infinity can hold, with texts for unknown categories."""
    return rows[~rows.isin([np.inf, -np.inf]).any(axis=1)]


def expected_double(forest, rows):
    """What DuckDB returns, which `test_duckdb` compares with `predict`."""
    return in_duckdb(query_of(forest, "duckdb"), rows)


@pytest.mark.sizes("each", "forest")
@pytest.mark.parametrize("dialect", NAMES)
def test_other_dialects_through_sqlglot(forest, dialect):
    """Each is read in its own grammar, written in DuckDB's, and run there."""
    sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install sqlglot")
    rows = finite(rows_of(forest))[:150]
    expected = expected_double(forest, rows)
    for query in (query_of(forest, dialect), selected(forest, dialect)):
        [read] = sqlglot.parse(query, read=NAMES[dialect])
        found = in_duckdb(as_duckdb(read), rows)
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-300)


def as_duckdb(read):
    """Write a query for DuckDB: bytes of texts are texts, which it compares by their bytes."""
    from sqlglot import exp as nodes

    def plain(node):
        is_bytes = isinstance(node, nodes.Cast) and "BINARY" in node.to.sql().upper()
        if is_bytes or isinstance(node, nodes.ToBinary if hasattr(nodes, "ToBinary") else ()):
            inner = node.this
            while isinstance(inner, nodes.Cast | nodes.Introducer | nodes.National):
                if isinstance(inner, nodes.Introducer):
                    inner = inner.expression
                elif isinstance(inner, nodes.National):
                    inner = nodes.Literal.string(inner.this)
                else:
                    inner = inner.this
            return inner
        if isinstance(node, nodes.HexString):
            return nodes.Literal.string(bytes.fromhex(node.this).decode())
        return node

    return read.transform(plain).sql("duckdb")


@pytest.mark.parametrize(
    "dialect", ["duckdb", "sqlite", "mysql", *NAMES, pytest.param("running spark", marks=pytest.mark.slow)]
)
def test_categories_that_look_alike(dialect, request):
    forest = with_categories(*HOSTILE)
    rows = pd.DataFrame({"a": pd.Series([*HOSTILE, None, "OSLO", "other"], dtype=object)})
    expected = forest.predict(rows)
    assert 0 < (expected == 1).sum() < len(rows)
    written = dialect.removeprefix("running ")
    for query in (query_of(forest, written), selected(forest, written)):
        if dialect == "sqlite":
            found = in_sqlite(query, rows)
        elif dialect == "mysql":
            server = request.getfixturevalue("mariadb")
            text = query.replace(" FROM t", " FROM d.t").replace("SELECT row,", "SELECT `row`,").replace("`t`", "d.t")
            found = mysql.run_mysql(server, f"{text} ORDER BY `row`", rows.assign(row=np.arange(len(rows))))
        elif dialect == "duckdb":
            found = in_duckdb(query, rows)
        elif dialect == "running spark":
            found = in_spark(request.getfixturevalue("spark"), query, rows)
        else:
            sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install sqlglot")
            found = in_duckdb(as_duckdb(sqlglot.parse_one(query, read=NAMES[dialect])), rows)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [1, 61, 62, 63, 200])
def test_words_of_many_categories(n):
    """The first and the last category go left; unknown ones go right."""
    labels = [f"c{i}" for i in range(n)]
    node = with_categories(*labels[:2]) if n < 3 else with_many(labels)
    rows = pd.DataFrame({"a": [*labels, "other", None]})
    np.testing.assert_array_equal(in_duckdb(query_of(node, "duckdb"), rows), node.predict(rows))


def with_many(labels):
    made = with_categories(*labels[:2])
    words = np.zeros(-(-len(labels) // 32), np.uint32)
    words[0] |= np.uint32(1)
    words[(len(labels) - 1) // 32] |= np.uint32(1 << ((len(labels) - 1) % 32))
    sets = {"set_words": words, "set_offsets": np.array([0, len(words)])}
    return dataclasses.replace(made, categories=(np.array(labels, object),), **sets)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_more_trees_than_levels(dialect, limits):
    limits(query_trees=100)
    forest = dataclasses.replace(stumps(1200), link="identity", prediction="response", missing=math.nan)
    rows = rows_of(forest)[:50]
    run = in_duckdb if dialect == "duckdb" else in_sqlite
    check(run(query_of(forest, dialect), rows), forest, rows)


def test_columns_of_the_table():
    forest = called("f0", "f1")
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["km pro Jahr", "f1"])
    expected = forest.predict(rows.set_axis(["f0", "f1"], axis=1))
    query = query_of(forest, "duckdb", columns={"f0": "km pro Jahr"})
    np.testing.assert_array_equal(in_duckdb(query, rows), expected)
    with pytest.raises(ValueError, match="'f2'"):
        glasswood.export_sql(forest, columns={"f2": "a"})
    with pytest.raises(ValueError, match="which duckdb does not tell apart; rename one of them"):
        glasswood.export_sql(forest, columns={"f0": "F1"})


def test_names_of_tables_and_helpers():
    forest = called("g_x0", "b")
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["g_x0", "b"])
    np.testing.assert_array_equal(in_duckdb(query_of(forest, "duckdb"), rows), forest.predict(rows))
    assert 'FROM "schema"."a table"' in glasswood.export_sql(forest, table="schema.a table")
    assert 'FROM "s.1"."t"' in glasswood.export_sql(forest, table=["s.1", "t"])
    assert "FROM [s].[t]]1]" in glasswood.export_sql(forest, "sqlserver", table="s.t]1")
    with pytest.raises(ValueError, match="keep holds 'prediction'"):
        glasswood.export_sql(forest, table="t", keep=["Prediction"])
    with pytest.raises(ValueError, match="keep names columns of a query; pass table="):
        glasswood.export_sql(forest, keep=["id"])


def test_explainers_are_refused_in_a_sentence():
    with pytest.raises(NotImplementedError, match=r"for which SQL has no loop; write them by export_c\(explainer\)"):
        glasswood.export_sql(glasswood.Explainer(grown()))


def test_choices_of_sql_server_are_flat():
    """Its CASE nests to ten levels; leaves with equations, and clips, are inside of another one."""
    for name in ("random, clipped", "LightGBM, linear", "XGBoost"):
        query = query_of(settled(FORESTS[name]()), "sqlserver")
        depth = deepest = 0
        for word in query.split():
            depth += word.strip("(,") == "CASE"
            depth -= word.strip("),") == "END"
            deepest = max(deepest, depth)
        assert 1 <= deepest <= 5


def test_sqlite_reads_the_numbers_that_are_written():
    """Its parser rounds twice, so that the shortest digits of one number in some ten thousand become its neighbour."""
    rng = np.random.default_rng(0)
    numbers = [-0.2718732020982427, *(rng.normal(size=20_000) * 10.0 ** rng.uniform(-250, 300, 20_000)).tolist()]
    language = Sqlite(["x"])
    with sqlite3.connect(":memory:") as connection:
        found = [connection.execute(f"SELECT {language.number(x)}").fetchone()[0] for x in numbers]
    assert found == numbers
    assert language.number(0.1) == "0.1"
