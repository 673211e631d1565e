"""`glasswood.load`: read any supported model as a Forest."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import escaped_errors, quoted, shown
from glasswood.base.sources import FORMATS
from glasswood.base.typing import COLUMNS, ColumnMatch, ModelFormat, Rows
from glasswood.base.wording import spelled
from glasswood.checking.comparison import TOLERANCE, check_live
from glasswood.forest import Forest
from glasswood.inputs.matching import listed
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.facts import feature_names
from glasswood.model.storage import load_forest
from glasswood.readers import READERS, library_of, read_file, read_model, suffix_of
from glasswood.readers.contents import folder_of
from glasswood.readers.curve import make_curve
from glasswood.readers.spark import is_folder, read_folder

if TYPE_CHECKING:
    from glasswood.readers.curve import Curve


CLASS_LINKS = ("logistic", "softmax", "one_vs_all")


def load(
    model: object,
    check: Rows | bool | None = None,
    mmap: bool = False,
    format: ModelFormat | None = None,  # noqa: A002
    survival_at: ArrayLike | None = None,
    hazard_at: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    columns: ColumnMatch | None = None,
) -> Forest:
    """Read a trained model of any supported library.

    Parameters
    ----------
    model : object or path
        An ``xgboost.Booster`` or ``lightgbm.Booster``, a fitted estimator of XGBoost, LightGBM, CatBoost, scikit-learn
        or another library of the guide's table, a ``treelite.Model``, an ``onnx.ModelProto``, a `ModelTreeRegressor` or
        a `Forest`. Or the path of a model file: ``.json`` (XGBoost, CatBoost), ``.ubj`` (XGBoost), ``.txt``
        (LightGBM), ``.cbm`` (CatBoost), ``.onnx``, ``.zip`` (H2O's MOJO), ``.glasswood``, or a folder that pyspark.ml
        has saved. The first bytes of a file decide how it is read, and its suffix only if they say nothing. So
        XGBoost's binary files (0.80 to 3.0) have any suffix. Files do not need their library; folders need pyarrow. A
        forest from a Booster or a file predicts as the Booster does, with all its rounds. A forest from an estimator
        predicts as the estimator does: up to its best iteration, and labels if it is a classifier. CatBoost's Booster
        is ``catboost.CatBoost``, which predicts margins.
    check : array-like of shape (n_rows, n_features), optional
        Rows on which to compare the predictions of the forest with those of the live model. A frame also tells which
        columns have LightGBM's tables of categories (`Forest.with_categories`).
    mmap : bool
        Map a ``.glasswood`` file instead of reading it, so that processes share its memory. The file may be replaced
        (`Forest.save`) or deleted meanwhile. Writing into it or truncating it changes the forest or ends the process.
    format : {"xgboost", "lightgbm", "catboost", "onnx", "h2o", "glasswood"}, optional
        Format of the file `model`, whatever its suffix.
    survival_at, hazard_at : array-like of shape (n_times,), optional
        Increasing times at which the forest predicts the probability to survive or the cumulative hazard, with one
        output for each time. For survival forests of scikit-survival, which otherwise predict risk scores.
    class_names : sequence of str, optional
        Names of the classes, in the order of the model's labels (0, 1, ...). The forest predicts these names, and
        reports, texts and pictures show them; `y` may still hold 0, 1, ... A Booster or file that predicts
        probabilities or margins of classes becomes a classifier.
    names : mapping of str to str, optional
        Your names of features by the model's: ``{"f0": "age", "km_pro_Jahr": "km pro Jahr"}``. Columns are then matched
        by your names, and explanations, texts and pictures show them. Features that the mapping does not hold keep
        their names. For a model without names (x0, x1, ...), give all.
    columns : {"name", "subset", "position"}, optional
        How the columns of frames are matched with the features, in all calls that take the forest or what is made of
        it. "name": a frame has the columns of the features, in any order, and no others. "subset": it may have others,
        which are ignored. "position": it has them in the order of the features, under any names. The default keeps what
        a forest or a ``.glasswood`` file holds, otherwise "name". Without names, and for arrays, the order counts.

    Returns
    -------
    Forest

    Raises
    ------
    TypeError
        If glasswood cannot read such a `model`.
    ValueError
        If the model is not trained, a file is truncated or corrupt, predictions differ from the model's own,
        `mmap` is used with anything other than a ``.glasswood`` file, `columns` is none of these, `class_names` are not
        the names of all classes, or `names` holds a feature that the model does not have, or gives several the same
        name.
    NotImplementedError
        If the library or a feature of the model is not supported; the message names it.

    Examples
    --------
    >>> forest = glasswood.load("model.json")  # doctest: +SKIP
    """
    curve = make_curve(survival_at, hazard_at)
    trees = _read(model, mmap, format, curve)
    if check is None and not isinstance(model, str | os.PathLike | Forest | TreeEnsemble):
        trees.note(check_live(trees, model, curve))
    forest = model if isinstance(model, Forest) else Forest(trees)
    if columns is not None:
        forest = Forest(_matching(forest.ensemble, columns))
    if check is not None and check is not False:
        forest = forest.with_categories(check)
        check_predictions(forest, model, check, curve)
    if names is not None:
        forest = Forest(_renamed(forest.ensemble, names))
    return forest if class_names is None else Forest(_with_names(forest.ensemble, class_names))


def _matching(trees: TreeEnsemble, columns: str) -> TreeEnsemble:
    """Match columns in another way.

    Raises
    ------
    ValueError
        If there is no such way.
    """
    if columns not in COLUMNS:
        raise ValueError(f"columns is {quoted(columns)}, expected one of {', '.join(COLUMNS)}")
    return dataclasses.replace(trees, columns=columns)


def _renamed(trees: TreeEnsemble, names: Mapping[str, str]) -> TreeEnsemble:
    """Give features other names.

    Raises
    ------
    ValueError, TypeError
        As `load`.
    NotImplementedError
        For pipelines and target statistics, whose columns are not the trees' features.
    """
    if trees.transform is not None:
        raise NotImplementedError(
            "names are for features that are columns, and this model computes its features from columns; rename the "
            "columns of X"
        )
    known = feature_names(trees)
    if not isinstance(names, Mapping) or not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise TypeError(f"names is {quoted(names)}, expected a mapping of the model's names to yours")
    yours = dict(zip(spelled(names, known), names.values(), strict=True))
    if unknown := [name for name in yours if name not in known]:
        raise ValueError(f"names holds {quoted(unknown[0])}, the model's features are {listed(known)}")
    if trees.feature_names is None and len(yours) < len(known):
        raise ValueError(f"the model has no names: names holds {len(yours)} of {len(known)}, {listed(known)}; give all")
    result = tuple(yours.get(name, name) for name in known)
    if repeated := [name for name in result if result.count(name) > 1]:
        raise ValueError(f"names calls several features {quoted(repeated[0])}; give each its own name")
    return dataclasses.replace(trees, feature_names=result)


def _with_names(trees: TreeEnsemble, class_names: Sequence[str]) -> TreeEnsemble:
    """Name the classes; sums of a Booster's trees that stand for probabilities become labels, too."""
    names = np.asarray(class_names)
    if names.ndim != 1 or names.dtype.kind not in "UT" or len(set(names.tolist())) < len(names):
        raise ValueError(f"class_names is {quoted(class_names)}, expected different texts, one for each class")
    n_classes = len(trees.classes[0]) if len(trees.classes) == 1 else 0
    fields: dict[str, Any] = {}
    if not trees.classes and (trees.link == "logistic") == (trees.n_outputs == 1) and trees.link in CLASS_LINKS:
        n_classes, fields = max(2, trees.n_outputs), {"is_estimator": True}
    if trees.prediction in {"response", "margin"}:
        fields["prediction"] = "half" if trees.n_outputs == 1 else "argmax"
    if not n_classes:
        raise ValueError(
            f"class_names are for classifiers of one target, this forest was trained for "
            f"{shown(trees.objective or 'regression')}; leave class_names=None"
        )
    if len(names) != n_classes:
        raise ValueError(f"class_names has {len(names)} names, the model {n_classes} classes; pass one for each")
    return dataclasses.replace(trees, classes=(names.astype(str),), **fields)


@escaped_errors()
def _read(model: object, mmap: bool, library: str | None, curve: Curve | None) -> TreeEnsemble:
    path = Path(model) if isinstance(model, str | os.PathLike) else None
    if curve is not None and (path is not None or isinstance(model, Forest | TreeEnsemble)):
        raise TypeError(
            f"{curve.kind}_at is for live survival forests, got {shown(path or type(model).__name__)}; pass the "
            "fitted model"
        )
    if library is not None and (path is None or library not in FORMATS):
        raise ValueError(
            f"format is {quoted(library)} for {shown(path or type(model).__name__)}, expected one of "
            f"{', '.join(FORMATS)} for a file"
        )
    if path is not None and path.is_dir():
        if library is None and not mmap and is_folder(path):
            return read_folder(path)
        raise IsADirectoryError(f"{shown(path)} is {folder_of(path)}")
    if path is not None and suffix_of(path, library) == ".glasswood":
        _check_format(path, library, "glasswood")
        return load_forest(path, mmap)
    if mmap:
        raise ValueError(
            f"mmap=True maps .glasswood files, not {shown(path or type(model).__name__)}; pass the path of one"
        )
    if isinstance(model, Forest | TreeEnsemble):
        return model if isinstance(model, TreeEnsemble) else model.ensemble
    if path is None:
        return read_model(model, curve)
    trees = read_file(path, library)
    _check_format(path, library, trees.source.partition(" ")[0])
    return trees


def _check_format(path: Path, expected: str | None, found: str) -> None:
    """Raise ValueError if a file is not of the library that `format` names: its first bytes have told which reader."""
    if expected is not None and expected != found.lower():
        raise ValueError(
            f"{shown(path)} holds a model of {shown(found)}, format says {quoted(expected)}; leave format out"
        )


def check_predictions(forest: Forest, model: object, X: Rows, curve: Curve | None = None) -> None:
    """Compare default predictions.

    Parameters
    ----------
    forest : Forest
    model : object
        What the forest was read from.
    X : array-like of shape (n_rows, n_features)
    curve : Curve, optional
        What the forest predicts in place of the model's own predictions.

    Raises
    ------
    ValueError
        If predictions differ, or `model` cannot predict.
    """
    expected, found = np.asarray(_source_predictions(model, X, curve)), np.asarray(forest.predict(X))
    if expected.shape != found.shape:
        raise ValueError(f"the model predicts shape {expected.shape} for the rows of check, glasswood {found.shape}")
    differs = _differs(expected, found).reshape(len(expected), -1).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"glasswood and the model disagree on {differs.sum()} of {len(differs)} rows of check; first on row {row}: "
            f"{shown(found[row])} instead of {shown(expected[row])}; do not use this forest, and report the model"
        )


def _source_predictions(model: Any, X: Rows, curve: Curve | None) -> Any:
    library = library_of(model)
    if library not in READERS:
        raise ValueError(f"check needs a live model that can predict, a {type(model).__name__} cannot; load that")
    if curve is not None:
        return curve.of_source(model, X)
    reader = importlib.import_module(READERS[library])
    predict = getattr(reader, "predict", None) or type(model).predict
    return predict(model, X)


def _differs(expected: Any, found: Any) -> Any:
    if expected.dtype.kind != "f":
        return expected != found
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return ~np.isclose(found, expected, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
