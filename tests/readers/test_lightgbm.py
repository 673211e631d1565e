"""The LightGBM reader against LightGBM."""

from __future__ import annotations

import json
import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from tests.oracles import evaluate
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.lightgbm_models import BOOSTERS, COMMON, N_ROWS, adversarial, make_data, train

import glasswood
from glasswood.readers import lightgbm as reader


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.mark.parametrize("name", BOOSTERS)
def test_booster_agrees(name, data):
    booster = train(data, BOOSTERS[name])
    check_booster(booster, data)


def check_booster(booster, data):
    forest = glasswood.load(booster)
    rows = adversarial(forest, data)
    assert_agrees(
        forest,
        rows,
        leaves=booster.predict(rows, pred_leaf=True),
        margins=booster.predict(rows, raw_score=True) / averaged_trees(booster),
        predictions=booster.predict(rows),
        sums="float64",
    )
    assert forest.ensemble.result_dtype == "float64"
    return forest


def averaged_trees(booster):
    """LightGBM's raw scores of random forests are sums, though it averages before the link; glasswood's margins are
    not."""
    kind = booster.params.get("boosting", booster.params.get("boosting_type"))
    return booster.current_iteration() if kind == "rf" else 1


def test_trees_of_one_leaf(data):
    forest = check_booster(train(data, {"min_data_in_leaf": 300}), data)
    assert (np.diff(forest.ensemble.tree_offsets) == 1).all()
    assert forest.ensemble.cover[0] in {N_ROWS, 0}  # versions before 4.4 or so do not count them


def test_covers_are_the_rows_of_the_nodes(data):
    forest = glasswood.load(train(data, {"num_leaves": 31}))
    counts = np.zeros(forest.n_nodes)
    for _, node, rows in evaluate.visits(forest, data[0]):
        counts[node] = len(rows)
    np.testing.assert_array_equal(forest.ensemble.cover, counts)


def noisy(y):
    """A target that training overfits soon, though not at once."""
    return y + np.random.default_rng(0).normal(size=N_ROWS)


def test_best_iteration_ends_predictions(data):
    X, y = data
    held_out = lgb.Dataset(X[::2], noisy(y)[::2])
    stop = lgb.early_stopping(3, verbose=False)
    stopping = {"valid_sets": [held_out], "callbacks": [stop], "keep_training_booster": True}
    booster = train(data, {"learning_rate": 0.5}, n_trees=60, **stopping)
    assert 0 < booster.best_iteration < booster.num_trees()
    forest = check_booster(booster, data)
    assert forest.n_trees == booster.best_iteration


def test_continued_training(data):
    first = train(data, {}, n_trees=5)
    booster = train(data, {"learning_rate": 0.03}, n_trees=4, init_model=first)
    assert check_booster(booster, data).n_trees == 9


def test_zeros_are_missing_where_it_matters(data):
    forest = glasswood.load(train(data, {"zero_as_missing": True}))
    assert forest.ensemble.zero_missing.tolist() == [True, True, False, False, False]
    assert len(reader.read(train(data, {})).zero_missing) == 0


def test_mixed_missing_types_that_do_not_differ(data):
    """A split that sends missing values where 0 goes does not tell zeros from missing values."""
    first = train(data, {"use_missing": False}, n_trees=5)
    booster = train(data, {"zero_as_missing": True}, n_trees=5, init_model=first)
    check_booster(booster, data)


def test_missing_types_that_contradict_each_other_are_refused(data):
    first = train(data, {}, n_trees=20)
    booster = train(data, {"zero_as_missing": True}, n_trees=20, init_model=first)
    with pytest.raises(NotImplementedError, match=r"feature 'Column_\d' takes zeros as missing in some splits"):
        reader.read(booster)


def test_features_of_two_kinds_are_refused(data):
    text = train(data, {}).model_to_string()
    edited = re.sub(r"(decision_type=.*?)\b[19]\b", r"\g<1>2", text, count=1)
    assert edited != text
    with pytest.raises(NotImplementedError, match="'Column_4' is split as a category in some trees and as a number"):
        reader.read(lgb.Booster(model_str=edited))


@pytest.mark.parametrize("missing_type", [0, 1, 2])
def test_missing_categories(missing_type, data):
    """LightGBM ignores the missing type where it tests categories; edited texts prove it."""
    text = train(data, {}).model_to_string()
    edited = re.sub(
        r"decision_type=(.*)",
        lambda line: "decision_type=" + " ".join(_with_missing_type(word, missing_type) for word in line[1].split()),
        text,
    )
    assert check_booster(lgb.Booster(model_str=edited), data).ensemble.is_categorical


@pytest.mark.parametrize("zero", ["0", "-0"])
def test_thresholds_of_zero(zero, data):
    """LightGBM makes thresholds of 1e-35 instead, but reads these: NaN counts as 0 and 0 goes left."""
    text = train(data, {"use_missing": False}).model_to_string()
    edited = re.sub(r"threshold=.*", lambda line: re.sub(r"\S*e-35", zero, line[0]), text)
    assert edited != text
    without_sizes = re.sub(r"tree_sizes=.*\n", "", edited)  # LightGBM aborts on wrong ones
    check_booster(lgb.Booster(model_str=without_sizes), data)


def _with_missing_type(decision, missing_type):
    return str(int(decision) & 3 | missing_type << 2) if int(decision) & 1 else decision


ESTIMATORS = {
    "regressor": (lgb.LGBMRegressor, {}, None),
    "poisson regressor": (lgb.LGBMRegressor, {"objective": "poisson"}, "positive"),
    "two text labels": (lgb.LGBMClassifier, {}, "text"),
    "three integer labels": (lgb.LGBMClassifier, {}, "integers"),
    "one versus all": (lgb.LGBMClassifier, {"objective": "multiclassova"}, "integers"),
    "two labels, multi-class objective": (lgb.LGBMClassifier, {"objective": "multiclass", "num_class": 2}, "text"),
    "two labels, cross entropy": (lgb.LGBMClassifier, {"objective": "cross_entropy"}, "text"),
    "dart classifier": (lgb.LGBMClassifier, {"boosting_type": "dart"}, "text"),
    "forest classifier": (
        lgb.LGBMClassifier,
        {"boosting_type": "rf", "subsample_freq": 1, "subsample": 0.5},
        "integers",
    ),
    "one label": (lgb.LGBMClassifier, {}, "single"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator_agrees(name, data):
    kind, params, target = ESTIMATORS[name]
    X, y = data
    labels = {
        None: y,
        "positive": np.abs(y),
        "text": np.where(y > 0.5, "yes", "no"),
        "integers": np.array([30, 10, 20])[np.digitize(y, [0, 1])],
        "single": np.full(N_ROWS, "same"),
    }
    model = kind(n_estimators=8, **COMMON | params).fit(X, labels[target])
    forest = glasswood.load(model)
    rows = adversarial(forest, data)
    is_classifier = hasattr(model, "predict_proba")
    assert_agrees(
        forest,
        rows,
        leaves=model.predict(rows, pred_leaf=True),
        margins=model.predict(rows, raw_score=True) / averaged_trees(model.booster_),
        predictions=model.predict(rows),
        probabilities=model.predict_proba(rows) if is_classifier else None,
        sums="float64",
    )
    if is_classifier:
        np.testing.assert_array_equal(forest.classes[0], model.classes_)


def test_ranker_agrees(data):
    X, y = data
    model = lgb.LGBMRanker(n_estimators=5, **COMMON).fit(X, np.digitize(y, [0, 1, 2]), group=[N_ROWS // 2] * 2)
    rows = adversarial(forest := glasswood.load(model), data)
    assert_agrees(
        forest, rows, model.predict(rows, pred_leaf=True), model.predict(rows, raw_score=True), model.predict(rows)
    )


def test_classifier_with_an_objective_of_its_own_predicts_margins(data):
    X, y = data

    def logistic(labels, margin):
        p = 1 / (1 + np.exp(-margin))
        return p - labels, p * (1 - p)

    model = lgb.LGBMClassifier(n_estimators=5, objective=logistic, **COMMON).fit(X, y > 0.5)
    forest = glasswood.load(model)
    assert (forest.classes, forest.ensemble.prediction, forest.ensemble.link) == ((), "response", "identity")
    rows = adversarial(forest, data)
    assert_agrees(
        forest, rows, model.predict(rows, pred_leaf=True), model.predict(rows, raw_score=True), sums="float64"
    )


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_early_stopped_estimator_predicts_to_its_best_iteration(data):
    X, y = data
    stop = lgb.early_stopping(3, verbose=False)
    model = lgb.LGBMRegressor(n_estimators=90, learning_rate=0.5, **COMMON)
    model.fit(X, y, eval_set=[(X, noisy(y))], callbacks=[stop])
    assert 0 < model.best_iteration_ < 90
    rows = adversarial(forest := glasswood.load(model), data)
    assert_agrees(forest, rows, model.predict(rows, pred_leaf=True), predictions=model.predict(rows), sums="float64")


def test_labels_of_undecided_rows(data):
    """A margin of 0 is a probability of one half: the first label."""
    X, _ = data
    model = lgb.LGBMClassifier(n_estimators=2, **COMMON).fit(np.ones((N_ROWS, 2)), np.resize(["no", "yes"], N_ROWS))
    forest, rows = glasswood.load(model), X[:5, :2]
    assert (evaluate.margins(forest, rows) == 0).all()
    assert model.predict(rows).tolist() == ["no"] * 5
    if hasattr(forest, "predict"):
        assert forest.predict(rows).tolist() == ["no"] * 5


@pytest.fixture(scope="module")
def frame(data):
    X, _ = data
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "a": X[:, 0],
            "letter": pd.Categorical(rng.choice(list("xyz"), N_ROWS), categories=list("zyxw")),
            "two words": X[:, 1],
            "rank": pd.Categorical(rng.choice([10, 20, 30], N_ROWS), ordered=True),
            "flag": pd.Categorical(rng.choice([True, False], N_ROWS)),
            "constant": pd.Categorical(["only"] * N_ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame_model(frame, data):
    effects = frame["letter"].cat.codes + frame["rank"].astype(float) / 10 + 2.0 * frame["flag"].cat.codes
    target = np.nan_to_num(data[1]) + effects
    return lgb.train(COMMON, lgb.Dataset(frame, target), 20)


def test_category_tables_of_frames(frame, frame_model):
    forest = glasswood.load(frame_model)
    tables = [None if table is None else table.tolist() for table in forest.ensemble.categories]
    assert tables == [None, ["z", "y", "x", "w"], None, [10, 20, 30], [False, True], ["only"]]
    assert forest.feature_names == ("a", "letter", "two_words", "rank", "flag", "constant")
    codes = np.column_stack([column.cat.codes if column.dtype == "category" else column for _, column in frame.items()])
    rows = adversarial_rows(forest, codes.astype(float), max_rows=6000)
    assert_agrees(
        forest,
        rows,
        frame_model.predict(rows, pred_leaf=True),
        frame_model.predict(rows, raw_score=True),
        sums="float64",
    )


def test_frames_with_other_categories(frame, frame_model):
    """Reordered, unused, unseen and missing categories go where LightGBM sends them."""
    forest = glasswood.load(frame_model)
    other = frame.copy()
    other["letter"] = pd.Categorical(np.resize(["x", "new", "z", None], N_ROWS), categories=["new", "x", "z"])
    other["rank"] = pd.Categorical(np.resize([30, 40, 10], N_ROWS), categories=[40, 30, 10], ordered=True)
    np.testing.assert_array_equal(forest.predict(other, output="leaf"), frame_model.predict(other, pred_leaf=True))


def test_odd_column_names(data):
    X, y = data
    names = ["a=b", "no\u00a0break", "line\u2028separator", "Tree=0", "\u3000"]
    booster = lgb.train(COMMON, lgb.Dataset(pd.DataFrame(X, columns=names), y), 2)
    assert reader.read(booster).feature_names == tuple(booster.feature_name()) == tuple(names)


def test_file_predicts_as_its_booster(frame_model, tmp_path):
    path = tmp_path / "model.txt"
    frame_model.save_model(path)
    forest, live = glasswood.load(path), glasswood.load(frame_model)
    for name in ("feature", "threshold", "left", "leaf_value", "cover", "set_words"):
        np.testing.assert_array_equal(getattr(forest.ensemble, name), getattr(live.ensemble, name))
    assert forest.ensemble.categories[1].tolist() == ["z", "y", "x", "w"]


def _with_tables(text, tables, infos):
    text = re.sub(r"pandas_categorical:.*", f"pandas_categorical:{json.dumps(tables)}", text)
    return re.sub(r"feature_infos=.*", f"feature_infos={' '.join(infos)}", text)


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        (["-1:0:1", "[0:1]", "none", "[-2:3.5]", "-1:2:0"], [[0, 1, 2], [1, 2, 4]]),
        (["[0:2]", "-1:0:2", "none", "-1:4:0", "[-2:3.5]"], [[0, 1], [2]]),
        (["[0:3]", "[0.5:1]", "[0:2]", "[0:1]", "[1:3]"], [2, 3]),
    ],
)
def test_tables_find_their_features(infos, expected, data, tmp_path):
    path = tmp_path / "model.txt"
    tables = [["a", "b", "c"], ["d", "e"]]
    text = train(data, {}).model_to_string()
    path.write_text(_with_tables(text, tables if infos[0][0] == "[" else tables[::-1], infos))
    forest = reader.read_file(path)
    if isinstance(expected[0], int):
        assert [i for i, table in enumerate(forest.categories) if table is not None] == expected
    else:
        assert [np.flatnonzero(places).tolist() for places in forest.table_places] == expected


def test_tables_without_a_place(data, tmp_path):
    path, text = tmp_path / "model.txt", train(data, {}).model_to_string()
    path.write_text(_with_tables(text, [["a", "b"]], ["[0:1]", "[0:1]", "[0:9]", "[0:9]", "-1:7"]))
    assert reader.read_file(path).table_places.tolist() == [[True, True, False, False, False]]
    path.write_text(_with_tables(text, [["a", "b"]], ["[0:5]"] * 5))
    with pytest.raises(ValueError, match="pandas_categorical does not fit the features"):
        reader.read_file(path)
    path.write_text(_with_tables(text, [["a", None]], ["-1:0:1"] + ["[0:5]"] * 4))
    with pytest.raises(NotImplementedError, match="a table of NoneType, str"):
        reader.read_file(path)


def test_unfitted_and_foreign_objects():
    with pytest.raises(NotFittedError):
        reader.read(lgb.LGBMRegressor())
    with pytest.raises(TypeError, match=r"got list, expected lightgbm\.Booster"):
        reader.read([])
