"""shap's names of arguments: what glasswood computes is taken, what it does not compute is refused by name."""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from glasswood.base.device import on_host
from glasswood.base.escapes import quoted, shown
from glasswood.base.wording import nearest_text
from glasswood.explain.responses.response import has_rescale_rule, returns_probabilities, slope_of_link
from glasswood.forest import Forest
from glasswood.inputs.categories import Numbers
from glasswood.inputs.frames import Frame
from glasswood.inputs.matching import as_trained, listed
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.explain.game import Game

Method = TypeVar("Method", bound="Callable[..., Any]")

OUTPUTS: dict[str, str] = {
    "raw": "margin",
    "margin": "margin",
    "probability": "probability",
    "log_loss": "log_loss",
    "predict_proba": "probability",
}
PERTURBATIONS = ("auto", "interventional", "tree_path_dependent")
NAMES = (
    *("data", "masker", "model_output", "feature_perturbation", "approximate", "link", "linearize_link"),
    *("seed", "feature_names", "output_names"),
)
OWN_NAMES = (
    *("background", "algorithm", "output", "device", "dtype", "n_jobs", "table_bytes", "background_weight", "groups"),
    "rule",
)
"""Arguments of `Explainer`, one of which may be meant by a name that is none."""

CALL_NAMES = {"approximate", "tree_limit", "from_call"}


def translated(
    background: Any, weight: Any, output: Any, given: dict[str, Any], forest: TreeEnsemble
) -> tuple[TreeEnsemble, Any, Any, Any]:
    """Find the forest, background, its weights and output that arguments of shap's names ask for.

    Path-dependent values with rows take the covers from these, as shap does.

    Raises
    ------
    TypeError
        If an argument is neither glasswood's nor shap's, or the same thing is given by both names.
    ValueError
        If values contradict each other.
    NotImplementedError
        If shap computes something that glasswood does not.
    """
    if unknown := sorted(set(given) - set(NAMES)):
        nearest = nearest_text(unknown[0], (*OWN_NAMES, *NAMES))
        raise TypeError(
            f"Explainer got an unexpected argument {quoted(unknown[0])}{nearest}; see help(glasswood.Explainer)"
        )
    if given.get("approximate"):
        raise NotImplementedError(
            "approximate=True (values of a single order, not Shapley values) is an argument of calls, as in shap; "
            "leave it out here: exact values take less time than the approximation"
        )
    _refuse_link(given.get("link"))
    named = (background, given.get("data"), given.get("masker"))
    rows = [rows for rows in named if rows is not None]
    if len(rows) > 1:
        raise TypeError("background, data and masker are names of the same rows; pass one of them")
    model_output = given.get("model_output", "raw")
    wanted = _output(model_output, forest)
    if isinstance(model_output, str) and model_output == "predict_proba":
        forest = _of_both_classes(forest)
    chosen = output if wanted == "margin" else wanted
    perturbation = _checked_perturbation(given.get("feature_perturbation", "auto"), bool(rows))
    if not rows:
        return forest, None, weight, chosen
    background, own_weight = _rows(rows[0])
    if perturbation == "tree_path_dependent":
        if own_weight is not None:
            raise NotImplementedError("covers are counts of rows without weights; pass all rows instead of shap.kmeans")
        return Forest(forest).with_covers(background).ensemble, None, weight, chosen
    if own_weight is not None and weight is not None:
        raise TypeError("the background rows of shap.kmeans have weights already; leave out background_weight")
    return forest, background, weight if own_weight is None else own_weight, chosen


def _rows(given: Any) -> tuple[Any, Any]:
    """Rows and their weights: of shap's maskers, and of `shap.kmeans`; others are rows themselves, without weights."""
    if not type(given).__module__.startswith("shap."):
        return given, None
    if not hasattr(given, "weights"):
        return given.data, None
    rows = np.asarray(given.data)
    names = tuple(map(str, given.group_names))
    return Frame(names, len(rows), lambda i: Numbers(rows[:, i]), rows), given.weights


def own_algorithm(algorithm: Any) -> Any:
    """Algorithm that is meant: shap.Explainer's "tree" leaves it open."""
    return "auto" if isinstance(algorithm, str) and algorithm == "tree" else algorithm


def checked_outputs(names: Any, n_outputs: int) -> list[str] | None:
    """Names that explanations give the outputs."""
    if names is None:
        return None
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_outputs:
        raise ValueError(f"output_names is {quoted(names)}, expected {n_outputs} names, one per output of the model")
    return [str(name) for name in names]


def _output(model_output: Any, forest: TreeEnsemble) -> str:
    if not isinstance(model_output, str) or model_output not in OUTPUTS:
        raise NotImplementedError(
            f"model_output={quoted(model_output)} is not computed; expected 'raw', 'probability' or 'log_loss'"
        )
    output = OUTPUTS[model_output]
    return "margin" if output == "probability" and returns_probabilities(forest) else output


def _of_both_classes(forest: TreeEnsemble) -> TreeEnsemble:
    """Let one margin with a logistic link be the second of two margins, the first 0: the softmax is the same."""
    if not has_rescale_rule("probability", forest):
        return forest
    return dataclasses.replace(
        forest,
        tree_output=np.ones_like(forest.tree_output),
        base_score=np.append(0.0, forest.base_score),
        link="softmax",
        link_scale=slope_of_link(forest),
        prediction="argmax",
    )


def _checked_perturbation(perturbation: Any, has_rows: bool) -> str:
    if not isinstance(perturbation, str) or perturbation not in PERTURBATIONS:
        raise ValueError(f"feature_perturbation is {quoted(perturbation)}, expected one of {', '.join(PERTURBATIONS)}")
    if perturbation == "interventional" and not has_rows:
        raise ValueError(
            "feature_perturbation='interventional' compares with background rows; pass data, or 'tree_path_dependent'"
        )
    return perturbation


def _refuse_link(link: Any) -> None:
    name = getattr(link, "__name__", link)
    if name not in (None, "identity"):
        raise NotImplementedError(
            f"link={shown(name)} is not computed; values are those of the margin, or of the probability with "
            "background rows and output='probability'"
        )


def call_arguments(given: dict[str, Any], game: Game, of_pairs: bool = False) -> tuple[int | None, bool]:
    """Check shap's arguments of a call: how many of the trees are explained, None for all; whether approximately.

    Parameters
    ----------
    given : dict
    game : Game
    of_pairs : bool
        Whether interactions are asked for.

    Raises
    ------
    TypeError
        If shap has no such argument, or tree_limit is not a number.
    ValueError
        If tree_limit is 0, or cuts a round of XGBoost.
    """
    if unknown := sorted(set(given) - CALL_NAMES):
        nearest = nearest_text(unknown[0], CALL_NAMES)
        raise TypeError(f"got an unexpected argument {quoted(unknown[0])}{nearest}; see help(glasswood.Explainer)")
    limit = given.get("tree_limit")
    if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__")):
        raise TypeError(f"tree_limit is {quoted(limit)}, expected a number of trees")
    if limit == 0:
        raise ValueError("tree_limit is 0, expected at least 1; -1 or None for all trees")
    approximate = bool(given.get("approximate"))
    if limit is None or limit < 0:
        return None, approximate
    n_trees = _n_first_trees(int(limit), game, of_pairs)
    return (None if n_trees >= game.forest.n_trees else n_trees), approximate


def _n_first_trees(limit: int, game: Game, of_pairs: bool) -> int:
    """Count the trees that shap means by a limit.

    Without a background it hands the limit to LightGBM as rounds, and to XGBoost as the whole rounds that these
    trees make (all, where that is none); its own code counts trees.
    """
    forest = game.forest
    if game.has_background or forest.round_trees <= 1:
        return limit
    library = forest.source.lower()
    if library.startswith("lightgbm") and not of_pairs:
        return limit * forest.round_trees
    if library.startswith("xgboost") and limit % forest.round_trees and limit < forest.n_trees:
        raise ValueError(
            f"tree_limit is {limit}, and a round of this model has {forest.round_trees} trees, which XGBoost explains "
            f"together; pass a multiple of {forest.round_trees}"
        )
    return limit


def is_mean_of_rounds(forest: TreeEnsemble) -> bool:
    """Whether the forest is the mean of its rounds, and so are its first ones: LightGBM's random forests."""
    share = forest.n_outputs / max(1, forest.n_trees)
    return forest.source.startswith("LightGBM") and share < 1 and bool((forest.tree_weight == share).all())


def taking_one_row(method: Method) -> Method:
    """Let a method take a one-dimensional row, as shap does: the result then lacks the axis of rows.

    Explainers that take other names read frames and rows without a feature's name by position, with a warning.
    Sparse results are CSR arrays, which have two axes: they keep it.
    """

    @functools.wraps(method)
    def taking(self: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self.takes_other_names and has_other_names(X, self.game.forest):
            warn_of_names(X, self.game.forest, "X", 2)
            X = X.set_axis(list(self.game.forest.feature_names), axis=X.ndim - 1)
        if getattr(X, "ndim", 2) != 1:
            return method(self, X, y, *args, **kwargs)
        if (out := kwargs.get("out")) is not None:
            kwargs["out"] = out[None]
        labels = y if y is None or np.ndim(y) else [on_host(y)]
        found = method(self, as_table(X, self.game.forest), labels, *args, **kwargs)
        if kwargs.get("sparse_output"):
            return found
        if kwargs.get("as_frame"):
            return tuple(one.iloc[0] for one in found) if isinstance(found, tuple) else found.iloc[0]
        if not isinstance(found, tuple):
            return found[0]
        pairs, values = found
        return pairs if kwargs.get("overall") else pairs[0], values[0]

    return cast("Method", taking)


def has_other_names(X: Any, forest: TreeEnsemble) -> bool:
    """Whether a frame or a row of pandas has as many names as the forest, none of them a feature's."""
    names = _names_of(X)
    if names is None or forest.columns == "position" or forest.transform is not None or len(names) != forest.n_features:
        return False
    is_numbered = X.ndim == 2 and names == [str(i) for i in range(len(names))]
    return not is_numbered and set(as_trained(names, forest)).isdisjoint(forest.feature_names or names)


def warn_of_names(X: Any, forest: TreeEnsemble, what: str, depth: int) -> None:
    """Warn that names are ignored; `depth` is the warning's stacklevel above this call."""
    warnings.warn(
        f"{what} has the names {listed(_names_of(X) or ())}, none of them one of the forest's features "
        f"{listed(forest.feature_names or ())}, and is taken by position, as shap does; rename its columns if they are "
        "in another order",
        stacklevel=depth + 1,
    )


def _names_of(X: Any) -> list[str] | None:
    """Names of a frame's columns, or of a row's values, of pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame | pandas.Series):
        return None
    return [str(name) for name in (X.index if X.ndim == 1 else X.columns)]


def as_table(row: Any, forest: TreeEnsemble) -> Any:
    """Make rows of one row: a pandas.Series has names, and values of several types.

    Raises
    ------
    ValueError
        If a Series has none of the features' names: it may be a column, whose index numbers rows.
    """
    if (given := _names_of(row)) is not None:
        names = as_trained(given, forest)
        is_named = forest.transform is None and forest.columns != "position"
        if is_named and set(names).isdisjoint(forest.feature_names or names):
            raise ValueError(
                f"X is a pandas.Series with the index {listed(names)}, none of them a feature: a row of a frame has "
                f"the names {listed(forest.feature_names or ())}; pass a row, as X.iloc[0], its values as an array, "
                "or the model as glasswood.load(model, columns='position')"
            )
        return row.to_frame().T.infer_objects()
    return row.reshape(1, -1)
