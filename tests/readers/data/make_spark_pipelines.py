"""Write pipelines and searches of the installed pyspark (Python >= 3.7), and what they predict, into `versions`.

python tests/readers/data/make_spark_pipelines.py    (needs pyspark, pandas and Java: 8 or 11 for Spark 3.0)
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyspark
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import RandomForestClassifier
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import (
    Imputer,
    IndexToString,
    OneHotEncoder,
    StringIndexer,
    VectorAssembler,
    VectorIndexer,
)
from pyspark.ml.regression import GBTRegressor, RandomForestRegressor
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

COLUMNS = ["a", "c", "city", "kind", "h"]
CITIES, KINDS = ["x y", "b", "zz", "d"], ["u", "v", "w"]
EPOCH = (1980, 1, 1, 0, 0, 0)


def session():
    """A session on one core."""
    builder = SparkSession.builder.master("local[1]").appName("glasswood")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def make_rows(n, seed, step):
    """Numbers on a grid, codes, texts, and numbers of which some are missing."""
    rng = np.random.RandomState(seed)
    return [
        (
            float(np.round(rng.normal() / step) * step),
            float(rng.randint(0, 5)),
            str(rng.choice(CITIES, p=[0.4, 0.3, 0.2, 0.1])),
            str(rng.choice(KINDS)),
            float(np.round(rng.normal() / step) * step) if rng.rand() > 0.15 else None,
        )
        for _ in range(n)
    ]


def frame_of(spark, rows, **more):
    """A frame of rows, and of columns of numbers or texts."""
    kinds = [StringType() if name in {"city", "kind"} else DoubleType() for name in COLUMNS]
    kinds += [StringType() if isinstance(values[0], str) else DoubleType() for values in more.values()]
    fields = [StructField(name, kind) for name, kind in zip([*COLUMNS, *more], kinds)]  # noqa: B905 of Python 3.7
    return spark.createDataFrame([row + tuple(extra) for row, *extra in zip(rows, *more.values())], StructType(fields))  # noqa: B905


def pipelines(spark):
    """Fitted models by name."""
    rows = make_rows(300, 0, 0.25)
    y = [a + c % 3 + 2 * (city == "b") + (kind == "v") * (h or -1) for a, c, city, kind, h in rows]
    text = ["high" if value > 1 else "middle" if value > 0 else "low" for value in y]
    frame = frame_of(spark, rows, y=y, text=text)
    city = StringIndexer(inputCol="city", outputCol="city_at")
    kind = StringIndexer(inputCol="kind", outputCol="kind_at", handleInvalid="keep")
    filled = Imputer(inputCols=["h"], outputCols=["h_filled"], strategy="median")
    forest = RandomForestRegressor(labelCol="y", numTrees=3, maxDepth=4, seed=1)
    boosted = GBTRegressor(labelCol="y", maxIter=3, maxDepth=3, seed=1)

    def assembled(*names, **given):
        return VectorAssembler(inputCols=list(names), **dict({"outputCol": "features"}, **given))

    hot = OneHotEncoder(inputCols=["city_at", "kind_at"], outputCols=["city_hot", "kind_hot"])
    yield "indexed", [city, kind, filled, assembled("a", "city_at", "c", "kind_at", "h_filled"), forest], frame
    yield "hot", [city, kind, hot, filled, assembled("city_hot", "a", "kind_hot", "h_filled", "c"), forest], frame
    vector = VectorIndexer(inputCol="raw", outputCol="features", maxCategories=6)
    yield "vector", [city, assembled("a", "c", "city_at", outputCol="raw"), vector, boosted], frame
    every = OneHotEncoder(inputCols=["city_at"], outputCols=["hot"], dropLast=False, handleInvalid="keep")
    classes = RandomForestClassifier(labelCol="label", numTrees=3, maxDepth=4, seed=1)
    label = StringIndexer(inputCol="text", outputCol="label")
    yield "labels", [label, city, every, assembled("a", "hot", "c", handleInvalid="keep"), classes], frame
    pipeline = Pipeline(stages=[city, assembled("a", "city_at", "c"), boosted])
    grid = ParamGridBuilder().addGrid(boosted.maxDepth, [2, 3]).build()
    evaluator = RegressionEvaluator(labelCol="y")
    yield (
        "searched",
        [CrossValidator(estimator=pipeline, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2)],
        frame,
    )


def pack(folder):
    """Bytes of an archive of a folder, without what Spark does not read."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(Path(folder).rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and not path.name.startswith((".", "_")) and "estimator" not in inside.parts:
                archive.writestr(zipfile.ZipInfo(str(inside), EPOCH), path.read_bytes())
    return buffer.getvalue()


def main():
    """Fit, save and predict."""
    spark = session()
    rows = make_rows(80, 1, 0.125)
    for name, stages, frame in pipelines(spark):
        model = Pipeline(stages=stages).fit(frame)
        if name == "labels":
            back = IndexToString(inputCol="prediction", outputCol="name", labels=model.stages[0].labels)
            model = PipelineModel(stages=[*model.stages, back])
        found = model.transform(frame_of(spark, rows)).collect()
        told = {"columns": COLUMNS, "rows": rows, "predictions": [row["prediction"] for row in found]}
        if name == "labels":
            told["predictions"] = [row["name"] for row in found]
            told["probabilities"] = [row["probability"].toArray().tolist() for row in found]
        if name in {"indexed", "hot"}:
            others = [(0.25, 1.0, "b", "unseen", None), (0.5, 1.0, "zz", None, 1.0)]
            told["others"] = others
            told["of_others"] = [row["prediction"] for row in model.transform(frame_of(spark, others)).collect()]
        target = Path(__file__).parent / "versions" / f"spark-{pyspark.__version__}-{name}.spark"
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder + "/model")
            target.write_bytes(pack(folder + "/model"))
        Path(str(target) + ".told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
