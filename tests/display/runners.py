"""What glasswood writes, run by those who read it: databases, Python and a C compiler."""

from __future__ import annotations

import csv
import ctypes
import io
import math
import sqlite3
import subprocess

import numpy as np

C_FLAGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-parentheses", "-O1", "-ffp-contract=off")


def quoted(name):
    """A column's name in a statement that makes a table."""
    return '"' + name.replace('"', '""') + '"'


def objects(rows):
    """Rows as lists of Python's own values, None where one is missing."""
    return rows.astype(object).where(rows.notna(), None).values.tolist()


def run_duckdb(expression, rows):
    """One value a row; the frame is the table."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return np.asarray(connection.execute(f"SELECT {expression} AS y FROM rows").fetchnumpy()["y"], np.float64)


def run_sqlite(expression, rows):
    """One value a row; NaN where SQLite has NULL."""
    connection = sqlite3.connect(":memory:")
    connection.create_function("EXP", 1, exp)
    connection.execute(f"CREATE TABLE rows ({', '.join(map(quoted, rows.columns))})")
    connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * rows.shape[1])})", objects(rows))
    found = connection.execute(f"SELECT {expression} FROM rows").fetchall()
    connection.close()
    return np.array([math.nan if value is None else value for (value,) in found])


def exp(x):
    """As SQLite's own: NULL of NULL, infinity where Python raises an error."""
    with np.errstate(over="ignore"):
        return None if x is None else float(np.exp(x))


def run_postgresql(server, expression, rows):
    """One value a row."""
    types = ["float8" if rows[name].dtype.kind == "f" else "text" for name in rows.columns]
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(rows.columns, types, strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[str(value) if value is not None else None for value in row] for row in objects(rows)])
    table = f"DROP TABLE IF EXISTS rows; CREATE TABLE rows (place serial, {columns});\n"
    copy = f"COPY rows ({', '.join(map(quoted, rows.columns))}) FROM STDIN WITH (FORMAT csv);\n{text.getvalue()}\\.\n"
    found = server.run(f"{table}{copy}SELECT {expression} FROM rows ORDER BY place;")
    return np.array(found, float)


def run_python(source, rows, name="predict"):
    """One value a row, of rows with None and of rows with NaN, which must be the same."""
    space: dict = {}
    exec(compile(source, "model.py", "exec", dont_inherit=True), space)
    found = [space[name](dict(zip(rows.columns, row, strict=True))) for row in objects(rows)]
    with_nan = [space[name](row) for row in rows.to_dict("records")]
    np.testing.assert_array_equal(with_nan, found)
    return np.array(found)


def compile_c(source, folder, *flags):
    """Make a library of a source."""
    (folder / "model.c").write_text(source)
    command = ["gcc", "-x", "c", *C_FLAGS, *flags, "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "model.so"))


def call_c(function, matrix):
    """One value a row of numbers and codes."""
    function.restype, function.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]
    rows = [np.ascontiguousarray(row, np.float64) for row in matrix]
    return np.array([function(row.ctypes.data_as(ctypes.POINTER(ctypes.c_double))) for row in rows])


def code_columns(forest, rows):
    """Rows as C has them: categories by their positions in the forest's tables."""
    return np.column_stack([_code_column(forest, rows, feature) for feature in range(forest.n_features)])


def _code_column(forest, rows, feature):
    column = rows.iloc[:, feature]
    table = forest.ensemble.categories[feature] if forest.ensemble.categories else None
    if table is None:
        return column.to_numpy(float)
    place = {value: float(i) for i, value in enumerate(table.tolist())}
    return np.array([place.get(value, math.nan) for value in column])


def expected_of(forest, rows):
    """What code returns: responses of one output with a link, margins otherwise."""
    if forest.n_outputs == 1 and forest.ensemble.link == "logistic":
        return forest.predict(rows, output="probability").reshape(len(rows), -1)[:, -1]
    if forest.n_outputs == 1 and forest.ensemble.link == "exp":
        return forest.predict(rows)
    return forest.predict(rows, output="margin")


def check(found, forest, rows):
    """Margins by their bits, once rounded as predict rounds them; EXP may differ in the last ones."""
    expected = expected_of(forest, rows)
    with np.errstate(over="ignore"):
        found = np.asarray(found, np.float64).astype(expected.dtype)
    if forest.ensemble.link == "identity":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-7 if expected.dtype == np.float32 else 1e-15, atol=1e-300)
