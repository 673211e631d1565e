"""What a model costs as SQL in DuckDB: as a query with bits of categories, and as one expression.

``python -m benchmarks.sql [trees]`` prints seconds of a processor (planning and 1,500 rows, one thread) of a model of
LightGBM with eight numbers and three columns of 60 categories, and checks the results. An expression of 200 trees takes
minutes; by default it has 40.
"""

from __future__ import annotations

import sys
import time

import duckdb
import lightgbm
import numpy as np
import pandas as pd

import glasswood

N_ROWS, N_SCORED, N_CATEGORIES = 20_000, 1500, 60


def make_rows():
    """Rows and a target that depends on all columns."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"x{i}": rng.normal(size=N_ROWS) for i in range(8)})
    y = X["x0"] * X["x1"] + np.sin(X["x2"])
    for j in range(3):
        codes = rng.integers(0, N_CATEGORIES, N_ROWS)
        X[f"c{j}"] = pd.Categorical([f"category number {code:02d}" for code in codes])
        y += rng.normal(size=N_CATEGORIES)[codes]
    return X, y


def seconds(sql: str, rows: pd.DataFrame, expected: np.ndarray) -> float:
    """Time a statement whose last column is the prediction, in the order of `row`."""
    with duckdb.connect() as connection:
        connection.execute("SET threads TO 1")
        connection.register("frame", rows)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
        started = time.process_time()
        found = connection.execute(f"{sql} ORDER BY row").fetchnumpy()
        taken = time.process_time() - started
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)
    return taken


def main() -> None:
    """Print the times."""
    X, y = make_rows()
    rows = X[:N_SCORED].astype({f"c{j}": str for j in range(3)}).assign(row=np.arange(N_SCORED))
    print(f"DuckDB {duckdb.__version__}, LightGBM {lightgbm.__version__}, {N_SCORED:,} rows, one thread")
    for n_trees in (int(sys.argv[1]) if len(sys.argv) > 1 else 40, 200):
        model = lightgbm.LGBMRegressor(n_estimators=n_trees, num_leaves=31, verbose=-1).fit(X, y)
        expected = model.predict(X[:N_SCORED])
        query = glasswood.export_sql(model, table="t", keep=["row"])
        print(f"{n_trees} trees, query: {seconds(query, rows, expected):.2f} s, {len(query) / 1e6:.2f} MB", flush=True)
        if n_trees < 200 or len(sys.argv) > 1:
            expression = f"SELECT row, {glasswood.export_sql(model)} AS prediction FROM t"
            taken = seconds(expression, rows, expected)
            print(f"{n_trees} trees, expression: {taken:.2f} s, {len(expression) / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
