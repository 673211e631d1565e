"""The reader of treelite's models against treelite's own predictions (GTIL)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.lightgbm_models import BOOSTERS as LIGHTGBM
from tests.readers.lightgbm_models import make_data
from tests.readers.lightgbm_models import train as train_lightgbm
from tests.readers.xgboost_models import BOOSTERS as XGBOOST

import glasswood
from glasswood.readers import treelite as reader

treelite = pytest.importorskip("treelite", reason="treelite is not installed: pip install treelite")

pytestmark = pytest.mark.filterwarnings("ignore:.*booster=(dart|gblinear).*deprecated:UserWarning")


def assert_model_agrees(model, rows, max_rows=3000):
    """treelite's softmax is float32 throughout, so probabilities of float64 models agree to float32."""
    forest = glasswood.load(model, check=rows)
    X = adversarial_rows(forest, rows, max_rows=max_rows)
    margins = treelite.gtil.predict(model, X, pred_margin=True)
    kept = [margins[:, target, :n] for target, n in enumerate(n_classes(model))]
    assert_agrees(
        forest,
        X,
        leaves=treelite.gtil.predict_leaf(model, X),
        margins=np.concatenate(kept, axis=1),
        sums=model.output_type,
    )
    assert_agrees(
        forest,
        X,
        predictions=reader.predict(model, X),
        sums="float32" if forest.ensemble.link == "softmax" else model.output_type,
    )
    return forest


def n_classes(model):
    return model.get_header_accessor().get_field("num_class").tolist()


@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost(name):
    case = XGBOOST[name]()
    try:
        model = treelite.frontend.from_xgboost(case.model)
    except treelite.TreeliteError as error:
        pytest.skip(f"treelite does not import this: {error}")
    forest = assert_model_agrees(model, case.rows)
    assert forest.ensemble.threshold.dtype == np.float32


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm(name):
    data = make_data()
    rows = data[0].copy()
    rows[~(rows[:, 4] >= 0), 4] = np.nan
    booster = train_lightgbm(data, LIGHTGBM[name])
    forest = assert_model_agrees(treelite.frontend.from_lightgbm(booster), rows)
    assert forest.ensemble.threshold.dtype == np.float64
    np.testing.assert_array_equal(forest.ensemble.cover, glasswood.load(booster).ensemble.cover)


def targets(kind):
    y = make_data()[1]
    return {
        "real": y,
        "two": (y > 0.5).astype(int),
        "three": np.digitize(y, [0, 1]),
        "reals": np.column_stack([y, -y]),
        "labels": np.column_stack([np.digitize(y, [0, 1]), y > 0.5]),
    }[kind]


SKLEARN = {
    "random forest": (ensemble.RandomForestRegressor, "real"),
    "random forest, two targets": (ensemble.RandomForestRegressor, "reals"),
    "extra trees": (ensemble.ExtraTreesRegressor, "real"),
    "forest of two classes": (ensemble.RandomForestClassifier, "two"),
    "forest of three classes": (ensemble.RandomForestClassifier, "three"),
    "forest of three and of two classes": (ensemble.RandomForestClassifier, "labels"),
    "boosting": (ensemble.GradientBoostingRegressor, "real"),
    "boosting of two classes": (ensemble.GradientBoostingClassifier, "two"),
    "boosting of three classes": (ensemble.GradientBoostingClassifier, "three"),
    "isolation forest": (ensemble.IsolationForest, "real"),
    "histograms": (ensemble.HistGradientBoostingRegressor, "real"),
    "histograms of three classes": (ensemble.HistGradientBoostingClassifier, "three"),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_sklearn(name):
    kind, target = SKLEARN[name]
    sizes = {"max_iter": 5} if "Hist" in kind.__name__ else {"n_estimators": 5}
    X = np.nan_to_num(make_data()[0])
    estimator = kind(**sizes, random_state=0).fit(X, targets(target))
    forest = assert_model_agrees(treelite.sklearn.import_model(estimator), X)
    assert len(forest.classes) == (0 if target in {"real", "reals"} else np.ndim(targets(target)))


def build(tree, *, threshold_type="float64", leaf_type="float64", metadata=None, annotation=None, **extra):
    """One model by treelite's builder; `tree` lists nodes: (key, method, arguments)."""
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    given = {
        "num_feature": 3,
        "task_type": "kRegressor",
        "average_tree_output": False,
        "num_target": 1,
        "num_class": [1],
        "leaf_vector_shape": (1, 1),
    }
    given |= metadata or {}
    trees = tree if isinstance(tree[0], list) else [tree]
    annotation = annotation or ([0] * len(trees), [0] * len(trees))
    postprocessor = extra.pop("postprocessor", ("identity", {}))
    builder = ModelBuilder(
        threshold_type=threshold_type,
        leaf_output_type=leaf_type,
        metadata=Metadata(**given),
        tree_annotation=TreeAnnotation(num_tree=len(trees), target_id=annotation[0], class_id=annotation[1]),
        postprocessor=PostProcessorFunc(name=postprocessor[0], **postprocessor[1]),
        base_scores=extra.pop("base_scores", [0.0] * given["num_target"] * max(given["num_class"])),
    )
    for nodes in trees:
        builder.start_tree()
        for key, method, arguments in nodes:
            builder.start_node(key)
            getattr(builder, method)(**arguments)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def number(feature, threshold, op, left, right, default_left=True):
    return "numerical_test", {
        "feature_id": feature,
        "threshold": threshold,
        "default_left": default_left,
        "opname": op,
        "left_child_key": left,
        "right_child_key": right,
    }


def category(feature, categories, right_lists, left, right, default_left):
    return "categorical_test", {
        "feature_id": feature,
        "default_left": default_left,
        "category_list": categories,
        "category_list_right_child": right_lists,
        "left_child_key": left,
        "right_child_key": right,
    }


def leaf(value):
    return "leaf", {"leaf_value": value}


def stump(op, threshold, default_left=True):
    return [(0, *number(0, threshold, op, 1, 2, default_left)), (1, *leaf(1.0)), (2, *leaf(-1.0))]


EDGES = [0.1, 0.0, -0.0, 1e-45, -1e-45, 1e300, 3.4028234663852886e38, -3.4e38, 5e-324]


@pytest.mark.parametrize("default_left", [True, False])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_operators(op, row_type, default_left):
    for threshold in EDGES:
        given = float(np.asarray(threshold, row_type)) if abs(threshold) < 3.5e38 or row_type == "float64" else None
        is_largest = given == np.finfo(row_type).max and op in {"<=", ">"}
        if given is None or is_largest:
            continue
        model = build(stump(op, given, default_left), threshold_type=row_type, leaf_type=row_type)
        assert_model_agrees(model, np.zeros((1, 3)))


@pytest.mark.parametrize(("op", "threshold"), [("<", np.inf), (">=", np.inf), ("<=", "largest"), (">", "largest")])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_tests_for_infinity_are_refused(op, threshold, row_type):
    """Forest has no test that tells +inf from all other numbers."""
    given = float(np.finfo(row_type).max) if threshold == "largest" else threshold
    model = build(stump(op, given), threshold_type=row_type, leaf_type=row_type)
    with pytest.raises(NotImplementedError, match="splits that tell infinity from the largest number"):
        glasswood.load(model)


@pytest.mark.parametrize("op", ["<=", ">"])
def test_tests_for_missing_values(op):
    assert_model_agrees(build(stump(op, np.inf, default_left=op == ">")), np.zeros((1, 3)))


def test_equality_is_refused():
    with pytest.raises(NotImplementedError, match="test equality; only <, <=, > and >= are supported"):
        glasswood.load(build(stump("==", 1.0)))


@pytest.mark.parametrize("right_lists", [True, False])
@pytest.mark.parametrize("default_left", [True, False])
@pytest.mark.parametrize("row_type", ["float32", "float64"])
def test_categories(right_lists, default_left, row_type):
    """Sets that end inside a word, at its end, beyond it, and an empty one."""
    for categories in ([2, 5], [0, 31], [32, 700], []):
        nodes = [
            (0, *category(1, categories, right_lists, 1, 2, default_left)),
            (1, *leaf(1.0)),
            (2, *number(0, 0.5, "<", 3, 4)),
            (3, *leaf(2.0)),
            (4, *leaf(3.0)),
        ]
        assert_model_agrees(build(nodes, threshold_type=row_type, leaf_type=row_type), np.zeros((1, 3)))


def vector(values):
    return "leaf", {"leaf_value": values}


@pytest.mark.parametrize("average", [True, False])
def test_trees_of_vectors_for_some_of_the_outputs(average):
    """Two targets of three and of two classes; trees that add to all, to one target, to one class of both."""
    model = build(
        [
            [(0, *number(0, 0.5, "<", 1, 2)), (1, *vector([1, 2, 3, 4, 5, 0])), (2, *vector([6, 5, 4, 3, 2, 0]))],
            [
                (0, *number(1, 0.5, "<", 1, 2)),
                (1, *vector([0.1, 0.2, 0.3, 0.4, 0.5, 0])),
                (2, *vector([0.5] * 5 + [0])),
            ],
        ],
        metadata={
            "num_target": 2,
            "num_class": [3, 2],
            "leaf_vector_shape": (2, 3),
            "average_tree_output": average,
            "task_type": "kMultiClf",
        },
        annotation=([-1, -1], [-1, -1]),
        postprocessor=("identity_multiclass", {}),
        base_scores=[0.5, 0.25, 0.125, -1.0, -2.0, 0.0],
    )
    forest = assert_model_agrees(model, np.zeros((1, 3)))
    assert forest.n_outputs == 5
    assert [len(part) for part in forest.classes] == [3, 2]
    assert [part.shape for part in forest.predict(np.zeros((4, 3)), output="probability")] == [(4, 3), (4, 2)]


def test_trees_of_vectors_for_one_target_or_class():
    trees = [stump("<", 0.5), stump("<=", 0.25), stump(">", 0.0)]
    for nodes in trees:
        nodes[1:] = [(1, *vector([1.0, 2.0, 4.0])), (2, *vector([8.0, 16.0, 32.0]))]
    for average in (True, False):
        model = build(
            trees,
            metadata={
                "num_target": 2,
                "num_class": [3, 3],
                "leaf_vector_shape": (1, 3),
                "average_tree_output": average,
                "task_type": "kMultiClf",
            },
            annotation=([0, 1, 1], [-1, -1, -1]),
            postprocessor=("multiclass_ova", {"sigmoid_alpha": 0.7}),
        )
        assert_model_agrees(model, np.zeros((1, 3)))


POSTPROCESSORS = {
    "identity": {},
    "signed_square": {},
    "hinge": {},
    "sigmoid": {"sigmoid_alpha": 0.3},
    "exponential": {},
    "exponential_standard_ratio": {"ratio_c": 2.5},
    "logarithm_one_plus_exp": {},
}


@pytest.mark.parametrize("name", POSTPROCESSORS)
def test_postprocessors(name):
    model = build(stump("<", 0.5), postprocessor=(name, POSTPROCESSORS[name]), base_scores=[0.25])
    assert assert_model_agrees(model, np.zeros((1, 3))).objective == name


def test_covers():
    nodes = stump("<", 0.5)
    for counts in (True, False):
        model = build(nodes)
        tree = model.get_tree_accessor(0)
        name, dtype = ("data_count", np.uint64) if counts else ("sum_hess", np.float64)
        tree.set_field(name, np.array([5, 2, 3], dtype))
        tree.set_field(f"{name}_present", np.ones(3, np.uint8))
        np.testing.assert_array_equal(glasswood.load(model).ensemble.cover, [5, 2, 3])
    np.testing.assert_array_equal(glasswood.load(build(nodes)).ensemble.cover, [0, 0, 0])


OF_MODEL = {"target_id", "class_id", "postprocessor", "num_class", "num_target", "ratio_c"}


def make_classes():
    X = np.arange(9.0)[:, None]
    return X, X[:, 0] > 4


def edited(**fields):
    model = build(stump("<", 0.5))
    for name, value in fields.items():
        holder = model.get_header_accessor() if name in OF_MODEL else None
        (holder or model.get_tree_accessor(0)).set_field(name, value)
    return model


CORRUPTIONS = {
    "child beyond": ({"cleft": np.array([99, -1, -1], np.int32)}, ValueError, "tree 0 names child 99"),
    "cycle": ({"cleft": np.array([0, -1, -1], np.int32)}, ValueError, "tree 0 reaches node 0 twice"),
    "feature beyond": ({"split_index": np.array([7, -1, -1], np.int32)}, ValueError, "splits on feature 7"),
    "short field": ({"cright": np.array([2, -1], np.int32)}, ValueError, "'cright' does not have one entry per node"),
    "target beyond": ({"target_id": np.array([4], np.int32)}, ValueError, "tree 0 adds to class 0 of target 4"),
    "class beyond": ({"class_id": np.array([4], np.int32)}, ValueError, "tree 0 adds to class 4 of target 0"),
    "NaN leaf": ({"leaf_value": np.array([0, np.nan, 1])}, ValueError, "leaf_value holds NaN"),
    "NaN threshold": ({"threshold": np.array([np.nan, 0, 0])}, ValueError, "threshold of node 0 is NaN"),
    "leaf with children": (
        {"node_type": np.array([0, 0, 0], np.int8)},
        ValueError,
        "node 0 of tree 0 is a leaf by 'node_type' and has children by 'cleft'",
    ),
    "child before": ({"cleft": np.array([1, -2, -1], np.int32)}, ValueError, "node 1 of tree 0 names child -2, exp"),
    "vector of a number": (
        {"leaf_vector_begin": np.array([0, 1, 0], np.uint64), "leaf_vector_end": np.array([0, 2, 0], np.uint64)},
        ValueError,
        "a node has entries of 'leaf_vector' that do not exist",
    ),
    "no vectors' ends": (
        {"leaf_vector_end": np.array([0], np.uint64)},
        ValueError,
        "'leaf_vector_begin' does not have one entry per node",
    ),
    "targets without classes": ({"num_target": np.array([2], np.int32)}, ValueError, "2 targets and the classes of 1"),
    "few targets": ({"target_id": np.array([], np.int32)}, ValueError, "'target_id' has 0 entries for 1 trees"),
    "many classes": ({"num_class": np.array([2**31 - 1], np.int32)}, ValueError, "classes of its targets and not as m"),
    "no classes": ({"num_class": np.array([0], np.int32)}, ValueError, "it has \\[0\\] classes"),
    "no operators": ({"cmp": np.array([], np.int8)}, ValueError, "'cmp' does not have one entry per node"),
    "ratio": (
        {"ratio_c": np.zeros(1, np.float32), "postprocessor": "exponential_standard_ratio"},
        ValueError,
        "the treelite.Model is not valid: 'ratio_c' is 0",
    ),
    "postprocessor": ({"postprocessor": "magic"}, NotImplementedError, "the postprocessor 'magic' is not supported"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_models(name):
    fields, error, message = CORRUPTIONS[name]
    with pytest.raises(error, match=message):
        glasswood.load(edited(**fields))


def test_corrupt_category_lists():
    model = build([(0, *category(1, [2, 5], False, 1, 2, True)), (1, *leaf(1.0)), (2, *leaf(2.0))])
    tree = model.get_tree_accessor(0)
    tree.set_field("category_list", np.array([2, 2**25], np.uint32))
    with pytest.raises(ValueError, match="a split lists category 33554432, expected less than 2\\^24"):
        glasswood.load(model)
    tree.set_field("category_list_end", np.array([7, 7, 7], np.uint64))
    with pytest.raises(ValueError, match="a node has entries of 'category_list' that do not exist"):
        glasswood.load(model)
    for short in ([7, 7], []):
        tree.set_field("category_list_end", np.array(short, np.uint64))
        with pytest.raises(ValueError, match="'category_list_begin' does not have one entry per node"):
            glasswood.load(model)


def test_corrupt_leaf_vectors():
    model = treelite.sklearn.import_model(ensemble.RandomForestClassifier(1, max_depth=1).fit(*make_classes()))
    tree = model.get_tree_accessor(0)
    end = tree.get_field("leaf_vector_end")
    for changed, message in ((end + np.uint64(1), "entries of 'leaf_vector' that do not"), (end[:2], "one entry per")):
        tree.set_field("leaf_vector_end", changed)
        with pytest.raises(ValueError, match=message):
            glasswood.load(model)


def test_postprocessors_of_one_class_are_refused_for_several():
    model = treelite.frontend.from_xgboost(XGBOOST["softprob"]().model)
    assert glasswood.load(model).n_outputs > 1
    for name in set(POSTPROCESSORS) - {"identity", "identity_multiclass", "softmax", "multiclass_ova"}:
        model.get_header_accessor().set_field("postprocessor", name)
        with pytest.raises(NotImplementedError, match=f"applies the postprocessor '{name}' to the first of"):
            glasswood.load(model)


def test_softmax_of_several_targets_is_refused():
    nodes = [(0, *vector([1.0, 2.0, 3.0, 4.0]))]
    model = build(
        nodes,
        metadata={"num_target": 2, "num_class": [2, 2], "leaf_vector_shape": (2, 2), "task_type": "kMultiClf"},
        annotation=([-1], [-1]),
        postprocessor=("softmax", {}),
    )
    with pytest.raises(NotImplementedError, match="softmax of several targets"):
        glasswood.load(model)


def test_other_objects_of_treelite():
    from treelite.model_builder import TreeAnnotation

    with pytest.raises(TypeError, match=r"cannot read a TreeAnnotation of treelite, expected a treelite\.Model"):
        glasswood.load(TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]))


def test_shap_values_are_those_of_the_same_xgboost_model():
    case = XGBOOST["softprob"]()
    values = glasswood.Explainer(case.model, dtype="float64").shap_values(case.rows)
    model = treelite.frontend.from_xgboost(case.model)
    found = glasswood.Explainer(model, dtype="float64").shap_values(case.rows)
    np.testing.assert_allclose(found, values, rtol=0, atol=1e-12)
