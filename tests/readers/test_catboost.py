"""CatBoost's models against CatBoost."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.oracles import evaluate, shapley
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.catboost_models import COMMON, MODELS, N_ROWS, make_rows, make_target, train

import glasswood
from glasswood.readers import catboost as reader

catboost = pytest.importorskip("catboost", reason="CatBoost is not installed: pip install catboost")

DATA = Path(__file__).parent / "data"
DOCUMENTS = sorted(path for path in DATA.glob("catboost-*") if path.suffix != ".npz")


def assert_model_agrees(model, forest, X):
    """CatBoost gets copies: it makes arrays read-only."""
    has_labels = forest.ensemble.link in {"logistic", "softmax", "one_vs_all"}
    margins = catboost.CatBoost.predict(model, X.copy(), prediction_type="RawFormulaVal")
    assert_agrees(
        forest,
        X,
        leaves=model.calc_leaf_indexes(X.copy()),
        margins=margins,
        predictions=model.predict(X.copy()),
        probabilities=model.predict(X.copy(), prediction_type="Probability") if has_labels else None,
        sums="float64",
    )
    assert forest.predict(X[:2]).dtype == model.predict(X[:2].copy()).dtype


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    model, rows = MODELS[name]()
    forest = glasswood.load(model, check=rows)
    assert_model_agrees(model, forest, adversarial_rows(forest, rows))
    if forest.classes and "several labels" not in name:
        np.testing.assert_array_equal(forest.classes[0], model.classes_)
        assert forest.classes[0].dtype == model.classes_.dtype


@pytest.mark.parametrize("suffix", ["cbm", "json"])
@pytest.mark.parametrize("name", ["rmse", "depth-wise, missing last", "loss-guided", "classes, texts", "uncertainty"])
def test_file_predicts_as_catboost_does_after_loading_it(name, suffix, tmp_path):
    """Leaves of trees that are not oblivious have other numbers in JSON."""
    model, rows = MODELS[name]()
    path = tmp_path / f"model.{suffix}"
    model.save_model(str(path), format=suffix)
    forest = glasswood.load(path)
    assert_model_agrees(catboost.CatBoost().load_model(str(path), suffix), forest, adversarial_rows(forest, rows))


@pytest.mark.parametrize("name", ["rmse", "several targets", "log loss", "missing last"])
def test_both_documents_give_the_same_forest(name, tmp_path):
    model, _ = MODELS[name]()
    forests = []
    for suffix in ("cbm", "json"):
        model.save_model(str(tmp_path / f"model.{suffix}"), format=suffix)
        forests.append(glasswood.load(tmp_path / f"model.{suffix}"))
    for field in dataclasses.fields(forests[0].ensemble):
        first, second = (getattr(forest.ensemble, field.name) for forest in forests)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents(path):
    known = np.load(f"{path}.npz")
    assert_agrees(glasswood.load(path), **known, sums="float64")


def test_there_are_documents():
    assert {path.suffix for path in DOCUMENTS} == {".cbm", ".json"}


def test_row_types():
    """The largest float32 is a border where missing values come last; infinity lies beyond it."""
    assert glasswood.load(MODELS["rmse"]().model).ensemble.threshold.dtype == np.float32
    model, rows = MODELS["missing last"]()
    forest = glasswood.load(model)
    assert forest.ensemble.threshold.dtype == np.float64
    largest, beyond = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
    feature = forest.ensemble.feature[forest.ensemble.threshold == beyond][0]
    leaves = {}
    for value in (largest, np.nextafter(beyond, 0), beyond, 3.5e38, 1e39, np.inf, np.nan, -np.inf):
        X = rows.copy()
        X[:, feature] = value
        assert_model_agrees(model, forest, X)
        leaves[value] = forest.predict(X, output="leaf")
    assert (leaves[largest] != leaves[np.inf]).any()


def test_infinity_is_no_missing_value_where_it_comes_last():
    """In a column that had no gaps, NaN stays left of every border, and infinity right."""
    model, rows = train(nan_mode="Max")()
    forest = glasswood.load(model)
    X = np.repeat(rows[:1], 2, axis=0)
    X[:, 4] = np.nan, np.inf
    assert_model_agrees(model, forest, X)
    assert forest.predict(X)[0] != forest.predict(X)[1]


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("has_gaps", [False, True])
def test_borders_at_infinity(has_gaps, nan_mode, policy, tmp_path):
    """As in logarithms of 0: CatBoost then tests against -inf, at times against inf, too."""
    rng = np.random.default_rng(0)
    values = [-np.inf, 0.0, 1.0, np.inf] + has_gaps * [np.nan]
    X = np.stack([rng.choice(values, 400), rng.normal(size=400)], axis=1)
    y = np.where(np.isnan(X[:, 0]), 7, np.clip(X[:, 0], -20, 5)) + X[:, 1]
    settings = {**COMMON, "iterations": 10, "grow_policy": policy, "nan_mode": nan_mode}
    model = catboost.CatBoostRegressor(**settings).fit(X, y)
    tested = [border for borders in model.get_borders().values() for border in borders]
    assert -np.inf in tested
    assert np.inf in tested or (policy == "SymmetricTree" and (not has_gaps or nan_mode == "Min"))
    model.save_model(str(tmp_path / "model.cbm"))
    largest, beyond = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
    edges = [0.5, largest, np.nextafter(beyond, 0), beyond, np.nextafter(beyond, np.inf), 1e39, 1e300, np.inf]
    probes = np.array([*edges, *np.negative(edges), np.nan])
    rows = np.stack([np.repeat(probes, 2), np.tile([-1.0, 1.0], len(probes))], axis=1)
    for source in (model, tmp_path / "model.cbm"):
        assert_model_agrees(model, glasswood.load(source), rows)


@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
def test_labels_are_those_of_the_largest_margin(loss):
    """Margins that all but vanish have equal probabilities."""
    model, rows = train("CatBoostClassifier", "colors", loss)()
    expected = model.predict(rows.copy())
    model.set_scale_and_bias(1e-17, model.get_scale_and_bias()[1])
    assert (model.predict_proba(rows.copy()).argmax(axis=1) == 0).all()
    np.testing.assert_array_equal(model.predict(rows.copy()), expected)
    np.testing.assert_array_equal(glasswood.load(model).predict(rows), expected)


def test_covers_are_the_weights_of_the_leaves():
    weights = np.random.default_rng(0).integers(1, 5, N_ROWS).astype(float)
    for policy in ("SymmetricTree", "Depthwise", "Lossguide"):
        model = catboost.CatBoost({**COMMON, "grow_policy": policy})
        model.fit(catboost.Pool(make_rows(), make_target(), weight=weights))
        forest = glasswood.load(model)
        covers = np.zeros(forest.n_nodes)
        for _, node, rows in evaluate.visits(forest, make_rows()):
            covers[node] = weights[rows].sum()
        np.testing.assert_array_equal(forest.ensemble.cover, covers)


def shap_values(model, rows):
    values = model.get_feature_importance(catboost.Pool(rows.copy()), type="ShapValues")
    return values.transpose(0, 2, 1) if values.ndim == 3 else values


@pytest.mark.parametrize(
    "name", ["rmse", "missing last", "deep", "several targets", "classes", "classifier", "poisson"]
)
def test_shap_values_of_oblivious_trees_are_those_of_catboost(name):
    model, rows = MODELS[name]()
    explainer, expected = glasswood.Explainer(model, dtype="float64"), shap_values(model, rows)
    np.testing.assert_allclose(explainer.shap_values(rows), expected[:, :-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(explainer.expected_value, expected[0, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["depth-wise", "loss-guided", "loss-guided, missing last"])
def test_shap_values_of_other_trees_are_those_of_catboost_for_each_tree(name, tmp_path):
    """CatBoost 1.2.10 explains a single such tree; its values for several do not add up to its prediction."""
    model, rows = MODELS[name]()
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    document = json.loads(path.read_text())
    expected = np.zeros((len(rows), rows.shape[1]))
    for tree in document["trees"]:
        path.write_text(json.dumps({**document, "trees": [tree]}))
        expected += shap_values(catboost.CatBoost().load_model(str(path), "json"), rows)[:, :-1]
    explainer = glasswood.Explainer(model, dtype="float64")
    found = explainer.shap_values(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    margin = model.predict(rows.copy(), prediction_type="RawFormulaVal")
    np.testing.assert_allclose(found.sum(axis=1) + explainer.expected_value, margin, rtol=0, atol=1e-12)


def test_d11_leaves_without_rows_count_by_their_own_definition():
    """Where a constraint gives values to leaves that no row reached, CatBoost leaves them out; here they count."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    target = X[:, 0] + X[:, 1] * X[:, 2]
    options = COMMON | {"iterations": 5, "depth": 5, "monotone_constraints": [1, 0, 0, 0]}
    model = catboost.CatBoostRegressor(**options).fit(X, target)
    forest = glasswood.load(model)
    trees = forest.ensemble
    assert ((trees.cover == 0) & (trees.feature < 0)).any()
    rows = rng.normal(size=(50, 4)).astype(np.float32)
    found = glasswood.Explainer(forest, dtype="float64").shap_values(rows)
    expected = shapley.values(forest, shapley.sides(forest, rows))[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    theirs = model.get_feature_importance(catboost.Pool(rows), type="ShapValues")
    assert np.abs(theirs[:, :-1] - found).max() > 1e-3
    margin = forest.predict(rows, "margin")
    np.testing.assert_allclose(theirs.sum(axis=1), margin, rtol=1e-6)


def test_probability_threshold():
    model, rows = MODELS["classifier of texts"]()
    half = glasswood.load(model).predict(rows)
    for threshold in (0.2, 0.5, 0.9):
        model.set_probability_threshold(threshold)
        found = glasswood.load(model, check=rows).predict(rows)
        np.testing.assert_array_equal(found, model.predict(rows.copy()))
        assert (found != half).any() == (threshold != 0.5)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_several_labels(columns):
    """One label is a classifier of two classes; a threshold of the user's own counts for all labels."""
    X, y = make_rows(), make_target("labels")[:, :columns]
    model = catboost.CatBoostClassifier(**COMMON, loss_function="MultiLogloss").fit(X.copy(), y)
    assert_model_agrees(model, glasswood.load(model, check=X), X)
    model.set_probability_threshold(0.8)
    np.testing.assert_array_equal(glasswood.load(model).predict(X), model.predict(X.copy()))


def test_scale_and_bias():
    model, rows = MODELS["rmse"]()
    model.set_scale_and_bias(-2.5, 0.25)
    assert_model_agrees(model, glasswood.load(model), rows)


def test_sums_of_models():
    models = [MODELS[name]().model for name in ("rmse", "coarse borders")]
    total = catboost.sum_models(models, weights=[0.5, 2.0])
    assert_model_agrees(total, glasswood.load(total), make_rows())


def test_sums_of_models_as_estimators():
    """Regressors of sums have forgotten their loss and predict margins; classifiers know their labels."""
    poisson, texts = (MODELS[name]().model for name in ("poisson regressor", "classifier of texts"))
    for total in (
        catboost.to_regressor(catboost.sum_models([poisson, poisson])),
        catboost.to_classifier(catboost.sum_models([texts, texts])),
    ):
        assert_model_agrees(total, glasswood.load(total, check=make_rows()), make_rows())


def test_best_iteration():
    """CatBoost drops the trees after it from the model."""
    X, y = make_rows(), make_target() + np.random.default_rng(0).normal(scale=3, size=N_ROWS)
    model = catboost.CatBoostRegressor(**{**COMMON, "iterations": 200, "learning_rate": 0.5})
    model.fit(X[:200].copy(), y[:200], eval_set=(X[200:].copy(), y[200:]))
    forest = glasswood.load(model, check=X)
    assert forest.n_trees == model.get_best_iteration() + 1 < 200


def test_models_of_one_leaf():
    X = make_rows()
    model = catboost.CatBoostRegressor(**{**COMMON, "grow_policy": "Lossguide", "min_data_in_leaf": N_ROWS})
    model.fit(X.copy(), make_target())
    forest = glasswood.load(model)
    assert forest.n_leaves == forest.n_trees
    assert_model_agrees(model, forest, X)


def test_all_trees_shrunk_away():
    model, rows = MODELS["rmse"]()
    model.shrink(ntree_end=3, ntree_start=3)
    forest = glasswood.load(model)
    assert forest.n_trees == 0
    assert (forest.predict(rows) == model.get_scale_and_bias()[1]).all()


def test_sixteen_levels():
    X = np.random.default_rng(0).normal(size=(2000, 20))
    settings = {**COMMON, "depth": 16, "iterations": 2, "border_count": 8}  # few borders: seconds less to train
    model = catboost.CatBoostRegressor(**settings).fit(X.copy(), X[:, :8].prod(axis=1))
    forest = glasswood.load(model, check=X)
    assert forest.n_leaves == 2 * 2**16
    np.testing.assert_array_equal(forest.predict(X, output="leaf"), model.calc_leaf_indexes(X.copy()))


def test_feature_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(make_rows(), columns=list("abcde"))
    model = catboost.CatBoostRegressor(**COMMON).fit(frame, make_target())
    forest = glasswood.load(model, check=frame)
    assert forest.feature_names == tuple("abcde")
    np.testing.assert_array_equal(forest.predict(frame[list("edcba")]), forest.predict(frame))
    assert glasswood.load(MODELS["rmse"]().model).feature_names is None


def test_ignored_features_keep_their_columns():
    model, rows = train(ignored_features=[1, 4])()
    assert glasswood.load(model, check=rows).n_features == 5


def test_check_leaves_the_rows_writable():
    rows = make_rows()
    glasswood.load(MODELS["rmse"]().model, check=rows)
    rows[0, 0] = 1


def test_other_objects_of_catboost():
    with pytest.raises(TypeError, match="cannot read a Pool of CatBoost, expected a CatBoost model"):
        glasswood.load(catboost.Pool(np.eye(2)))


@pytest.mark.parametrize("kind", [catboost.CatBoost, catboost.CatBoostClassifier, catboost.CatBoostRegressor])
def test_unfitted_models(kind):
    with pytest.raises(NotFittedError, match=f"this {kind.__name__} is not fitted"):
        reader.read(kind())


def test_a_forest_of_catboost_in_glasswoods_own_file(tmp_path):
    for name in ("uncertainty", "classes, texts", "classifier of flags"):
        model, rows = MODELS[name]()
        glasswood.load(model).save(tmp_path / "model.glasswood")
        assert_model_agrees(model, glasswood.load(tmp_path / "model.glasswood"), rows)


@pytest.mark.parametrize("loss", ["SurvivalAft:dist=Normal;scale=1.0", "SurvivalAft:dist=Logistic;scale=0.5", "Cox"])
def test_survival_objectives_predict_as_catboost_does(loss):
    """On the scale of the logarithm, of times or of hazards."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    time, event = np.exp(X[:, 0] + 0.3 * rng.normal(size=300)), rng.random(300) < 0.7
    y = np.where(event, time, -time) if loss == "Cox" else np.column_stack([time, np.where(event, time, -1)])
    settings = {"iterations": 10, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    for kind in (catboost.CatBoost, catboost.CatBoostRegressor):
        model = (
            kind({"loss_function": loss, **settings})
            if kind is catboost.CatBoost
            else kind(loss_function=loss, **settings)
        )
        forest = glasswood.load(model.fit(X, y), check=X)
        log = np.log(model.predict(X, prediction_type="Exponent"))
        np.testing.assert_allclose(forest.predict(X), log, atol=1e-12)
