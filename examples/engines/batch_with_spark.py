"""Predictions and the three strongest reasons of each row of a folder, by Spark: needs pyspark and Java."""

import os
import sys

import pyarrow
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import SparkSession

import glasswood

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
settings = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = settings.config("spark.driver.host", "127.0.0.1").getOrCreate()
table = session.read.parquet(str(glasswood.datasets.DATA / "california_housing.parquet"))

# Columns that stay, with their types, are the keys of the results.
keys = pyarrow.schema([("Latitude", pyarrow.float32()), ("Longitude", pyarrow.float32())])
forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
predict = forest.mapper(columns=keys)
explain = glasswood.Explainer(forest).mapper(columns=keys, top=3)

table.mapInArrow(predict.iter, predict.ddl).write.parquet("predictions")
table.mapInArrow(explain.iter, explain.ddl).write.parquet("reasons")

# Rows that a pipeline of Spark holds in one vector column: as an array, whose entries become columns.
names = list(forest.feature_names)
vectors = VectorAssembler(inputCols=names, outputCol="features").transform(table).select("features", "Latitude")
array = vectors.select("Latitude", vector_to_array("features", "float32").alias("features"))
columns = [array["features"][place].alias(f"feature_{place}") for place in range(len(names))]
of_vectors = forest.mapper(columns=keys.remove(1), inputs=[f"feature_{place}" for place in range(len(names))])
found = array.select("Latitude", *columns).mapInArrow(of_vectors.iter, of_vectors.ddl).count()

# A summary of all rows: each task adds up its batch, and the results add up.
X, _ = glasswood.datasets.california()
batches = session.sparkContext.parallelize([X[first : first + 5000] for first in range(0, len(X), 5000)], 2)
summary = batches.map(glasswood.Explainer(forest).summary).reduce(lambda a, b: a + b)

print(session.read.parquet("reasons").limit(3).toPandas())
assert summary.n_rows == len(X)
assert found == session.read.parquet("predictions").count() == table.count()
session.stop()
