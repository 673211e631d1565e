"""Tree ensembles of Spark (pyspark.ml), from the folders that they are saved in: JSON and Parquet, without Spark."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.documents import get
from glasswood.readers.spark.nodes import read_nodes, read_weights
from glasswood.readers.spark.stages import Columns, labels_of, parameter
from glasswood.readers.spark.trees import forest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from glasswood.readers.spark.stages import Entry

BROKEN = (ValueError, OverflowError, RecursionError, TypeError, LookupError)
"""What stages raise whose files hold other things than Spark writes."""

NEWEST_MAJOR = 4
PREFIX = "org.apache.spark.ml."
KINDS = ("DecisionTree", "RandomForest", "GBT")
WITH_STAGES = ("PipelineModel", "tuning.CrossValidatorModel", "tuning.TrainValidationSplitModel")
MOST_STAGES = 1000


def read(model: Any) -> TreeEnsemble:
    """Refuse a live model, whose trees are in Spark's JVM.

    Raises
    ------
    TypeError
        Always; the message says what to pass.
    """
    raise TypeError(
        f"the trees of a {type(model).__name__} are in Spark's JVM; save it with model.save(folder) and pass the folder"
    )


def is_folder(path: Path) -> bool:
    """Say whether a folder looks like one that Spark has saved a model in."""
    return (path / "metadata").is_dir()


def read_folder(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a saved DecisionTree, RandomForest or GBT model, or a PipelineModel or search that ends in one of them.

    The rows of a pipeline's forest are those of the frame that its first stage takes.

    Raises
    ------
    ValueError
        If files are missing, truncated or corrupt; the message names the folder.
    NotImplementedError
        If it is another model, has thresholds, or was saved by a later version.
    ImportError
        If pyarrow is not installed.
    """
    folder = Path(path)
    try:
        return _read(folder, _metadata(folder))
    except NotImplementedError as error:
        raise NotImplementedError(f"{folder}: {error}") from error
    except BROKEN as error:
        raise ValueError(f"{folder} holds no valid model of Spark: {error}; save it again") from error


def _metadata(folder: Path) -> dict[str, Any]:
    """Read what a folder says of itself."""
    parts = sorted(path for path in (folder / "metadata").glob("part-*") if path.is_file())  # no pipes, nor devices
    if not parts:
        raise ValueError(f"{folder.name}/metadata has no part-* file")
    document = json.loads(parts[0].read_bytes())
    if not isinstance(document, dict):
        raise ValueError(f"the metadata are a {type(document).__name__}, expected an object")
    version = get(document, "sparkVersion", str)
    major = version.partition(".")[0]
    if not major.isascii() or not major.isdecimal() or len(major) > 4:
        raise ValueError(f"'sparkVersion' is {version[:20]!r}")
    if int(major) > NEWEST_MAJOR:
        raise NotImplementedError(f"models of Spark {version[:20]} are not read yet; upgrade glasswood")
    return document


def _kind(document: dict[str, Any]) -> str:
    """Class of a stage without its package; Python itself writes pipelines that contain searches."""
    name = get(document, "class", str).removeprefix(PREFIX)
    return name.removeprefix("pyspark.ml.").removeprefix("pipeline.")


def _read(
    folder: Path, document: dict[str, Any], entries_of: Callable[[int], list[Entry]] | None = None
) -> TreeEnsemble:
    name = _kind(document)
    if name in WITH_STAGES:
        return _read_stages(folder, document)
    package, _, model = name.partition(".")
    is_class = package == "classification"
    suffix = "ClassificationModel" if is_class else "RegressionModel"
    if package not in {"classification", "regression"} or model not in {kind + suffix for kind in KINDS}:
        expected = ", ".join(f"{kind}{{Regression,Classification}}Model" for kind in KINDS)
        raise NotImplementedError(f"{name[:60]!r} is not supported; glasswood reads {expected}")
    if "thresholds" in get(document, "paramMap", dict):
        raise NotImplementedError(f"a {model} with thresholds is not supported; save it without them")
    kind = model.removesuffix(suffix)
    nodes = read_nodes(folder / "data", is_single=kind == "DecisionTree")
    weights = read_weights(folder / "treesMetadata") if kind == "GBT" else None
    return forest_of(nodes, document, weights, is_class, entries_of)


def _read_stages(folder: Path, document: dict[str, Any]) -> TreeEnsemble:
    """Read the trees behind stages that make vectors of columns, and names of classes behind the trees."""
    stages = _flat(folder, document, [])
    kinds = [_kind(one) for _, one in stages]
    places = [i for i, kind in enumerate(kinds) if kind.startswith(("classification.", "regression."))]
    if len(places) != 1:
        raise NotImplementedError(f"it has {len(places)} models, expected one of trees as its last stage")
    columns, (last, about) = Columns(), stages[places[0]]
    for stage, one in stages[: places[0]]:
        columns.add(stage, one)
    vector = parameter(about, "featuresCol", "features")
    trees = _read(last, about, (lambda n: columns.entries(vector, n)) if columns.made(vector) else None)
    for _, one in stages[places[0] + 1 :]:
        trees = _with_labels(trees, one, columns, about)
    return trees


def _flat(folder: Path, document: dict[str, Any], found: list[tuple[Path, dict[str, Any]]]) -> list[Any]:
    """List the stages of a pipeline, and of pipelines and searches within it, in their order."""
    name = _kind(document)
    if name == "PipelineModel":
        for stage in _stages(folder, document):
            _flat(stage, _metadata(stage), found)
    elif name in WITH_STAGES:
        _flat(folder / "bestModel", _metadata(folder / "bestModel"), found)
    else:
        found.append((folder, document))
    if len(found) > MOST_STAGES:
        raise ValueError(f"it has more than {MOST_STAGES} stages")
    return found


def _with_labels(trees: TreeEnsemble, stage: dict[str, Any], columns: Columns, about: dict[str, Any]) -> TreeEnsemble:
    """Give the classes the names that an IndexToString gives the prediction."""
    kind = _kind(stage)
    names_classes = kind == "feature.IndexToString" and trees.classes
    if not names_classes or parameter(stage, "inputCol") != parameter(about, "predictionCol", "prediction"):
        raise NotImplementedError(f"the stage {kind[:60]!r} behind the trees is not supported, IndexToString is")
    labels = labels_of(stage, columns, parameter(about, "labelCol", "label"))
    if len(labels) < len(trees.classes[0]) or len(set(labels)) < len(labels):
        raise ValueError(f"an IndexToString has {len(labels)} labels for {len(trees.classes[0])} classes")
    return dataclasses.replace(trees, classes=(np.array(labels[: len(trees.classes[0])], object),))


def _stages(folder: Path, document: dict[str, Any]) -> list[Path]:
    """List the folders of a pipeline's stages, whose names are their number and uid."""
    uids = get(get(document, "paramMap", dict), "stageUids", list)
    found = {path.name.partition("_")[2]: path for path in sorted((folder / "stages").glob("*_*"))}
    if not uids or any(not isinstance(uid, str) or uid not in found for uid in uids):
        raise ValueError("'stageUids' names stages that it does not hold")
    return [found[uid] for uid in uids]
