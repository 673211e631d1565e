"""CatBoost models, from the .cbm and JSON documents that CatBoost 1.2 writes; files need no CatBoost."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.target_statistics import TargetStatistics
from glasswood.readers.assemble import assemble
from glasswood.readers.catboost.cbm import parse_cbm
from glasswood.readers.catboost.document import parse_document
from glasswood.readers.catboost.meaning import meaning
from glasswood.readers.catboost.model import check_features
from glasswood.readers.catboost.trees import oblivious_nodes, read_tests, step_nodes

if TYPE_CHECKING:
    from catboost import CatBoost

    from glasswood.readers.catboost.model import Model


def read(model: CatBoost) -> TreeEnsemble:
    """Read a live model.

    Parameters
    ----------
    model : catboost.CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker
        The forest predicts by default what the model's own ``predict`` does: labels, exponentials of Poisson and
        Tweedie regressions, margins ("RawFormulaVal") of ``CatBoost`` and rankers.

    Raises
    ------
    TypeError
        If it is another object of CatBoost.
    sklearn.exceptions.NotFittedError
        If it is not trained.
    NotImplementedError
        If its trees test texts or embeddings.

    Notes
    -----
    Explanations of oblivious trees are CatBoost's own (``get_feature_importance(type="ShapValues")``), unless leaves
    that no training row reached have values, as ``monotone_constraints`` and files of 2020 give them: glasswood
    weights both sides of a split without rows equally, and CatBoost leaves them out. For several
    trees grown depth-wise or loss-guided those of CatBoost 1.2 do not add up to its prediction; glasswood's do, and are
    the sum of CatBoost's for each tree alone.
    """
    import catboost

    if not isinstance(model, catboost.CatBoost):
        raise TypeError(f"cannot read a {type(model).__name__} of CatBoost, expected a CatBoost model")
    if not model.is_fitted():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {type(model).__name__} is not fitted; train it first")
    kinds = {"classifier": catboost.CatBoostClassifier, "regressor": catboost.CatBoostRegressor}
    estimator = next((name for name, kind in kinds.items() if isinstance(model, kind)), "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        data = path.read_bytes()
    return _read(parse_cbm, data, f"the {type(model).__name__}", estimator)


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read a file written by ``save_model``; it predicts as ``catboost.CatBoost().load_model(path)``: margins.

    Parameters
    ----------
    path : path
        With suffix ``.cbm``.

    Raises
    ------
    ValueError
        If the file is truncated, corrupt or no model of CatBoost.
    NotImplementedError
        As in `read`.
    """
    return _read(parse_cbm, Path(path).read_bytes(), str(path))


def read_document(document: object, where: str) -> TreeEnsemble:
    """Read a parsed JSON document, as `read_file`."""
    return _read(parse_document, document, where)


def is_document(document: object) -> bool:
    """Say whether a JSON document is one of CatBoost."""
    return isinstance(document, dict) and ("oblivious_trees" in document or "features_info" in document)


def predict(model: CatBoost, X: Any) -> Any:
    """Predict with the live model itself, on a copy: CatBoost makes arrays and columns of frames read-only."""
    return model.predict(X.copy() if hasattr(X, "copy") else X)


def _read(parse: Any, document: object, where: str, estimator: str = "") -> TreeEnsemble:
    """Build a forest, with the source of the document in every message."""
    try:
        return _forest(parse(document), estimator)
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{where} holds no valid CatBoost model: {error}; save it again") from error


def _forest(model: Model, estimator: str) -> TreeEnsemble:
    check_features(model)
    tests = read_tests(model)
    nodes = oblivious_nodes(model, tests) if model.steps is None else step_nodes(model, model.steps, tests)
    if len(model.bias) != model.n_outputs:
        raise ValueError(f"it holds {len(model.bias)} biases for {model.n_outputs} outputs")
    statistics = _statistics(model) if model.ctrs else None
    return assemble(
        nodes,
        n_features=model.n_features + len(model.ctrs),
        tree_weight=np.full(len(model.sizes), model.scale),
        base_score=model.bias,
        feature_names=statistics.feature_names if statistics else model.feature_names(),
        categories=None if statistics else _category_tables(model),
        category_hash="city64" if model.categories and not statistics else "",
        transform=statistics,
        source="CatBoost",
        **tests.sets,
        **meaning(model, estimator),
    )


def _statistics(model: Model) -> TargetStatistics:
    """How rows of the model's columns become those of its forest."""
    nan_above = [False] * model.n_features
    for number in model.numbers:
        nan_above[number.column] = number.nan_is_right
    return TargetStatistics(
        names=model.feature_names(),
        hashes=_category_tables(model) or (None,) * model.n_features,
        nan_above=tuple(nan_above),
        tables=tuple(model.tables),
        statistics=tuple(ctr.statistic for ctr in model.ctrs),
    )


def _category_tables(model: Model) -> tuple[Array | None, ...] | None:
    """Hashes of the categories that are tested, for each categorical feature."""
    if not model.categories:
        return None
    tables: list[Array | None] = [None] * model.n_features
    for feature in model.categories:
        tables[feature.column] = feature.hashes.astype(np.int64) % 2**32
    return tuple(tables)
