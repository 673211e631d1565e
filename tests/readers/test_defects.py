"""Defects of the borders by their number in the review of 3bef39f2: another number without a word, each of its kind."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import warnings
from pathlib import Path

import catboost
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse
import xgboost
from onnx import TensorProto, helper
from quantile_forest import RandomForestQuantileRegressor
from sklearn import ensemble, tree
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction import DictVectorizer
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

import glasswood

OLD = Path(__file__).parent / "data" / "old"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = np.abs(X[:, 0] * 2 + X[:, 1])
LABELS = np.digitize(X[:, 0] * 2 + X[:, 1], [-1, 1])


class LogForest(ensemble.RandomForestRegressor):
    def fit(self, X, y):
        return super().fit(X, np.log1p(y))

    def predict(self, X):
        return np.expm1(super().predict(X))


class Cents(xgboost.XGBRegressor):
    def predict(self, X, **options):
        return 100 * super().predict(X, **options)


class Clipped:
    def predict(self, X):
        return np.maximum(super().predict(X), 1.0)


class ClippedTree(Clipped, tree.DecisionTreeRegressor):
    pass


class Certain(ensemble.RandomForestClassifier):
    def predict_proba(self, X):
        return np.round(super().predict_proba(X))


class Plain(ensemble.RandomForestRegressor):
    """What a derived class may well have."""

    def fit(self, X, y):
        return super().fit(X, np.log1p(y))

    def predict_interval(self, X):
        return np.quantile([one.predict(X) for one in self.estimators_], [0.1, 0.9], axis=0)


OWN = {
    "predict": LogForest(3, max_depth=3, random_state=0),
    "of another library": Cents(n_estimators=3, n_jobs=1),
    "of a class beside it": ClippedTree(max_depth=3),
    "predict_proba": Certain(3, max_depth=2),
    "a member of a bag": ensemble.BaggingRegressor(ClippedTree(max_depth=3), 3),
    "a member of a vote": ensemble.VotingRegressor([("a", LogForest(3)), ("b", tree.DecisionTreeRegressor())]),
    "the last step of a pipeline": make_pipeline(StandardScaler(), LogForest(3)),
}


@pytest.mark.parametrize("name", OWN)
def test_d6_classes_with_a_predict_of_their_own_are_refused(name):
    model = OWN[name].fit(X, LABELS if hasattr(OWN[name], "predict_proba") else Y)
    with pytest.raises(NotImplementedError, match=r"has a method predict(_proba)? of its own"):
        glasswood.load(model)


def test_d6_an_object_with_a_predict_of_its_own_is_refused():
    model = tree.DecisionTreeRegressor(max_depth=2).fit(X, Y)
    model.predict = lambda rows: np.zeros(len(rows))
    with pytest.raises(NotImplementedError, match=r"predict of its own \(the object itself\)"):
        glasswood.load(model)


def test_d6_classes_that_predict_as_their_base_are_read():
    model = Plain(3, max_depth=3, random_state=0).fit(X, Y)
    np.testing.assert_allclose(glasswood.load(model).predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [ensemble.VotingRegressor, ensemble.BaggingRegressor])
def test_d6_joined_quantile_forests_are_refused(kind):
    member = RandomForestQuantileRegressor(4, min_samples_leaf=5, random_state=0)
    given = [("a", member), ("b", tree.DecisionTreeRegressor())] if kind is ensemble.VotingRegressor else member
    with pytest.raises(NotImplementedError, match=r"averages what RandomForestQuantileRegressor\.predict returns"):
        glasswood.load(kind(given).fit(X, Y))


@pytest.mark.parametrize(
    "member", [tree.DecisionTreeClassifier(max_depth=3), xgboost.XGBRegressor(n_estimators=2, objective="binary:hinge")]
)
def test_d6_means_of_labels_are_refused(member):
    with pytest.raises(NotImplementedError, match="a mean of labels is no sum of trees"):
        glasswood.load(ensemble.BaggingRegressor(member, 3).fit(X, Y > 1))


MEMBERS = {
    "forest": lambda: ensemble.RandomForestRegressor(5, max_depth=4, random_state=0),
    "boosted": lambda: ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1),
}
PAIRS = [("forest", "xgboost"), ("xgboost", "forest"), ("boosted", "xgboost")]


def joined(pair):
    return ensemble.VotingRegressor([(name, MEMBERS[name]()) for name in pair])


@pytest.fixture(scope="module")
def sparse():
    rows = scipy.sparse.random(300, 6, 0.4, format="csr", random_state=1)
    rows.data = np.abs(rows.data) + 0.1
    rows.data[::17] = 0.0  # a zero that is stored is none that is not
    return rows, np.asarray(rows.sum(1)).ravel()


@pytest.mark.parametrize("pair", PAIRS)
def test_d3_sparse_rows_mean_to_each_member_what_they_do_alone(pair, sparse, tmp_path):
    rows, y = sparse
    model = joined(pair).fit(rows, y)
    forest = glasswood.load(model)
    np.testing.assert_allclose(forest.predict(rows), model.predict(rows), atol=1e-6)
    np.testing.assert_allclose(forest.predict(rows.toarray()), model.predict(rows.toarray()), atol=1e-6)
    explainer = glasswood.Explainer(model, dtype="float64")
    total = explainer.shap_values(rows).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(rows), atol=1e-6)
    forest.save(tmp_path / "m.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "m.glasswood").predict(rows), forest.predict(rows))
    rows = rows.copy()
    rows.data[0] = np.nan
    with pytest.raises(NotImplementedError, match="X stores NaN, and the model's estimators do not agree"):
        forest.predict(rows)


@pytest.mark.parametrize("pair", PAIRS)
def test_d3_pipelines_whose_encoder_makes_sparse_rows(pair):
    names = RNG.choice(list("abcdefgh"), 300), RNG.choice(list("uvw"), 300)
    frame = pd.DataFrame({"city": names[0], "kind": names[1], "x": X[:, 0]})
    y = (frame.city == "a") * 2.0 + (frame.kind == "u") + frame.x * 0.1
    encoder = make_column_transformer((OneHotEncoder(), ["city", "kind"]), remainder="passthrough", sparse_threshold=1)
    model = make_pipeline(encoder, joined(pair)).fit(frame, y)
    np.testing.assert_allclose(glasswood.load(model).predict(frame), model.predict(frame), atol=1e-6)
    for options in ({}, {"groups": "source"}, {"groups": "source", "background": frame[:20]}):
        explainer = glasswood.Explainer(model, dtype="float64", **options)
        total = explainer.shap_values(frame).sum(axis=1) + explainer.expected_value
        np.testing.assert_allclose(total, model.predict(frame), atol=1e-6)
    with pytest.raises(NotImplementedError, match="leave NaN in sparse rows"):
        glasswood.load(model).predict(frame.assign(x=np.nan))


def test_d3_dense_rows_are_asked_for_where_steps_of_other_kinds_make_sparse_ones():
    rows = [{"a": float(x > 0), "b": float(y)} for x, y, _ in X]
    model = make_pipeline(DictVectorizer(), joined(PAIRS[0])).fit(rows, Y)
    np.testing.assert_allclose(glasswood.load(model).predict(rows), model.predict(rows), atol=1e-6)
    with pytest.raises(NotImplementedError, match="do not agree on entries that sparse rows do not store"):
        glasswood.Explainer(model, background=rows[:5])


def shapley(predict, row, background):
    """Shapley values of a row's columns by their definition."""
    n = len(row)
    coalitions = [s for k in range(n + 1) for s in itertools.combinations(range(n), k)]
    value = {s: np.mean(predict(np.where(np.isin(np.arange(n), s), row, background))) for s in coalitions}
    weight = [math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n) for k in range(n)]
    return [
        sum(weight[len(s)] * (value[tuple(sorted({*s, j}))] - value[s]) for s in coalitions if j not in s)
        for j in range(n)
    ]


class Reversed(StandardScaler):
    def transform(self, X):
        return super().transform(X)[:, ::-1]


MIXING = {
    "neighbours": [KNNImputer()],
    "iterative": [IterativeImputer(random_state=0)],
    "lengths": [SimpleImputer(), Normalizer()],
    "another order": [SimpleImputer(), FunctionTransformer(lambda Z: Z[:, ::-1])],
    "sums": [SimpleImputer(), FunctionTransformer(np.cumsum, kw_args={"axis": 1})],
    "a class of one's own": [SimpleImputer(), Reversed()],
}
COLUMN_BY_COLUMN = {
    "scaled": [SimpleImputer(), StandardScaler()],
    "a function of each number": [SimpleImputer(), FunctionTransformer(np.tanh)],
}


@pytest.fixture(scope="module")
def incomplete():
    rows = X.copy()
    rows[:, 2] += rows[:, 0]
    rows[::4, 0] = np.nan
    return rows, X[:, 0] * 1.5 + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("name", MIXING)
def test_d4_steps_that_mix_columns_join_them(name, incomplete):
    rows, y = incomplete
    model = make_pipeline(*MIXING[name], ensemble.RandomForestRegressor(5, max_depth=5, random_state=0)).fit(rows, y)
    explainer = glasswood.Explainer(model, background=rows[1:6], groups="source", dtype="float64")
    assert explainer.players == ("x0 + x1 + x2",)
    # no feature shows the value of the column in its place
    shown = glasswood.Explainer(model)(rows[8:12]).data
    np.testing.assert_array_equal(shown.astype(float), model[:-1].transform(rows[8:12]))


@pytest.mark.parametrize("name", COLUMN_BY_COLUMN)
def test_d4_steps_that_do_not_mix_columns_keep_them(name, incomplete):
    rows, y = incomplete
    steps = COLUMN_BY_COLUMN[name]
    model = make_pipeline(*steps, ensemble.RandomForestRegressor(5, max_depth=5, random_state=0)).fit(rows, y)
    explainer = glasswood.Explainer(model, background=rows[1:6], groups="source", dtype="float64")
    expected = [shapley(model.predict, row, rows[1:6]) for row in rows[8:12]]
    np.testing.assert_allclose(explainer.shap_values(rows[8:12]), expected, atol=1e-10)


LOSSES = {"Logloss": LABELS > 0, "MultiClass": LABELS, "MultiClassOneVsAll": LABELS}


@pytest.mark.parametrize("loss", LOSSES)
def test_d7_a_catboost_regressor_of_a_classifiers_file_predicts_margins(loss, tmp_path):
    options = {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    classifier = catboost.CatBoostClassifier(loss_function=loss, **options).fit(X, LOSSES[loss].astype(int))
    classifier.save_model(tmp_path / "m.cbm")
    model = catboost.CatBoostRegressor().load_model(tmp_path / "m.cbm")
    np.testing.assert_allclose(glasswood.load(model).predict(X), model.predict(X), atol=1e-12)


def as_before_1_4(model):
    """Let a fitted classifier hold what pickles of scikit-learn before 1.4 hold: weights of classes."""
    for member in getattr(model, "estimators_", [model]):
        weight = member.tree_.weighted_n_node_samples[:, None, None]
        member.tree_.value[:] = member.tree_.value * weight
    return model


OF_CLASSES = {
    "tree": tree.DecisionTreeClassifier(max_depth=4, min_samples_leaf=5),
    "forest": ensemble.RandomForestClassifier(4, max_depth=4, random_state=0),
    "weighted": ensemble.ExtraTreesClassifier(4, max_depth=4, class_weight={0: 1.0, 1: 3.0, 2: 0.5}, random_state=0),
    "bag": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), 3, random_state=0),
}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_d8_pickles_before_scikit_learn_1_4(name):
    model = OF_CLASSES[name].fit(X, LABELS)
    expected, labels = model.predict_proba(X), model.predict(X)
    forest = glasswood.load(as_before_1_4(model))
    np.testing.assert_allclose(forest.predict(X, output="probability"), expected, atol=1e-12)
    np.testing.assert_array_equal(forest.predict(X), labels)


@pytest.mark.parametrize("name", ["lightgbm_2.2.2_forest_binary.txt", "lightgbm_2.2.2_forest_multiclass.txt"])
def test_random_forests_of_lightgbm_up_to_2_2_2(name):
    expected = json.loads((OLD / "predictions.json").read_text())[name]
    rows = np.random.default_rng(0).normal(size=(400, 3))[:5]
    with pytest.warns(UserWarning, match=r"read as responses .*, which LightGBM up to 2\.2\.2 wrote"):
        forest = glasswood.load(OLD / name)
    np.testing.assert_allclose(forest.predict(rows), expected, atol=1e-12)
    later = name.replace("2.2.2", "2.2.3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forest = glasswood.load(OLD / later)
    np.testing.assert_allclose(
        forest.predict(rows), json.loads((OLD / "predictions.json").read_text())[later], atol=1e-12
    )


def test_random_forests_of_lightgbm_whose_leaves_may_be_either():
    with pytest.raises(NotImplementedError, match=r"up to 2\.2\.2 wrote responses into its leaves, 2\.2\.3 margins"):
        glasswood.load(OLD / "lightgbm_2.2.2_forest_poisson.txt")


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.2.1", [0.10348958, 0.10348958, -1.2577708]), ("1.3.3", [0.80001295, 0.80001295, -0.37923068])],
)
def test_raw_logits_of_xgboost_by_version(version, expected):
    rows = np.random.default_rng(0).normal(size=(200, 2))[:3].astype(np.float32)
    forest = glasswood.load(OLD / f"xgboost_{version}_logitraw.json")
    np.testing.assert_allclose(forest.predict(rows), expected, rtol=1e-6)


STUMP = {
    "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3, "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip


def classifier(nodes, ids, weights, transform, n_classes=2):
    labels = list(range(n_classes))
    about = {"class_treeids": [0] * len(ids), "class_nodeids": nodes, "class_ids": ids, "class_weights": weights}
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "score"], domain="ai.onnx.ml", classlabels_int64s=labels,
        post_transform=transform, **about, **STUMP,
    )  # fmt: skip
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, None),
        helper.make_tensor_value_info("score", TensorProto.FLOAT, None),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "g", given, outputs), opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("weights", [[0.3, 0.6], [-0.3, 0.6], [-0.3, -0.6]])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("ids", [[0, 1], [1, 0], [1, 1], [0, 1, 0, 1]])
def test_d9_classes_that_not_all_leaves_name(ids, n_classes, weights, transform):
    nodes = [1, 2] if len(ids) == 2 else [1, 1, 2, 2]
    model = classifier(nodes, ids, weights * (len(ids) // 2), transform, n_classes)
    rows = np.array([[-1.0], [1.0]], np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, scores = session.run(None, {"x": rows})
    is_whole = len(ids) == 4 and n_classes == 2
    with contextlib.nullcontext() if is_whole else contextlib.suppress(NotImplementedError):
        forest = glasswood.load(model)
        np.testing.assert_array_equal(forest.predict(rows), labels)
        np.testing.assert_allclose(forest.predict(rows, output="probability"), scores, atol=1e-6)


def test_d9_probit_of_one_score_is_refused():
    with pytest.raises(NotImplementedError, match="PROBIT of two classes with one score"):
        glasswood.load(classifier([1, 2], [0, 0], [0.3, 0.6], "PROBIT"))


def test_frozen_estimators_are_read_as_what_they_hold():
    frozen = pytest.importorskip("sklearn.frozen")
    model = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, LABELS)
    forest = glasswood.load(frozen.FrozenEstimator(model))
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    assert forest.checked.rows > 0


@pytest.mark.parametrize(
    ("name", "options"), [("FixedThresholdClassifier", {"threshold": 0.3}), ("TunedThresholdClassifierCV", {})]
)
def test_thresholds_of_labels_are_read(name, options):
    kind = getattr(pytest.importorskip("sklearn.model_selection"), name, None) or pytest.skip("scikit-learn before 1.5")
    member = ensemble.RandomForestClassifier(5, max_depth=3, random_state=0)
    model = kind(member, **options)
    with pytest.raises(NotFittedError):
        glasswood.load(model)
    model.fit(X, LABELS > 0)
    forest = glasswood.load(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    assert forest.checked.rows > 0


def test_frames_with_two_levels_of_columns():
    frame = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("may", "pay"), ("may", "tax"), ("june", 1)]))
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(frame, Y)
    forest = glasswood.load(model)
    np.testing.assert_allclose(forest.predict(frame), model.predict(frame), rtol=1e-6)
    np.testing.assert_allclose(forest.predict(frame.iloc[:, ::-1]), model.predict(frame), rtol=1e-6)
