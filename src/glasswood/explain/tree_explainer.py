"""shap's TreeExplainer, computed by glasswood."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from glasswood.base.escapes import shown
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Doubles, Int32s, Rows
from glasswood.explain.explainer import Explainer
from glasswood.explain.shap_arguments import has_other_names, warn_of_names
from glasswood.explain.stored import refuse_explainer
from glasswood.forest import Forest
from glasswood.inputs import name_by_position
from glasswood.loading import load
from glasswood.model.ensemble import TreeEnsemble

OfNodes = TypeVar("OfNodes", bound="Array")

OBJECTIVES = {"identity": "squared_error", "logistic": "binary_crossentropy"}
"""shap's names, by the link of a single output."""


@dataclass(frozen=True, eq=False)
class ShapModel:
    """A forest under the names of shap's ``TreeEnsemble``.

    Arrays of nodes have a row for each tree, as long as the largest; -1 or 0 stands behind the nodes of the others.

    Attributes
    ----------
    num_outputs, tree_limit : int
        Numbers of outputs and of trees.
    objective : str or None
    base_offset : (k,)
        Margin before the first tree.
    children_left, children_right, children_default : int32
        Nodes of the same tree, -1 at leaves; the last is where missing values go.
    features : int32
        -1 at leaves.
    thresholds : float64
        Rows go left where ``x <= threshold``.
    values : (n_trees, n_nodes, k)
        What leaves add to the margin; 0 at splits.
    node_sample_weight : float64
    """

    forest: Forest

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return self.forest.n_outputs

    @property
    def tree_limit(self) -> int:
        """Number of trees."""
        return self.forest.n_trees

    @property
    def objective(self) -> str | None:
        """The objective of the training in shap's words; None if it is not known."""
        return OBJECTIVES.get(self.forest.ensemble.link) if self.num_outputs == 1 else None

    def predict(self, X: Rows) -> Array:
        """Compute margins, which raw values add up to: (n,), or (n, k) for k > 1 outputs."""
        margins: Array = self.forest.predict(X, "margin")
        return margins[:, 0] if margins.ndim == 2 and margins.shape[1] == 1 else margins

    @property
    def base_offset(self) -> Doubles:
        """Margin before the first tree."""
        return self.forest.ensemble.base_score

    @cached_property
    def children_left(self) -> Int32s:
        """Left child of each split."""
        return self._child(self._checked.left)

    @cached_property
    def children_right(self) -> Int32s:
        """Right child of each split."""
        return self._child(self._checked.left + 1)

    @cached_property
    def children_default(self) -> Int32s:
        """Child that missing values go to."""
        return self._child(self._checked.left + ~self._checked.default_left)

    @cached_property
    def features(self) -> Int32s:
        """Feature of each split."""
        return self._by_tree(np.maximum(self._checked.feature, -1), -1)

    @cached_property
    def thresholds(self) -> Doubles:
        """Largest number that goes left at each split."""
        below = np.nextafter(self._checked.threshold, -np.inf, dtype=self._checked.threshold.dtype)
        return self._by_tree(np.where(self._checked.feature >= 0, below, 0.0), 0.0)

    @cached_property
    def values(self) -> Doubles:
        """What each leaf adds to the outputs."""
        forest = self._checked
        values = np.zeros((forest.n_nodes, forest.n_outputs))
        leaves, tree = (
            np.flatnonzero(forest.feature < 0),
            np.repeat(range(forest.n_trees), np.diff(forest.leaf_offsets)),
        )
        outputs = np.arange(forest.n_outputs) if forest.leaf_width > 1 else forest.tree_output[tree][:, None]
        values[leaves[:, None], outputs] = forest.leaf_value * forest.tree_weight[tree][:, None]
        return self._by_tree(values, 0.0)

    @cached_property
    def node_sample_weight(self) -> Doubles:
        """Weight of the training rows that took each node."""
        return self._by_tree(self._checked.cover, 0.0)

    @property
    def _checked(self) -> TreeEnsemble:
        """The ensemble, if these arrays say all of it."""
        forest = self.forest.ensemble
        if forest.is_categorical or forest.has_linear_leaves:
            what = "splits by categories" if forest.is_categorical else "linear leaves"
            raise NotImplementedError(
                f"shap's arrays of nodes have no {what}, which this forest has; read explainer.forest.ensemble"
            )
        return forest

    def _child(self, child: Int32s) -> Int32s:
        return self._by_tree(np.where(self._checked.feature >= 0, child, -1).astype(np.int32), -1)

    def _by_tree(self, of_nodes: OfNodes, elsewhere: float) -> OfNodes:
        """Give nodes a row for each tree."""
        offsets = self.forest.ensemble.tree_offsets
        tree = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        shape = (len(offsets) - 1, np.diff(offsets).max(initial=0), *of_nodes.shape[1:])
        result = np.full(shape, elsewhere, of_nodes.dtype)
        result[tree, np.arange(len(tree)) - offsets[tree]] = of_nodes
        return cast("OfNodes", result)


LARGEST_DIFFERENCE = 1e-2
"""Between sums of values and outputs, relative to the largest output, as in shap."""


class TreeExplainer(Explainer):
    """`Explainer` with the arguments of ``shap.TreeExplainer``, in its order.

    For outputs other than the margin, such as ``model_output="probability"``, values follow shap's rule
    (``rule="rescale"``). There, `Explainer` has ``rule="exact"``: Shapley values of that output, which differ from
    these.

    Parameters
    ----------
    model : object or path
        A Forest, or any model that `glasswood.load` reads. An XGBoost Booster trained with early stopping is explained
        up to its best round, as in shap; `Explainer` explains all rounds, as ``Booster.predict`` does.
    data : array-like or frame of shape (m, F), optional
        Background rows; their number does not affect the cost of a row. If no column of a frame, here or in calls, has
        the name of a feature, glasswood matches columns by position and warns.
    model_output : {"raw", "probability", "log_loss", "predict_proba"}
        "raw" is the margin. "predict_proba" has an output for each class.
    feature_perturbation : {"auto", "interventional", "tree_path_dependent"}
        "auto" is interventional with `data`, otherwise path-dependent. "tree_path_dependent" with `data` computes the
        covers of the nodes from these rows, as `Forest.with_covers` does.
    feature_names : sequence of str, optional
        Names of the features in explanations; default the model's names.
    approximate : bool
        False; True is refused.
    link, linearize_link
        As in shap, which does not use them; a link other than the identity is refused.
    **settings
        Other arguments of `Explainer`: algorithm, device, dtype, n_jobs, table_bytes, background_weight, rule. For
        "predict_proba" the default rule is "exact", because shap's supports only two classes.

    Raises
    ------
    NotImplementedError
        If an argument asks for something that glasswood does not compute.
    ValueError, TypeError
        As for `Explainer`.

    See Also
    --------
    Explainer : the methods, which are the same.

    Examples
    --------
    >>> explainer = glasswood.TreeExplainer(model)  # doctest: +SKIP
    >>> shap.plots.waterfall(explainer(X)[0])  # doctest: +SKIP
    """

    takes_other_names = True

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Sequence[str] | None = None,
        approximate: bool = False,
        link: Any = None,
        linearize_link: Any = None,
        **settings: Any,
    ) -> None:
        refuse_explainer(model)
        forest = _in_units_of_shap(_loaded(model))
        if has_other_names(data, forest.ensemble):
            warn_of_names(data, forest.ensemble, "data", 2)
            data = name_by_position(data, forest.ensemble)
        super().__init__(
            forest,
            data=data,
            model_output=model_output,
            feature_perturbation=feature_perturbation,
            feature_names=feature_names,
            approximate=approximate,
            link=link,
            linearize_link=linearize_link,
            **{"rule": "exact" if _is_predict_proba(model_output) else "rescale"} | settings,
        )

    @property
    def model(self) -> ShapModel:
        """The attributes of shap's model that scripts read: num_outputs, tree_limit, objective, predict, nodes."""
        return ShapModel(self.forest)

    @property
    def feature_perturbation(self) -> str:
        """The perturbation in use, never "auto": "interventional" or "tree_path_dependent"."""
        return "interventional" if self.game.has_background else "tree_path_dependent"

    def assert_additivity(self, phi: Any, model_output: Any) -> None:
        """Check that values and the expected value add up to outputs, as shap does.

        Parameters
        ----------
        phi : ndarray of shape (n, F) or (n, F, k), or list of k ndarrays of shape (n, F)
            Values.
        model_output : ndarray of shape (n,) or (n, k)

        Raises
        ------
        ArithmeticError
            If they differ by more than a hundredth of the largest output.
        """
        sums = np.stack([part.sum(axis=1) for part in phi], axis=1) if isinstance(phi, list) else phi.sum(axis=1)
        found: Doubles = sums + np.asarray(self.expected_value)
        output = np.asarray(model_output, np.float64).reshape(found.shape)
        worst = float(np.abs(found - output).max(initial=0.0))
        if worst > LARGEST_DIFFERENCE * max(float(np.abs(output).max(initial=0.0)), 1.0):
            raise ArithmeticError(
                f"values and expected_value add up to the model's outputs within {worst:.3g} only; pass the rows, and "
                "the unit of outputs, that the values are of"
            )


def _is_predict_proba(model_output: Any) -> bool:
    return isinstance(model_output, str) and model_output == "predict_proba"


def _in_units_of_shap(forest: Forest) -> Forest:
    """Let the margin of an isolation forest be the mean path length; glasswood's is divided by a failed search's."""
    ensemble = forest.ensemble
    if ensemble.link != "path_length" or not ensemble.tree_weight.any():
        return forest
    weight = ensemble.tree_weight / ensemble.tree_weight.sum()
    about: Any = {"link": "identity", "prediction": "response", "prediction_offset": 0.0}
    return Forest(dataclasses.replace(ensemble, tree_weight=weight, **about))


def _loaded(model: Any) -> Forest:
    """Load a model; where shap is imported, what glasswood does not read is also an error of shap's kind."""
    try:
        return load(_best_rounds(model, load(model)))
    except (TypeError, NotImplementedError) as error:
        shap = sys.modules.get("shap.utils._exceptions")
        if shap is None:
            raise
        kind = type("InvalidModelError", (type(error), shap.InvalidModelError), {})
        raise kind(f"Model type not yet supported by TreeExplainer: {shown(error)}") from error


def _best_rounds(model: Any, forest: Forest) -> Any:
    """Give the rounds that shap explains of an XGBoost Booster trained with early stopping; else the forest itself."""
    xgboost = sys.modules.get("xgboost")
    best = model.attr("best_iteration") if xgboost is not None and isinstance(model, xgboost.Booster) else None
    return forest if best is None else model[: int(best) + 1]


NAMES = (("shap", "TreeExplainer"), ("shap.explainers", "TreeExplainer"), ("shap.explainers", "Tree"))


_patching = threading.Lock()
_blocks: list[list[Any]] = []
"""For each `patch_shap` that has not ended, what shap had under the names before the first of them."""


@contextlib.contextmanager
def patch_shap() -> Iterator[None]:
    """Let ``shap.TreeExplainer`` be `glasswood.TreeExplainer` within a ``with`` block.

    Code that looks up the name in shap while the block runs gets glasswood's explainer. Explainers keep working after
    the block. ``shap.Explainer(model)``, which chooses an explainer by itself, stays shap's.

    Raises
    ------
    ImportError
        If shap is not installed.

    Notes
    -----
    The replacement affects all threads of the process. If blocks overlap, in threads or generators, shap gets its own
    names back when the last block ends.

    Examples
    --------
    >>> with glasswood.patch_shap():  # doctest: +SKIP
    ...     values = shap.TreeExplainer(model).shap_values(X)
    """
    try:
        places = [(importlib.import_module(module), name) for module, name in NAMES]
    except ImportError as error:
        raise ImportError("patch_shap requires shap, which is not installed: pip install shap") from error
    with _patching:
        _blocks.append([getattr(module, name) for module, name in places] if not _blocks else _blocks[0])
        for module, name in places:
            setattr(module, name, TreeExplainer)
    try:
        yield
    finally:
        with _patching:
            before = _blocks.pop()
            for (module, name), value in zip(places, before, strict=True):
                setattr(module, name, TreeExplainer if _blocks else value)
