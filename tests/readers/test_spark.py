"""Folders of pyspark.ml, read without Spark; those of `data` say what Spark predicted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.oracles import coalitions
from tests.readers import spark_models
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.forests import BACKGROUND, EXPLAINED

import glasswood

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
STORED = sorted((Path(__file__).parent / "data").glob("spark-*.spark"))
TREE, FOREST, BOOSTED = (
    next(path for path in STORED if path.stem.endswith(name)) for name in ("-tree", "-forest", "-boosted-classifier")
)


def unpacked(path, tmp_path):
    return spark_models.unpack(path.read_bytes(), tmp_path / "model")


def agree(forest, rows, expected):
    """Compare with Spark's predictions and probabilities, whose margins are sums in float64."""
    codes = rows.copy()
    for feature, table in enumerate(forest.ensemble.categories or ()):
        if table is not None:
            codes[~np.isin(rows[:, feature], table), feature] = np.nan
    assert_agrees(forest, codes, **expected, given=rows, sums="float64")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_folders(path, tmp_path):
    expected = dict(np.load(f"{path}.npz"))
    rows = expected.pop("rows")
    forest = glasswood.load(unpacked(path, tmp_path))
    assert forest.source == "Spark 4.3.0"
    is_pipeline = "pipeline" in path.stem
    assert forest.feature_names == (tuple("abcd") if is_pipeline else None)
    X = spark_models.make_rows(0)
    if is_pipeline:  # whose assembler refuses missing numbers
        with pytest.raises(ValueError, match="X is NaN"):
            forest.predict(rows)
        is_whole = ~np.isnan(rows).any(axis=1)
        rows, expected = rows[is_whole], {key: values[is_whole] for key, values in expected.items()}
        X = X[~np.isnan(X).any(axis=1)]
    agree(forest, rows, expected)
    values = glasswood.Explainer(forest, dtype="float64").shap_values(X, check_additivity=True)
    assert values.shape[:2] == X.shape


def test_no_spark_is_needed(tmp_path):
    folder = unpacked(TREE, tmp_path)
    code = f"import sys, glasswood; sys.modules['pyspark'] = None; print(glasswood.load({str(folder)!r}).n_trees)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_covers_are_weights_of_training_rows(tmp_path):
    trees = glasswood.load(unpacked(FOREST, tmp_path)).ensemble
    splits = np.flatnonzero(trees.feature >= 0)
    first = np.repeat(trees.tree_offsets[:-1], np.diff(trees.tree_offsets))[splits]
    children = first + trees.left[splits]
    np.testing.assert_allclose(trees.cover[children] + trees.cover[children + 1], trees.cover[splits])


def document(folder, change):
    """Change the metadata of a folder."""
    [path] = (folder / "metadata").glob("part-*")
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))


def rows(folder, change, part="data"):
    """Change the rows of a folder's Parquet file."""
    [path] = (folder / part).glob("part-*.parquet")
    table = parquet.read_table(path)
    changed = change(table.to_pylist())
    parquet.write_table(arrow.Table.from_pylist(changed, table.schema), path)


def setting(**changes):
    """Change entries of a node's row."""

    def change(nodes):
        node = nodes[0].get("nodeData", nodes[0])
        for key, value in changes.items():
            (node["split"] if key in node["split"] else node)[key] = value
        return nodes

    return change


CORRUPT = {
    "no metadata": (lambda folder: shutil.rmtree(folder / "metadata") or (folder / "metadata").mkdir(), r"no part-\*"),
    "no data": (lambda folder: shutil.rmtree(folder / "data"), r"data has no part-\*\.parquet file"),
    "metadata of text": (lambda folder: document(folder, lambda about: about.update(numFeatures="x")), "invalid lit"),
    "no features": (lambda folder: document(folder, lambda about: about.update(numFeatures=0)), "'numFeatures' is 0"),
    "a number as a version": (
        lambda folder: document(folder, lambda about: about.update(sparkVersion=4)),
        "is of type",
    ),
    "no version": (lambda folder: document(folder, lambda about: about.update(sparkVersion="x")), "'sparkVersion' is"),
    "fewer features": (lambda folder: document(folder, lambda about: about.update(numFeatures=1)), "a split is on fea"),
    "a child of another tree": (lambda folder: rows(folder, setting(leftChild=10**6)), "tree 0 names child"),
    "a circle": (lambda folder: rows(folder, setting(rightChild=0)), "tree 0 reaches node 0 twice"),
    "a child twice": (lambda folder: rows(folder, setting(rightChild=1)), "tree 0 reaches node 1 twice"),
    "a hidden feature": (lambda folder: rows(folder, setting(featureIndex=-2)), "a split is on feature -2"),
    "two thresholds": (
        lambda folder: rows(folder, setting(leftCategoriesOrThreshold=[1.0, 2.0], numCategories=-1)),
        "has several thresholds, or none",
    ),
    "a category beyond": (
        lambda folder: rows(folder, setting(featureIndex=3, leftCategoriesOrThreshold=[9.0], numCategories=2)),
        "disagree about its categories|sends others left",
    ),
    "many categories": (lambda folder: rows(folder, setting(numCategories=2**31 - 1)), "at most 65536 are supported"),
    "NaN as a threshold": (
        lambda folder: rows(folder, setting(leftCategoriesOrThreshold=[float("nan")], numCategories=-1)),
        "threshold",
    ),
    "no statistics": (
        lambda folder: rows(folder, setting(impurityStats=[])),
        "'impurityStats' of a node has 0 numbers",
    ),
    "a prediction that is no number": (
        lambda folder: rows(folder, lambda nodes: [setting(prediction=float("inf"))(nodes[-1:])[0]] * len(nodes)),
        "the ids of a tree's nodes do not count from 0",
    ),
    "a node less": (lambda folder: rows(folder, lambda nodes: nodes[:-1]), "names child|count from 0"),
    "an id twice": (lambda folder: rows(folder, lambda nodes: nodes + nodes[-1:]), "do not count from 0"),
    "text for Parquet": (
        lambda folder: next((folder / "data").glob("part-*.parquet")).write_text("x" * 100),
        "no Parquet files that can be read",
    ),
}


@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_folders_are_refused(name, tmp_path):
    folder = unpacked(TREE, tmp_path)
    damage, message = CORRUPT[name]
    damage(folder)
    with pytest.raises(ValueError, match=f"holds no valid model of Spark: .*({message})") as caught:
        glasswood.load(folder)
    assert str(folder) in str(caught.value)


def test_ensembles_that_miss_trees(tmp_path):
    folder = unpacked(BOOSTED, tmp_path)
    rows(folder, lambda weights: weights[:-1], "treesMetadata")
    with pytest.raises(ValueError, match=r"it has \d+ weights for \d+ trees"):
        glasswood.load(folder)
    document(folder, lambda about: about.update(numTrees=10**9))
    with pytest.raises(ValueError, match="it declares 1000000000 trees and holds others"):
        glasswood.load(folder)


@pytest.mark.parametrize("n_rows", [3_000_000, 10**8])
def test_small_files_of_many_rows(n_rows, tmp_path):
    """Runs of one value take no bytes."""
    folder = unpacked(TREE, tmp_path)
    [path] = (folder / "data").glob("part-*.parquet")
    with parquet.ParquetWriter(path, arrow.schema([("id", arrow.int32())]), use_dictionary=True) as writer:
        for first in range(0, n_rows, 10**7):
            ids = arrow.array(np.zeros(min(10**7, n_rows - first), np.int32))
            writer.write_table(arrow.table({"id": ids}), row_group_size=10**7)
    assert path.stat().st_size < 10**6
    with pytest.raises(ValueError, match=r"rows, more than its size allows|is missing"):
        glasswood.load(folder)


REFUSED = {
    "a later version": ({"sparkVersion": "5.0.0"}, "models of Spark 5.0.0 are not read yet; upgrade glasswood"),
    "another model": (
        {"class": "org.apache.spark.ml.regression.LinearRegressionModel"},
        "'regression.LinearRegressionModel' is not supported; glasswood reads DecisionTree",
    ),
    "an estimator that is not fitted": (
        {"class": "org.apache.spark.ml.regression.GBTRegressor"},
        "'regression.GBTRegressor' is not supported; glasswood reads DecisionTree",
    ),
    "thresholds": ({"paramMap": {"thresholds": [1, 2]}}, "with thresholds is not supported; save it without them"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    folder = unpacked(BOOSTED, tmp_path)
    changes, message = REFUSED[name]
    document(folder, lambda about: about.update(changes))
    with pytest.raises(NotImplementedError, match=message) as caught:
        glasswood.load(folder)
    assert str(folder) in str(caught.value)


def test_pipelines_with_other_stages(tmp_path):
    folder = unpacked(next(path for path in STORED if "pipeline" in path.stem), tmp_path)
    stage = next(folder.glob("stages/0_*"))
    document(stage, lambda about: about.update({"class": "org.apache.spark.ml.feature.PCAModel"}))
    last = next(folder.glob("stages/1_*"))
    with pytest.raises(NotImplementedError, match=r"with the stage PCAModel is not supported, those with .*; load the"):
        glasswood.load(folder)
    assert glasswood.load(last).feature_names is None
    document(folder, lambda about: about["paramMap"].update(stageUids=["../../data"]))
    with pytest.raises(ValueError, match="'stageUids' names stages that it does not hold"):
        glasswood.load(folder)


def test_other_folders(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder, expected a model file"):
        glasswood.load(tmp_path)


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    session = spark_models.session()
    yield session
    session.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", spark_models.MODELS)
def test_spark_itself(name, spark, tmp_path):
    """Ten models of each kind: rows on thresholds, and values against sums over coalitions of Spark's predictions."""
    for seed in range(10):
        X = spark_models.make_rows(seed)
        model = spark_models.fit(spark, name, X, seed)
        folder = tmp_path / str(seed)
        model.save(str(folder))
        forest = glasswood.load(folder)
        rows = adversarial_rows(forest, X, allow_inf=False, max_rows=300)
        if not forest.ensemble.nan_allowed:  # stages of a pipeline refuse missing values, each in its columns
            allowed = forest.ensemble.nan_allowed_in
            refusing = ~allowed if len(allowed) else np.ones(X.shape[1], bool)
            rows = rows[~np.isnan(rows[:, refusing]).any(axis=1)]
        agree(forest, rows, spark_models.responses(spark, model, rows))
        if not seed:
            check_values(spark, model, forest, X)
            with pytest.raises(TypeError, match=r"are in Spark's JVM; save it with model.save\(folder\)"):
                glasswood.load(model.stages[-1] if name == "pipeline" else model)


def check_values(spark, model, forest, X):
    output = "response" if forest.classes else "margin"

    def respond(hybrids, _):
        found = spark_models.responses(spark, model, hybrids)
        return found.get("probabilities", found["predictions"][:, None])[:, -forest.n_outputs :]

    played = coalitions.game(respond, X[EXPLAINED], X[BACKGROUND], np.arange(X.shape[1]))
    found = glasswood.Explainer(forest, X[BACKGROUND], dtype="float64", output=output).shap_values(X[EXPLAINED])
    np.testing.assert_allclose(found.reshape(len(played), X.shape[1], -1), coalitions.values(played), atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_values_are_those_of_shap(spark, tmp_path):
    """shap reads Spark's models of numbers alone."""
    shap = pytest.importorskip("shap")
    X = spark_models.make_rows(0)
    frame = spark_models.frame_of(spark, X, label=X[:, 0] * X[:, 1]).withColumnRenamed("vector", "features")
    model = spark_models.estimator("forest", 3).fit(frame)
    model.save(str(tmp_path / "model"))
    found = glasswood.Explainer(glasswood.load(tmp_path / "model")).shap_values(X[:20])
    expected = shap.TreeExplainer(model).shap_values(X[:20], check_additivity=False)
    np.testing.assert_allclose(found, np.asarray(expected).reshape(found.shape), atol=1e-5)
