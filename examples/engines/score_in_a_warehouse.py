"""Predictions inside a database, by SQL: here DuckDB, which a warehouse's own connection replaces."""

import duckdb
import numpy as np

import glasswood

forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
rows, _ = glasswood.datasets.california()
houses = rows.assign(id=range(len(rows)))
database = duckdb.connect()
database.execute("create table houses as select * from houses")

# The query is text: dialect="snowflake", "bigquery", "tsql" and others write it for their databases.
query = glasswood.export_sql(forest, "duckdb", table="houses", keep=["id"])
database.execute(f"create table scores as {query}")

# Try some rows before you rely on it.
found = database.execute("select prediction from scores order by id limit 1000").fetchnumpy()["prediction"]
expected = forest.predict(rows[:1000])
print(f"{len(query):,} characters of SQL, largest difference {np.abs(found - expected).max():.1g}")
np.testing.assert_allclose(found, expected, rtol=1e-5)
