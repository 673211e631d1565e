"""XGBoost's models against XGBoost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.xgboost_models import BOOSTERS, ESTIMATORS, make_rows, make_target, train

import glasswood
from glasswood.model.events import of_event

xgboost = pytest.importorskip("xgboost")
pandas = pytest.importorskip("pandas")
VERSION = tuple(int(part) for part in xgboost.__version__.split(".")[:2])

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*booster=(dart|gblinear).*deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*XGBRF.* is deprecated:FutureWarning"),
]
DATA = Path(__file__).parent / "data"
DOCUMENTS = sorted(path for path in DATA.glob("xgboost-*") if path.suffix != ".npz")


def assert_booster_agrees(case, forest):
    # DMatrix refuses infinite values.
    X = adversarial_rows(forest, case.rows, allow_inf=False)
    matrix = xgboost.DMatrix(X, feature_types=case.feature_types, enable_categorical=True, nthread=1)
    assert_agrees(
        forest,
        X,
        leaves=case.model.predict(matrix, pred_leaf=True),
        margins=case.model.predict(matrix, output_margin=True),
        predictions=case.model.predict(matrix),
    )


@pytest.mark.parametrize("name", BOOSTERS)
def test_booster(name):
    case = BOOSTERS[name]()
    assert_booster_agrees(case, glasswood.load(case.model))


@pytest.mark.skipif(VERSION < (3, 3), reason="XGBoost has expectiles since 3.3")
@pytest.mark.parametrize("alpha", [0.3, [0.1, 0.5, 0.9]])
def test_expectiles(alpha):
    case = train("reg:expectileerror", expectile_alpha=alpha)()
    assert_booster_agrees(case, glasswood.load(case.model))


def test_negative_sums_of_hessians_in_single_leaves():
    rng = np.random.default_rng(100)
    X, times = rng.normal(size=(100, 4)), rng.exponential(size=100) * rng.choice([-1, 1], 100)
    matrix = xgboost.DMatrix(X, times)
    model = xgboost.train({"objective": "survival:cox", "nthread": 1}, matrix, 100)
    forest = glasswood.load(model)
    assert (forest.ensemble.cover < 0).any()
    np.testing.assert_allclose(forest.predict(X), model.predict(matrix), rtol=1e-5)
    expected = model.predict(matrix, pred_contribs=True)[:, :-1]
    np.testing.assert_allclose(glasswood.Explainer(forest).shap_values(X), expected, atol=1e-5)


def test_labels_of_softmax_are_those_of_the_largest_margin():
    """Margins that differ by some float32 have probabilities that round to the same one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4))
    matrix = xgboost.DMatrix(X, np.digitize(X[:, 0] + rng.normal(size=5000), [-0.5, 0.5]))
    given = {"objective": "multi:softmax", "num_class": 3, "eta": 1e-7, "max_depth": 3, "base_score": 0.5, "nthread": 1}
    model = xgboost.train(given, matrix, 1)  # more trees are added up in float32 there
    forest, margins = glasswood.load(model), model.predict(matrix, output_margin=True)
    np.testing.assert_array_equal(forest.predict(X, output="margin"), margins)
    assert (forest.predict(X, output="probability").argmax(axis=1) != margins.argmax(axis=1)).any()
    np.testing.assert_array_equal(forest.predict(X), model.predict(matrix))


def test_texts_and_binaries_hold_the_same_forest(tmp_path):
    booster = BOOSTERS["softprob"]().model
    for suffix in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{suffix}")
    text, binary = (glasswood.load(tmp_path / f"model.{suffix}") for suffix in ("json", "ubj"))
    for field in dataclasses.fields(text.ensemble):
        found, expected = (getattr(forest.ensemble, field.name) for forest in (text, binary))
        np.testing.assert_array_equal(found, expected, err_msg=field.name)
    X = make_rows()
    values = [glasswood.Explainer(forest, dtype="float64").shap_values(X) for forest in (text, binary)]
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator(name):
    case = ESTIMATORS[name]()
    forest = glasswood.load(case.model)
    assert forest.ensemble.is_estimator
    if "stopped" in name:
        assert case.model.best_iteration + 1 < case.model.get_booster().num_boosted_rounds()
    X = adversarial_rows(forest, case.rows, allow_inf=False)
    assert_agrees(forest, X, leaves=case.model.apply(X))
    # Leaf ids come by way of DMatrix, which refuses infinite values; predictions do not.
    X = adversarial_rows(forest, case.rows)
    probabilities = None
    if hasattr(case.model, "classes_") and case.model.objective not in {"binary:hinge", "binary:logitraw"}:
        probabilities = case.model.predict_proba(X)
    assert_agrees(
        forest,
        X,
        margins=case.model.predict(X, output_margin=True),
        predictions=case.model.predict(X),
        probabilities=probabilities,
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_of_each_version(path):
    known = np.load(f"{path}.npz")
    forest = glasswood.load(path)
    assert forest.source == "xgboost " + path.name.split("-")[1]
    assert_agrees(forest, **known)


def test_documents_cover_the_versions():
    versions = {path.name.split("-")[1].rpartition(".")[0] for path in DOCUMENTS}
    assert versions >= {"1.7", "2.1", "3.0", "3.1", "3.2", "3.4"}


def test_live_model_and_both_files_give_the_same_forest(tmp_path):
    model = BOOSTERS["partition"]().model
    forests = [glasswood.load(model, check=False)]
    for suffix in ("json", "ubj"):
        model.save_model(tmp_path / f"model.{suffix}")
        forests.append(glasswood.load(tmp_path / f"model.{suffix}"))
    for field in dataclasses.fields(forests[0].ensemble):
        values = [getattr(forest.ensemble, field.name) for forest in forests]
        for value in values[1:]:
            np.testing.assert_array_equal(value, values[0])


def test_booster_of_a_stopped_estimator_predicts_with_all_rounds():
    case = ESTIMATORS["classes, stopped"]()
    booster = case.model.get_booster()
    per_round = 3 * 2
    assert glasswood.load(case.model).n_trees == (case.model.best_iteration + 1) * per_round
    assert glasswood.load(booster).n_trees == booster.num_boosted_rounds() * per_round
    assert_booster_agrees(case._replace(model=booster), glasswood.load(booster))


def test_linear_booster_is_refused():
    matrix = xgboost.DMatrix(np.eye(4), label=np.arange(4))
    booster = xgboost.train({"booster": "gblinear", "nthread": 1}, matrix, 2)
    with pytest.raises(NotImplementedError, match="the booster 'gblinear' is not supported"):
        glasswood.load(booster)


def test_untrained_models():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(ValueError, match="the Booster cannot be saved"):
        glasswood.load(xgboost.Booster())
    with pytest.raises(NotFittedError):
        glasswood.load(xgboost.XGBRegressor())


def test_other_objects_of_xgboost():
    with pytest.raises(TypeError, match="cannot read a DMatrix of XGBoost, expected a Booster or an estimator"):
        glasswood.load(xgboost.DMatrix(np.eye(2)))


def test_booster_without_rounds_predicts_its_base_score():
    matrix = xgboost.DMatrix(np.eye(4), label=np.arange(4))
    booster = xgboost.train({"base_score": 0.25, "nthread": 1}, matrix, 0)
    assert_agrees(glasswood.load(booster), np.eye(4), margins=booster.predict(matrix, output_margin=True))


def make_frame():
    rng = np.random.default_rng(11)
    n = 300
    frame = pandas.DataFrame(
        {
            "size": rng.normal(size=n),
            "color": pandas.Categorical(rng.choice(["red", "green", "blue", ""], n)),
            "zip": pandas.Categorical(rng.choice(np.arange(100, 140, dtype=np.int16), n)),
            "shop": pandas.Categorical(rng.choice([2**40, -5, 3], n)),
        }
    )
    frame.loc[rng.random(n) < 0.1, "color"] = None
    y = frame["size"].to_numpy() + frame["color"].cat.codes * 2 + frame["zip"].cat.codes % 5 - frame["shop"].cat.codes
    return frame, y


def train_on(frame, y, **parameters):
    matrix = xgboost.DMatrix(frame, label=y, enable_categorical=True)
    return xgboost.train({"max_depth": 4, "nthread": 1, "max_cat_to_onehot": 5, **parameters}, matrix, 8)


def codes(frame):
    """Positions in the frame's own categories, missing as NaN."""
    columns = [frame[name].cat.codes.replace(-1, np.nan) if name != "size" else frame[name] for name in frame]
    return np.column_stack(columns).astype(np.float64)


def reordered(frame):
    """The same values, categories listed backwards."""
    result = frame.copy()
    for name in ("color", "zip", "shop"):
        # A copy, because XGBoost 3.2 ignores the strides of a reversed view.
        backwards = frame[name].cat.categories[::-1].to_numpy().copy()
        result[name] = frame[name].cat.reorder_categories(backwards)
    return result


def assert_frame_agrees(forest, model, trained, given):
    matrix = xgboost.DMatrix(given, enable_categorical=True)
    assert_agrees(
        forest,
        codes(trained),
        leaves=model.predict(matrix, pred_leaf=True),
        margins=model.predict(matrix, output_margin=True),
        predictions=model.predict(matrix),
        given=given,
    )


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost stores categories since 3.1")
def test_category_tables():
    forest = glasswood.load(train_on(*make_frame()))
    assert forest.feature_names == ("size", "color", "zip", "shop")
    numbers, color, area, shop = forest.ensemble.categories
    assert numbers is None
    assert color.tolist() == ["", "blue", "green", "red"]
    assert area.tolist() == list(range(100, 140))
    assert area.dtype == np.int16
    assert shop.tolist() == [-5, 3, 2**40]


@pytest.mark.parametrize("change", [lambda frame: frame, reordered])
def test_frames_of_categories(change):
    frame, y = make_frame()
    model = train_on(frame, y)
    assert_frame_agrees(glasswood.load(model), model, frame if VERSION >= (3, 1) else change(frame), change(frame))


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost recodes categories since 3.1")
def test_frame_with_a_part_of_the_categories():
    frame, y = make_frame()
    model = train_on(frame, y)
    some = frame[frame["color"] == "red"].copy()
    given = some.copy()
    given["color"] = given["color"].cat.remove_unused_categories()
    given["zip"] = given["zip"].cat.remove_unused_categories()
    assert_frame_agrees(glasswood.load(model), model, some, given)


def test_codes_of_categories_trained_on_a_frame():
    frame, y = make_frame()
    model = train_on(frame, y)
    types = ["float", "c", "c", "c"]
    forest = glasswood.load(model)
    X = adversarial_rows(forest, codes(frame), allow_inf=False, max_rows=4000)
    matrix = xgboost.DMatrix(X, feature_types=types, feature_names=list(frame), enable_categorical=True)
    assert_agrees(
        forest,
        X,
        leaves=model.predict(matrix, pred_leaf=True),
        margins=model.predict(matrix, output_margin=True),
    )


@pytest.mark.skipif(VERSION < (3, 1), reason="estimators of XGBoost apply frames of categories since 3.1")
def test_estimator_on_frames():
    frame, y = make_frame()
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1, enable_categorical=True)
    model.fit(frame, (y > 2).to_numpy().astype(int))
    assert_agrees(
        glasswood.load(model),
        codes(frame),
        leaves=model.apply(frame),
        margins=model.predict(frame, output_margin=True),
        predictions=model.predict(frame),
        probabilities=model.predict_proba(frame),
        given=frame,
    )


def test_columns_in_another_order():
    frame, y = make_frame()
    model = train_on(frame[["size", "color"]], y)
    given = frame[["color", "size"]]
    # XGBoost refuses other orders; columns with names are matched by name.
    with pytest.raises(ValueError, match="feature_names mismatch"):
        model.predict(xgboost.DMatrix(given, enable_categorical=True))
    expected = model.predict(xgboost.DMatrix(frame[["size", "color"]], enable_categorical=True))
    assert_agrees(glasswood.load(model), codes(frame[["size", "color"]]), predictions=expected, given=given)


@pytest.mark.skipif(VERSION < (3, 1), reason="XGBoost stores categories since 3.1")
def test_categories_that_are_not_ascii():
    frame, y = make_frame()
    frame["color"] = frame["color"].cat.rename_categories({"red": "röt", "blue": "蓝"})
    model = train_on(frame, y)
    if VERSION < (3, 4):
        with pytest.raises(
            NotImplementedError, match=r"feature 1 are not ASCII, and XGBoost 3\..* cuts such texts off"
        ):
            glasswood.load(model)
    else:
        assert glasswood.load(model).ensemble.categories[1].tolist() == ["", "蓝", "green", "röt"]
        assert_frame_agrees(glasswood.load(model), model, frame, frame)


@pytest.mark.parametrize("name", ["classes", "regressor, stopped"])
def test_check_accepts_a_forest_that_agrees(name):
    case = ESTIMATORS[name]()
    assert glasswood.load(case.model, check=case.rows).ensemble.is_estimator
    assert not glasswood.load(case.model.get_booster(), check=case.rows).ensemble.is_estimator


def test_check_accepts_frames():
    frame, y = make_frame()
    glasswood.load(train_on(frame, y), check=frame)


def test_check_refuses_a_forest_that_does_not_agree(monkeypatch):
    X = make_rows()
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, make_target(X))
    predict = xgboost.XGBRegressor.predict

    def shifted(model, X, **options):
        prediction = predict(model, X, **options)
        prediction[7] += 0.001
        return prediction

    monkeypatch.setattr(xgboost.XGBRegressor, "predict", shifted)
    with pytest.raises(ValueError, match="glasswood and the model disagree on 1 of 300 rows of check; first on row 7"):
        glasswood.load(model, check=X)


def test_check_needs_a_live_model():
    with pytest.raises(ValueError, match=r"check needs a live model that can predict, a .*Path cannot"):
        glasswood.load(DOCUMENTS[0], check=make_rows())


@pytest.mark.parametrize("objective", ["binary:hinge", "binary:logitraw"])
def test_classifiers_of_scores_have_labels_and_no_probabilities(objective, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = xgboost.XGBClassifier(n_estimators=3, objective=objective, n_jobs=1).fit(X, (X[:, 0] > 0).astype(int))
    forest = glasswood.load(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    turned, is_turned = of_event(forest.ensemble, 0)
    assert is_turned
    np.testing.assert_array_equal(glasswood.Forest(turned).predict(X), model.predict(X))
    with pytest.raises(ValueError, match=f"trained for {objective} has no probabilities; use output='prediction'"):
        forest.predict(X, output="probability")
    for output in ("probability", "log_loss"):
        with pytest.raises(NotImplementedError, match=f"output='{output}' needs a classifier"):
            glasswood.Explainer(forest, X, output=output)
    with pytest.raises(ValueError, match=f"a model trained for '{objective}' predicts none"):
        glasswood.report(model, X, path=tmp_path / "report.html")
