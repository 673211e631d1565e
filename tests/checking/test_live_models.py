"""`glasswood.load` compares what it read from a live model with the model's own predictions."""

from __future__ import annotations

import dataclasses
import gc
import os
import pickle
import subprocess
import sys
import weakref

import catboost
import imodels
import lightgbm
import numpy as np
import onnx
import pandas as pd
import pytest
import xgboost
from sklearn import ensemble, tree
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import glasswood
from glasswood import loading
from glasswood.checking import answers, comparison, rows
from glasswood.model.facts import forest_facts

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = X[:, 0] * 2 + X[:, 1] * X[:, 2]
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-1, 1])]
FRAME = pd.DataFrame(X, columns=list("pqrs")).assign(city=pd.Categorical(RNG.choice(["Rome", "Oslo", "Lima"], 300)))
CITY = Y + 3 * (FRAME["city"] == "Rome") - 2 * (FRAME["city"] == "Oslo")
CATEGORICAL = {"iterations": 5, "depth": 3, "verbose": 0, "allow_writing_files": False, "cat_features": ["city"]}


@pytest.fixture(autouse=True)
def _forget():
    comparison.forget()


def codes(labels):
    return np.unique(labels, return_inverse=True)[1]


def made():
    """Models of several libraries, objectives and kinds of rows, by name."""
    forest = ensemble.RandomForestRegressor(5, max_depth=4, random_state=0, n_jobs=2)
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(FRAME, CITY, enable_categorical=True), 5)
    return {
        "xgboost": xgboost.XGBRegressor(n_estimators=5).fit(X, Y),
        "xgboost, classes": xgboost.XGBClassifier(n_estimators=5).fit(X, codes(LABELS)),
        "xgboost, a marker": xgboost.XGBRegressor(n_estimators=5, missing=-1).fit(X, Y),
        "xgboost, categories": booster,
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(FRAME, Y),
        "lightgbm, a forest": lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=4, subsample=0.6, subsample_freq=1, verbose=-1
        ).fit(X, LABELS),
        "lightgbm, two classes": lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, Y > 0),
        "lightgbm, poisson": lightgbm.LGBMRegressor(n_estimators=5, objective="poisson", verbose=-1).fit(X, Y**2),
        "catboost": catboost.CatBoostClassifier(iterations=5, depth=3, verbose=0, allow_writing_files=False).fit(
            X, LABELS
        ),
        "catboost, categories": catboost.CatBoostRegressor(**CATEGORICAL).fit(FRAME.astype({"city": str}), Y),
        "forest": forest.fit(X, Y),
        "forest, classes": ensemble.ExtraTreesClassifier(5, random_state=0).fit(FRAME[list("pqrs")], LABELS),
        "several outputs": tree.DecisionTreeClassifier(max_depth=4).fit(X, np.stack([LABELS, X[:, 0] > 0], axis=1)),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=5).fit(X, LABELS),
        "histograms": ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(
            FRAME, LABELS
        ),
        "isolation": ensemble.IsolationForest(n_estimators=5).fit(X),
        "votes": ensemble.AdaBoostClassifier(n_estimators=5).fit(X, LABELS),
        "sums of trees": imodels.FIGSClassifier(max_rules=4, random_state=0).fit(X, codes(Y > 0)),
        "pipeline": make_pipeline(StandardScaler(), tree.DecisionTreeRegressor(max_depth=4)).fit(X, Y),
        "search": GridSearchCV(forest, {"max_depth": [2, 3]}, cv=2).fit(X, Y),
        "mean": ensemble.VotingRegressor([("a", forest), ("b", xgboost.XGBRegressor(n_estimators=3))]).fit(X, Y),
    }


@pytest.fixture(scope="module")
def models():
    return made()


NAMES = (
    "xgboost", "xgboost, classes", "xgboost, a marker", "xgboost, categories", "lightgbm", "lightgbm, a forest",
    "lightgbm, two classes", "lightgbm, poisson", "catboost", "catboost, categories", "forest", "forest, classes",
    "several outputs", "boosting", "histograms", "isolation", "votes", "sums of trees", "pipeline", "search", "mean",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_live_models_are_compared(name, models):
    checked = glasswood.load(models[name]).checked
    assert checked.rows >= rows.N_ROWS
    assert checked.difference < 1e-4
    assert not checked.unchecked or "hashes" in checked.unchecked[0]


def spoilt(trees, field):
    """The same forest, in which something is read wrongly."""
    changes = {
        "threshold": {"threshold": np.where(trees.feature >= 0, trees.threshold + trees.threshold.dtype.type(0.3), 0)},
        "sides of missing values": {"default_left": ~trees.default_left & (trees.feature >= 0)},
        "leaves": {"leaf_value": trees.leaf_value * 1.001},
        "base score": {"base_score": trees.base_score + 0.01},
        "link": {"link": "exponential" if trees.classes else "exp"},
        "labels": {"classes": tuple(labels[::-1] for labels in trees.classes)},
        "categories": {"categories": tuple(None if t is None else t[::-1] for t in trees.categories or ())},
    }
    return dataclasses.replace(trees, **changes[field])


SPOILT = [
    ("xgboost", "threshold"), ("xgboost", "sides of missing values"), ("xgboost, categories", "categories"),
    ("lightgbm", "categories"), ("lightgbm, poisson", "leaves"), ("catboost", "base score"), ("forest", "leaves"),
    ("forest, classes", "labels"), ("boosting", "threshold"), ("histograms", "categories"), ("isolation", "leaves"),
    ("pipeline", "threshold"), ("mean", "leaves"), ("forest", "link"),
    ("xgboost, classes", "link"), ("lightgbm, two classes", "link"), ("catboost", "link"), ("sums of trees", "link"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "field"), SPOILT)
def test_what_is_read_wrongly_is_an_error(name, field, models, monkeypatch):
    read = loading.read_model
    monkeypatch.setattr(loading, "read_model", lambda *given: spoilt(read(*given), field))
    with pytest.raises(ValueError, match=r"disagree on the \w+ of row \d+ .*instead of .*; do not use this forest"):
        glasswood.load(models[name])
    assert glasswood.load(models[name], check=False).checked is None


def test_everything_that_takes_a_live_model_compares_it(models, monkeypatch):
    read = loading.read_model
    monkeypatch.setattr(loading, "read_model", lambda *given: spoilt(read(*given), "leaves"))
    for take in (glasswood.Explainer, glasswood.TreeExplainer, glasswood.export_text):
        with pytest.raises(ValueError, match="do not use this forest"):
            take(models["forest"])
    with pytest.raises(ValueError, match="do not use this forest"):
        glasswood.effects(models["forest"], X)


def test_a_model_is_compared_once_and_again_when_it_has_changed(monkeypatch):
    asked = []
    of_sklearn = answers.ASKED["sklearn"]
    monkeypatch.setitem(answers.ASKED, "sklearn", lambda *given: asked.append(1) or of_sklearn(*given))
    model = ensemble.RandomForestRegressor(3, max_depth=3).fit(X, Y)
    first, second = glasswood.load(model), glasswood.Explainer(model)
    assert first.checked == second.game.forest.checked
    assert len(asked) == 1
    glasswood.load(model.fit(X, Y**2))
    assert len(asked) == 2


def test_a_model_is_not_kept_alive():
    model = ensemble.RandomForestRegressor(3, max_depth=3).fit(X, Y)
    glasswood.load(model)
    alive, key = weakref.ref(model), id(model)
    assert key in comparison._seen
    del model
    gc.collect()
    assert alive() is None
    assert key not in comparison._seen


def test_files_and_forests_are_not_compared(models, tmp_path):
    models["xgboost"].save_model(tmp_path / "m.json")
    forest = glasswood.load(tmp_path / "m.json")
    assert forest.checked is None
    assert glasswood.load(forest).checked is None
    assert forest_facts(forest.ensemble)["checked"] == "no, a file or check=False"


def test_what_was_compared_is_saved_and_shown(models, tmp_path):
    forest = glasswood.load(models["catboost, categories"])
    forest.save(tmp_path / "m.glasswood")
    again = glasswood.load(tmp_path / "m.glasswood")
    assert again.checked == forest.checked
    shown = forest_facts(again.ensemble)["checked"]
    assert shown.startswith("64 rows as the library, differing by at most ")
    assert "not: categories that training knew, of which CatBoost keeps hashes" in shown


def test_rows_that_a_library_refuses_are_named(models, monkeypatch):
    def refuse(*_given):
        raise RuntimeError("no rows today\nand more")

    monkeypatch.setitem(answers.ASKED, "sklearn", refuse)
    checked = glasswood.load(models["forest"]).checked
    assert checked == (0, 0.0, ("rows, which the library refuses: RuntimeError: no rows today",))


def test_check_compares_given_rows_alone(models):
    forest = glasswood.load(models["forest"], check=X)
    assert forest.checked is None or forest.checked.rows == len(X)


def test_onnx_is_compared_by_onnxruntime(models, tmp_path):
    pytest.importorskip("onnxruntime")
    glasswood.load(models["boosting"]).save(tmp_path / "m.onnx")
    assert glasswood.load(onnx.load(tmp_path / "m.onnx")).checked.rows == rows.N_ROWS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_processes_do_not_ask_libraries(models):
    process = os.fork()
    if process == 0:
        checked = glasswood.load(models["lightgbm"]).checked
        os._exit(0 if checked.rows == 0 and "forked" in checked.unchecked[0] else 1)
    assert os.waitpid(process, 0)[1] == 0


WORKERS = """
import multiprocessing, pickle, sys

def checked(model):
    import glasswood
    found = glasswood.load(pickle.loads(model)).checked
    return found.rows, *found.unchecked

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        model = file.read()
    for method in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, *pool.apply(checked, (model,)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks of POSIX")
def test_processes_that_are_spawned_ask_libraries(models, tmp_path):
    """They have no threads of their parent's; of what was forked before glasswood was imported, nobody knows."""
    (tmp_path / "workers.py").write_text(WORKERS)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(models["forest"]))
    command = [sys.executable, "-W", "ignore", tmp_path / "workers.py", tmp_path / "model.pickle"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    spawned, *forked = told.stdout.splitlines()
    assert spawned == f"spawn {rows.N_ROWS}"
    assert [line.split()[:3] for line in forked] == [[name, "0", "predictions:"] for name in ("fork", "forkserver")]


def test_models_of_very_many_features_are_not_compared():
    treelite = pytest.importorskip("treelite")
    model = treelite.sklearn.import_model(ensemble.RandomForestRegressor(2, max_depth=2).fit(X, Y))
    n_features = np.array([rows.MOST_FEATURES + 1], np.int32)
    model.get_header_accessor().set_field("num_feature", n_features)
    assert glasswood.load(model).checked == (
        0,
        0.0,
        ("predictions: rows of 2,097,153 features would take too much memory",),
    )
    model.get_header_accessor().set_field("num_feature", n_features // 2**11)
    assert glasswood.load(model).checked.rows > 0


def test_rows_lie_at_beside_and_between_thresholds(models):
    trees = glasswood.load(models["xgboost"]).ensemble
    numbers = rows.made_rows(trees)
    np.testing.assert_array_equal(numbers, rows.made_rows(trees))
    thresholds = trees.threshold[trees.feature == 0]
    drawn = numbers[:, 0].astype(np.float32)
    assert np.isin(drawn, thresholds).any()
    assert np.isin(drawn, np.nextafter(thresholds, np.float32(-np.inf))).any()
    assert np.isnan(drawn).any()
    between = drawn[~np.isin(drawn, thresholds) & ~np.isnan(drawn)]
    assert ((between > thresholds.min()) & (between < thresholds.max())).any()
    # most leaves of small trees are reached by some row
    assert len(np.unique(glasswood.load(models["xgboost"]).predict(numbers, output="leaf"))) > trees.n_leaves / 25
