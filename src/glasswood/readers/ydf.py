"""YDF (Yggdrasil Decision Forests): trees as its own inspection of a model lists them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from glasswood.base.typing import Array, Doubles
from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import NodeArrays, assemble, pack_sets
from glasswood.readers.sklearn.trees import check_layout

RANDOM, BOOSTED = "RandomForestModel", "GradientBoostedTreesModel"
LINKS = {
    "BINOMIAL_LOG_LIKELIHOOD": "logistic",
    "BINARY_FOCAL_LOSS": "logistic",
    "MULTINOMIAL_LOG_LIKELIHOOD": "softmax",
    "POISSON": "exp",
    "SQUARED_ERROR": "identity",
    "MEAN_AVERAGE_ERROR": "identity",
    "LAMBDA_MART_NDCG": "identity",
    "LAMBDA_MART_NDCG5": "identity",
    "XE_NDCG_MART": "identity",
}
"""By loss of boosted trees."""

BOOLEAN_SPLIT = 0.5
"""Threshold between false and true."""


class Test(NamedTuple):
    """A split: rows whose feature is at least the threshold, or a category not among `left`, go right.

    Attributes
    ----------
    feature : int
    threshold : float
        Infinite where every number goes left.
    missing_right : bool
    left : bool, (n_categories,), or None
    others_left : bool
        Side of categories that training did not keep.
    """

    feature: int
    threshold: float
    missing_right: bool
    left: Array | None = None
    others_left: bool = False


def read(model: Any) -> TreeEnsemble:
    """Read a random forest, boosted trees or a CART of YDF.

    Raises
    ------
    TypeError
        If it is another model.
    NotImplementedError
        If trees test more than a number, a boolean or a category.
    """
    names = {kind.__name__ for kind in type(model).__mro__}
    if not names & {RANDOM, BOOSTED}:
        raise TypeError(f"got {type(model).__name__} of YDF, expected a {RANDOM} (or CART) or a {BOOSTED}")
    columns = _columns(model)
    place = {column: feature for feature, column in enumerate(model.input_features_col_idxs())}
    trees = [_preorder(tree.root) for tree in model.iter_trees()]
    nodes = [node for tree in trees for node in tree]
    splits = np.array([at for at, node in enumerate(nodes) if not node.is_leaf], np.int64)
    tests = [_test(model, nodes[at].condition, place) for at in splits]
    index = {id(node): at for tree in trees for at, node in enumerate(tree)}
    left, right, feature, category_set = np.full((4, len(nodes)), -1)
    left[splits] = [index[id(nodes[at].neg_child)] for at in splits]
    right[splits] = [index[id(nodes[at].pos_child)] for at in splits]
    feature[splits] = [test.feature for test in tests]
    threshold, default_left = np.zeros(len(nodes), np.float32), np.zeros(len(nodes), np.bool_)
    threshold[splits] = [0.0 if test.left is not None else test.threshold for test in tests]
    default_left[splits] = [not test.missing_right for test in tests]
    is_set = np.array([test.left is not None for test in tests], np.bool_)
    category_set[splits[is_set]] = np.arange(is_set.sum())
    outputs, meaning = _meaning(model, RANDOM in names, len(trees))
    return assemble(
        NodeArrays(
            counts=np.array([len(tree) for tree in trees]),
            left=left,
            right=right,
            feature=feature,
            threshold=threshold,
            default_left=default_left,
            cover=np.array([node.value.num_examples for node in nodes], np.float64),
            value=_values(model, nodes, outputs),
            leaf_id=np.concatenate([np.arange(len(tree)) for tree in trees]),
            category_set=category_set if is_set.any() else None,
        ),
        n_features=len(columns),
        feature_names=tuple(str(column.name) for column in columns),
        categories=_tables(columns),
        result_dtype="float32",
        source=_source(),
        **_packed(tests),
        **meaning,
    )


def predict(model: Any, X: Any) -> Any:
    """Predict with the live model itself, whose columns have names and types; arrays are given them."""
    if not hasattr(X, "columns"):
        columns = zip(_columns(model), np.asarray(X).T, strict=True)
        X = {one.name: of_rows.astype(bool) if one.HasField("boolean") else of_rows for one, of_rows in columns}
    try:
        return model.predict(X)
    except RuntimeError:  # its fast engines do not know all tests
        return model.predict(X, use_slow_engine=True)


def as_taken(model: Any, X: Any) -> Any:
    """Let rows made from numbers and categories, a frame or an array, hold what YDF takes: truths, and texts.

    They are changed in place. Booleans of YDF are never missing: missing ones become false.
    """
    for place, column in enumerate(_columns(model)):
        if not hasattr(X, "columns"):
            if column.HasField("boolean"):
                X[:, place] = X[:, place] >= BOOLEAN_SPLIT
        elif column.HasField("boolean"):
            X[column.name] = X[column.name] >= BOOLEAN_SPLIT
        elif X[column.name].dtype.kind == "O":
            X[column.name] = X[column.name].astype(object).where(X[column.name].notna(), "")
    return X


def _columns(model: Any) -> list[Any]:
    """List the specifications of the columns that the model takes."""
    return [model.data_spec().columns[i] for i in model.input_features_col_idxs()]


def _source() -> str:
    import ydf

    return f"ydf {ydf.__version__}"


def _preorder(root: Any) -> list[Any]:
    """List the nodes of a tree, each before those below it."""
    nodes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not node.is_leaf:
            waiting += [node.pos_child, node.neg_child]
    return nodes


def _test(model: Any, condition: Any, place: dict[int, int]) -> Test:
    """Read a condition; the child of rows that meet it is the right one."""
    kind, missing = type(condition).__name__, bool(condition.missing)
    column = model.data_spec().columns[getattr(condition, "attribute", 0)]
    feature = place.get(getattr(condition, "attribute", -1), -1)
    if kind == "NumericalHigherThanCondition":
        return Test(feature, condition.threshold, missing)
    if kind == "DiscretizedNumericalHigherThanCondition":
        return Test(feature, column.discretized_numerical.boundaries[condition.threshold_idx - 1], missing)
    if kind == "IsTrueCondition":
        return Test(feature, BOOLEAN_SPLIT, missing)
    if kind == "IsMissingInCondition":
        left = np.ones(len(_vocabulary(column)) - 1, np.bool_) if _has_texts(column) else None
        return Test(feature, np.inf, True, left, True)
    if kind != "CategoricalIsInCondition" or not _has_texts(column):
        raise NotImplementedError(
            f"a {kind} on {column.name!r} is not supported; glasswood reads tests of numbers, booleans and categories"
        )
    is_right = np.zeros(len(_vocabulary(column)), np.bool_)
    is_right[list(condition.mask)] = True
    return Test(feature, 0.0, missing, ~is_right[1:], not is_right[0])


def _vocabulary(column: Any) -> list[str]:
    """List the categories of a column, of which the first stands for all that training did not keep."""
    from ydf.dataset import dataspec

    return list(dataspec.categorical_column_dictionary_to_list(column))


def _tables(columns: list[Any]) -> tuple[Array | None, ...] | None:
    """Texts of the categories that training kept, for each column that has some."""
    tables = [np.array(_vocabulary(one)[1:], object) if _has_texts(one) else None for one in columns]
    return None if all(table is None for table in tables) else tuple(tables)


def _has_texts(column: Any) -> bool:
    return bool(column.HasField("categorical")) and not column.categorical.is_already_integerized


def _packed(tests: list[Test]) -> dict[str, Any]:
    sets = [test for test in tests if test.left is not None]
    if not sets:
        return {}
    others = np.array([test.others_left for test in sets], np.bool_)
    offsets, words = pack_sets([test.left for test in sets if test.left is not None], others)
    return {"set_offsets": offsets, "set_words": words, "set_others_left": others}


def _meaning(model: Any, is_average: bool, n_trees: int) -> tuple[int, dict[str, Any]]:
    """Width of the leaves, and what the trees' sum means: YDF predicts probabilities, of two classes the second's."""
    task = model.task().name
    fields: dict[str, Any] = {"objective": task.lower()}
    if is_average:
        n = len(model.label_classes()) if task == "CLASSIFICATION" else 1
        n = n if n > 2 else 1
        fields |= {"base_score": np.zeros(n), "tree_weight": np.full(n_trees, 1 / n_trees)}
        return n, fields | _labels(model, n, task)
    start, per_round = np.asarray(model.initial_predictions(), np.float64), int(model.num_trees_per_iteration())
    check_layout(_source(), "the number of initial predictions", len(start), per_round)
    loss = _loss(model)
    link = "identity" if task == "CLASSIFICATION" and model.output_logits() else LINKS.get(loss)
    if link is None:
        raise NotImplementedError(f"boosted trees of YDF with the loss {loss} are not supported")
    fields |= {"base_score": start, "tree_output": np.arange(n_trees) % per_round, "link": link}
    return 1, fields | {"tree_weight": np.ones(n_trees)} | _labels(model, per_round, task)


def _loss(model: Any) -> str:
    from yggdrasil_decision_forests.model.gradient_boosted_trees import gradient_boosted_trees_pb2

    return str(gradient_boosted_trees_pb2.Loss.Name(model._model.loss()))


def _labels(model: Any, n_outputs: int, task: str) -> dict[str, Any]:
    return {"classes": (np.array(model.label_classes(), object),)} if task == "CLASSIFICATION" and n_outputs > 1 else {}


def _values(model: Any, nodes: list[Any], width: int) -> Doubles:
    """Numbers that leaves add: of a class forest probabilities, or votes."""
    first = nodes[0].value
    if hasattr(first, "treatment_effect"):
        raise NotImplementedError(
            "uplift models of YDF are not supported; glasswood reads those of causalml and econml"
        )
    if not hasattr(first, "probability"):
        return np.array([[node.value.value] for node in nodes], np.float64)
    result = np.array([node.value.probability for node in nodes], np.float64)
    if model.winner_takes_all():
        result = (np.arange(result.shape[1]) == result.argmax(axis=1)[:, None]).astype(np.float64)
    return result[:, 1:] if width == 1 else result
