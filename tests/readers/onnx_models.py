"""ONNX models of trees: made by converters, and by hand for what converters do not write."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn import ensemble, tree

N_ROWS = 300
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


def make_data():
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(N_ROWS, 4)), 2)
    return X, X[:, 0] + X[:, 1] ** 2 - X[:, 2] * (X[:, 3] > 0) + 0.1 * rng.normal(size=N_ROWS)


def target(y, kind):
    return {
        "number": y,
        "pair": np.column_stack([y, y**2]),
        "two": (y > 0.7).astype(int),
        "three": np.digitize(y, [0, 1.5]),
        "text": np.where(y > 0.7, "yes", "no"),
    }[kind]


SKLEARN = {
    "tree": (tree.DecisionTreeRegressor(max_depth=5), "number"),
    "tree, two targets": (tree.DecisionTreeRegressor(max_depth=4), "pair"),
    "tree, two classes": (tree.DecisionTreeClassifier(max_depth=4), "two"),
    "tree, three classes": (tree.DecisionTreeClassifier(max_depth=4), "three"),
    "forest": (ensemble.RandomForestRegressor(7, max_depth=4), "number"),
    "forest, two classes": (ensemble.RandomForestClassifier(7, max_depth=4), "text"),
    "forest, three classes": (ensemble.RandomForestClassifier(7, max_depth=4), "three"),
    "extra trees": (ensemble.ExtraTreesRegressor(7, max_depth=4), "number"),
    "extra trees, three classes": (ensemble.ExtraTreesClassifier(7, max_depth=4), "three"),
    "gradient boosting": (ensemble.GradientBoostingRegressor(n_estimators=9), "number"),
    "gradient boosting, two classes": (ensemble.GradientBoostingClassifier(n_estimators=9), "two"),
    "gradient boosting, three classes": (ensemble.GradientBoostingClassifier(n_estimators=9), "three"),
    "one leaf": (tree.DecisionTreeRegressor(max_depth=1, min_samples_leaf=200), "number"),
}


def from_sklearn(name, data, **options):
    from skl2onnx import to_onnx

    model, kind = SKLEARN[name]
    X, y = data
    model.set_params(random_state=0).fit(X.astype(np.float32), target(y, kind))
    return to_onnx(model, X[:1].astype(np.float32), target_opset={"": 17, "ai.onnx.ml": 3}, **options)


def random_trees(seed, n_trees=4, n_features=4, depth=4, values=None, one_sided=False):
    """Nodes as dicts by tree: (node, feature, value, yes, no) and leaves, in an order that is not breadth-first."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n_trees):
        nodes, counter = [], iter(range(10**6))

        def grow(level, nodes=nodes, counter=counter):
            node = next(counter)
            if level == 0 or rng.random() < 0.15 * (level < depth):
                nodes.append((node, None))
                return node
            threshold = np.round(rng.normal(), 2) if values is None else rng.choice(values)
            at = len(nodes)
            nodes.append(None)
            yes, no = grow(level - 1), grow(0 if one_sided else level - 1)
            nodes[at] = (node, (int(rng.integers(n_features)), threshold, yes, no))
            return node

        grow(depth)
        result.append(renumbered(nodes, rng))
    return result


def renumbered(nodes, rng):
    """onnxruntime takes numbers below that of all nodes only."""
    new = dict(zip([node for node, _ in nodes], rng.permutation(len(nodes)).tolist(), strict=True))
    return [(new[node], split and (*split[:2], new[split[2]], new[split[3]])) for node, split in nodes]


def by_number(kind, trees, modes, seed=0, n_outputs=1, ids=None, double=False, weights=None, **attributes):
    """A TreeEnsembleRegressor or Classifier of version 3; `modes` are drawn from."""
    rng = np.random.default_rng(seed)
    flat = [(t, *node) for t, nodes in enumerate(trees) for node in nodes]
    prefix = "target" if kind == "Regressor" else "class"
    leaves = [(t, node) for t, node, split in flat if split is None]
    outputs = list(range(n_outputs)) if ids is None else ids
    entries = [(t, node, output) for t, node in leaves for output in outputs]
    weight = rng.normal(size=len(entries)) if weights is None else weights(rng, len(entries))
    values = np.array([0.0 if split is None else split[1] for _, _, split in flat])
    fields = {
        "nodes_treeids": [t for t, _, _ in flat],
        "nodes_nodeids": [node for _, node, _ in flat],
        "nodes_featureids": [0 if split is None else split[0] for _, _, split in flat],
        "nodes_modes": ["LEAF" if split is None else str(rng.choice(modes)) for _, _, split in flat],
        "nodes_truenodeids": [0 if split is None else split[2] for _, _, split in flat],
        "nodes_falsenodeids": [0 if split is None else split[3] for _, _, split in flat],
        "nodes_missing_value_tracks_true": rng.integers(0, 2, len(flat)).tolist(),
        f"{prefix}_treeids": [t for t, _, _ in entries],
        f"{prefix}_nodeids": [node for _, node, _ in entries],
        f"{prefix}_ids": [output for _, _, output in entries],
    }
    if double:
        fields |= {"nodes_values_as_tensor": tensor(values), f"{prefix}_weights_as_tensor": tensor(weight)}
    else:
        fields |= {"nodes_values": values.tolist(), f"{prefix}_weights": np.float32(weight).tolist()}
    if kind == "Regressor":
        fields["n_targets"] = n_outputs
    return whole(f"TreeEnsemble{kind}", {**fields, **attributes}, DOUBLE if double else FLOAT, version=3)


def tensor(values, name="t"):
    return numpy_helper.from_array(np.asarray(values), name)


def by_position(trees, modes, seed=0, n_outputs=1, double=False, members=None, tracks=None, **attributes):
    """A TreeEnsemble of version 5."""
    rng = np.random.default_rng(seed)
    dtype = np.float64 if double else np.float32
    inner = [(t, node, split) for t, nodes in enumerate(trees) for node, split in nodes if split is not None]
    leaves = [(t, node) for t, nodes in enumerate(trees) for node, split in nodes if split is None]
    place = {(t, node): i for i, (t, node, _) in enumerate(inner)}
    leaf_place = {key: i for i, key in enumerate(leaves)}

    def child(which):
        keys = [(t, split[which]) for t, _, split in inner]
        return [place.get(key, leaf_place.get(key)) for key in keys], [int(key in leaf_place) for key in keys]

    (yes, yes_leaf), (no, no_leaf) = child(2), child(3)
    mode = rng.permutation(np.resize(modes, len(inner))).astype(np.uint8)
    fields = {
        "nodes_featureids": [split[0] for _, _, split in inner],
        "nodes_modes": tensor(mode),
        "nodes_splits": tensor(np.array([split[1] for _, _, split in inner], dtype)),
        "nodes_truenodeids": yes,
        "nodes_trueleafs": yes_leaf,
        "nodes_falsenodeids": no,
        "nodes_falseleafs": no_leaf,
        "nodes_missing_value_tracks_true": rng.integers(0, 2, len(inner)).tolist() if tracks is None else tracks(inner),
        "leaf_targetids": rng.integers(0, n_outputs, len(leaves)).tolist(),
        "leaf_weights": tensor(rng.normal(size=len(leaves)).astype(dtype)),
        "tree_roots": [place[t, nodes[0][0]] for t, nodes in enumerate(trees)],
        "n_targets": n_outputs,
        "aggregate_function": 1,
        "post_transform": 0,
    }
    if members is not None:
        sets = [np.zeros(0)] + [
            np.append(rng.choice(members, rng.integers(1, 5), replace=False), np.nan) for m in mode if m == 6
        ]
        fields["membership_values"] = tensor(np.concatenate(sets).astype(dtype))
    return whole("TreeEnsemble", {**fields, **attributes}, DOUBLE if double else FLOAT, version=5)


def whole(operator, fields, element, version):
    """A model of one operator."""
    is_classifier = operator.endswith("Classifier")
    names = ["label", "scores"] if is_classifier else ["scores"]
    node = helper.make_node(operator, ["X"], names, domain="ai.onnx.ml", **fields)
    n = fields.get("n_targets") or len(fields.get("classlabels_int64s", ()))
    out_type = element if version == 5 else FLOAT
    outputs = [helper.make_tensor_value_info("scores", out_type, [None, n])]
    if is_classifier:
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, [None]))
    rows = [helper.make_tensor_value_info("X", element, [None, 4])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(helper.make_graph([node], "trees", rows, outputs), opset_imports=opsets, ir_version=8)


def run(model, X):
    """All outputs of onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    return session.run(None, {given.name: X.astype(np.float64 if given.type == "tensor(double)" else np.float32)})


__all__ = ["onnx"]
