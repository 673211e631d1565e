"""Models of Spark that tests and their stored files share, and archives of the folders that Spark saves them in."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from tests.readers.forests import make_rows as plain_rows
from tests.readers.forests import signal

MODELS = ("tree", "forest", "boosted", "tree-classifier", "forest-classifier", "boosted-classifier", "pipeline")
NAMES = list("abcd")
N_CATEGORIES = 6
EPOCH = (1980, 1, 1, 0, 0, 0)


def session():
    """A session of Spark on one core, its logs silent."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("glasswood")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def make_rows(seed):
    """Rows whose third column is a category from 0 and whose last is missing at times."""
    X = plain_rows(seed)
    X[:, 2] = np.round(X[:, 2] / 0.1)
    return X


def frame_of(spark, X, **labels):
    """Rows as a frame of Spark with a column of vectors, whose third entries are categories."""
    from pyspark.ml.linalg import Vectors

    columns = [[float(number) for number in row] for row in zip(*labels.values(), strict=True)] if labels else []
    rows = [(Vectors.dense(row), *more) for row, more in zip(X.tolist(), columns or [[]] * len(X), strict=True)]
    return spark.createDataFrame(rows, ["vector", *labels])


def indexer(spark, X):
    """What tells Spark which entries are categories."""
    from pyspark.ml.feature import VectorIndexer

    indexed = VectorIndexer(inputCol="vector", outputCol="features", maxCategories=N_CATEGORIES)
    return indexed.fit(frame_of(spark, X))


def estimator(name, seed):
    """An unfitted model of random settings."""
    from pyspark.ml import classification, regression

    rng = np.random.default_rng(seed)
    shared = {"maxDepth": int(rng.integers(1, 6)), "seed": seed, "labelCol": "label"}
    n_trees = int(rng.integers(1, 6))
    kind = name.removesuffix("-classifier")
    module, suffix = (classification, "Classifier") if name.endswith("-classifier") else (regression, "Regressor")
    if kind == "tree":
        return getattr(module, f"DecisionTree{suffix}")(**shared)
    if kind == "boosted":
        return getattr(module, f"GBT{suffix}")(maxIter=n_trees, stepSize=0.3, **shared)
    return getattr(module, f"RandomForest{suffix}")(numTrees=n_trees, subsamplingRate=0.8, **shared)


def fit(spark, name, X, seed):
    """Fit a model of a kind."""
    y = signal(X * [1, 1, 0.1, 1])
    if name == "pipeline":
        from pyspark.ml import Pipeline
        from pyspark.ml.feature import VectorAssembler

        frame = spark.createDataFrame(pd.DataFrame(X, columns=NAMES).assign(label=y))
        assembler = VectorAssembler(inputCols=NAMES, outputCol="features")
        return Pipeline(stages=[assembler, estimator("forest", seed)]).fit(frame)
    borders = [0.5] if name.startswith("boosted") else [0, 1.5]
    label = np.digitize(y, borders) if name.endswith("-classifier") else y
    frame = indexer(spark, X).transform(frame_of(spark, X, label=label, weight=1 + np.arange(len(X)) % 3))
    model = estimator(name, seed)
    return model.setWeightCol("weight").fit(frame) if seed % 2 else model.fit(frame)


def responses(spark, model, X):
    """What a model predicts of rows: {"predictions": ..., "probabilities": ...}."""
    if hasattr(model, "stages"):
        frame = spark.createDataFrame(pd.DataFrame(X, columns=NAMES))
        frame = model.stages[0].setHandleInvalid("keep").transform(frame)
        found = model.stages[1].transform(frame)
    else:
        found = model.transform(frame_of(spark, X).withColumnRenamed("vector", "features"))
    result = {"predictions": np.array([row.prediction for row in found.select("prediction").collect()])}
    if "probability" in found.columns:
        result["probabilities"] = np.array([row.probability.toArray() for row in found.select("probability").collect()])
    return result


def pack(folder):
    """Bytes of an archive of a folder, the same on every machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.name.startswith(".") and path.name != "_SUCCESS":
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder)), EPOCH), path.read_bytes())
    return buffer.getvalue()


def unpack(data, folder):
    """Write the files of an archive into a folder, which is returned."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)
    return Path(folder)
