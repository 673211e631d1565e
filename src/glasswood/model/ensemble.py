"""The one data structure: an ensemble of trees as flat arrays, whatever library trained it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base.escapes import shown
from glasswood.base.parallel import cached_property
from glasswood.base.sources import ABSENT_IS_MISSING
from glasswood.base.typing import Array, Bools, Checked, Choice, Doubles, Int32s, Int64s
from glasswood.base.wording import counted, leaves_text
from glasswood.model.validation import validate

NUMBER, MISSING, LOGARITHM = -1, -2, -3
"""In the place of a linear term's category: the feature's number, 1 where it is missing, the number's logarithm."""

OF_NUMBERS = (NUMBER, LOGARITHM)
"""Terms of a feature's number; where a row lacks it, they count as their means."""


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """An ensemble of binary trees in flat, read-only arrays.

    Nodes of a tree are stored breadth-first; the right child follows the left one. A row with value ``x`` of the
    split's feature goes left if ``x < threshold`` (a threshold of +inf sends every number left), to the side of
    ``default_left`` if ``x`` is missing. The margin of a row is ``base_score`` plus, over the trees, ``tree_weight``
    times the value of the leaf that it reaches.

    Attributes
    ----------
    tree_offsets : int64, (n_trees + 1,)
        Tree ``t`` owns the nodes ``tree_offsets[t]`` to ``tree_offsets[t + 1] - 1``.
    feature : int32, (n_nodes,)
        Feature of the split; -1 at a leaf.
    threshold : float32 or float64, (n_nodes,)
        A row goes left if its value, cast to this dtype, is smaller. 0 at a leaf. At a categorical split, the
        smallest value that counts as a category: 0, or the number above -1 where the library truncates before it tests
        the sign; anything smaller is treated like a category beyond the bit set.
    left : int32, (n_nodes,)
        Left child, counted from the tree's first node; 0 at a leaf. Breadth-first order makes it twice the number of
        splits before it in the tree, plus 1.
    default_left : bool, (n_nodes,)
        Side of rows whose value is missing.
    cover : float64, (n_nodes,)
        Training weight that reached the node (the source's own definition), NaN at all nodes where the source keeps
        none. A sum of Hessians may be negative. Such forests predict, and `Explainer` without a background refuses
        those whose splits have such covers.
    leaf_value : float64, (n_leaves, leaf_width)
        Values of the leaves in the order of their nodes. Width 1: the tree adds to output ``tree_output``; otherwise
        the width is ``n_outputs`` and the tree adds to all of them.
    leaf_id : int32, (n_leaves,)
        The source library's id of the leaf.
    tree_output : int32, (n_trees,)
        Output that a tree with scalar leaves adds to; 0 where leaves are vectors.
    tree_weight : float64, (n_trees,)
        Factor of the leaf values (DART weights, 1 / n_trees where a forest averages).
    base_score : float64, (n_outputs,)
        Margin before the first tree.
    category_set : int32, (n_nodes,) or (0,)
        Index of the split's category set, -1 at numerical splits and leaves; empty when no split is categorical.
    set_offsets : int64, (n_sets + 1,)
        Category set ``s`` owns the words ``set_offsets[s]`` to ``set_offsets[s + 1] - 1``.
    set_words : uint32
        Bit ``c % 32`` of word ``c // 32`` is set if category ``c`` goes left.
    set_others_left : bool, (n_sets,)
        Side of numbers that have no bit in the set: beyond its words, or below the node's ``threshold``.
    linear_offsets : int64, (n_leaves + 1,) or (0,)
        The linear model of leaf ``l`` has the terms ``linear_offsets[l]`` to ``linear_offsets[l + 1] - 1``; empty where
        leaves are constants. The leaf's value is then ``leaf_value`` plus, over the terms, coefficient times (value of
        the term - mean), a missing number and the logarithm of one that is not positive counting as the mean, clipped
        to the leaf's range.
    linear_feature : int32, (n_terms,)
        Feature of each term, not falling within a leaf.
    linear_category : int32, (n_terms,)
        The term's value: -1 for the feature's number, -2 for 1 where the feature is missing, -3 for the number's
        natural logarithm, otherwise 1 where the row's category has this code; 0 in other rows.
    linear_coefficient, linear_mean : float64, (n_terms,)
        Coefficient, and mean of the term over the leaf's training rows.
    linear_deviation : float64, (n_terms,) or (0,)
        Standard deviation of the term over the leaf's training rows, for texts and pictures; empty where not known.
    leaf_range : float64, (n_leaves, 2) or (0, 2)
        Smallest and largest value that a linear leaf returns, infinite where it extrapolates.
    leaf_missing : float64, (n_leaves,) or (0,)
        What a linear leaf returns for rows in which a number among its terms is missing (LightGBM); empty where missing
        numbers count as their means.
    means_known : bool
        False where the source library keeps no means of terms (LightGBM): `linear_mean` is then 0, and path-dependent
        explanations need `Forest.with_means`.
    feature_names : tuple of str, or None
    outputs : tuple of str
        Names of outputs other than classes: times, parameters, treatments; empty if there are none.
    categories : tuple, or None
        Per feature None or the array of category values; a row's value becomes its position there. One that is not
        there is missing, or the table's length where `unseen_apart`.
    open_tables : tuple of arrays
        Tables of categories whose features the model's file leaves open (LightGBM): a frame's columns of categories
        take them in turn, in the order of the features. `categories` is then None; empty if none are open.
    table_places : bool, (n_tables, n_features) or (0, 0)
        Which features each open table can belong to, by what the file says of their values in training.
    category_hash : str
        Function that turns the text of a category into the number that `categories` holds: "city64" (CatBoost; the
        lower 32 bits of CityHash64), or "" where `categories` holds the values themselves.
    zero_missing : bool, (n_features,) or (0,)
        Features whose zeros are missing (LightGBM); empty when there are none.
    absent_missing : bool, (n_trees,) or (0,)
        Trees for which an entry that sparse rows do not store is missing, where it is 0 for others (estimators of
        several libraries that scikit-learn has joined); empty where the source decides (`ABSENT_IS_MISSING`).
    missing_seen : bool, (n_features,) or (0,)
        Features that were missing in some training row, for texts; empty where that is not known.
    zero_threshold : float
        Numbers of at most this magnitude become 0 before routing (LightGBM: float32(1e-35)).
    missing : float
        Value that marks a missing entry besides NaN (an estimator's ``missing=``); NaN if there is none.
    nan_allowed : bool
        False if the source library refuses rows with NaN.
    nan_allowed_in : bool, (n_features,) or (0,)
        Features that may be NaN where `nan_allowed` is False (a pipeline that fills some columns); empty: none.
    link, link_scale : str, float
        Function from margin to response, a name of `glasswood.evaluate.links.LINKS`, and its scale where it has one.
    prediction : str
        What ``predict`` returns by default, one of `glasswood.base.typing.PREDICTIONS`: the response, the margin, or a
        label by a rule of `glasswood.evaluate.links.labels`.
    prediction_offset : float
        Subtracted from the response (isolation forests), or from the margin where its sign decides ("positive").
    classes : tuple of arrays
        Class labels of each classification output; empty for regression.
    is_estimator : bool
        True if the source is an estimator of scikit-learn's interface: labels by default, two columns of probabilities
        for two classes.
    result_dtype : str
        dtype of predicted margins and responses, the source's own.
    columns : {"name", "subset", "position"}
        How the columns of a frame are matched with the features (`glasswood.load`).
    round_trees : int
        Trees of a boosting round (classes times `num_parallel_tree` in XGBoost), which shap's `tree_limit` counts; 0
        where a tree is one.
    n_curves : int
        Trees at the end that are curves of one feature, or surfaces of two, beside those before them.
    leaf_shape : tuple of int
        Shape of a row's leaf ids in the source's result; empty means (n_trees,).
    source, objective : str
        Library (its title in `glasswood.base.sources.SOURCES`, and its version) that trained the forest, and its
        objective.
    choices : tuple of Choice
        What `Forest.tune` has measured: the algorithm per device and batch size; empty if it was not called.
    checked : Checked, or None
        What comparing with the live model has found; None if nothing was compared.
    metadata : mapping, or None
        What the user of `Forest.save` has said of the model: plain values by name, as in JSON.
    transform : callable, or None
        The steps before a pipeline's forest, which make the forest's rows of the pipeline's
        (glasswood.readers.sklearn); files hold none.
    """

    tree_offsets: Int64s
    feature: Int32s
    threshold: Array
    left: Int32s
    default_left: Bools
    cover: Doubles
    leaf_value: Doubles
    leaf_id: Int32s
    tree_output: Int32s
    tree_weight: Doubles
    base_score: Doubles
    n_features: int
    category_set: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    set_offsets: Int64s = field(default_factory=lambda: np.zeros(1, np.int64))
    set_words: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    set_others_left: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    linear_offsets: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    linear_feature: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    linear_category: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    linear_coefficient: Doubles = field(default_factory=lambda: np.zeros(0))
    linear_mean: Doubles = field(default_factory=lambda: np.zeros(0))
    linear_deviation: Doubles = field(default_factory=lambda: np.zeros(0))
    leaf_range: Doubles = field(default_factory=lambda: np.zeros((0, 2)))
    leaf_missing: Doubles = field(default_factory=lambda: np.zeros(0))
    means_known: bool = True
    feature_names: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ()
    categories: tuple[Array | None, ...] | None = None
    open_tables: tuple[Array, ...] = ()
    table_places: Bools = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    category_hash: str = ""
    zero_missing: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    absent_missing: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    missing_seen: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    zero_threshold: float = 0.0
    missing: float = float("nan")
    nan_allowed: bool = True
    nan_allowed_in: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    link: str = "identity"
    link_scale: float = 1.0
    prediction: str = "response"
    prediction_offset: float = 0.0
    classes: tuple[Array, ...] = ()
    is_estimator: bool = False
    result_dtype: str = "float64"
    columns: str = "name"
    round_trees: int = 0
    n_curves: int = 0
    leaf_shape: tuple[int, ...] = ()
    source: str = ""
    objective: str = ""
    choices: tuple[Choice, ...] = ()
    checked: Checked | None = None
    metadata: Mapping[str, Any] | None = None
    transform: Any = None

    def __post_init__(self) -> None:
        validate(SimpleNamespace(**self.__getstate__()))
        self._settle_arrays()

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settle_arrays()

    def _settle_arrays(self) -> None:
        """Make arrays contiguous for the compiled core, and read-only: plans copy them once and would not follow."""
        for f in dataclasses.fields(self):
            if isinstance(array := getattr(self, f.name), np.ndarray):
                settled = np.require(array, requirements=["C", "A"]).view(np.ndarray)
                settled.flags.writeable = False
                object.__setattr__(self, f.name, settled)

    def without_transform(self) -> TreeEnsemble:
        """Return the same trees for rows of the trees' own features."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__getstate__(), transform=None)
        return other

    def note(self, checked: Checked | None) -> None:
        """Keep what comparing these trees with their live model has found; plans that were made for it stay."""
        object.__setattr__(self, "checked", checked)

    def __repr__(self) -> str:
        counts = [counted(n, one) for n, one in ((self.n_features, "feature"), (self.n_outputs, "output"))]
        facts = [
            counted(self.n_trees, "tree"),
            leaves_text(self.n_leaves),
            *counts,
            *filter(None, [shown(self.source)]),
        ]
        return f"{type(self).__name__}({', '.join(facts)})"

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offsets) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees, leaves included."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.leaf_value)

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""
        return len(self.base_score)

    @property
    def leaf_width(self) -> int:
        """Number of values in a leaf: 1, or `n_outputs`."""
        return int(self.leaf_value.shape[1])

    @property
    def is_categorical(self) -> bool:
        """Whether any split tests a set of categories."""
        return len(self.category_set) > 0

    @property
    def absent_of_trees(self) -> Bools:
        """Whether an entry that sparse rows do not store is missing, or else 0, for each tree: bool, (n_trees,)."""
        is_missing = self.source.lower().startswith(ABSENT_IS_MISSING)
        return self.absent_missing if len(self.absent_missing) else np.full(self.n_trees, is_missing)

    @property
    def has_linear_leaves(self) -> bool:
        """Whether leaves hold linear models."""
        return len(self.linear_offsets) > 0

    @cached_property
    def largest_margin(self) -> float:
        """Bound of the magnitude of margins; NaN or infinite where there is none."""
        if self.has_linear_leaves:
            return math.inf
        with np.errstate(over="ignore", invalid="ignore"):
            trees = np.abs(self.tree_weight).sum() * np.abs(self.leaf_value).max(initial=0.0)
            return float(np.abs(self.base_score).max(initial=0.0) + trees)

    @cached_property
    def fewest_categories(self) -> Int64s:
        """How many categories each feature had in training at least, by the sets of its splits: int64, (n_features,).

        A set that sends other categories left names those that go right, and the reverse.
        """
        found = np.zeros(self.n_features, np.int64)
        at = self.category_set >= 0 if self.is_categorical else np.zeros(0, np.bool_)
        for feature, number in set(zip(self.feature[at].tolist(), self.category_set[at].tolist(), strict=True)):
            words = self.set_words[self.set_offsets[number] : self.set_offsets[number + 1]]
            named = ~words if self.set_others_left[number] else words
            if len(used := np.flatnonzero(named)):
                found[feature] = max(found[feature], 32 * int(used[-1]) + int(named[used[-1]]).bit_length())
        return found

    @property
    def unseen_apart(self) -> bool:
        """Whether categories that the tables lack are not as missing ones: CatBoost refuses those, YDF keeps both."""
        return bool(self.category_hash) or self.empty_missing

    @property
    def empty_missing(self) -> bool:
        """Whether an empty text is a missing category."""
        return self.source.lower().startswith("ydf")

    @cached_property
    def leaf_offsets(self) -> Int64s:
        """Tree ``t`` owns the leaves ``leaf_offsets[t]`` to ``leaf_offsets[t + 1] - 1``: int64, (n_trees + 1,)."""
        return np.concatenate([[0], np.cumsum(self.feature < 0)])[self.tree_offsets]

    @cached_property
    def node_depth(self) -> Int32s:
        """Number of splits above each node: int32, (n_nodes,)."""
        return _core.node_depth(self.tree_offsets, self.left)

    @property
    def depth(self) -> int:
        """Largest number of splits above a leaf."""
        return int(self.node_depth.max(initial=0))


def of_absent(forest: TreeEnsemble) -> TreeEnsemble:
    """Return the forest for rows in which NaN stands for what sparse rows do not store, and for nothing else.

    Where such an entry is missing for some trees and 0 for others, missing entries go to the side of 0 in the latter.
    """
    if not len(forest.absent_missing):
        return forest
    as_zero = np.repeat(~forest.absent_missing, np.diff(forest.tree_offsets)) & (forest.feature >= 0)
    if len(forest.zero_missing):
        as_zero &= ~forest.zero_missing[forest.feature]
    zero_left = forest.threshold > 0
    if forest.is_categorical:
        of_set = np.maximum(forest.category_set, 0)
        first = forest.set_offsets[of_set]
        is_listed = (first < forest.set_offsets[of_set + 1]) & (forest.threshold <= 0)
        word = forest.set_words[np.minimum(first, len(forest.set_words) - 1)]
        to_left = np.where(is_listed, (word & 1).astype(np.bool_), forest.set_others_left[of_set])
        zero_left = np.where(forest.category_set >= 0, to_left, zero_left)
    return dataclasses.replace(
        forest,
        default_left=np.where(as_zero, zero_left, forest.default_left),
        absent_missing=forest.absent_missing[:0],
        nan_allowed=True,
        source=f"{ABSENT_IS_MISSING[0]} in {forest.source}",
    )
