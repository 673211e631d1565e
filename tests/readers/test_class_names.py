"""Names of classes that models do not store, and what then says them."""

import json
import re

import catboost
import lightgbm
import numpy as np
import pandas
import pytest
import xgboost
from sklearn.inspection import permutation_importance
from sklearn.tree import DecisionTreeClassifier

import glasswood
from glasswood.cli import main

NAMES = {2: ["poor", "decent"], 3: ["low", "middle", "high"]}  # not in the alphabet's order


def rows(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(400, 3))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=400), np.linspace(-0.5, 0.5, n_classes - 1))


@pytest.fixture(scope="module", params=[2, 3])
def boosted(request):
    X, y = rows(request.param)
    return X, y, xgboost.XGBClassifier(n_estimators=5, max_depth=3).fit(X, y), NAMES[request.param]


def test_predictions_are_names(boosted, tmp_path):
    X, _, model, names = boosted
    forest = glasswood.load(model, class_names=names, check=X)
    expected = np.array(names)[model.predict(X)]
    np.testing.assert_array_equal(forest.predict(X), expected)
    np.testing.assert_allclose(forest.predict(X, output="probability"), model.predict_proba(X), atol=1e-6)
    forest.save(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(X), expected)
    np.testing.assert_array_equal(glasswood.load(model).predict(X), model.predict(X))


def test_files_of_probabilities_become_classifiers(boosted, tmp_path):
    """Those of XGBoost and LightGBM say nothing of classes, those of CatBoost predict margins."""
    X, y, model, names = boosted
    model.save_model(tmp_path / "model.json")
    other = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1).fit(X, y)
    other.booster_.save_model(tmp_path / "model.txt")
    third = catboost.CatBoostClassifier(iterations=5, depth=3, verbose=False, allow_writing_files=False).fit(X, y)
    third.save_model(str(tmp_path / "model.cbm"))
    for ending, source in (("json", model), ("txt", other), ("cbm", third)):
        forest = glasswood.load(tmp_path / f"model.{ending}", class_names=names)
        np.testing.assert_array_equal(forest.predict(X), np.array(names)[source.predict(X).ravel()])
        np.testing.assert_allclose(forest.predict(X, output="probability"), source.predict_proba(X), atol=1e-6)


def event_last(names, y):
    """Classes as reports show them: of two, the rarer one is the event."""
    return names[::-1] if len(names) == 2 and np.mean(y) > 0.5 else names


def test_reports_and_texts_say_names(boosted, tmp_path):
    X, y, model, names = boosted
    forest = glasswood.load(model, class_names=names)
    page = glasswood.report(forest, X, pandas.Series(y, name="wealth"), tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    content = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    shown = event_last(names, y)
    what = f"whether wealth is {shown[1]}" if len(names) == 2 else "which of 3 classes wealth is"
    assert what in content["sentences"]["what"][0]
    assert content["classes"] == shown
    by_name = glasswood.report(forest, X, np.array(names)[y], tmp_path / "names.html").read_text(encoding="utf-8")
    measured = content["figures"][""]
    assert measured["log-loss" if len(names) == 2 else "accuracy"] in by_name
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    assert f"% {shown[-1]}" in glasswood.export_text(glasswood.load(tree, class_names=names))


def test_reports_on_the_command_line(boosted, tmp_path):
    X, y, model, names = boosted
    model.save_model(tmp_path / "model.json")
    pandas.DataFrame(X).assign(wealth=np.array(names)[y]).to_csv(tmp_path / "rows.csv", index=False)
    files = [str(tmp_path / name) for name in ("model.json", "rows.csv", "page.html")]
    options = ["--target", "wealth", "--class-names", ",".join(names), "--inputs", "0,1,2"]
    assert main(["report", *files[:2], "-o", files[2], *options]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'"classes":{json.dumps(event_last(names, y), separators=(",", ":"))}' in page


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
def test_scores_know_targets_by_name_and_by_place(boosted, scoring):
    X, y, model, names = boosted
    forest = glasswood.load(model, class_names=names)
    expected = permutation_importance(model, X, y, scoring=scoring, n_repeats=2, random_state=0)
    for target in (y, np.array(names)[y]):
        found = glasswood.permutation_importance(forest, X, target, scoring=scoring, n_repeats=2, random_state=0)
        np.testing.assert_allclose(found.importances, expected.importances, atol=1e-6)


def test_losses_know_targets_by_name_and_by_place(boosted):
    X, y, model, names = boosted
    expected = glasswood.Explainer(model, X[:5], output="log_loss").shap_values(X, y=y)
    explainer = glasswood.Explainer(glasswood.load(model, class_names=names), X[:5], output="log_loss")
    for target in (y, np.array(names)[y]):
        np.testing.assert_array_equal(explainer.shap_values(X, y=target), expected)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["poor"], r"class_names has 1 names, the model 2 classes"),
        (["a", "b", "c"], r"class_names has 3 names, the model 2 classes"),
        (["a", "a"], r"class_names is \['a', 'a'\], expected different texts, one for each class"),
        ([0, 1], r"class_names is \[0, 1\], expected different texts"),
        ("ab", r"class_names is 'ab', expected different texts"),
    ],
)
def test_refusals(names, message):
    X, y = rows(2)
    model = xgboost.XGBClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=message):
        glasswood.load(model, class_names=names)


def test_models_of_numbers_have_no_classes():
    X, y = rows(2)
    model = xgboost.XGBRegressor(n_estimators=2).fit(X, y)
    message = "class_names are for classifiers of one target, this forest was trained for reg:squarederror; leave"
    with pytest.raises(ValueError, match=message):
        glasswood.load(model, class_names=["a", "b"])
    both = DecisionTreeClassifier(max_depth=2).fit(X, np.column_stack([y, 1 - y]))
    with pytest.raises(ValueError, match="class_names are for classifiers of one target"):
        glasswood.load(both, class_names=["a", "b"])


def test_labels_that_are_neither_names_nor_places(boosted, tmp_path):
    X, y, model, names = boosted
    forest = glasswood.load(model, class_names=names)
    with pytest.raises(ValueError, match=r"y holds 7, expected one of the model's classes, .* or their places from 0"):
        glasswood.report(forest, X, 0 * y + 7, tmp_path / "page.html")
    with pytest.raises(ValueError, match="y holds 'rich', expected one of the model's classes, such as"):
        glasswood.report(forest, X, np.full(len(X), "rich"), tmp_path / "page.html")


def test_numbers_that_are_names_are_not_places():
    X, y = rows(3)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3).fit(X, y)
    forest = glasswood.load(model, class_names=["1", "2", "3"])
    importances = [
        glasswood.permutation_importance(forest, X[y > 0], labels, n_repeats=1, random_state=0).importances
        for labels in (np.array(["1", "2", "3"])[y[y > 0]], y[y > 0] + 1, y[y > 0] + 1.0)
    ]
    np.testing.assert_array_equal(importances[1:], importances[:1] * 2)
