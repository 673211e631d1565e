"""What scripts read of shap's ``explainer.model``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from silva.parallel import cached_property

if TYPE_CHECKING:
    from silva.ensemble import TreeEnsemble
    from silva.forest import Forest
    from silva.typing import Array, Doubles, Int32s, Rows

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
        """What the model was trained for in shap's words, None where it is not known."""
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
