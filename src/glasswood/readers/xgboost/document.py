"""One document of XGBoost: its trees as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glasswood.base.typing import Array, Doubles, Int32s, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.model.validation import LARGEST_FOREST
from glasswood.readers.assemble import NodeArrays, assemble
from glasswood.readers.documents import as_array, concatenate, get, get_int, to_float32, to_int32
from glasswood.readers.xgboost.categories import read_sets, read_tables
from glasswood.readers.xgboost.objective import BEFORE_VERSIONS, estimator_meaning, meaning_of, to_margin

if TYPE_CHECKING:
    from xgboost import XGBModel

    from glasswood.readers.xgboost.objective import Version

NEWEST_MAJOR = 3
MAX_OUTPUTS = 2**20


class DocumentReader:
    """One document; the columns of all its trees are read as one array each."""

    model: dict[str, Any]

    def __init__(self, document: object, n_rounds: int | None) -> None:
        if not isinstance(document, dict):
            raise ValueError(f"it is a {type(document).__name__}, expected an object with the member 'learner'")
        self.learner: dict[str, Any] = get(document, "learner", dict)
        self.version: Version = _version(document)
        self.model, weights = _tree_model(get(self.learner, "gradient_booster", dict))
        self.parameters: dict[str, Any] = get(self.learner, "learner_model_param", dict)
        self.objective: str = get(get(self.learner, "objective", dict), "name", str)
        self.n_features: int = get_int(self.parameters, "num_feature")
        self.n_outputs: int = self._count_outputs()
        self.trees: list[dict[str, Any]] = self._used_trees(n_rounds)
        self.tree_weight: Doubles = self._weights(weights)

    def _count_outputs(self) -> int:
        counts = (get_int(self.parameters, "num_target", 1), get_int(self.parameters, "num_class", 0), 1)
        if not 0 <= min(counts) <= max(counts) <= MAX_OUTPUTS:
            raise ValueError(f"it declares {counts[0]} targets and {counts[1]} classes")
        return max(counts)

    def _used_trees(self, n_rounds: int | None) -> list[dict[str, Any]]:
        """All trees, or those of the first rounds."""
        trees = get(self.model, "trees", list)
        declared = get_int(get(self.model, "gbtree_model_param", dict), "num_trees")
        if declared != len(trees):
            raise ValueError(f"it declares {declared} trees and holds {len(trees)}")
        for at, tree in enumerate(trees):
            if not isinstance(tree, dict):
                raise ValueError(f"tree {at} is a {type(tree).__name__}, expected an object")
        return trees if n_rounds is None else trees[: self._first_tree(n_rounds, len(trees))]

    def _first_tree(self, n_rounds: int, n_trees: int) -> int:
        """First tree after a number of rounds; documents before 2.0 do not say where a round begins."""
        if "iteration_indptr" in self.model:
            bounds = to_int32(as_array(self.model["iteration_indptr"], "iteration_indptr"), "iteration_indptr")
            return int(bounds[min(n_rounds, len(bounds) - 1)]) if len(bounds) else n_trees
        parallel = get_int(get(self.model, "gbtree_model_param", dict), "num_parallel_tree", 1)
        return n_rounds * parallel * self.n_outputs

    def _round_trees(self) -> int:
        """Trees of a round, 0 where that is one tree, or rounds differ."""
        bounds = self.model.get("iteration_indptr")
        if bounds is None:
            return per_round if (per_round := self._first_tree(1, len(self.trees))) > 1 else 0
        sizes = set(np.diff(to_int32(as_array(bounds, "iteration_indptr"), "iteration_indptr")).tolist())
        return size if len(sizes) == 1 and (size := sizes.pop()) > 1 else 0

    def _weights(self, weights: Any) -> Doubles:
        """DART weights; trees beyond their end count fully."""
        result = np.ones(len(self.trees))
        if weights is not None:
            dropped = to_float32(as_array(weights, "weight_drop"))[: len(result)]
            result[: len(dropped)] = dropped
        return result

    def forest(self, estimator: XGBModel) -> TreeEnsemble:
        """Build the forest of the Booster, or of the estimator that holds it."""
        meaning = meaning_of(self.objective, self.n_outputs, self.version)
        if estimator is not None:
            meaning |= estimator_meaning(estimator, self.objective, self.n_outputs, meaning)
        nodes, sets = self._nodes()
        forest = assemble(
            nodes,
            n_features=self.n_features,
            tree_output=self._tree_output(),
            tree_weight=self.tree_weight,
            base_score=self._base_score(),
            feature_names=self._feature_names(),
            round_trees=self._round_trees(),
            categories=read_tables(self.model.get("cats"), self.n_features, self.version),
            result_dtype="float32",
            source="xgboost "
            + (".".join(map(str, self.version)) if self.version[:1] != BEFORE_VERSIONS else "before 1.0"),
            objective=self.objective,
            **sets,
            **meaning,
        )
        self._check_sizes(forest)
        return forest

    def _feature_names(self) -> tuple[str, ...] | None:
        names = self.learner.get("feature_names") or None
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("'feature_names' holds something other than names")
        return None if names is None else tuple(names)

    def _tree_output(self) -> Int32s:
        outputs = to_int32(as_array(self.model.get("tree_info"), "tree_info"), "tree_info")
        if len(outputs) < len(self.trees):
            raise ValueError(f"'tree_info' has {len(outputs)} entries for {len(self.trees)} trees")
        return outputs[: len(self.trees)]

    def _base_score(self) -> Doubles:
        """Read the base score of each output into margin space, rounded as XGBoost does."""
        text = get(self.parameters, "base_score", str).strip("[] ")
        base = to_float32(np.array([float(number) for number in text.split(",")]))
        if len(base) not in {1, self.n_outputs}:
            raise ValueError(f"'base_score' has {len(base)} entries for {self.n_outputs} outputs")
        base = np.broadcast_to(base, self.n_outputs)
        return to_margin(base, self.objective, self.version).astype(np.float64)

    def _column(self, name: str, counts: Int64s | None) -> Array:
        """Read a column of all trees; each tree must have `counts` entries."""
        column, lengths = concatenate([tree.get(name) for tree in self.trees], name)
        if counts is not None and (wrong := lengths != counts).any():
            at = int(np.argmax(wrong))
            raise ValueError(f"{name!r} of tree {at} has {lengths[at]} entries, expected {counts[at]}")
        return column

    def _ints(self, name: str, counts: Int64s) -> Int32s:
        return to_int32(self._column(name, counts), name)

    def _nodes(self) -> tuple[NodeArrays, dict[str, Any]]:
        """Nodes of all trees, and the category sets."""
        counts = self._declared("num_nodes")
        left, right = self._ints("left_children", counts), self._ints("right_children", counts)
        feature = self._ints("split_indices", counts)
        condition = to_float32(self._column("split_conditions", counts))
        cover, value = self._cover(counts), self._leaf_values(counts, left, right, condition)
        category_set, sets = read_sets(self.trees, counts)
        if category_set is not None:
            condition = np.where(category_set >= 0, np.float32(0), condition)
        self._check_nodes(counts, left, feature, condition)
        starts = np.cumsum(counts) - counts
        nodes = NodeArrays(
            counts=counts,
            left=left,
            right=np.where(left < 0, -1, right),
            feature=feature,
            threshold=condition,
            default_left=self._column("default_left", counts) != 0,
            cover=cover,
            value=value,
            leaf_id=np.arange(len(left)) - np.repeat(starts, counts),
            category_set=category_set,
        )
        return nodes, sets

    def _declared(self, name: str, default: int | None = None) -> Int64s:
        """Read a number from each tree's parameters."""
        values = [get_int(get(tree, "tree_param", dict), name, default) for tree in self.trees]
        if values and not 0 <= min(values) <= max(values) <= LARGEST_FOREST:
            raise ValueError(f"{name!r} is {min(values)} to {max(values)}, expected 0 to {LARGEST_FOREST}")
        return np.array(values, np.int64)

    def _cover(self, counts: Int64s) -> Array:
        """Read the sums of hessians; trees with vector leaves have had them since 3.2."""
        if self.trees and all("sum_hessian" not in tree for tree in self.trees) and self._leaf_width() > 1:
            return np.zeros(int(counts.sum()))
        return to_float32(self._column("sum_hessian", counts))  # as UBJSON holds them

    def _leaf_width(self) -> int:
        """Values in a leaf: 0 and 1 both mean a number."""
        widths = set(np.maximum(1, self._declared("size_leaf_vector", 1)).tolist()) or {1}
        if len(widths) > 1 or not widths <= {1, self.n_outputs}:
            raise ValueError(f"leaves hold {sorted(widths)} values, expected 1 or {self.n_outputs} in all trees")
        return int(widths.pop())

    def _leaf_values(self, counts: Int64s, left: Int32s, right: Int32s, condition: Array) -> NDArray[np.float32]:
        """Read what leaves hold.

        A number stands in the place of the split condition. A vector is a row of the tree's leaf weights that the right
        child names; before 3.2 it is the node's base weight.
        """
        width = self._leaf_width()
        if width == 1:
            return condition
        if "leaf_weights" not in self.trees[0]:
            return to_float32(self._column("base_weights", counts * width)).reshape(-1, width)
        weights, lengths = concatenate([tree.get("leaf_weights") for tree in self.trees], "leaf_weights")
        n_rows = np.repeat(lengths // width, counts)
        is_leaf = left < 0
        if (lengths % width).any() or ((right < 0) | (right >= n_rows))[is_leaf].any():
            raise ValueError("a leaf names a row of 'leaf_weights' that does not exist")
        starts = np.repeat((np.cumsum(lengths) - lengths) // width, counts)
        rows = np.where(is_leaf, starts + right, 0)
        return to_float32(weights).reshape(-1, width)[rows]

    def _check_nodes(self, counts: Int64s, left: Any, feature: Any, threshold: Any) -> None:
        """Refuse with the number of the tree what TreeEnsemble would refuse without."""
        is_split = left >= 0
        faults = {
            "a left child below -1": left < -1,
            f"a split on a feature beyond the {self.n_features} declared": is_split
            & ((feature < 0) | (feature >= self.n_features)),
            "a threshold that is NaN": is_split & np.isnan(threshold),
        }
        for what, wrong in faults.items():
            if wrong.any():
                tree = np.searchsorted(np.cumsum(counts), np.argmax(wrong), side="right")
                raise ValueError(f"tree {tree} has {what}")

    def _check_sizes(self, forest: TreeEnsemble) -> None:
        """Every node that was not pruned must hang on its tree."""
        expected = self._declared("num_nodes") - self._declared("num_deleted", 0)
        found = np.diff(forest.tree_offsets)
        if (wrong := found != expected).any():
            at = int(np.argmax(wrong))
            raise ValueError(f"tree {at} declares {expected[at]} nodes, its root reaches {found[at]}")


def _version(document: dict[str, Any]) -> Version:
    """Version of XGBoost that wrote the document."""
    version = tuple(to_int32(as_array(document.get("version"), "version"), "version").tolist())
    if version[:1] > (NEWEST_MAJOR,):
        raise NotImplementedError(f"documents of XGBoost {version[0]} are not read yet; upgrade glasswood")
    return version


def _tree_model(booster: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Find the trees and their DART weights, which until 3.3 stood beside or above them."""
    name = get(booster, "name", str)
    if name not in {"gbtree", "dart"}:
        raise NotImplementedError(f"the booster {name!r} is not supported, only the tree boosters gbtree and dart are")
    inner = get(booster, "gbtree", dict) if name == "dart" else booster
    model = get(inner, "model", dict)
    return model, booster.get("weight_drop", model.get("weight_drop"))
