"""LightGBM's texts without a version, and its dumps; tests/readers/test_versions.py has real files of both."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import lightgbm
import numpy as np
import pytest

import glasswood
from glasswood.readers.lightgbm.objective import ALIASES

DATA = Path(__file__).parent / "data" / "versions"
OLD = (DATA / "lightgbm-2.0.10-squared.txt").read_text()
DUMP = json.loads((DATA / "lightgbm-3.3.5-sets.json").read_text())


def load(tmp_path, content):
    path = tmp_path / ("model.txt" if isinstance(content, str) else "model.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return glasswood.load(path)


def test_texts_without_a_version_are_whole_up_to_the_importances(tmp_path):
    assert load(tmp_path, OLD).source == "LightGBM (format of 2017)"
    end = OLD.index("\nfeature importances:")
    assert load(tmp_path, OLD[: end + 22]).n_trees == 3
    for length in (end, end - 40, OLD.index("Tree=2"), end + 5):
        with pytest.raises(ValueError, match="truncated"):
            load(tmp_path, OLD[:length])
    with pytest.raises(ValueError, match="block is missing or out of place"):
        load(tmp_path, OLD[: OLD.index("Tree=1")] + OLD[OLD.index("Tree=2") :])


def test_texts_without_a_version_that_meant_something_else_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="of early 2017, whose missing values go other ways"):
        load(tmp_path, OLD.replace("num_cat=0", "default_value=0\nhas_categorical=0"))
    with pytest.raises(NotImplementedError, match=r"'poisson' predicted other numbers before 2\.0\.6"):
        load(tmp_path, OLD.replace("objective=regression", "objective=poisson"))
    new = (DATA / "lightgbm-4.0.0-binary.txt").read_text()
    with pytest.raises(ValueError, match="the format version is None"):
        load(tmp_path, new.replace("version=v4\n", ""))


PARAMETERS = {
    "linear": {"linear_tree": True},
    "linear of counts": {"linear_tree": True, "objective": "poisson"},
    "one leaf": {"min_data_in_leaf": 1000},
    "random forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "classes": {"objective": "multiclassova", "num_class": 3},
    "no zeros": {"zero_as_missing": True},
    "root": {"reg_sqrt": True},
    "categories": {"categorical_feature": [3], "max_cat_to_onehot": 1, "cat_smooth": 1},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_dumps_are_the_texts(tmp_path, name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 3] = rng.integers(0, 50, 300)
    y = np.abs(X[:, 0] + X[:, 3] % 7)
    y = np.digitize(y, [2, 4]) if name == "classes" else y
    X[rng.random(300) < 0.1, 1] = np.nan
    given = dict(PARAMETERS[name])
    categories = given.pop("categorical_feature", "auto")
    options = {"num_leaves": 7, "verbose": -1, "min_data_per_group": 1, "num_threads": 1} | given
    model = lightgbm.train(options, lightgbm.Dataset(X, y, categorical_feature=categories), 4)
    text, dump = load(tmp_path, model.model_to_string()), load(tmp_path, model.dump_model())
    rows = np.concatenate([X, rng.integers(-3, 70, (99, 4)) * 1.0])
    for output in ("margin", "prediction", "leaf"):
        np.testing.assert_array_equal(text.predict(rows, output), dump.predict(rows, output))
    np.testing.assert_array_equal(text.ensemble.cover, dump.ensemble.cover)
    assert dump.source == text.source


def test_dumps_of_frames_have_their_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a b": np.arange(90.0), "city": pandas.Categorical(["x", "y", "z"] * 30)})
    model = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=2, verbose=-1).fit(frame, [1, 5, 2] * 30).booster_
    np.testing.assert_array_equal(
        glasswood.load(load(tmp_path, model.dump_model()), columns="position").predict(frame), model.predict(frame)
    )


def edit(*path, value):
    def change(dump):
        *most, last = path
        for key in most:
            dump = dump[key]
        dump[last] = value

    return change


ROOT = ("tree_info", 0, "tree_structure")
DAMAGED = {
    "a leaf less": (edit("tree_info", 0, "num_leaves", value=9), "tree 0: it declares 9 leaves and holds 4"),
    "a split twice": (edit(*ROOT, "split_index", value=1), "tree 0: 'split_index' 1 is there twice"),
    "a hole": (edit(*ROOT, "split_index", value=7), "tree 0: 'split_index' does not count from 0"),
    "no child": (edit(*ROOT, "left_child", value=None), "tree 0: a node is a NoneType"),
    "another test": (edit(*ROOT, "decision_type", value=">"), "tree 0: a split has decision_type '>'"),
    "text for a number": (edit(*ROOT, "threshold", value="x"), "tree 0: .*expected a number|'x' stands where"),
    "no names": (edit("feature_names", value=[1]), "'feature_names' holds something other than texts"),
    "a name with a space": (edit("feature_names", 0, value="a b"), "holds a space"),
    "no trees": (edit("tree_info", value=[]), "the model holds no trees"),
    "trees that are none": (edit("tree_info", value=[3]), "tree 0 is a int, expected an object"),
    "another version": (edit("version", value="v9"), "format version is 'v9'"),
    "tables that are none": (edit("pandas_categorical", value=[3]), "'pandas_categorical' holds no list of lists"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_dumps_are_refused(tmp_path, name):
    change, message = DAMAGED[name]
    dump = copy.deepcopy(DUMP)
    change(dump)
    with pytest.raises(ValueError, match=rf"cannot read .*model\.json as a dump of LightGBM: .*({message})"):
        load(tmp_path, dump)


def test_dumps_without_an_objective_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match=r"model\.json: a dump of LightGBM before 2\.2 lacks the objective"):
        load(tmp_path, {key: value for key, value in DUMP.items() if key != "average_output"})


NEEDED = {"multiclass": {"num_class": 3}, "multiclassova": {"num_class": 3}, "rank_xendcg": {"max_position": 5}}


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_other_names_of_objectives(tmp_path, name):
    """LightGBM takes each in training, and versions differ in which one they write."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    labels = np.digitize(X[:, 0], [-0.5, 0.5]) if name in NEEDED else (X[:, 0] > 0) * 1.0
    options = {"verbose": -1, "num_leaves": 4} | NEEDED.get(name, {})
    group = [20] * 10 if name == "rank_xendcg" else None
    for alias in (name, *ALIASES[name]):
        objective = (lambda margin, data: (margin - data.get_label(), np.ones(200))) if name == "custom" else alias
        booster = lightgbm.train(options | {"objective": objective}, lightgbm.Dataset(X, labels, group=group), 2)
        expected = booster.predict(X)
        assert glasswood.load(booster).checked.rows
        written = booster.model_to_string()
        assert (f"objective={name}" in written) == (name != "custom")
        said = f"objective={alias}"
        old, new = (f"objective={name}", said) if name != "custom" else ("feature_names=", f"{said}\nfeature_names=")
        text = written.replace(old, new, 1)
        np.testing.assert_allclose(load(tmp_path, text).predict(X), expected, rtol=1e-12)
