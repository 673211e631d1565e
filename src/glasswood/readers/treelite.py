"""treelite.Model, by its own field accessors: what it declares, not what the library it came from would predict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.typing import Array, Bools, Doubles, Int64s
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import NodeArrays, assemble, less_than, pack_sets

if TYPE_CHECKING:
    from treelite import Model

    Fields = Callable[[str], Array]

NEWEST_MAJOR = 4
LEAF, CATEGORICAL = 0, 2
NO_CHILD = -1
EQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(1, 6)
MOST_CATEGORIES = 2**24
"""treelite itself matches no codes beyond."""
BINARY, MULTICLASS = 0, 2
"""Task types of classifiers."""

LINKS = {
    "identity": "identity",
    "identity_multiclass": "identity",
    "signed_square": "sign_square",
    "hinge": "identity",
    "sigmoid": "logistic",
    "exponential": "exp",
    "exponential_standard_ratio": "exp2",
    "logarithm_one_plus_exp": "log1p_exp",
    "softmax": "softmax",
    "multiclass_ova": "one_vs_all",
}
"""By postprocessor."""

OF_ALL_CLASSES = ("identity", "identity_multiclass", "softmax", "multiclass_ova")
"""Postprocessors that transform every class of a target, the others its first one."""


def read(model: Model) -> TreeEnsemble:
    """Read a live model.

    Parameters
    ----------
    model : treelite.Model
        The forest predicts what ``treelite.gtil.predict`` does, as (n,) or (n, outputs): the classes of the first
        target, then those of the second, and so on. Where treelite differs from the library that the model came from,
        so does this: it does not round rows to float32 for scikit-learn, nor knows LightGBM's missing zeros. Load the
        library's own model instead if there is a choice.

    Raises
    ------
    TypeError
        If it is another object of treelite.
    NotImplementedError
        If it tests equality, numbers beyond all others, or has a postprocessor that glasswood does not know.
    """
    import treelite

    if not isinstance(model, treelite.Model):
        raise TypeError(f"cannot read a {type(model).__name__} of treelite, expected a treelite.Model")
    try:
        return _Reader(model).forest()
    except ValueError as error:
        raise ValueError(f"the treelite.Model is not valid: {error}") from error
    except NotImplementedError as error:
        raise NotImplementedError(f"the treelite.Model is not supported: {error}") from error


def predict(model: Model, X: object) -> Array:
    """Predict with the live model itself, in the shape of the forest's predictions."""
    import treelite

    values = treelite.gtil.predict(model, np.asarray(X))
    kept = np.concatenate([values[:, target, :n] for target, n in enumerate(_Reader(model).n_classes)], axis=1)
    return kept[:, 0] if kept.shape[1] == 1 else kept


class _Reader:
    """One model; each field of all its trees is read as one array."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.header = model.get_header_accessor().get_field
        if (major := int(self.header("major_ver")[0])) != NEWEST_MAJOR:
            raise NotImplementedError(f"it is of treelite {major}, models of {NEWEST_MAJOR} are supported")
        self.n_classes = self.header("num_class").tolist()
        self.n_outputs = sum(self.n_classes)
        self.width = max(self.n_classes, default=0)
        self.trees = [_fields(model, tree) for tree in range(model.num_tree)]
        if not self.trees:
            raise ValueError("it holds no trees")
        self.counts = np.array([int(tree("num_nodes")[0]) for tree in self.trees])
        self._check_outputs()
        for at, tree in enumerate(self.trees):
            _check_children(tree, at)

    def _check_outputs(self) -> None:
        """Raise ValueError unless the header has what it announces for each class and tree."""
        if (n_targets := int(self.header("num_target")[0])) != len(self.n_classes):
            raise ValueError(f"it has {n_targets} targets and the classes of {len(self.n_classes)}")
        n_scores = len(self.n_classes) * self.width
        if min(self.n_classes, default=0) < 1 or len(self.header("base_scores")) != n_scores:
            raise ValueError(f"it has {self.n_classes} classes of its targets and not as many 'base_scores'")
        for name in ("target_id", "class_id"):
            if (n_entries := len(self.header(name))) != len(self.trees):
                raise ValueError(f"{name!r} has {n_entries} entries for {len(self.trees)} trees")

    def forest(self) -> TreeEnsemble:
        values, tree_output = self._values()
        counts = self._tree_counts()
        category_set, sets = self._sets()
        weight = np.ones(len(self.trees))
        if self.header("average_tree_output")[0]:
            if tree_output is not None:
                weight = 1 / counts[tree_output]
            elif (counts == counts[0]).all():
                weight = np.full(len(weight), 1 / counts[0])
            else:
                values = values / counts
        return assemble(
            self._nodes(values, category_set),
            n_features=int(self.header("num_feature")[0]),
            tree_output=tree_output,
            tree_weight=weight,
            base_score=self._of_outputs(self.header("base_scores")),
            result_dtype=self.model.output_type,
            source="treelite",
            **sets,
            **self._meaning(),
        )

    def _column(self, name: str) -> Array:
        """Join a field of all trees that has an entry per node."""
        parts = [tree(name) for tree in self.trees]
        if [len(part) for part in parts] != self.counts.tolist():
            raise ValueError(f"{name!r} does not have one entry per node")
        return np.concatenate(parts)

    def _nodes(self, values: Array, category_set: Int64s | None) -> NodeArrays:
        left, right = self._column("cleft").astype(np.int64), self._column("cright").astype(np.int64)
        threshold, is_swapped = self._thresholds(self._column("node_type"))
        default_left = self._column("default_left") != 0
        return NodeArrays(
            counts=self.counts,
            left=np.where(is_swapped, right, left),
            right=np.where(is_swapped, left, right),
            feature=self._column("split_index"),
            threshold=threshold,
            default_left=default_left ^ is_swapped,
            cover=self._covers(),
            value=values,
            leaf_id=np.concatenate([np.arange(count) for count in self.counts]),
            category_set=category_set,
        )

    def _thresholds(self, kind: Array) -> tuple[Array, Bools]:
        """Thresholds for ``x < threshold``, and where that is the right child's test.

        A threshold of +inf is the test that every number passes; here it would have to send +inf itself right.
        """
        given, operator = self._column("threshold"), self._column("cmp")
        is_number = (kind != LEAF) & (kind != CATEGORICAL)
        known = np.isin(operator, (LESS, AT_MOST, MORE, AT_LEAST))
        if (is_number & ~known).any():
            raise NotImplementedError("it has splits that test equality; only <, <=, > and >= are supported")
        above = less_than(given, given.dtype)
        threshold = np.where(np.isin(operator, (AT_MOST, MORE)), above, given)
        passes_all = np.isinf(given) & np.isin(operator, (AT_MOST, MORE))
        if (is_number & (threshold == np.inf) & ~passes_all).any():
            raise NotImplementedError("it has splits that tell infinity from the largest number")
        is_swapped = is_number & np.isin(operator, (MORE, AT_LEAST))
        return np.where(is_number, threshold, given.dtype.type(0)), is_swapped

    def _covers(self) -> Doubles:
        """Read sums of hessians, or numbers of rows, whichever is there for all nodes."""
        for name in ("sum_hess", "data_count"):
            if all(len(tree(name)) and tree(f"{name}_present").all() for tree in self.trees):
                return self._column(name).astype(np.float64)
        return np.zeros(int(self.counts.sum()))

    def _sets(self) -> tuple[Int64s | None, dict[str, Any]]:
        """Read the category set of each node, None if there are none, and the fields of TreeEnsemble about the sets."""
        is_set = self._column("node_type") == CATEGORICAL
        if not is_set.any():
            return None, {}
        lists = [part for tree in self.trees for part in _category_lists(tree)]
        listed_right = self._column("category_list_right_child")[is_set] != 0
        lefts = []
        for categories, is_right in zip(lists, listed_right, strict=True):
            if len(categories) and categories.max() >= MOST_CATEGORIES:
                raise ValueError(f"a split lists category {categories.max()}, expected less than 2^24")
            left = np.full(int(categories.max(initial=-1)) + 1, is_right)
            left[categories] = not is_right
            lefts.append(left)
        offsets, words = pack_sets(lefts, listed_right)
        category_set = np.full(len(is_set), -1)
        category_set[is_set] = np.arange(len(lefts))
        return category_set, {"set_offsets": offsets, "set_words": words, "set_others_left": listed_right}

    def _outputs(self, tree: int) -> tuple[list[int], list[int]]:
        """Targets and classes that a tree adds to; -1 means all."""
        target, label = int(self.header("target_id")[tree]), int(self.header("class_id")[tree])
        if not (-1 <= target < len(self.n_classes) and -1 <= label < self.width):
            raise ValueError(f"tree {tree} adds to class {label} of target {target}")
        targets = list(range(len(self.n_classes))) if target < 0 else [target]
        return targets, list(range(self.width)) if label < 0 else [label]

    def _of_outputs(self, table: Array) -> Doubles:
        """Pick what exists from a table of all targets and the largest number of classes."""
        wide = np.asarray(table, np.float64).reshape(*table.shape[:-1], len(self.n_classes), self.width)
        return np.concatenate([wide[..., target, :n] for target, n in enumerate(self.n_classes)], axis=-1)

    def _tree_counts(self) -> Doubles:
        """Count the trees that add to each output, at least 1."""
        table = np.zeros((len(self.n_classes), self.width))
        for tree in range(len(self.trees)):
            table[np.ix_(*self._outputs(tree))] += 1
        return np.asarray(np.maximum(self._of_outputs(table.reshape(1, -1))[0], 1), np.float64)

    def _values(self) -> tuple[Array, Int64s | None]:
        """Leaf values: numbers, with the output of each tree, or vectors over all outputs and None."""
        sizes = [len(tree("leaf_vector")) for tree in self.trees]
        n_nodes = int(self.counts.sum())
        if not any(sizes):
            for tree in self.trees:
                _bounds(tree, "leaf_vector", 0)  # treelite reads the vectors that these announce
            return self._column("leaf_value"), np.array([self._only_output(tree) for tree in range(len(self.trees))])
        table = np.zeros((n_nodes, len(self.n_classes) * self.width))
        bounds = np.concatenate([[0], np.cumsum(self.counts)])
        for at, (tree, (start, end)) in enumerate(zip(self.trees, pairwise(bounds.tolist()), strict=True)):
            targets, labels = self._outputs(at)
            columns = (np.array(targets)[:, None] * self.width + labels).ravel()
            table[start:end, columns] = _leaf_vectors(tree, len(columns))
        return self._of_outputs(table), None

    def _only_output(self, tree: int) -> int:
        targets, labels = self._outputs(tree)
        if len(targets) > 1 or len(labels) > 1:
            raise ValueError(f"tree {tree} adds one number to several outputs")
        if labels[0] >= self.n_classes[targets[0]]:
            raise ValueError(f"tree {tree} adds to class {labels[0]} of {self.n_classes[targets[0]]}")
        return int(sum(self.n_classes[: targets[0]]) + labels[0])

    def _meaning(self) -> dict[str, Any]:
        """Link, default prediction and labels."""
        name = str(self.header("postprocessor"))
        if name not in LINKS:
            raise NotImplementedError(f"the postprocessor {name!r} is not supported, known are {', '.join(LINKS)}")
        if name not in OF_ALL_CLASSES and self.width > 1:
            raise NotImplementedError(
                f"treelite applies the postprocessor {name!r} to the first of {self.width} classes alone, for several "
                f"classes it has {', '.join(OF_ALL_CLASSES)}"
            )
        if name == "softmax" and len(self.n_classes) > 1:
            raise NotImplementedError("softmax of several targets is not supported")
        scale = 1.0
        if name in {"sigmoid", "multiclass_ova"}:
            scale = float(self.header("sigmoid_alpha")[0])
        elif name == "exponential_standard_ratio":
            if not (ratio := float(self.header("ratio_c")[0])):
                raise ValueError("'ratio_c' is 0")
            scale = -1 / ratio
        is_classifier = int(self.header("task_type")[0]) in {BINARY, MULTICLASS}
        labels = tuple(np.arange(max(n, 2)) for n in self.n_classes)
        return {
            "link": LINKS[name],
            "link_scale": scale,
            "prediction": "positive" if name == "hinge" else "response",
            "classes": labels if is_classifier else (),
            "objective": name,
        }


def _fields(model: Model, tree: int) -> Fields:
    """Read fields of a tree by name."""
    fields = model.get_tree_accessor(tree)

    def read_field(name: str) -> Array:
        try:
            found: Array = fields.get_field(name)
        except RuntimeError as error:  # treelite shows no empty field of its smallest type
            raise ValueError(f"{name!r} does not have one entry per node") from error
        return found

    return read_field


def _check_children(tree: Fields, at: int) -> None:
    """Raise ValueError where two fields of a tree disagree on its leaves, or a child's number means nothing.

    The forest is compared with treelite's own predictions, and treelite follows children unchecked.
    """
    left, kind = tree("cleft"), tree("node_type")
    if len(left) != len(kind):
        raise ValueError("'cleft' does not have one entry per node")
    if len(wrong := np.flatnonzero(left < NO_CHILD)):
        raise ValueError(f"node {wrong[0]} of tree {at} names child {left[wrong[0]]}, expected -1 where there is none")
    if len(wrong := np.flatnonzero((left != NO_CHILD) & (kind == LEAF))):
        raise ValueError(f"node {wrong[0]} of tree {at} is a leaf by 'node_type' and has children by 'cleft'")


def _category_lists(tree: Fields) -> list[Int64s]:
    """List the categories of each categorical split of a tree."""
    nodes = np.flatnonzero(tree("node_type") == CATEGORICAL)
    if not len(nodes):
        return []
    categories = tree("category_list").astype(np.int64)
    begin, end = _bounds(tree, "category_list", len(categories))
    return [categories[begin[node] : end[node]] for node in nodes]


def _bounds(tree: Fields, name: str, n_entries: int) -> tuple[Int64s, Int64s]:
    """First entry of each node in a list of a tree, and the one behind its last."""
    begin, end = tree(f"{name}_begin").astype(np.int64), tree(f"{name}_end").astype(np.int64)
    if not len(begin) == len(end) == len(tree("cleft")):
        raise ValueError(f"'{name}_begin' does not have one entry per node")
    if (begin < 0).any() or (begin > end).any() or end.max(initial=0) > n_entries:
        raise ValueError(f"a node has entries of {name!r} that do not exist")
    return begin, end


def _leaf_vectors(tree: Fields, width: int) -> Doubles:
    """Vector of each leaf of a tree; zeros at splits."""
    values = tree("leaf_vector").astype(np.float64)
    leaves = np.flatnonzero(tree("cleft") < 0)
    result = np.zeros((len(tree("cleft")), width))
    begin, end = _bounds(tree, "leaf_vector", len(values))
    if not len(values) and width == 1:
        if len(numbers := tree("leaf_value")) != len(result):
            raise ValueError("'leaf_value' does not have one entry per node")
        result[leaves, 0] = numbers[leaves]
        return result
    if (end[leaves] - begin[leaves] != width).any():
        raise ValueError(f"a leaf does not hold {width} values")
    result[leaves] = values[begin[leaves, None] + np.arange(width)]
    return result
