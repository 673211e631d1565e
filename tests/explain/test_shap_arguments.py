"""A move from shap in one line: its arguments, rows of one dimension, labels in second place."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings

import numpy as np
import pytest

import glasswood
from glasswood.explain import shap_arguments
from tests.strategies import Options, random_forest

shap = pytest.importorskip("shap")
xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module", name="X")
def rows():
    return np.random.default_rng(0).normal(size=(300, 4))


@pytest.fixture(scope="module")
def model(X):
    return xgboost.XGBClassifier(n_estimators=8, max_depth=3).fit(X, X[:, 0] * X[:, 1] > 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"feature_perturbation": "tree_path_dependent"},
        {"data": 50},
        {"data": 50, "feature_perturbation": "interventional", "model_output": "probability"},
    ],
)
def test_one_line_changes(X, model, arguments):
    if "data" in arguments:
        arguments = {**arguments, "data": X[:50]}
    y = (X[:20, 0] > 0).astype(int)
    theirs, ours = shap.TreeExplainer(model, **arguments), glasswood.TreeExplainer(model, **arguments)
    np.testing.assert_allclose(ours.shap_values(X[:20]), theirs.shap_values(X[:20]), atol=2e-5)
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, atol=1e-5)
    np.testing.assert_allclose(ours(X[:20]).values, theirs(X[:20]).values, atol=2e-5)
    np.testing.assert_array_equal(ours.shap_values(X[:20], tree_limit=-1, approximate=False), ours(X[:20]).values)
    if "data" not in arguments:
        np.testing.assert_allclose(
            ours(X[:20], interactions=True).values, theirs.shap_interaction_values(X[:20]), atol=2e-5
        )
    with pytest.raises(ValueError, match="y is for output='log_loss'"):
        ours.shap_values(X[:20], y)
    same = glasswood.Explainer(model, **arguments, rule="rescale")
    np.testing.assert_array_equal(same.shap_values(X[:20]), ours.shap_values(X[:20]))


@pytest.mark.parametrize("n_rows", [100, 60])
def test_covers_come_from_the_data(X, n_rows):
    """shap counts the rows that pass each node; of more than a hundred it takes a sample."""
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, min_child_weight=40).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    arguments = {"data": X[:n_rows], "feature_perturbation": "tree_path_dependent"}
    theirs, ours = shap.TreeExplainer(model, **arguments), glasswood.TreeExplainer(model, **arguments)
    np.testing.assert_allclose(ours.shap_values(X), theirs.shap_values(X), atol=1e-6)
    np.testing.assert_allclose(ours.expected_value, theirs.expected_value, atol=1e-6)
    np.testing.assert_allclose(ours.shap_interaction_values(X).sum(axis=2), theirs.shap_values(X), atol=1e-6)
    assert np.abs(glasswood.TreeExplainer(model).shap_values(X) - ours.shap_values(X)).max() > 0.01


def test_positions_are_those_of_shap(X, model):
    y = X[:20, 0] > 0
    ours = glasswood.TreeExplainer(model, X[:50], "log_loss", "interventional", list("abcd"))
    theirs = shap.TreeExplainer(model, X[:50], "log_loss", "interventional")
    expected = theirs.shap_values(X[:20], y)
    np.testing.assert_allclose(ours.shap_values(X[:20], y), expected, atol=2e-5)
    called = ours(X[:20], y)
    np.testing.assert_allclose(called.values, expected, atol=2e-5)
    assert called.feature_names == list("abcd")
    loss = -np.log(np.where(y, *model.predict_proba(X[:20]).T[::-1]))
    np.testing.assert_allclose(called.base_values + called.values.sum(axis=1), loss, atol=1e-4)
    np.testing.assert_array_equal(ours.shap_values(X[3], y[3]), ours.shap_values(X[3:4], y[3:4])[0])


def test_forests_that_average_probabilities(X):
    ensemble = pytest.importorskip("sklearn.ensemble")
    forest = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, X[:, 0] > 0)
    arguments = {"data": X[:50], "model_output": "probability"}
    theirs, ours = shap.TreeExplainer(forest, **arguments), glasswood.TreeExplainer(forest, **arguments)
    np.testing.assert_allclose(ours.shap_values(X[:9]), theirs.shap_values(X[:9]), atol=2e-5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"approximate": True}, NotImplementedError, "approximate=True"),
        ({"model_output": "predict_proba"}, ValueError, "output='probability' needs background rows"),
        ({"model_output": "probability"}, ValueError, "output='probability' needs background rows"),
        ({"model_output": [1]}, NotImplementedError, r"model_output=\[1\] is not computed; expected 'raw', 'prob"),
        ({"feature_perturbation": np.zeros(2)}, ValueError, "feature_perturbation is array"),
        ({"feature_perturbation": "interventional"}, ValueError, "pass data, or 'tree_path_dependent'"),
        ({"feature_perturbation": "correlated"}, ValueError, "feature_perturbation is 'correlated'"),
        ({"link": shap.links.logit}, NotImplementedError, "link=logit is not computed"),
        ({"feature_names": ["a"]}, ValueError, "expected 4 names"),
        ({"feature_names": 5}, ValueError, "feature_names is 5, expected 4 names"),
        ({"background": 0, "data": 0}, TypeError, "names of the same rows"),
        ({"tree_limit": 3}, TypeError, "unexpected argument 'tree_limit'"),
        ({"output_names": ["no", "yes"]}, ValueError, "expected 1 names, one per output"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(X, model, arguments, error, message):
    arguments = {name: X[:9] if name in {"background", "data"} else value for name, value in arguments.items()}
    with pytest.raises(error, match=message):
        glasswood.Explainer(model, **arguments)


def test_arguments_of_calls(X, model):
    explainer = glasswood.TreeExplainer(model, link=shap.links.identity)
    for call in (explainer, explainer.shap_values, explainer.shap_interaction_values):
        with pytest.raises(TypeError, match="tree_limit is 'all', expected a number of trees"):
            call(X, tree_limit="all")
        with pytest.raises(ValueError, match="tree_limit is 0, expected at least 1"):
            call(X, tree_limit=0)
        with pytest.raises(TypeError, match="unexpected argument 'tree_limits'"):
            call(X, tree_limits=3)
        with pytest.raises(TypeError):
            call(X, None, False, np.zeros(X.shape))


def test_the_first_trees(X, model):
    """As a model of so many trees explains, and as shap does."""
    ours, theirs = glasswood.TreeExplainer(model), shap.TreeExplainer(model)
    fewer = glasswood.TreeExplainer(model.get_booster()[:3])
    np.testing.assert_array_equal(ours.shap_values(X, tree_limit=3), fewer.shap_values(X))
    np.testing.assert_allclose(ours.shap_values(X, tree_limit=3), theirs.shap_values(X, tree_limit=3), atol=1e-5)
    np.testing.assert_array_equal(ours(X, tree_limit=3).base_values, fewer(X).base_values)
    np.testing.assert_array_equal(
        ours.shap_interaction_values(X[:9], tree_limit=3), fewer.shap_interaction_values(X[:9])
    )
    against, few = (glasswood.Explainer(one, X[:50]) for one in (model, model.get_booster()[:3]))
    np.testing.assert_array_equal(against.shap_values(X, tree_limit=3), few.shap_values(X))
    np.testing.assert_array_equal(against(X[0], tree_limit=3).base_values, few(X[0]).base_values)


@pytest.mark.parametrize("kind", ["one output", "classes", "vectors"])
def test_approximate_values(X, kind):
    """shap's own way through the trees, and XGBoost's."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    y = X[:, 0] * X[:, 1] + X[:, 2]
    if kind == "vectors":
        model = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, np.digitize(y, [-1, 1]))
    elif kind == "classes":
        model = xgboost.XGBClassifier(n_estimators=4, max_depth=3).fit(X, np.digitize(y, [-1, 1]))
    else:
        model = xgboost.XGBRegressor(n_estimators=8, max_depth=3).fit(X, y)
    ours, theirs = glasswood.TreeExplainer(model), shap.TreeExplainer(model)
    found = ours.shap_values(X, approximate=True)
    np.testing.assert_allclose(found, theirs.shap_values(X, approximate=True), atol=1e-5)
    assert np.abs(found - ours.shap_values(X)).max() > 1e-3
    np.testing.assert_array_equal(ours(X, approximate=True).values, found)
    total = found.sum(axis=1) + ours.expected_value
    np.testing.assert_allclose(total, ours.model.predict(X), atol=1e-5)
    np.testing.assert_array_equal(ours.shap_values(X[3], approximate=True), found[3])
    np.testing.assert_array_equal(ours.shap_values(X, approximate=True, out=np.zeros_like(found)), found)
    with pytest.raises(NotImplementedError, match="approximate=True supports neither a background nor groups"):
        glasswood.TreeExplainer(model, X[:9]).shap_values(X, approximate=True)
    with pytest.raises(NotImplementedError, match="approximate=True does not support interaction values"):
        ours.shap_interaction_values(X, approximate=True)


def test_rows_of_a_dmatrix(X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd")).mask(X < -1)
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(frame, X[:, 0] * X[:, 1]), 5)
    explainer = glasswood.TreeExplainer(booster)
    expected = explainer.shap_values(frame)
    np.testing.assert_array_equal(explainer.shap_values(xgboost.DMatrix(frame)), expected)
    np.testing.assert_array_equal(explainer(xgboost.DMatrix(frame[list("dbca")])).values, expected)
    np.testing.assert_array_equal(explainer(xgboost.DMatrix(frame)).data, frame.to_numpy(np.float32))
    np.testing.assert_allclose(
        glasswood.load(booster).predict(xgboost.DMatrix(frame)), booster.predict(xgboost.DMatrix(frame)), 1e-5
    )
    with pytest.raises(ValueError, match="z"):
        explainer.shap_values(xgboost.DMatrix(frame.rename(columns={"a": "z"})))


def test_what_scripts_read_of_an_explainer(X, model):
    ours, theirs = glasswood.TreeExplainer(model), shap.TreeExplainer(model)
    for name in ("num_outputs", "tree_limit", "objective"):
        assert getattr(ours.model, name) == getattr(theirs.model, name)
    np.testing.assert_allclose(ours.model.predict(X), theirs.model.predict(X), atol=1e-5)
    assert (ours.feature_perturbation, glasswood.TreeExplainer(model, X).feature_perturbation) == (
        "tree_path_dependent",
        "interventional",
    )
    phi = ours.shap_values(X)
    ours.assert_additivity(phi, ours.model.predict(X))
    with pytest.raises(ArithmeticError, match="add up to the model's outputs within"):
        ours.assert_additivity(phi, ours.model.predict(X) + 1)


def test_models_that_glasswood_does_not_read_are_errors_of_shap_too():
    from shap.utils._exceptions import InvalidModelError

    for error in (InvalidModelError, TypeError):
        with pytest.raises(error, match="Model type not yet supported by TreeExplainer: "):
            glasswood.TreeExplainer(object())


def test_maskers_of_shap_hold_background_rows(X, model):
    masker = shap.maskers.Independent(X[:50], max_samples=50)
    expected = glasswood.Explainer(model, X[:50]).shap_values(X[:5])
    for explainer in (glasswood.Explainer(model, masker), glasswood.TreeExplainer(model, masker)):
        np.testing.assert_array_equal(explainer.shap_values(X[:5]), expected)
    found = glasswood.Explainer(model, masker=masker).shap_values(X[:5])
    np.testing.assert_array_equal(found, expected)


def test_means_of_clusters_are_rows_with_weights(X, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means = shap.kmeans(X, 3)
    weighted = glasswood.Explainer(model, background=means.data, background_weight=means.weights)
    assert weighted.expected_value != glasswood.Explainer(model, means.data).expected_value
    for explainer in (glasswood.Explainer(model, means), glasswood.TreeExplainer(model, means)):
        np.testing.assert_array_equal(
            explainer.shap_values(X[:5]),
            weighted.shap_values(X[:5])
            if type(explainer) is glasswood.Explainer
            else glasswood.TreeExplainer(model, means.data, background_weight=means.weights).shap_values(X[:5]),
        )
    with pytest.raises(TypeError, match="have weights already; leave out background_weight"):
        glasswood.Explainer(model, means, background_weight=np.ones(3))
    with pytest.raises(NotImplementedError, match="covers are counts of rows without weights"):
        glasswood.TreeExplainer(model, means, feature_perturbation="tree_path_dependent")


def test_means_of_clusters_know_their_columns(X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    forest = glasswood.load(xgboost.XGBRegressor(n_estimators=3).fit(frame, X[:, 0] * X[:, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means = shap.kmeans(frame[list("dcba")], 3)
    expected = glasswood.Explainer(forest, means.data[:, ::-1], background_weight=means.weights).shap_values(X[:5])
    np.testing.assert_array_equal(glasswood.Explainer(forest, means).shap_values(X[:5]), expected)


def test_arguments_of_the_class_above_trees(X, model):
    expected = glasswood.Explainer(model)(X)
    found = glasswood.Explainer(model, algorithm="tree", seed=0, output_names=["second"])(X)
    np.testing.assert_array_equal(found.values, expected.values)
    three = xgboost.XGBClassifier(n_estimators=2).fit(X, np.digitize(X[:, 0], [-1, 1]))
    named = glasswood.Explainer(three, output_names=["low", "middle", "high"])
    np.testing.assert_array_equal(named(X)[:, :, "high"].values, glasswood.Explainer(three)(X).values[:, :, 2])


def test_output_names_are_saved(X, model, tmp_path):
    del model
    three = xgboost.XGBClassifier(n_estimators=2).fit(X, np.digitize(X[:, 0], [-1, 1]))
    glasswood.Explainer(three, output_names=["low", "middle", "high"]).save(tmp_path / "explainer.glasswood")
    assert glasswood.Explainer.load(tmp_path / "explainer.glasswood")(X).output_names == ["low", "middle", "high"]


def test_a_column_is_no_row(X, model):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = glasswood.Explainer(xgboost.XGBRegressor(n_estimators=3).fit(frame, X[:, 0]))
    for call in (named, named.shap_values):
        with pytest.raises(ValueError, match="none of them a feature: a row of a frame has the names 'a', 'b'"):
            call(frame["a"][:4])
    expected = named.shap_values(frame[:1])[0]
    np.testing.assert_array_equal(named.shap_values(frame.iloc[0]), expected)
    placed = glasswood.Explainer(glasswood.load(named.forest, columns="position"))
    np.testing.assert_array_equal(placed.shap_values(pandas.Series(X[0])), expected)
    numbered = pandas.DataFrame(X).iloc[0]
    np.testing.assert_array_equal(
        glasswood.Explainer(model).shap_values(numbered), glasswood.Explainer(model).shap_values(X[0])
    )


def test_tree_explainers_are_saved_and_loaded(X, model, tmp_path):
    explainer = glasswood.TreeExplainer(model, X[:50], "probability")
    explainer.save(tmp_path / "explainer.glasswood")
    again = glasswood.TreeExplainer.load(tmp_path / "explainer.glasswood")
    assert type(again) is glasswood.TreeExplainer
    np.testing.assert_allclose(again.shap_values(X), explainer.shap_values(X), atol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_row_has_no_axis_of_rows(n_outputs):
    forest = random_forest(0, Options(n_trees=4, n_features=4, n_outputs=n_outputs))
    rows = np.ones((1, 4))
    explainer = glasswood.Explainer(forest)
    np.testing.assert_array_equal(explainer.shap_values(rows[0]), explainer.shap_values(rows)[0])
    pairs = explainer.shap_interaction_values(rows)[0]
    np.testing.assert_array_equal(explainer.shap_interaction_values(rows[0]), pairs)
    np.testing.assert_array_equal(explainer(rows[0]).values, explainer(rows)[0].values)
    out = np.zeros(explainer.shap_values(rows).shape[1:], np.float32)
    assert explainer.shap_values(rows[0], out=out).base is not None
    np.testing.assert_array_equal(out, explainer.shap_values(rows)[0])


def test_one_row_of_a_frame(X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = xgboost.XGBRegressor(n_estimators=4).fit(frame, X[:, 0])
    explainer = glasswood.Explainer(named)
    expected = explainer.shap_values(frame)[7]
    np.testing.assert_array_equal(explainer.shap_values(frame.iloc[7]), expected)
    np.testing.assert_array_equal(explainer.shap_values(frame.iloc[7][["d", "b", "a", "c"]]), expected)
    assert explainer(frame.iloc[7]).base_values == explainer(frame)[7].base_values


def test_explainers_tell_what_they_are(X, model):
    explainer = glasswood.TreeExplainer(model, X[:9], "probability")
    assert repr(explainer).startswith("TreeExplainer(Forest(8 trees, ")
    assert "output='probability'" in repr(explainer)
    assert "9 rows" in repr(explainer)
    shown = explainer._repr_html_()
    assert "<table>" in shown
    assert "interventional" in shown
    assert "path-dependent" in glasswood.Explainer(model)._repr_html_()
    assert "xgboost" in glasswood.load(model)._repr_html_()


def test_a_misspelt_argument_is_suggested(X, model):
    with pytest.raises(TypeError, match=r"'backgroud' \(did you mean background\?\)"):
        glasswood.Explainer(model, backgroud=X)
    with pytest.raises(TypeError, match=r"'tree_limits' \(did you mean tree_limit\?\)"):
        glasswood.Explainer(model).shap_values(X, tree_limits=3)


def test_names_for_suggestions_are_those_of_the_signature():
    parameters = inspect.signature(glasswood.Explainer).parameters.values()
    own = [one.name for one in parameters if one.kind != one.VAR_KEYWORD and one.name != "model"]
    assert sorted(own) == sorted(shap_arguments.OWN_NAMES)


@pytest.fixture(scope="module")
def classes(X):
    return np.digitize(2 * X[:, 0] + X[:, 1], [-1, 1])


class TestLimits:
    """shap hands `tree_limit` to LightGBM as rounds and to XGBoost as whole rounds of so many trees."""

    def test_d10_rounds_of_lightgbm(self, X, classes):
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1).fit(X, classes)
        for limit in (1, 2, 5, 6, 9):
            expected = model.predict(X, pred_contrib=True, num_iteration=limit).reshape(len(X), 3, 5)[:, :, :-1]
            found = glasswood.TreeExplainer(model).shap_values(X, tree_limit=limit)
            np.testing.assert_allclose(found, np.moveaxis(expected, 1, 2), atol=1e-6)

    def test_means_of_rounds(self, X):
        lightgbm = pytest.importorskip("lightgbm")
        how = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "n_estimators": 6, "verbose": -1}
        model = lightgbm.LGBMRegressor(**how, n_jobs=1).fit(X, X[:, 0])
        sums = model.predict(X, pred_contrib=True, num_iteration=2)[:, :-1]  # which LightGBM does not divide
        explanation = glasswood.TreeExplainer(model)(X, tree_limit=2)
        np.testing.assert_allclose(explanation.values, sums / 2, atol=1e-6)
        total = explanation.values.sum(axis=1) + explanation.base_values
        np.testing.assert_allclose(total, model.predict(X, num_iteration=2), atol=1e-6)

    @pytest.mark.parametrize("several", ["classes", "parallel"])
    def test_d10_rounds_of_xgboost(self, X, classes, several, tmp_path):
        if several == "classes":
            model = xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X, classes)
        else:
            how = {"num_parallel_tree": 3, "subsample": 0.6, "n_estimators": 6, "max_depth": 3}
            model = xgboost.XGBRegressor(**how, n_jobs=1).fit(X, X[:, 0])
        booster = model.get_booster()
        forest = glasswood.load(model)
        forest.save(tmp_path / "model.glasswood")
        for one in (model, glasswood.load(tmp_path / "model.glasswood")):
            explainer = glasswood.TreeExplainer(one)
            for limit in (3, 6, 18):
                rows = xgboost.DMatrix(X)
                expected = booster.predict(rows, pred_contribs=True, iteration_range=(0, limit // 3))[..., :-1]
                expected = np.moveaxis(expected, 1, -1) if several == "classes" else expected
                np.testing.assert_allclose(explainer.shap_values(X, tree_limit=limit), expected, atol=1e-5)
                theirs = shap.TreeExplainer(model).shap_values(X, tree_limit=limit, check_additivity=False)
                np.testing.assert_allclose(explainer.shap_values(X, tree_limit=limit), theirs, atol=1e-5)
            for call in (explainer.shap_values, explainer.shap_interaction_values, explainer):
                with pytest.raises(ValueError, match="tree_limit is 2, and a round of this model has 3 trees"):
                    call(X[:3], tree_limit=2)

    def test_trees_against_a_background(self, X, classes):
        """shap's own code counts trees."""
        model = xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X, classes)
        ours = glasswood.TreeExplainer(model, X[:30]).shap_values(X[:9], tree_limit=2)
        theirs = shap.TreeExplainer(model, X[:30]).shap_values(X[:9], tree_limit=2, check_additivity=False)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def _pair_values(margin, row, other):
    """Shapley values of the margin of one row against another, by all subsets."""
    n = len(row)
    sets = [s for k in range(n + 1) for s in itertools.combinations(range(n), k)]
    value = {s: margin(np.where(np.isin(np.arange(n), s), row, other)[None])[0] for s in sets}
    share = [math.factorial(k) * math.factorial(n - k - 1) / math.factorial(n) for k in range(n)]
    return np.array(
        [sum(share[len(s)] * (value[tuple(sorted({*s, j}))] - value[s]) for s in sets if j not in s) for j in range(n)]
    )


@pytest.mark.parametrize("output", ["probability", "log_loss"])
def test_d10_factor_at_equal_margins_is_zero(output):
    """By the rule written out over pairs; small forests have many pairs of equal margins by other leaves."""
    ensembles = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (2 * X[:, 0] + X[:, 1] > 0).astype(int)
    model = ensembles.GradientBoostingClassifier(n_estimators=6, random_state=0).fit(X, y)
    margin, n_equal = model.decision_function, 0
    rows, labels, background = X[:6], y[:6], X[:20]
    expected = np.zeros((len(rows), 3))
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        for other in background:
            (s,), (t,) = margin([row]), margin([other])
            of_pair = _pair_values(margin, row, other)
            n_equal += abs(s - t) < 1e-12 and bool(np.abs(of_pair).max() > 1e-6)
            if abs(s - t) >= 1e-12:
                sign = 2 * label - 1
                g = [1 / (1 + np.exp(-m)) if output == "probability" else np.log1p(np.exp(-sign * m)) for m in (s, t)]
                expected[i] += of_pair * (g[0] - g[1]) / (s - t) / len(background)
    assert n_equal >= 3
    given = (labels,) if output == "log_loss" else ()
    explainer = glasswood.TreeExplainer(model, background, model_output=output)
    np.testing.assert_allclose(explainer.shap_values(rows, *given), expected, atol=1e-6)
    if output == "probability":  # shap has no losses of scikit-learn's boosting
        theirs = shap.TreeExplainer(model, background, model_output=output).shap_values(rows)
        np.testing.assert_allclose(theirs, expected, atol=1e-6)
