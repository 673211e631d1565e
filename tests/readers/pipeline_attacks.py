"""Pipelines of Spark, packed, whose stages ask for much: every stage that is read has at least one."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as arrow
from pyarrow import parquet
from tests.readers import spark_models

FEATURE, TREES = "org.apache.spark.ml.feature.", "org.apache.spark.ml.regression.DecisionTreeRegressionModel"
LISTS = arrow.list_(arrow.string())


def write(folder, document, columns=None):
    """A stage's folder: what it says of itself, and one row of columns."""
    about = {"sparkVersion": "4.0.0", "paramMap": {}, "defaultParamMap": {}, "uid": folder.name, "timestamp": 0}
    for name in ("metadata", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata" / "part-00000").write_text(json.dumps(about | document))
    if columns is not None:
        parquet.write_table(arrow.table(columns), folder / "data" / "part-00000.parquet", compression="zstd")


def stump(folder, n_features, feature=0):
    """One split of a vector, between two leaves."""
    split = [
        {"featureIndex": feature, "leftCategoriesOrThreshold": [0.5], "numCategories": -1},
        *[{"featureIndex": -1, "leftCategoriesOrThreshold": [], "numCategories": -1}] * 2,
    ]
    kind = arrow.struct(
        {"featureIndex": arrow.int32(), "leftCategoriesOrThreshold": arrow.list_(arrow.float64())}
        | {"numCategories": arrow.int32()}
    )
    columns = {
        "id": arrow.array([0, 1, 2], arrow.int32()), "prediction": [0.0, 0.0, 1.0], "impurity": [0.0] * 3,
        "impurityStats": [[2.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "rawCount": [2, 1, 1],
        "gain": [0.0] * 3, "leftChild": arrow.array([1, -1, -1], arrow.int32()),
        "rightChild": arrow.array([2, -1, -1], arrow.int32()), "split": arrow.array(split, kind),
    }  # fmt: skip
    write(folder, {"class": TREES, "numFeatures": n_features}, columns)


def pipeline(*stages, n_features=1, feature=0, times=1):
    """A pipeline of (class, parameters, columns) before a stump, packed; `times`: the first stage so often."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uids = [f"s{i}" for i in range(len(stages))]
        for i, (kind, parameters, columns) in enumerate(stages):
            about = {"class": FEATURE + kind, "paramMap": parameters}
            write(folder / "stages" / f"{i}_s{i}", about, columns)
        stump(folder / "stages" / f"{len(stages)}_trees", n_features, feature)
        order = uids[:1] * (times - 1) + uids + ["trees"]
        write(folder, {"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": order}})
        return spark_models.pack(folder)


def indexer(labels, made="i", given="a"):
    """A StringIndexer of one column."""
    columns = {"labelsArray": arrow.array([[labels]], arrow.list_(LISTS))}
    return "StringIndexerModel", {"inputCols": [given], "outputCols": [made]}, columns


def one_hot(size, made="features", given="i"):
    """A OneHotEncoder of one column."""
    columns = {"categorySizes": arrow.array([[size]], arrow.list_(arrow.int32()))}
    return "OneHotEncoderModel", {"inputCols": [given], "outputCols": [made], "dropLast": False}, columns


def vector_indexer(size, maps, given="v"):
    """A VectorIndexer."""
    kind = arrow.map_(arrow.int32(), arrow.map_(arrow.float64(), arrow.int32()))
    columns = {"numFeatures": arrow.array([size], arrow.int32()), "categoryMaps": arrow.array([maps], kind)}
    return "VectorIndexerModel", {"inputCol": given, "outputCol": "features"}, columns


def assembler(inputs):
    """A VectorAssembler."""
    return "VectorAssembler", {"inputCols": inputs, "outputCol": "features"}, None


def imputer(columns):
    """An Imputer."""
    fills = {name: arrow.array([0.5]) for name in columns}
    return "ImputerModel", {"inputCols": columns, "outputCols": [f"{name}2" for name in columns]}, fills


MANY, SOME = 2**24, 2**22


def pipeline_attacks():
    """Names and functions that return packed folders."""
    texts = [f"{i:06d}" for i in range(100_000)]
    yield "a StringIndexer of 100000 labels", lambda: pipeline(indexer(texts, "features"))
    yield "a StringIndexer, 900 times", lambda: pipeline(indexer(texts[:50_000], "features"), times=900)
    yield "a StringIndexer of equal labels", lambda: pipeline(indexer(["x" * 1000] * 2**17, "features"))
    for size in (MANY, SOME, 2**21, 2**31 - 1, 3000):
        few = (indexer(["u", "v"]), one_hot(size))
        yield f"a OneHotEncoder of {size} on 2 labels", partial(pipeline, *few, n_features=size)
        yield f"a OneHotEncoder of {size}", partial(pipeline, one_hot(size, given="a"), n_features=size)
    before_3 = ("OneHotEncoder", {"inputCol": "i", "outputCol": "features", "dropLast": False}, None)
    yield "a OneHotEncoder of Spark 2 on 100000 labels", lambda: pipeline(indexer(texts), before_3, n_features=100_000)
    for size in (MANY, SOME, 2**19, 2**17):
        yield f"a VectorAssembler of a vector of {size}", partial(pipeline, assembler(["v"]), n_features=size)
        yield f"a VectorIndexer of {size}", partial(pipeline, vector_indexer(size, []), n_features=size)
    yield "a VectorAssembler of one column many times", lambda: pipeline(assembler(["a"] * 60_000), n_features=60_000)
    twice = [("VectorAssembler", {"inputCols": [f"v{i}"] * 60, "outputCol": f"v{i + 1}"}, None) for i in range(9)]
    yield "VectorAssemblers of each other", lambda: pipeline(*twice, assembler(["v9"]), n_features=60**4)
    hot = (indexer(["u", "v"]), one_hot(2**20, "h"))
    yield "a VectorAssembler of a OneHotEncoder many times", lambda: pipeline(*hot, assembler(["h"] * 900))
    maps = [(i, [(float(j), j) for j in range(60)]) for i in range(3000)]
    yield "a VectorIndexer of many maps", lambda: pipeline(vector_indexer(3000, maps), n_features=3000)
    chained = [("VectorIndexerModel", {"inputCol": f"v{i}", "outputCol": f"v{i + 1}"}, vector_indexer(SOME, [])[2])
               for i in range(40)]  # fmt: skip
    yield "VectorIndexers of each other", lambda: pipeline(*chained, assembler(["v40"]), n_features=SOME)
    yield "an Imputer of many columns", lambda: pipeline(imputer([f"c{i}" for i in range(3000)]))
    yield "an Imputer of one column many times", lambda: pipeline(imputer(["c"]), times=990)
    yield "a pipeline of pipelines", nested


def nested(depth=60, width=3):
    """Pipelines of pipelines, each of which names the next some times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for level in range(depth):
            about = {"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": [f"p{level}"] * width}}
            write(folder, about)
            folder = folder / "stages" / f"0_p{level}"
        stump(folder, 1)
        return spark_models.pack(Path(name))
