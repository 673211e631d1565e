"""ModelTreeEnsembleRegressor(method="boosting"): sequences of small trees, one forest."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow import boosting
from tests.grow.engines import interrupt_before, piecewise

TREE = glasswood.ModelTreeRegressor(
    max_leaves=4, generations=3, population_size=8, smoothing=0, noise="uniform", clip="leaf"
)


def boosted(X, y, weight=None, **parameters):
    defaults = {"method": "boosting", "n_estimators": 2, "max_trees": 30, "learning_rate": 0.3, "n_jobs": 1}
    return glasswood.ModelTreeEnsembleRegressor(TREE, **{**defaults, **parameters}).fit(X, y, weight)


def waves(n_rows, noise=0.1, seed=0):
    """A smooth target, which no tree of four planes holds."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (n_rows, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * np.cos(2 * X[:, 1]) + noise * rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def data():
    return piecewise(500)


@pytest.fixture(scope="module")
def fitted(data):
    return boosted(*data)


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def trees_of(model, number, leaf_model):
    """Trees of one sequence with equations, or without."""
    return [
        tree
        for tree, own in zip(model.estimators_, model.sequence_, strict=True)
        if own == number and tree.leaf_model == leaf_model
    ]


def added_up(model, X, y, number, leaf_model):
    """Predictions of one sequence from those of its trees; a whole tree at its beginning stands for the mean."""
    trees = trees_of(model, number, leaf_model)
    whole = trees[0].max_leaves == 64
    start = trees[0].predict(X) if whole else np.mean(y[model.samples_[number]])
    rate = 0.3 if leaf_model == "linear" else 0.45
    return start + rate * sum((tree.predict(X) for tree in trees[whole:]), np.zeros(len(X)))


def parts_of(model, X, y):
    """Predictions of the sequences with equations, and of those without, where there are any: a list of pairs."""
    leaf_models = [leaf for leaf in ("linear", "constant") if trees_of(model, 0, leaf)]
    return [[added_up(model, X, y, number, leaf) for leaf in leaf_models] for number in range(len(model.samples_))]


def error_of_mixtures(model, y, parts, share):
    """Squares of unseen rows if sequences without equations have this share."""
    total = 0.0
    for (linear, constant), sample in zip(parts, model.samples_, strict=True):
        unseen = np.setdiff1d(np.arange(len(y)), sample)
        total += np.sum((y - (1 - share) * linear - share * constant)[unseen] ** 2)
    return total


def test_predicts_the_mean_of_sums_of_small_steps(fitted, data):
    X, y = data
    parts = parts_of(fitted, X, y)
    assert [len(of_one) for of_one in parts] == [1, 1]  # constants gain nothing here
    expected = np.mean(parts, axis=(0, 1))
    np.testing.assert_allclose(fitted.predict(X), expected + (y - expected).mean(), rtol=1e-11)
    assert fitted.forest_.n_trees == len(fitted.estimators_) == len(fitted.sequence_)
    assert fitted.n_leaves_ == sum(tree.n_leaves_ for tree in fitted.estimators_)
    assert max(tree.n_leaves_ for tree in fitted.estimators_ if tree.max_leaves == 4) <= 4


def test_trees_without_equations_have_the_share_that_predicts_unseen_rows_best():
    """The best of a fine grid, for all sequences together."""
    X, y = waves(400)
    model = boosted(X, y, n_estimators=3)
    parts, n_linear = parts_of(model, X, y), len(trees_of(model, 0, "linear"))
    grid = np.linspace(0, 1, 2001)
    share = min(grid, key=lambda one: error_of_mixtures(model, y, parts, one))
    assert 0.01 < share < 0.99
    weights = model.forest_.ensemble.tree_weight[model.sequence_ == 0]
    np.testing.assert_allclose(weights[n_linear:], 0.45 * share / 3, atol=1e-4)
    expected = np.mean([(1 - share) * linear + share * constant for linear, constant in parts], axis=0)
    np.testing.assert_allclose(model.predict(X), expected + (y - expected).mean(), atol=1e-3 * y.std())


def test_a_sequence_without_equations_that_time_has_ended_is_left_out(monkeypatch):
    X, y = waves(400)
    in_time = boosted(X, y, n_estimators=1)
    assert {tree.leaf_model for tree in in_time.estimators_} == {"linear", "constant"}
    original = boosting._continued

    def late(plan, *rest):
        found = original(plan, *rest)
        if plan.member.leaf_model == "constant":
            monkeypatch.setattr(boosting.SequencePlan, "left", lambda *_: -1.0)
        return found

    monkeypatch.setattr(boosting, "_continued", late)
    too_late = boosted(X, y, n_estimators=1)
    assert {tree.leaf_model for tree in too_late.estimators_} == {"linear"}
    linear = trees_of(in_time, 0, "linear")
    assert len(linear) == len(too_late.estimators_)


def searches_of(X, y, **parameters):
    """Population sizes and generations of small trees with equations, and of whole ones."""
    ensemble = glasswood.ModelTreeEnsembleRegressor(
        method="boosting", n_estimators=1, max_trees=3, n_jobs=1, random_state=0, **parameters
    )
    trees = [tree for tree in ensemble.fit(X, y).estimators_ if tree.leaf_model == "linear"]
    small = {(tree.population_size, tree.generations) for tree in trees if tree.max_leaves == 8}
    return small, {(tree.population_size, tree.generations) for tree in trees if tree.max_leaves == 64}


def test_only_mixed_trees_of_default_estimators_have_the_briefest_searches():
    X, y = waves(200)
    assert searches_of(X, y) == ({(4, 2)}, {(16, 20)})
    given = glasswood.ModelTreeRegressor(max_leaves=8, population_size=6, generations=5)
    assert searches_of(X, y, estimator=given) == ({(6, 5)}, {(6, 5)})
    assert searches_of(X, y, max_samples=1.0) == ({(16, 20)}, set())  # no rows that a mixture could be chosen by
    assert searches_of(X, np.exp(y / 4), loss="gamma") == ({(16, 20)}, {(16, 20)})


def test_noise_has_no_equations():
    """A sequence without a share is left out."""
    X, _ = waves(400)
    model = boosted(X, np.random.default_rng(3).standard_normal(400))
    assert {tree.leaf_model for tree in model.estimators_} == {"constant"}


@pytest.mark.parametrize("signs", ["monotonic_cst", "coefficient_signs"])
def test_mixtures_keep_constraints(signs):
    X = waves(400)[0]
    y = np.sin(3 * X[:, 0]) + np.floor(2 * X[:, 1])
    estimator = glasswood.ModelTreeRegressor(max_leaves=4, generations=3, population_size=8, **{signs: [0, 1, 0]})
    model = glasswood.ModelTreeEnsembleRegressor(estimator, method="boosting", n_estimators=2, max_trees=20, n_jobs=1)
    model.fit(X, y)
    assert "constant" in {tree.leaf_model for tree in model.estimators_}
    if signs == "monotonic_cst":
        assert (model.predict(X + np.array([0, 1, 0])) >= model.predict(X) - 1e-9).all()
    ensemble = model.forest_.ensemble
    assert (ensemble.linear_coefficient[ensemble.linear_feature == 1] >= 0).all()


def test_an_exactly_linear_target_has_one_tree():
    """Its steps would add noise; and a sum of tenths never reaches the whole."""
    X = np.round(waves(300)[0], 1)  # no row lies beside the step
    target = 3 * X[:, 0] - 2 * X[:, 1] + 5 * (X[:, 2] > 2.5)
    model = boosted(X, target, learning_rate=0.1, max_trees=20)
    alone = glasswood.ModelTreeRegressor(n_iter_no_change=20, n_jobs=1).fit(X, target)
    assert rmse(model, X, target) <= rmse(alone, X, target) + 1e-9
    assert len(model.estimators_) == 2
    assert rmse(alone, X, target) < 1e-9


def test_many_small_trees_follow_what_one_does_not():
    X, y = waves(1200)
    one = TREE.fit(X[:800], y[:800])
    many = boosted(X[:800], y[:800], n_estimators=3, max_trees=60)
    assert rmse(many, X[800:], y[800:]) < 0.5 * rmse(one, X[800:], y[800:])


def test_a_sequence_ends_where_rows_that_it_has_not_seen_are_predicted_best(limits):
    """Found again from the trees of a run that never stops."""
    X, y = waves(300, noise=1.0, seed=1)
    stopped = boosted(X, y, n_estimators=1)
    limits(boosting_patience=10**6)
    kept = boosted(X, y, n_estimators=1)
    assert 1 < len(kept.estimators_) < 31
    unseen = np.setdiff1d(np.arange(300), kept.samples_[0])
    assert kept.estimators_[0].max_leaves == 64  # a whole tree at the beginning
    margin = kept.estimators_[0].predict(X[unseen])
    errors = [np.sum((y[unseen] - margin) ** 2)]
    for tree in kept.estimators_[1:]:
        margin += 0.3 * tree.predict(X[unseen])
        errors.append(np.sum((y[unseen] - margin) ** 2))
    assert np.argmin(errors) == len(errors) - 1
    assert len(stopped.estimators_) <= len(kept.estimators_)
    for tree, same in zip(stopped.estimators_, kept.estimators_, strict=False):
        np.testing.assert_array_equal(tree.predict(X[:5]), same.predict(X[:5]))


def test_noise_makes_few_trees():
    X, _ = waves(400)
    model = boosted(X, np.random.default_rng(3).standard_normal(400), max_trees=100)
    assert len(model.estimators_) < 40  # of four sequences
    assert np.abs(model.predict(X)).max() < 1


def test_without_left_out_rows_every_tree_stays(data):
    X, y = data
    model = boosted(X, y, max_trees=12, max_samples=1.0)
    assert np.bincount(model.sequence_).tolist() == [12, 12]
    with pytest.raises(ValueError, match="every tree has seen all rows; fit with max_samples below 1"):
        model.predict_interval(X)


def test_the_same_trees_for_any_number_of_threads_and_order_of_rows(fitted, data):
    X, y = data
    np.testing.assert_array_equal(boosted(X, y, n_jobs=2).forest_.ensemble.threshold, fitted.forest_.ensemble.threshold)
    np.testing.assert_array_equal(
        boosted(X[::-1], y[::-1]).forest_.ensemble.threshold, fitted.forest_.ensemble.threshold
    )


def test_explanations_add_up(fitted, data):
    X, _ = data
    explainer = glasswood.Explainer(fitted, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:50]).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X[:50]), rtol=1e-9, atol=1e-9)
    assert fitted.feature_importances_.sum() == pytest.approx(1)


def test_categories_and_missing_values(data, tmp_path):
    """Effects of categories that every tree orders by what is left of the target."""
    X, y = data
    rng = np.random.default_rng(5)
    kind, place = rng.choice(list("abcd"), 500), rng.choice([f"p{k}" for k in range(30)], 500)
    effect = dict(zip("abcd", (0.0, 4.0, -3.0, 9.0), strict=True))
    frame = pd.DataFrame({"x": X[:, 0], "kind": kind, "place": place, "z": X[:, 1]})
    frame.loc[::7, "x"] = np.nan
    frame.loc[::11, "kind"] = None
    target = y + frame["kind"].map(effect).fillna(6.0).to_numpy()
    model = boosted(frame, target)
    assert rmse(model, frame, target) < 0.5 * target.std()
    model.forest_.save(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(frame), model.predict(frame))
    parts, n_linear = parts_of(model, frame, target), len(trees_of(model, 0, "linear"))
    share = model.forest_.ensemble.tree_weight[model.sequence_ == 0][n_linear] / 0.45 * 2
    assert 0 < share < 1
    expected = np.mean([(1 - share) * linear + share * constant for linear, constant in parts], axis=0)
    np.testing.assert_allclose(model.predict(frame), expected + (target - expected).mean(), rtol=1e-10)


def test_intervals_hold_as_many_new_rows_as_they_say():
    X, y = waves(3000, noise=0.5, seed=8)
    model = boosted(X[:1500], y[:1500], n_estimators=4)
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[1500:], coverage).T
        held = (low <= y[1500:]) & (y[1500:] <= high)
        assert held.mean() == pytest.approx(coverage, abs=0.035)


def test_a_weight_of_two_is_two_rows(data):
    X, y = data[0][:150], data[1][:150]
    weight = 1.0 + (np.arange(150) % 3 == 0)
    twice = np.repeat(np.arange(150), weight.astype(int))
    weighted, repeated = boosted(X, y, weight, max_trees=8), boosted(X[twice], y[twice], max_trees=8)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


def test_copies_of_a_row_that_a_sequence_sees_do_not_judge_it(monkeypatch, data):
    X, y = data[0][:90], data[1][:90]
    judged, original = [], boosting.boosted

    def spy(plan, data, given):
        judged.append((data.columns.X[plan.draw.seen], data.columns.X[plan.draw.unseen]))
        return original(plan, data, given)

    monkeypatch.setattr("glasswood.grow.ensemble_base.boosted", spy)
    boosted(X, y, 1.0 + (np.arange(90) % 2), max_trees=2)
    for seen, unseen in judged:
        assert len(unseen) > 0
        assert not set(map(tuple, seen)) & set(map(tuple, unseen))


def test_an_interrupt_keeps_the_trees_so_far(data, monkeypatch):
    interrupt_before(monkeypatch, boosting, 3)
    model = boosted(*data, max_samples=1.0)
    assert model.interrupted_
    assert np.bincount(model.sequence_).tolist() == [3]


def test_the_time_is_shared(data):
    forever = glasswood.ModelTreeRegressor(n_iter_no_change=10**6, generations=10**6)
    model = glasswood.ModelTreeEnsembleRegressor(forever, n_estimators=3, method="boosting", time_limit=0.6, n_jobs=1)
    assert np.bincount(model.fit(*data).sequence_).min() >= 1
    assert model.estimators_[0].history_["seconds"].max(initial=0) < 30


def test_large_and_constant_targets():
    X, y = waves(120)
    huge = boosted(X, 1e100 * y, max_trees=10)
    assert rmse(huge, X, 1e100 * y) < 0.7e100 * y.std()
    np.testing.assert_allclose(boosted(X, np.full(120, 3.5)).predict(X), 3.5)
    assert boosted(X[:1], y[:1]).predict(X).tolist() == [y[0]] * 120


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"method": "stacking"}, ValueError, "method is 'stacking', expected one of mean, boosting"),
        ({"max_trees": 0}, ValueError, "max_trees is 0, expected at least 1"),
        ({"max_trees": 1.5}, TypeError, "max_trees is 1.5, expected an integer"),
        ({"learning_rate": 0}, ValueError, "learning_rate is 0, expected a number above 0 and up to 1"),
        ({"learning_rate": "slow"}, TypeError, "learning_rate is 'slow', expected a number"),
    ],
)
def test_wrong_parameters(data, parameters, error, message):
    with pytest.raises(error, match=message):
        boosted(*data, **parameters)
