"""Hypothesis strategies for forests and rows, and the seeded builders behind them.

Forests are built here from nested nodes, in breadth-first order, without the readers. Each example draws a seed and a
few options; NumPy does the rest, so an example costs about a millisecond and options shrink to the plainest forest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.array_forest import ArrayForest

if TYPE_CHECKING:
    from glasswood import Forest

LIGHTGBM_ZERO = float(np.float32(1e-35))
TIES = (0.0, -0.0, 1e-45, -1e-45, 1e-40, 5e-324, 1e-35, LIGHTGBM_ZERO, -1.0, 0.1, 0.5, 1.0, 2.0**24 + 1, 3.4e38, np.inf)
"""Thresholds that rows hit exactly."""
SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -1e-45, 1e-40, 1e-36, 1e300, -1e300, 3.4e38)
CATEGORIES = (0.0, 1.0, 2.0, 3.0, 31.0, 32.0, 63.0, 64.0, 95.0, 96.0, 1000.0)
NOT_CATEGORIES = (-0.0, -1e-30, -0.5, -1.0, -7.0, 2.5, 31.999, 2.0**31, 2.0**32 + 1, 1e19)


@dataclass
class Node:
    """A leaf holds `value`; a split has two children."""

    cover: float = 1.0
    value: Any = 0.0
    feature: int = -1
    threshold: float = 0.0
    default_left: bool = False
    category_set: int = -1
    children: tuple[Node, Node] | None = None


@dataclass(frozen=True)
class Options:
    """What a random forest looks like."""

    shape: str = "bushy"
    n_trees: int = 1
    n_features: int = 3
    row_type: str = "float32"
    n_outputs: int = 1
    vector_leaves: bool = False
    covers: str = "exact"
    thresholds: str = "plain"
    categorical: bool = False
    weights: str = "ones"
    missing: str = "NaN"
    meaning: dict[str, Any] = field(default_factory=dict)


def flatten(
    trees: Sequence[Node], n_features: int, row_type: str = "float32", sets: Sequence[Any] = (), **meaning: Any
) -> Forest:
    """Make a Forest of nested nodes. `sets` holds pairs of words and others_left; `meaning` further fields."""
    ordered = [_breadth_first(tree) for tree in trees]
    nodes = [node for tree in ordered for node in tree]
    leaves = [node for node in nodes if node.children is None]
    n_sets_used = any(node.category_set >= 0 for node in nodes)
    values = np.array([np.atleast_1d(leaf.value) for leaf in leaves], np.float64)
    fields = {
        "tree_offsets": np.cumsum([0] + [len(tree) for tree in ordered], dtype=np.int64),
        "feature": np.array([node.feature for node in nodes], np.int32),
        "threshold": np.array([node.threshold for node in nodes]).astype(row_type),
        "left": np.concatenate([_left_children(tree) for tree in ordered]),
        "default_left": np.array([node.default_left for node in nodes], np.bool_),
        "cover": np.array([node.cover for node in nodes], np.float64),
        "leaf_value": values,
        "leaf_id": np.concatenate([_leaf_ids(tree) for tree in ordered]),
        "tree_output": np.zeros(len(ordered), np.int32),
        "tree_weight": np.ones(len(ordered)),
        "base_score": np.zeros(values.shape[1]),
        "category_set": np.array([node.category_set for node in nodes] if n_sets_used else [], np.int32),
        "set_offsets": np.cumsum([0] + [len(words) for words, _ in sets], dtype=np.int64),
        "set_words": np.array([word for words, _ in sets for word in words], np.uint32),
        "set_others_left": np.array([others for _, others in sets], np.bool_),
    }
    return ArrayForest(n_features=n_features, **{**fields, **meaning})


def random_forest(seed: int, options: Options) -> Forest:
    """A forest whose structure, thresholds, covers and leaf values depend on the seed and the options alone."""
    rng = np.random.default_rng(seed)
    sets = [_random_set(rng) for _ in range(6)] if options.categorical else []
    build = _Builder(rng, options, _threshold_pool(rng, options), len(sets))
    trees = [build.tree() for _ in range(options.n_trees)]
    k, n_trees = options.n_outputs, options.n_trees
    weights = {
        "ones": np.ones(n_trees),
        "average": np.full(n_trees, 1 / n_trees),
        "dart": rng.uniform(0.05, 1.5, n_trees),
    }
    outputs = np.zeros(n_trees) if options.vector_leaves else rng.integers(0, k, n_trees)
    return flatten(
        trees,
        options.n_features,
        options.row_type,
        sets,
        base_score=rng.normal(size=k),
        tree_output=outputs.astype(np.int32),
        tree_weight=weights[options.weights],
        **{**_missing(options), **options.meaning},
    )


def random_rows(seed: int, forest: Forest, n_rows: int, dtype: str = "float64", layout: str = "C") -> NDArray[Any]:
    """Rows on, and one ulp beside, the forest's thresholds, with special values and odd categories among them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, forest.n_features))
    tested, untested = set(forest.ensemble.feature.tolist()), _interesting(forest, forest.n_features)
    for feature in range(forest.n_features):
        pool = _interesting(forest, feature) if feature in tested else untested
        chosen = rng.random(n_rows) < 0.7
        rows[chosen, feature] = rng.choice(pool, int(chosen.sum()))
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)
    return _laid_out(rows, layout)


@st.composite
def forests(draw: st.DrawFn, **fixed: Any) -> Forest:
    """Forests of every kind; `fixed` pins options."""
    n_outputs = draw(st.sampled_from([1, 1, 2, 3, 5]))
    drawn: dict[str, Any] = {
        "shape": draw(st.sampled_from(["bushy", "leaf", "stump", "chain", "deep chain", "mixed"])),
        "n_trees": draw(st.integers(1, 4)),
        "n_features": draw(st.sampled_from([3, 1, 2, 5, 10])),
        "row_type": draw(st.sampled_from(["float32", "float64"])),
        "n_outputs": n_outputs,
        "vector_leaves": n_outputs > 1 and draw(st.booleans()),
        "covers": draw(st.sampled_from(["exact", "zeros", "rounded"])),
        "thresholds": draw(st.sampled_from(["plain", "ties"])),
        "categorical": draw(st.booleans()),
        "weights": draw(st.sampled_from(["ones", "average", "dart"])),
        "missing": draw(st.sampled_from(["NaN", "zeros", "marker"])),
        "meaning": {"result_dtype": draw(st.sampled_from(["float64", "float32"]))},
    }
    return random_forest(draw(st.integers(0, 2**32 - 1)), Options(**{**drawn, **fixed}))


@st.composite
def forests_and_rows(
    draw: st.DrawFn, max_rows: int = 17, min_rows: int = 0, **fixed: Any
) -> tuple[Forest, NDArray[Any]]:
    """A forest and rows for it: float32 or float64, contiguous or not, `min_rows` to `max_rows` of them."""
    forest = draw(forests(**fixed))
    n_rows = draw(st.integers(min_rows, max_rows))
    dtype = draw(st.sampled_from(["float64", "float32"]))
    layout = draw(st.sampled_from(["C", "F", "strided", "read-only"]))
    return forest, random_rows(draw(st.integers(0, 2**32 - 1)), forest, n_rows, dtype, layout)


def chain_forest(d: int, P: float, row_type: str = "float32", go_left: bool = False) -> Forest:
    """Chain of d distinct features; each split keeps the share P^(1/d) of the cover; only the last leaf is 1.

    The row of ones reaches the last leaf if `go_left` is False, the row of zeros otherwise.
    """
    tree = Node(cover=P, value=1.0)
    for feature in reversed(range(d)):
        cover = P ** (feature / d)
        off_path = Node(cover=cover - tree.cover)
        children = (tree, off_path) if go_left else (off_path, tree)
        tree = Node(cover=cover, feature=feature, threshold=0.5, children=children)
    return flatten([tree], d, row_type)


def full_forest(seed: int, n_trees: int, depth: int, n_features: int, row_type: str = "float32") -> Forest:
    """A forest of complete trees, as large as boosting makes them, with the leaf values of a small learning rate."""
    rng = np.random.default_rng(seed)
    n_nodes, n_leaves = 2 ** (depth + 1) - 1, 2**depth
    is_leaf = np.arange(n_nodes) >= n_leaves - 1
    shape = (n_trees, n_nodes)
    cover = np.full(shape, 20_000.0)
    for node in range(n_leaves - 1):
        share = rng.uniform(0.02, 0.98, n_trees)
        cover[:, 2 * node + 1], cover[:, 2 * node + 2] = cover[:, node] * share, cover[:, node] * (1 - share)
    feature = np.where(is_leaf, -1, rng.integers(n_features, size=shape))
    threshold = np.where(is_leaf, 0, rng.normal(size=shape))
    left = np.where(is_leaf, 0, 2 * np.arange(n_nodes) + 1)
    return ArrayForest(
        tree_offsets=np.arange(n_trees + 1) * n_nodes,
        feature=feature.astype(np.int32).ravel(),
        threshold=threshold.astype(row_type).ravel(),
        left=np.tile(left, n_trees).astype(np.int32),
        default_left=rng.random(n_trees * n_nodes) < 0.5,
        cover=cover.ravel(),
        leaf_value=0.01 * rng.normal(size=(n_trees * n_leaves, 1)),
        leaf_id=np.tile(np.flatnonzero(is_leaf), n_trees).astype(np.int32),
        tree_output=np.zeros(n_trees, np.int32),
        tree_weight=np.ones(n_trees),
        base_score=np.array([0.5]),
        n_features=n_features,
    )


def _breadth_first(root: Node) -> list[Node]:
    ordered, waiting = [], deque([root])
    while waiting:
        node = waiting.popleft()
        ordered.append(node)
        waiting.extend(node.children or ())
    return ordered


def _left_children(tree: list[Node]) -> NDArray[np.int32]:
    is_split = np.array([node.children is not None for node in tree])
    return np.where(is_split, 2 * np.cumsum(is_split) - 1, 0).astype(np.int32)


def _leaf_ids(tree: list[Node]) -> NDArray[np.int32]:
    """Ids as some library may number them: neither dense nor in order."""
    positions = [at for at, node in enumerate(tree) if node.children is None]
    return np.array([3 * (len(tree) - at) + 1 for at in positions], np.int32)


def _missing(options: Options) -> dict[str, Any]:
    """Fields that say which values are missing besides NaN."""
    if options.missing == "zeros":
        return {"zero_missing": np.arange(options.n_features) % 2 == 0, "zero_threshold": LIGHTGBM_ZERO}
    return {"missing": -1.0} if options.missing == "marker" else {}


def _threshold_pool(rng: np.random.Generator, options: Options) -> NDArray[np.float64]:
    """Few thresholds a feature, so that splits repeat and rows tie: (n_features, 4)."""
    shape = (options.n_features, 4)
    return rng.choice(TIES, shape) if options.thresholds == "ties" else np.round(rng.normal(size=shape), 2)


def _random_set(rng: np.random.Generator) -> tuple[NDArray[np.uint32], bool]:
    words = rng.integers(0, 2**32, rng.choice([0, 1, 1, 2, 3]), dtype=np.uint32)
    return words * (rng.random() < 0.9), bool(rng.random() < 0.5)


@dataclass
class _Builder:
    """Grows random trees of nested nodes."""

    rng: np.random.Generator
    options: Options
    pool: NDArray[np.float64]
    n_sets: int

    def tree(self) -> Node:
        cover = float(self.rng.choice([1.0, 1000.0, 12345.5]))
        shape = self.options.shape
        if shape == "mixed":
            shape = str(self.rng.choice(["leaf", "stump", "bushy", "chain"]))
        if "chain" in shape:
            return self._chain(
                cover, int(self.rng.integers(100, 201) if shape == "deep chain" else self.rng.integers(8, 40))
            )
        return self._bushy(cover, {"leaf": 0, "stump": 1, "bushy": int(self.rng.integers(2, 6))}[shape])

    def _bushy(self, cover: float, depth: int, root: bool = True) -> Node:
        if depth == 0 or (not root and self.rng.random() < 0.15):
            return self._leaf(cover)
        left, right = self._divide(cover)
        return self._split(cover, (self._bushy(left, depth - 1, False), self._bushy(right, depth - 1, False)))

    def _chain(self, cover: float, depth: int) -> Node:
        """A path with a leaf beside each of its nodes; sides alternate at random."""
        covers = [cover]
        for _ in range(depth):
            covers.append(self._divide(covers[-1], 0.9)[0])
        node = self._leaf(covers[-1])
        for above, below in zip(covers[-2::-1], covers[:0:-1], strict=True):
            beside = self._leaf(self._round(above - below))
            node = self._split(above, (node, beside) if self.rng.random() < 0.5 else (beside, node))
        return node

    def _leaf(self, cover: float) -> Node:
        size = self.options.n_outputs if self.options.vector_leaves else 1
        return Node(cover=cover, value=self.rng.normal(size=size))

    def _split(self, cover: float, children: tuple[Node, Node]) -> Node:
        feature = int(self.rng.integers(self.options.n_features))
        node = Node(cover, feature=feature, default_left=bool(self.rng.random() < 0.5), children=children)
        if self.n_sets and feature % 2 == 0:
            node.category_set = int(self.rng.integers(self.n_sets))
            node.threshold = self._smallest_category()
        else:
            node.threshold = float(self.rng.choice(self.pool[feature]))
        return node

    def _smallest_category(self) -> float:
        """Some libraries truncate to an integer before they test the sign: -0.5 is category 0. Others test first."""
        kind = np.dtype(self.options.row_type).type
        return float(np.nextafter(kind(-1), kind(0))) if self.rng.random() < 0.5 else 0.0

    def _divide(self, cover: float, at_least: float = 0.02) -> tuple[float, float]:
        share = float(self.rng.uniform(at_least, 0.98))
        if self.options.covers == "zeros" and self.rng.random() < 0.2:
            share = float(self.rng.integers(0, 2))
        return self._round(cover * share), self._round(cover * (1 - share))

    def _round(self, cover: float) -> float:
        """XGBoost's covers are float32 sums: children do not add up to their parent exactly."""
        return max(float(np.float32(cover)) if self.options.covers == "rounded" else cover, 0.0)


def _interesting(forest: Forest, feature: int) -> NDArray[np.float64]:
    """Values at which the tests of a feature could go wrong."""
    thresholds = np.unique(forest.ensemble.threshold[forest.ensemble.feature == feature].astype(np.float64))
    finite = thresholds[np.isfinite(thresholds) & (np.abs(thresholds) < 1e38)]
    single = finite.astype(np.float32)
    beside = [
        *(np.nextafter(finite, side) for side in (-np.inf, np.inf)),
        *(np.nextafter(single, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)),
    ]
    numbers = [finite, single.astype(np.float64), *beside, SPECIALS]
    if len(forest.ensemble.category_set):
        numbers += [CATEGORIES, NOT_CATEGORIES]
    return np.concatenate(numbers)


def _laid_out(rows: NDArray[Any], layout: str) -> NDArray[Any]:
    if layout == "F":
        return np.asfortranarray(rows)
    if layout == "strided":
        padded = np.full((2 * rows.shape[0], 3 * rows.shape[1]), 7, rows.dtype)
        padded[::2, ::-3] = rows
        return padded[::2, ::-3]
    if layout == "read-only":
        rows.flags.writeable = False
    return rows
