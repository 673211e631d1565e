"""LightGBM boosters, estimators and model files, all read from the text that they share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import assemble
from glasswood.readers.lightgbm.categories import category_sets, category_tables
from glasswood.readers.lightgbm.dump import document_of
from glasswood.readers.lightgbm.linear import linear_leaves
from glasswood.readers.lightgbm.nodes import ZERO_THRESHOLD, Layout, node_arrays, zero_missing
from glasswood.readers.lightgbm.objective import forest_link, link_of
from glasswood.readers.lightgbm.text import WITHOUT_VERSION, Document, parse

if TYPE_CHECKING:
    from lightgbm import Booster, LGBMModel


def read(model: Booster | LGBMModel) -> TreeEnsemble:
    """Read a live Booster or scikit-learn estimator of LightGBM.

    Parameters
    ----------
    model : lightgbm.Booster or lightgbm.LGBMModel
        Predictions stop at `best_iteration` where there is one, as those of its own `predict` do.

    Raises
    ------
    TypeError
        If it is neither.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    NotImplementedError
        If it holds something that glasswood does not support, such as an unknown objective.
    """
    import lightgbm

    if isinstance(model, lightgbm.Booster):
        return _read_text(model.model_to_string())
    if isinstance(model, lightgbm.LGBMModel):
        return _read_text(model.booster_.model_to_string(), is_estimator=True, classes=_classes(model))
    raise TypeError(f"got {type(model).__name__}, expected lightgbm.Booster or an estimator of lightgbm")


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a model file as `Booster.save_model` writes it; predicts as `lightgbm.Booster(model_file=path)`.

    Raises
    ------
    ValueError
        If the file is not a LightGBM model, truncated or corrupt; the message names the path and the tree.
    NotImplementedError
        As in `read`.
    """
    try:
        return _read_text(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"cannot read {path} as a LightGBM model: {error}") from error
    except NotImplementedError as error:
        raise NotImplementedError(f"{path}: {error}") from error


def read_dump(dump: dict[str, Any], where: str) -> TreeEnsemble:
    """Read what ``dump_model`` returns, with where it is from in every message.

    Raises
    ------
    ValueError, NotImplementedError
        As `read_file`; also if the dump is of LightGBM before 2.2, which left the objective out.
    """
    try:
        return _forest(document_of(dump))
    except ValueError as error:
        raise ValueError(f"cannot read {where} as a dump of LightGBM: {error}") from error
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from error


def _classes(model: Booster | LGBMModel) -> tuple[object, ...]:
    """Return a classifier's labels; with an objective of the user's own it predicts margins instead."""
    import lightgbm

    has_labels = isinstance(model, lightgbm.LGBMClassifier) and not callable(model.objective_)
    return (np.asarray(model.classes_),) if has_labels else ()


def _read_text(text: str, **estimator: object) -> TreeEnsemble:
    return _forest(parse(text), **estimator)


def _forest(document: Document, **estimator: object) -> TreeEnsemble:
    n_features, n_outputs = _sizes(document)
    layout = Layout(document)
    sets = category_sets(document, layout)
    n_trees = len(document.trees)
    is_average = "average_output" in document.header
    link = link_of(document.header.get("objective", ""), n_outputs)
    if is_average and document.header.get("version", "v2") == "v2":
        link = forest_link(link, layout.leaf_value)
    if estimator.get("classes"):
        estimator["prediction"] = "half" if n_outputs == 1 else "argmax"
    trees = assemble(
        node_arrays(layout, sets.of_split),
        n_features=n_features,
        tree_output=np.arange(n_trees) % n_outputs,
        tree_weight=np.full(n_trees, n_outputs / n_trees if is_average else 1.0),
        base_score=np.zeros(n_outputs),
        zero_threshold=ZERO_THRESHOLD,
        zero_missing=zero_missing(layout, sets.zero_left, n_features),
        feature_names=_feature_names(document),
        round_trees=n_outputs if n_outputs > 1 else 0,
        source=f"LightGBM (format {document.header.get('version', WITHOUT_VERSION)})",
        **category_tables(document, n_features),
        **sets.fields,
        **link,
        **estimator,
    )
    return linear_leaves(document, layout, trees)


def _sizes(document: Document) -> tuple[int, int]:
    """Return the numbers of features and outputs, checked against what the text holds of them."""
    n_features = document.integer("max_feature_idx") + 1
    n_names = len(document.feature_names)
    if n_features < 1 or n_features != n_names:
        raise ValueError(f"max_feature_idx is {n_features - 1}, but there are {n_names} feature names")
    n_outputs, n_trees = document.integer("num_tree_per_iteration"), len(document.trees)
    if not 1 <= n_outputs <= n_trees or n_trees % n_outputs:
        raise ValueError(f"{n_trees} trees do not make whole iterations of {n_outputs} trees")
    return n_features, n_outputs


def _feature_names(document: Document) -> tuple[str, ...] | None:
    """Return the names of the training columns, or None where LightGBM made them up."""
    names = document.feature_names
    return None if names == tuple(f"Column_{i}" for i in range(len(names))) else names
