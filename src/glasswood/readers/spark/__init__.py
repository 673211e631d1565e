"""Tree ensembles of Spark (pyspark.ml), from the folders that they are saved in: JSON and Parquet, without Spark."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.documents import get
from glasswood.readers.spark.nodes import read_nodes, read_weights
from glasswood.readers.spark.trees import forest_of

NEWEST_MAJOR = 4
PREFIX = "org.apache.spark.ml."
KINDS = ("DecisionTree", "RandomForest", "GBT")
ASSEMBLER = "feature.VectorAssembler"


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
    """Read a saved DecisionTree, RandomForest or GBT model, or a PipelineModel of a VectorAssembler and one of them.

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
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{folder} holds no valid model of Spark: {error}; save it again") from error


def _metadata(folder: Path) -> dict[str, Any]:
    """Read what a folder says of itself."""
    parts = sorted((folder / "metadata").glob("part-*"))
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


def _read(folder: Path, document: dict[str, Any]) -> TreeEnsemble:
    name = get(document, "class", str).removeprefix(PREFIX)
    if name == "PipelineModel":
        return _read_pipeline(folder, document)
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
    return forest_of(nodes, document, weights, is_class)


def _read_pipeline(folder: Path, document: dict[str, Any]) -> TreeEnsemble:
    """Read the last stage; an assembler before it names the features."""
    stages = [(stage, _metadata(stage)) for stage in _stages(folder, document)]
    *before, (last, about) = stages
    kinds = [get(one, "class", str).removeprefix(PREFIX) for _, one in before]
    if kinds not in ([], [ASSEMBLER]):
        raise NotImplementedError(
            f"a pipeline with the stages {', '.join(kinds)[:200]} is not supported; load {last}, whose rows are what "
            "these stages make"
        )
    if get(about, "class", str) == PREFIX + "PipelineModel":
        raise NotImplementedError(f"a pipeline within a pipeline is not supported; load {last}")
    trees = _read(last, about)
    names = get(before[0][1], "paramMap", dict).get("inputCols") if before else None
    if not isinstance(names, list) or len(names) != trees.n_features or not all(isinstance(one, str) for one in names):
        return trees  # of columns that are vectors, whose entries have no names
    return dataclasses.replace(trees, feature_names=tuple(names))


def _stages(folder: Path, document: dict[str, Any]) -> list[Path]:
    """List the folders of a pipeline's stages, whose names are their number and uid."""
    uids = get(get(document, "paramMap", dict), "stageUids", list)
    found = {path.name.partition("_")[2]: path for path in sorted((folder / "stages").glob("*_*"))}
    if not uids or any(not isinstance(uid, str) or uid not in found for uid in uids):
        raise ValueError("'stageUids' names stages that it does not hold")
    return [found[uid] for uid in uids]
