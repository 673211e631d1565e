"""Shapley values of scores beside sums over all coalitions by the libraries' own predictions."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance, r2_score

import glasswood
from glasswood import _core
from glasswood.cli import main
from glasswood.explain.responses.permutations import EstimateWarning
from tests.explain.library_models import MODELS
from tests.explain.test_responses_of_libraries import in_float64, outputs_of, probabilities, responses
from tests.oracles import coalitions as coalitions_oracle
from tests.oracles import score as oracle
from tests.strategies import Options, full_forest, random_forest

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
F = 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, F))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + np.maximum(X[:, 3], 0) + 0.3 * rng.normal(size=300)


def squared(y, f):
    return (y - f) ** 2


def poisson(y, f):
    return 2 * (np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / f), 0) - (y - f))


def classes_loss(place, p):
    return -np.log(p[:, place])


def check(found, predict, loss, X, y, background, n_rows, weights=None, atol=1e-9):
    """Values of some rows, and their sum."""
    players = [[i] for i in range(F)]
    for row in range(n_rows):
        outputs = oracle.marginal_outputs(predict, X[row], background, players, weights)
        expected = oracle.shapley(-np.array(loss(y[row], outputs)), F)
        np.testing.assert_allclose(found.rows[row], expected, rtol=0, atol=atol * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "forest"])
def test_squared_errors_against_a_background(library, data):
    X, y = data
    model = {
        "xgboost": xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=8, num_leaves=12, n_jobs=1, verbosity=-1),
        "forest": RandomForestRegressor(5, max_depth=5, random_state=0),
    }[library].fit(X, y)
    found = glasswood.score_values(model, X[:40], y[:40], background=X[100:130], per_row=True)
    # XGBoost adds up in float32, which its errors near 10 see at 1e-6.
    check(found, model.predict, squared, X, y, X[100:130], 3, atol=1e-5 if library == "xgboost" else 1e-9)
    assert found.loss == "squared"
    np.testing.assert_allclose(found.values, found.rows.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.standard_error, found.rows.std(axis=0, ddof=1) / np.sqrt(40), rtol=1e-6)
    assert found.baseline - found.total == pytest.approx(np.mean((model.predict(X[:40]) - y[:40]) ** 2), rel=1e-5)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "forest"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_losses_are_of_mean_probabilities(library, n_classes, data):
    X, target = data
    labels = np.digitize(target, [0] if n_classes == 2 else [-0.5, 0.7])
    model = {
        "xgboost": xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbosity=-1),
        "forest": RandomForestClassifier(6, min_samples_leaf=9, random_state=0),
    }[library].fit(X, labels)
    weights = np.arange(1, 21)
    found = glasswood.score_values(
        model, X[:30], labels[:30], background=np.repeat(X[100:120], weights, axis=0), per_row=True
    )
    check(
        found,
        model.predict_proba,
        classes_loss,
        X,
        labels,
        X[100:120],
        3,
        weights,
        1e-5 if library == "xgboost" else 1e-9,
    )
    ours = log_loss(labels[:30], model.predict_proba(X[:30]), labels=range(n_classes))
    assert found.baseline - found.total == pytest.approx(ours, rel=1e-5)
    assert found.loss == "log_loss"


def test_poisson_and_callables(data):
    X, y = data
    counts = np.random.default_rng(1).poisson(np.exp(0.4 * y))
    model = lightgbm.LGBMRegressor(objective="poisson", n_estimators=9, num_leaves=7, n_jobs=1, verbosity=-1)
    model.fit(X, counts)
    found = glasswood.score_values(model, X[:30], counts[:30], background=X[50:70], per_row=True)
    check(found, model.predict, poisson, X, counts, X[50:70], 3)
    assert found.baseline - found.total == pytest.approx(mean_poisson_deviance(counts[:30], model.predict(X[:30])))
    own = glasswood.score_values(model, X[:30], counts[:30], loss=squared, background=X[50:70], per_row=True)
    check(own, model.predict, squared, X, counts, X[50:70], 2)
    assert own.loss == "squared"
    absolute = glasswood.score_values(model, X[:30], counts[:30], loss="absolute", background=X[50:70], per_row=True)
    check(absolute, model.predict, lambda t, f: np.abs(t - f), X, counts, X[50:70], 2)


def test_names_of_callables_mean_nothing(data):
    """A function that is called log_loss is no log-loss: numbers stay numbers."""

    def log_loss(y, f):
        return (y - f) ** 2

    X, y = data
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(X, y)
    found, expected = (glasswood.score_values(model, X[:9], y[:9], loss=loss) for loss in (log_loss, "squared"))
    np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.parametrize("kind", ["one tree", "forest", "boosting"])
def test_path_dependent_values(kind, data):
    X, y = data
    if kind == "boosting":
        model = GradientBoostingRegressor(n_estimators=6, max_depth=4, random_state=0).fit(X, y)
        trees, scale, base = model.estimators_[:, 0], model.learning_rate, model.init_.constant_.item()
    else:
        model = RandomForestRegressor(1 if kind == "one tree" else 4, max_depth=6, random_state=0).fit(X, y)
        trees, scale, base = model.estimators_, 1 / len(model.estimators_), 0.0
    found = glasswood.score_values(model, X[:30], y[:30], per_row=True)
    for row in range(2):
        outputs = [
            base + scale * sum(oracle.path_margin(t, X[row], {i for i in range(F) if s >> i & 1}) for t in trees)
            for s in range(1 << F)
        ]
        expected = oracle.shapley(-squared(y[row], np.array(outputs)), F)
        np.testing.assert_allclose(found.rows[row], expected, rtol=0, atol=1e-9)
    assert found.baseline - found.total == pytest.approx(np.mean((model.predict(X[:30]) - y[:30]) ** 2))


def test_shares_of_the_training_rows_add_up_to_r_squared(data):
    """The mean of a single tree over its own rows is that of the targets."""
    X, y = data
    model = RandomForestRegressor(1, bootstrap=False, max_depth=4, random_state=0).fit(X, y)
    for background in (None, X):
        found = glasswood.score_values(model, X, y, background=background)
        assert found.shares.sum() == pytest.approx(r2_score(y, model.predict(X)))


def test_groups_and_unused_features(data):
    X, y = data
    wide = np.column_stack([np.zeros(len(X)), X])
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(wide, y)
    found = glasswood.score_values(
        model, wide[:20], y[:20], background=wide[50:60], groups={"pair": [2, 3]}, per_row=True
    )
    assert found.names == ("pair", "x0", "x1", "x4", "x5")
    assert found.values[1] == 0
    players = [[2, 3], [1], [4], [5]]
    for row in range(2):
        outputs = oracle.marginal_outputs(model.predict, wide[row], wide[50:60], players)
        expected = oracle.shapley(-squared(y[row], outputs), 4)
        np.testing.assert_allclose(found.rows[row][[0, 2, 3, 4]], expected, atol=1e-9)


def test_equations_in_leaves(data):
    X, y = data
    model = glasswood.ModelTreeRegressor(max_leaves=3, time_limit=None, n_iter_no_change=5, random_state=0).fit(X, y)
    found = glasswood.score_values(model, X[:20], y[:20], background=X[50:60], per_row=True)
    check(found, model.predict, squared, X, y, X[50:60], 2)
    with pytest.raises(NotImplementedError, match="pass a background"):
        glasswood.score_values(model, X[:20], y[:20])


def test_batches_add_up(data):
    X, y = data
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X, y)
    weight = np.random.default_rng(2).uniform(size=60)
    whole = glasswood.score_values(model, X[:60], y[:60], sample_weight=weight, per_row=True)
    first, second = (
        glasswood.score_values(model, X[part], y[part], sample_weight=weight[part], per_row=True)
        for part in (slice(0, 25), slice(25, 60))
    )
    both = first + second
    for name in ("values", "standard_error", "baseline", "rows", "n_rows"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-9)
    assert whole.values == pytest.approx(np.average(whole.rows, axis=0, weights=weight))
    with pytest.raises(ValueError, match="other features or losses"):
        first + glasswood.score_values(model, X[:9], y[:9], loss="absolute")


def test_files_and_sums(data, tmp_path):
    X, y = data
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X, y)
    parts = [glasswood.score_values(model, X[part], y[part]) for part in (slice(0, 25), slice(25, 60))]
    parts[0].save(tmp_path / "score.json")
    read = type(parts[0]).load(tmp_path / "score.json")
    np.testing.assert_array_equal(read.values, parts[0].values)
    whole = glasswood.score_values(model, X[:60], y[:60])
    for both in (sum([read, pickle.loads(pickle.dumps(parts[1]))]), sum(parts)):
        np.testing.assert_allclose(both.values, whole.values, rtol=1e-9)
        np.testing.assert_allclose(both.standard_error, whole.standard_error, rtol=1e-9)
    with pytest.raises(ValueError, match=r"expected \.json"):
        whole.save(tmp_path / "score.csv")
    state = json.loads((tmp_path / "score.json").read_text())
    for wrong in (
        [],
        {},
        state | {"names": [1]},
        state | {"n_rows": 0},
        state | {"moments": [[1.0]]},
        state | {"loss": 2},
        state | {"moments": [[0.0] * 5, *state["moments"][1:]]},
        state | {"moments": [[1.0, 2.0, 1.0, 1.0, 1.0], *state["moments"][1:]]},
    ):
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"wrong\.json holds no values that ScoreValues\.save wrote"):
            type(whole).load(tmp_path / "wrong.json")


def test_the_command_line(data, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(frame, y > 0)
    model.save_model(tmp_path / "model.json")
    frame.assign(target=(y > 0).astype(int)).to_csv(tmp_path / "rows.csv", index=False)
    arguments = [str(tmp_path / "model.json"), str(tmp_path / "rows.csv"), "--target", "target", "--rows", "60"]
    main(["score", *arguments, "-o", str(tmp_path / "score.json"), "--background", str(tmp_path / "rows.csv")])
    found = glasswood.ScoreValues.load(tmp_path / "score.json")
    expected = glasswood.score_values(model, frame[:60], (y > 0)[:60].astype(int), background=frame)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    lines = capsys.readouterr().out.splitlines()
    assert "5 features, 60 rows, log_loss" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == expected.as_frame()["feature"].tolist()


def test_frames_and_pictures(data):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = data
    model = RandomForestRegressor(4, max_depth=4, random_state=0).fit(X, y)
    found = glasswood.score_values(model, X[:60], y[:60])
    frame = found.as_frame()
    assert list(frame.columns) == ["feature", "value", "standard_error", "share"]
    assert (np.diff(frame["value"]) <= 0).all()
    assert frame["value"].sum() == pytest.approx(found.total)
    ax = found.plot()
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == found.names[int(np.argmax(np.abs(found.values)))]
    assert "60 rows, squared" in repr(found)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "hinge"}, ValueError, "loss is 'hinge', expected one of auto, squared"),
        ({"y": np.zeros(3)}, ValueError, r"y has shape \(3,\), expected \(10,\)"),
        ({"y": np.full(10, np.nan)}, ValueError, "NaN or infinite"),
        ({"y": np.array(["a"] * 10)}, ValueError, "y holds text"),
        (
            {"sample_weight": -np.ones(10)},
            ValueError,
            "sample_weight is -1 in row 0, expected finite",
        ),
        ({"loss": "log_loss"}, NotImplementedError, "needs a classifier"),
        ({"loss": "poisson", "y": -np.ones(10)}, ValueError, "y holds negative numbers"),
        ({"loss": lambda *_: 0.0}, ValueError, "one loss for each row and coalition"),
        ({"loss": lambda _, f: f * np.nan}, ValueError, "loss returns NaN or infinity where y is .*, expected numbers"),
    ],
)
def test_what_does_not_fit_is_refused(options, error, message, data):
    X, y = data
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(X, y)
    arguments = {"y": y[:10]} | options
    with pytest.raises(error, match=message):
        glasswood.score_values(model, X[:10], **arguments)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("size", [1e-150, 1e70, 1e80, 1e160, 1e305])
def test_values_of_y_of_any_size_are_right_or_refused(size, background, data):
    """Losses are squares, and standard errors take the squares of these."""
    X, y = data
    y = y / np.abs(y).max()
    model = RandomForestRegressor(2, max_depth=3, random_state=0).fit(X, y)
    forest = glasswood.load(model).ensemble
    scaled = glasswood.Forest(dataclasses.replace(forest, leaf_value=forest.leaf_value * size, checked=None))
    given = {"background": X[:20]} if background else {}
    for loss, power in (("squared", 2), ("absolute", 1)):
        expected = glasswood.score_values(model, X[:40], y[:40], loss=loss, **given)
        if power * np.log10(size) > 153:
            with pytest.raises(ValueError, match=f"losses of y up to .* are no numbers .loss is '{loss}'"):
                glasswood.score_values(scaled, X[:40], y[:40] * size, loss=loss, **given)
            continue
        found = glasswood.score_values(scaled, X[:40], y[:40] * size, loss=loss, **given)
        np.testing.assert_allclose(found.values / size**power, expected.values, rtol=1e-9, atol=1e-12)
        if size > 1:
            np.testing.assert_allclose(found.standard_error / size**power, expected.standard_error, rtol=1e-6)


def test_sums_of_paths_are_those_of_the_definition_with_repeated_features_and_outputs():
    """Trees that test a feature several times on a path, vector leaves, and rows that meet all or no conditions."""
    forest = random_forest(3, Options(n_trees=7, n_features=4, n_outputs=2, vector_leaves=True))
    rows = np.random.default_rng(0).normal(size=(20, 4))
    layout = _core.CoalitionForest(forest, np.arange(4, dtype=np.int32))
    cubes = np.empty((20, 2, 1 << layout.n_used))
    layout.path_averages(layout.rows(rows.astype(forest.threshold.dtype), 1), cubes, 1)
    explainer = glasswood.Explainer(forest, dtype="float64")
    whole = explainer.forest.predict(rows, output="margin")
    np.testing.assert_allclose(cubes[:, :, -1], whole, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(cubes[0, :, 0], explainer.expected_value, atol=1e-9)
    values = np.stack([oracle.shapley(cube, layout.n_used) for cube in cubes[:, 0]])
    expected = explainer.shap_values(rows)[:, layout.bit_players(), 0]
    np.testing.assert_allclose(values, expected, atol=1e-9)


@pytest.mark.parametrize("game", ["marginal", "path-dependent"])
@pytest.mark.parametrize("kind", ["squared", "log_loss", "three classes", "group"])
def test_estimates_are_within_their_errors_of_the_truth(game, kind, data, limits):
    """Random orders in place of all coalitions, of models for which both can be had."""
    X, y = data
    X = np.column_stack([X, X[:, :2] ** 2])
    labels = y if kind in {"squared", "group"} else np.digitize(y, [0] if kind == "log_loss" else [-0.5, 0.7])
    options = {"n_estimators": 20, "num_leaves": 12, "n_jobs": 1, "verbosity": -1}
    learner = lightgbm.LGBMRegressor if kind in {"squared", "group"} else lightgbm.LGBMClassifier
    model = learner(**options).fit(X, labels)
    how = {"background": X[100:130] if game == "marginal" else None, "per_row": True}
    how |= {"groups": {"pair": [0, 5]}} if kind == "group" else {}
    exact = glasswood.score_values(model, X[:60], labels[:60], **how)
    assert not exact.is_estimated
    assert exact.row_errors is None
    limits(scored_players=2, score_tolerance=0.2)
    with pytest.warns(
        EstimateWarning, match=r"the forest tests [67] features, and values of a score are exact for up to 2"
    ):
        found = glasswood.score_values(model, X[:60], labels[:60], **how)
    assert found.is_estimated
    assert "estimated" in repr(found)
    z = (found.rows - exact.rows) / np.where(found.row_errors > 0, found.row_errors, 1)
    assert 0.3 < np.sqrt((z[found.row_errors > 0] ** 2).mean()) < 1.2
    assert (np.abs(z) < 3).mean() > 0.99
    np.testing.assert_allclose(found.rows.sum(axis=1), exact.rows.sum(axis=1), atol=1e-9)
    assert found.baseline == pytest.approx(exact.baseline)
    assert (np.abs(found.values - exact.values) < 4 * found.estimate_error + 1e-12).all()
    np.testing.assert_allclose(found.estimate_error, np.sqrt((found.row_errors**2).sum(axis=0)) / 60)
    with pytest.warns(EstimateWarning):
        some = glasswood.score_values(model, X[40:41], labels[40:41], **how)
    np.testing.assert_allclose(some.rows[0], found.rows[40], rtol=1e-12, atol=1e-15)


def test_a_hundred_features():
    """Of additive models and squared errors values have a closed form: the margin's, times twice the mean residual."""
    forest = full_forest(0, n_trees=60, depth=1, n_features=100)
    X = np.random.default_rng(0).normal(size=(12, 100))
    y = np.random.default_rng(1).normal(size=12)
    with pytest.warns(EstimateWarning, match="the forest tests"):
        found = glasswood.score_values(forest, X, y, background=X[6:], per_row=True)
    explainer = glasswood.Explainer(forest, X[6:], dtype="float64")
    phi, base = explainer.shap_values(X), explainer.expected_value
    # -(y - f)² of f = base + Σ φ has the values φ (2 (y - base) - Σ φ).
    expected = phi * (2 * (y - base) - phi.sum(axis=1))[:, None]
    np.testing.assert_array_less(np.abs(found.rows - expected), 4 * found.row_errors + 1e-9)
    np.testing.assert_allclose(found.rows.sum(axis=1), expected.sum(axis=1), atol=1e-9)


MEANS = {"identity", "logistic", "one_vs_all", "exponential", "softmax", "exp"}
"""Links of which the core computes means."""


def apart(y, f):
    """Squared distance of all outputs from y."""
    f = f if f.ndim == 3 else f[:, :, None]
    return ((f - y[:, :, None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_library(name, groups):
    """Sums over all coalitions by the forest's predictions: categories, missing values, classes, weights, groups."""
    model, X = MODELS[name]()
    forest = in_float64(glasswood.load(model))
    n, weight = forest.n_features, np.arange(1, 6)
    rows, few, labelled = X[:2], X[3:8], "log_loss" in outputs_of(forest, X)
    places = np.arange(2) % max(2, forest.n_outputs)
    y = forest.classes[0][places] if labelled and len(forest.classes) else places
    how = {"loss": "log_loss" if labelled else apart, "background": np.repeat(few, weight, axis=0), "per_row": True}
    of_feature = np.arange(n)
    if groups:
        how["groups"] = {"both": [0, n - 1]}
        of_feature = np.array([0, *range(1, n - 1), 0])
    if forest.ensemble.link not in MEANS and not (labelled and forest.ensemble.link == "identity"):
        with pytest.raises(NotImplementedError, match="means of outputs over a background are not supported"):
            glasswood.score_values(forest, rows, y, **how)
        return
    found = glasswood.score_values(forest, rows, y, **how)
    output = probabilities if labelled else responses
    game = coalitions_oracle.game(lambda some, _: output(forest, some), rows, few, of_feature, weight)
    if labelled:
        p = np.concatenate([1 - game, game], axis=2) if game.shape[2] == 1 else game
        losses = -np.log(np.clip(p[np.arange(2), :, places], 1e-15, 1))
    else:
        losses = ((game - places[:, None, None]) ** 2).sum(axis=2)
    expected = np.array([oracle.shapley(-one, of_feature.max() + 1) for one in losses])
    np.testing.assert_allclose(found.rows, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert found.baseline == pytest.approx(losses[:, 0].mean(), rel=1e-9)
