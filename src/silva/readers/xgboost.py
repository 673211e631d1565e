"""XGBoost models, from the documents that XGBoost 1.7 to 3.4 writes (JSON or UBJSON)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from silva.readers.assemble import NodeArrays, assemble
from silva.readers.documents import as_array, concatenate, get, get_int, load_document, to_float32, to_int32
from silva.readers.ubjson import decode
from silva.readers.xgboost_categories import read_sets, read_tables
from silva.validation import LARGEST_FOREST

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from silva.forest import Forest

NEWEST_MAJOR = 3
MAX_OUTPUTS = 2**20
EPSILON = np.float32(1e-6)
CLIPPED_LOGITS = (3, 2)
"""Since then XGBoost keeps the base score of logistic objectives 1e-6 away from 0 and 1."""
SORTED_QUANTILES = (3, 4)
"""Since then XGBoost sorts the quantiles of a row."""

Version = tuple[int, ...]


class Objective(NamedTuple):
    """What an objective does to margins, and how its base score becomes a margin."""

    link: str = "identity"
    prediction: str = "response"
    intercept: str = "identity"


OBJECTIVES = {
    "reg:squarederror": Objective(),
    "reg:linear": Objective(),
    "reg:squaredlogerror": Objective(),
    "reg:pseudohubererror": Objective(),
    "reg:absoluteerror": Objective(),
    "reg:quantileerror": Objective(),
    "reg:expectileerror": Objective(intercept="softplus"),
    "reg:logistic": Objective("logistic", intercept="logit"),
    "binary:logistic": Objective("logistic", intercept="logit"),
    "binary:logitraw": Objective(),
    "binary:hinge": Objective(prediction="positive"),
    "multi:softmax": Objective("softmax", "argmax"),
    "multi:softprob": Objective("softmax"),
    "count:poisson": Objective("exp", intercept="log"),
    "reg:gamma": Objective("exp", intercept="log"),
    "reg:tweedie": Objective("exp", intercept="log"),
    "survival:cox": Objective("exp", intercept="log"),
    "survival:aft": Objective("exp", intercept="log"),
    "rank:pairwise": Objective(),
    "rank:ndcg": Objective(),
    "rank:map": Objective(),
}


def read(model: Any) -> Forest:
    """Read a live model.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
        A Booster predicts with all its rounds; an estimator as itself: up to ``best_iteration``, with its ``missing``,
        labels for classifiers.

    Raises
    ------
    TypeError
        If it is another object of XGBoost.
    ValueError
        If the Booster is not trained.
    NotImplementedError
        If the model is no tree ensemble (gblinear), or its objective is unknown.
    """
    import xgboost

    if isinstance(model, xgboost.Booster):
        return read_document(_document(model), "the Booster")
    if not isinstance(model, xgboost.XGBModel):
        raise TypeError(f"cannot read a {type(model).__name__} of XGBoost, expected a Booster or an estimator")
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    n_rounds = None if best is None else int(best) + 1
    return read_document(_document(booster), f"the {type(model).__name__}", n_rounds, estimator=model)


def read_file(path: str | os.PathLike[str]) -> Forest:
    """Read a file written by ``save_model``; it predicts as the Booster does, with all rounds.

    Parameters
    ----------
    path : path
        With suffix ``.json`` or ``.ubj``.

    Raises
    ------
    ValueError
        If the file is truncated, corrupt or no model of XGBoost.
    NotImplementedError
        As in `read`.
    """
    return read_document(load_document(path), str(path))


def predict(model: Any, X: Any) -> Any:
    """Predict with the live model itself, arrays with the names and types of its features.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
    X : array-like of shape (n_rows, n_features)
    """
    import xgboost

    if not isinstance(model, xgboost.Booster):
        return model.predict(X)
    names = (
        {} if hasattr(X, "columns") else {"feature_names": model.feature_names, "feature_types": model.feature_types}
    )
    return model.predict(xgboost.DMatrix(X, enable_categorical=True, **names))


def _document(booster: Any) -> Any:
    """Let the Booster describe itself."""
    try:
        return decode(bytes(booster.save_raw("ubj")))
    except ValueError as error:
        raise ValueError(f"the Booster cannot be saved ({error}); train it first") from error


def read_document(document: Any, where: str, n_rounds: int | None = None, estimator: Any = None) -> Forest:
    """Build a forest, with the source of the document in every message."""
    try:
        return _Reader(document, n_rounds).forest(estimator)
    except ValueError as error:
        raise ValueError(f"{where} holds no valid XGBoost model: {error}; save it again") from error
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from error


class _Reader:
    """One document; the columns of all its trees are read as one array each."""

    def __init__(self, document: Any, n_rounds: int | None) -> None:
        if not isinstance(document, dict):
            raise ValueError(f"it is a {type(document).__name__}, expected an object with the member 'learner'")
        self.learner = get(document, "learner", dict)
        self.version = _version(document)
        self.model, weights = _tree_model(get(self.learner, "gradient_booster", dict))
        self.parameters = get(self.learner, "learner_model_param", dict)
        self.objective = get(get(self.learner, "objective", dict), "name", str)
        self.n_features = get_int(self.parameters, "num_feature")
        self.n_outputs = self._count_outputs()
        self.trees = self._used_trees(n_rounds)
        self.tree_weight = self._weights(weights)

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

    def _weights(self, weights: Any) -> NDArray[np.float64]:
        """DART weights; trees beyond their end count fully."""
        result = np.ones(len(self.trees))
        if weights is not None:
            dropped = to_float32(as_array(weights, "weight_drop"))[: len(result)]
            result[: len(dropped)] = dropped
        return result

    def forest(self, estimator: Any) -> Forest:
        """Build the forest of the Booster, or of the estimator that holds it."""
        meaning = _meaning(self.objective, self.n_outputs, self.version)
        if estimator is not None:
            meaning |= _estimator_meaning(estimator, self.objective, self.n_outputs, meaning)
        nodes, sets = self._nodes()
        forest = assemble(
            nodes,
            n_features=self.n_features,
            tree_output=self._tree_output(),
            tree_weight=self.tree_weight,
            base_score=self._base_score(),
            feature_names=self._feature_names(),
            categories=read_tables(self.model.get("cats"), self.n_features, self.version),
            result_dtype="float32",
            source="xgboost " + ".".join(map(str, self.version)),
            objective=self.objective,
            **sets,
            **meaning,
        )
        self._check_sizes(forest)
        return forest

    def _feature_names(self) -> tuple[str, ...] | None:
        names = self.learner.get("feature_names") or None
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("'feature_names' holds something else than names")
        return None if names is None else tuple(names)

    def _tree_output(self) -> NDArray[np.int32]:
        outputs = to_int32(as_array(self.model.get("tree_info"), "tree_info"), "tree_info")
        if len(outputs) < len(self.trees):
            raise ValueError(f"'tree_info' has {len(outputs)} entries for {len(self.trees)} trees")
        return outputs[: len(self.trees)]

    def _base_score(self) -> NDArray[np.float64]:
        """Read the base score of each output into margin space, rounded as XGBoost does."""
        text = get(self.parameters, "base_score", str).strip("[] ")
        base = to_float32(np.array([float(number) for number in text.split(",")]))
        if len(base) not in {1, self.n_outputs}:
            raise ValueError(f"'base_score' has {len(base)} entries for {self.n_outputs} outputs")
        base = np.broadcast_to(base, self.n_outputs)
        return _to_margin(base, OBJECTIVES[self.objective].intercept, self.version).astype(np.float64)

    def _column(self, name: str, counts: NDArray[np.int64] | None) -> NDArray[Any]:
        """Read a column of all trees; each tree must have `counts` entries."""
        column, lengths = concatenate([tree.get(name) for tree in self.trees], name)
        if counts is not None and (wrong := lengths != counts).any():
            at = int(np.argmax(wrong))
            raise ValueError(f"{name!r} of tree {at} has {lengths[at]} entries, expected {counts[at]}")
        return column

    def _ints(self, name: str, counts: NDArray[np.int64]) -> NDArray[np.int32]:
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
        self._check_nodes(counts, left, feature, condition, cover)
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

    def _declared(self, name: str, default: int | None = None) -> NDArray[np.int64]:
        """Read a number from each tree's parameters."""
        values = [get_int(get(tree, "tree_param", dict), name, default) for tree in self.trees]
        if values and not 0 <= min(values) <= max(values) <= LARGEST_FOREST:
            raise ValueError(f"{name!r} is {min(values)} to {max(values)}, expected 0 to {LARGEST_FOREST}")
        return np.array(values, np.int64)

    def _cover(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Read the sums of hessians; trees with vector leaves have had them since 3.2."""
        if self.trees and all("sum_hessian" not in tree for tree in self.trees) and self._leaf_width() > 1:
            return np.zeros(int(counts.sum()))
        return self._column("sum_hessian", counts)

    def _leaf_width(self) -> int:
        """Values in a leaf: 0 and 1 both mean a number."""
        widths = set(np.maximum(1, self._declared("size_leaf_vector", 1)).tolist()) or {1}
        if len(widths) > 1 or not widths <= {1, self.n_outputs}:
            raise ValueError(f"leaves hold {sorted(widths)} values, expected 1 or {self.n_outputs} in all trees")
        return int(widths.pop())

    def _leaf_values(
        self, counts: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32], condition: NDArray[Any]
    ) -> NDArray[np.float32]:
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

    def _check_nodes(self, counts: NDArray[np.int64], left: Any, feature: Any, threshold: Any, cover: Any) -> None:
        """Refuse with the number of the tree what Forest would refuse without."""
        is_split = left >= 0
        faults = {
            "a left child below -1": left < -1,
            f"a split on a feature beyond the {self.n_features} declared": is_split
            & ((feature < 0) | (feature >= self.n_features)),
            "a threshold that is NaN": is_split & np.isnan(threshold),
            "a cover that is negative or not finite": ~(np.isfinite(cover) & (cover >= 0)),
        }
        for what, wrong in faults.items():
            if wrong.any():
                tree = np.searchsorted(np.cumsum(counts), np.argmax(wrong), side="right")
                raise ValueError(f"tree {tree} has {what}")

    def _check_sizes(self, forest: Forest) -> None:
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
        raise NotImplementedError(f"documents of XGBoost {version[0]} are not read yet; upgrade silva")
    return version


def _tree_model(booster: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Find the trees and their DART weights, which until 3.3 stood beside or above them."""
    name = get(booster, "name", str)
    if name not in {"gbtree", "dart"}:
        raise NotImplementedError(f"the booster {name!r} is not supported, only the tree boosters gbtree and dart are")
    inner = get(booster, "gbtree", dict) if name == "dart" else booster
    model = get(inner, "model", dict)
    return model, booster.get("weight_drop", model.get("weight_drop"))


def _meaning(name: str, n_outputs: int, version: Version) -> dict[str, Any]:
    """Link and default prediction of a Booster."""
    if name not in OBJECTIVES:
        raise NotImplementedError(f"the objective {name!r} is not supported, known are {', '.join(OBJECTIVES)}")
    link, prediction, _ = OBJECTIVES[name]
    if n_outputs > 1 and name == "reg:expectileerror":
        link = "cumulative_softplus"
    if n_outputs > 1 and name == "reg:quantileerror" and version >= SORTED_QUANTILES:
        link = "sorted"
    return {"link": link, "prediction": prediction}


def _estimator_meaning(estimator: Any, name: str, n_outputs: int, meaning: dict[str, Any]) -> dict[str, Any]:
    """Describe what an estimator adds to its Booster: its missing value, and labels if it is a classifier."""
    missing = estimator.missing
    changes = {"is_estimator": True, "missing": float("nan") if missing is None else float(missing)}
    n_classes = getattr(estimator, "n_classes_", None)
    if n_classes is None:
        return changes
    return changes | {
        "prediction": _label_rule(name, n_outputs, int(n_classes)) or meaning["prediction"],
        "classes": (np.arange(int(n_classes)),),
    }


def _label_rule(name: str, n_outputs: int, n_classes: int) -> str:
    """How XGBClassifier.predict makes labels; it compares any response with a half."""
    if name == "multi:softmax" or (n_outputs > 1 and n_classes != 2):
        return "argmax"
    return "positive" if name == "binary:hinge" else "half"


def _to_margin(base: NDArray[np.float32], intercept: str, version: Version) -> NDArray[np.float32]:
    """Send base scores through the inverse of the link, in float32 as XGBoost does."""
    with np.errstate(all="ignore"):
        if intercept == "log":
            return np.log(base)
        if intercept == "softplus":
            return _gaps_to_margin(base)
        if intercept != "logit":
            return base
        if version >= CLIPPED_LOGITS:
            base = np.clip(base, EPSILON, np.float32(1) - EPSILON)
        odds: NDArray[np.float32] = np.float32(1) / base - np.float32(1)
        return -np.log(odds)


def _gaps_to_margin(base: NDArray[np.float32]) -> NDArray[np.float32]:
    """Expectiles: the first as it is, then the inverse softplus of each step."""
    gaps = np.maximum(np.diff(base) - EPSILON, EPSILON)
    return np.concatenate([base[:1], gaps + np.log(-np.expm1(-gaps))])
