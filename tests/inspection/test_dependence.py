"""Partial dependence and permutation importance, beside scikit-learn's own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glasswood
from glasswood.evaluate.evaluator import Evaluator
from glasswood.inspection.ranks import Ranks
from tests.strategies import Options, full_forest, random_forest, random_rows

inspection = pytest.importorskip("sklearn.inspection")
ensemble = pytest.importorskip("sklearn.ensemble")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module", name="X")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 2] = rng.integers(0, 5, 300)
    return X


@pytest.fixture(scope="module")
def y(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


MODELS = {
    "regression": lambda X, y: ensemble.RandomForestRegressor(7, random_state=0).fit(X, y),
    "two classes": lambda X, y: ensemble.HistGradientBoostingClassifier(max_iter=9).fit(X, y > 1),
    "three classes": lambda X, y: ensemble.RandomForestClassifier(7, random_state=0).fit(X, np.digitize(y, [0, 2])),
    "two targets": lambda X, y: ensemble.RandomForestRegressor(5, random_state=0).fit(X, np.column_stack([y, -y])),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("features", [[0], [2], [0, 2]])
def test_partial_dependence_is_that_of_scikit_learn(X, y, name, features):
    model = MODELS[name](X, y)
    settings = {"kind": "both", "grid_resolution": 12}
    weight = np.random.default_rng(1).uniform(size=len(X))
    theirs = inspection.partial_dependence(model, X, features, method="brute", sample_weight=weight, **settings)
    ours = glasswood.partial_dependence(model, X, features, sample_weight=weight, **settings)
    assert len(ours.grid_values) == len(theirs["grid_values"])
    for found, expected in zip(ours.grid_values, theirs["grid_values"], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(ours.average, theirs["average"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.individual, theirs["individual"], rtol=1e-9, atol=1e-12)


FORESTS = [
    Options(n_trees=7, n_features=4),
    Options(n_trees=5, n_features=3, row_type="float64", categorical=True, n_outputs=3),
    Options(n_trees=4, n_features=3, shape="deep chain", n_outputs=2, vector_leaves=True),
    Options(n_trees=3, n_features=20_000, thresholds="ties"),  # more than packed nodes can name
]


@pytest.mark.parametrize("options", FORESTS)
def test_one_walk_for_a_grid_has_the_bits_of_a_prediction_a_point(options):
    for seed in (1, 3) if options.n_features > 1000 else range(5):
        forest = random_forest(seed, options)
        rows = random_rows(seed, forest, 20 if options.n_features > 1000 else 150, dtype=options.row_type)
        n_points = (1, 9, 64, 129, 300)[seed]
        used = np.unique(forest.ensemble.feature[forest.ensemble.feature >= 0])
        columns = used[: 1 + seed % 2].tolist() or [0]
        points = random_rows(seed + 100, forest, n_points, dtype=options.row_type)
        evaluator = Evaluator(forest)
        found = evaluator.cpu.margins_on_grid(rows, columns, points, 2)
        for point in range(n_points):
            changed = rows.copy()
            changed[:, columns] = points[point, columns]
            expected = np.asarray(evaluator.predict_rows(changed, "margin", 1), np.float64).reshape(len(rows), -1)
            np.testing.assert_array_equal(found[:, :, point].astype(forest.ensemble.result_dtype), expected)


@pytest.mark.parametrize("options", [*FORESTS, Options(n_trees=300, n_features=3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows_are_those_of_each_row(options, weighted):
    for seed in (1 + weighted,) if options.n_features > 1000 else range(4):
        forest = random_forest(seed, options)
        n_rows = (1, 60, 90, 150)[seed] if options.n_features > 1000 else (1, 150, 513, 900)[seed]
        rows = random_rows(seed, forest, n_rows, dtype=options.row_type)
        weights = np.random.default_rng(seed).gamma(1, size=n_rows) if weighted else None
        used = np.unique(forest.ensemble.feature[forest.ensemble.feature >= 0])
        columns = used[: 1 + seed % 2].tolist() or [0]
        points = random_rows(seed + 100, forest, (9, 64, 129, 300)[seed], dtype=options.row_type)
        cpu = Evaluator(forest).cpu
        each = cpu.margins_on_grid(rows, columns, points, 2)
        expected = np.einsum("rkp,r->pk", each, np.ones(n_rows) if weights is None else weights)
        found = [cpu.sums_on_grid(rows, columns, points, weights, n_jobs) for n_jobs in (1, 2, 3)]
        size = np.abs(each).sum(axis=0).max() * (1 if weights is None else weights.max())
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-13 * size)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_sums_of_more_rows_than_a_tile():
    forest = random_forest(0, Options(n_trees=3, n_features=4))
    rows = random_rows(0, forest, 70_001)
    points = random_rows(1, forest, 20)
    cpu = Evaluator(forest).cpu
    expected = cpu.margins_on_grid(rows, [1], points, 2).sum(axis=0).T
    np.testing.assert_allclose(cpu.sums_on_grid(rows, [1], points, None, 2), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="weights are not one a row"):
        cpu.sums_on_grid(rows, [1], points, np.ones(3), 2)
    with pytest.raises(ValueError, match="no such column"):
        cpu.sums_on_grid(rows, [4], points, None, 2)


@pytest.mark.parametrize("method", ["auto", "decision_function"])
def test_means_alone_are_those_beside_single_rows(X, y, method):
    for name, make in MODELS.items():
        both = glasswood.partial_dependence(
            make(X, y), X, [0, 1], kind="both", response_method=method, grid_resolution=9
        )
        alone = glasswood.partial_dependence(make(X, y), X, [0, 1], response_method=method, grid_resolution=9)
        np.testing.assert_allclose(alone.average, both.average, rtol=1e-6, atol=1e-7, err_msg=name)
        assert alone.average.shape == both.average.shape


def test_results_do_not_depend_on_threads_or_on_the_size_of_pieces(X, y, monkeypatch):
    forest = glasswood.load(MODELS["two classes"](X, y))
    whole = []
    for n_jobs in (1, 2):
        with glasswood.config_context(n_jobs=n_jobs):
            whole.append(glasswood.partial_dependence(forest, X, [0, 1], kind="both", grid_resolution=15))
    monkeypatch.setattr("glasswood.inspection.rows.MOST_NUMBERS", 15 * 15 * 7)
    pieces = glasswood.partial_dependence(forest, X, [0, 1], kind="both", grid_resolution=15)
    np.testing.assert_array_equal(whole[0].individual, whole[1].individual)
    np.testing.assert_array_equal(whole[0].average, whole[1].average)
    np.testing.assert_array_equal(whole[0].individual, pieces.individual)
    np.testing.assert_allclose(whole[0].average, pieces.average, rtol=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_ranks_reach_the_same_leaves(seed):
    forest = random_forest(seed, Options(n_trees=6, n_features=5, row_type="float64"))
    rows = random_rows(seed, forest, 200).astype(np.float64)
    assert Ranks.serve(forest)
    ranks = Ranks(forest)
    expected = Evaluator(forest).predict_rows(rows, "margin", 1)
    np.testing.assert_array_equal(Evaluator(ranks.forest).predict_rows(ranks.rows(rows), "margin", 1), expected)


def test_zeros_that_are_missing_and_ends_of_the_numbers():
    forest = full_forest(0, 20, 4, 3, row_type="float64")
    threshold = forest.ensemble.threshold.copy()
    threshold[::7], threshold[3::11] = np.inf, 0.0
    threshold[forest.ensemble.feature < 0] = 0
    forest = dataclasses.replace(
        forest, threshold=threshold, zero_missing=np.array([True, False, False]), zero_threshold=1e-35
    )
    special = np.array([0.0, -0.0, 1e-36, -1e-36, np.inf, -np.inf, np.nan, *forest.ensemble.threshold[:20]])
    rows = np.random.default_rng(0).choice(special, (300, 3))
    ranks = Ranks(forest)
    expected = Evaluator(forest).predict_rows(rows, "margin", 1)
    np.testing.assert_array_equal(Evaluator(ranks.forest).predict_rows(ranks.rows(rows), "margin", 1), expected)


def test_rows_are_not_changed(X, y):
    model, before = MODELS["regression"](X, y), X.copy()
    glasswood.partial_dependence(model, X, 0, grid_resolution=3)
    glasswood.permutation_importance(model, X, y)
    np.testing.assert_array_equal(X, before)


def test_categories_missing_values_and_linear_leaves(X, y):
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(
        c=pandas.Categorical(np.array(list("vwxyz"))[X[:, 2].astype(int)])
    )
    frame.loc[:9, "a"] = np.nan
    frame.loc[3, "c"] = np.nan
    tree = glasswood.ModelTreeRegressor(max_leaves=4, n_iter_no_change=5, n_jobs=1).fit(frame, y)
    result = glasswood.partial_dependence(tree, frame, "c")
    assert sorted(result.grid_values[0]) == list("vwxyz")
    for value, average in zip(result.grid_values[0], result.average[0], strict=True):
        changed = frame.assign(c=pandas.Categorical([value] * len(frame), categories=list("vwxyz")))
        assert average == pytest.approx(tree.predict(changed).mean())
    custom = glasswood.partial_dependence(
        tree, frame, ["c", "a"], custom_values={"c": ["x", "v"], "a": [0.0, 1.0, 2.0]}
    )
    assert custom.average.shape == (1, 2, 3)
    assert custom.average[0, 1, 2] == pytest.approx(
        tree.predict(frame.assign(a=2.0, c=pandas.Categorical(["v"] * len(frame)))).mean()
    )
    assert "individual" not in custom
    with pytest.raises(ValueError, match="holds 'q', which no row of X has"):
        glasswood.partial_dependence(tree, frame, "c", custom_values={"c": ["q"]})


def test_numbers_beside_text_have_an_even_grid(X, y):
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(kind=pandas.Categorical(np.where(X[:, 2] > 2, "x", "z")))
    model = glasswood.ModelTreeRegressor(max_leaves=3, generations=3, random_state=0).fit(frame, y)
    (grid,) = glasswood.partial_dependence(model, frame, "a", grid_resolution=12).grid_values
    assert len(grid) == 12
    np.testing.assert_allclose(np.diff(grid), grid[1] - grid[0])
    assert glasswood.partial_dependence(model, frame, "kind").grid_values[0].tolist() == ["x", "z"]


def test_values_close_to_each_other_have_a_grid(X, y):
    for close in (2017 + 1e-4 * X, 1e-9 * X):
        model = ensemble.RandomForestRegressor(3, random_state=0).fit(close.astype(np.float32), y)
        (grid,) = glasswood.partial_dependence(model, close, 0, grid_resolution=20).grid_values
        assert (np.diff(grid) > 0).all()
        assert np.ptp(grid) > np.ptp(close[:, 0]) / 3


def test_margins_on_request(X, y):
    model = MODELS["two classes"](X, y)
    result = glasswood.partial_dependence(model, X, 0, response_method="decision_function", grid_resolution=5)
    theirs = inspection.partial_dependence(
        model, X, [0], response_method="decision_function", method="brute", grid_resolution=5
    )
    np.testing.assert_allclose(result.average, theirs["average"], rtol=1e-6)


@pytest.mark.parametrize("name", ["regression", "two classes", "three classes"])
def test_permutation_importance_is_that_of_scikit_learn(X, y, name):
    model = MODELS[name](X, y)
    target = {"regression": y, "two classes": y > 1, "three classes": np.digitize(y, [0, 2])}[name]
    weight = np.random.default_rng(1).uniform(size=len(X))
    for settings in ({}, {"sample_weight": weight}, {"n_repeats": 2}):
        theirs = inspection.permutation_importance(model, X, target, random_state=3, **settings)
        ours = glasswood.permutation_importance(model, X, target, random_state=3, **settings)
        np.testing.assert_allclose(ours.importances, theirs.importances, atol=1e-9)
        np.testing.assert_allclose(ours.importances_std, theirs.importances_std, atol=1e-9)


@pytest.mark.parametrize(
    "scoring", ["neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error", "neg_log_loss"]
)
def test_scores_are_those_of_scikit_learn(X, y, scoring):
    is_loss = scoring == "neg_log_loss"
    model = MODELS["two classes" if is_loss else "regression"](X, y)
    target = np.where(y > 1, True, False) if is_loss else y
    theirs = inspection.permutation_importance(model, X, target, random_state=0, scoring=scoring, n_repeats=2)
    ours = glasswood.permutation_importance(model, X, target, random_state=0, scoring=scoring, n_repeats=2)
    np.testing.assert_allclose(ours.importances, theirs.importances, rtol=1e-5, atol=1e-9)


@pytest.fixture(scope="module", name="people")
def frame_of_categories():
    """Texts as categories, one of them missing now and then, beside numbers; and two classes."""
    rng = np.random.default_rng(4)
    texts = {name: np.array([f"{name} {i}" for i in range(n)]) for name, n in (("job", 15), ("town", 60), ("sex", 2))}
    columns = {name: names[rng.integers(0, len(names), 600)].astype(object) for name, names in texts.items()}
    columns["town"][::17] = None
    frame = (
        pandas.DataFrame(columns).astype("category").assign(age=rng.integers(18, 90, 600), pay=rng.gamma(2, size=600))
    )
    frame.loc[::13, "pay"] = np.nan
    score = frame.job.cat.codes % 4 + 0.1 * (frame.town.cat.codes % 7) * frame.pay.fillna(1) + (frame.age > 40)
    return frame, (score + rng.normal(size=600) > score.median()).to_numpy().astype(int)


def _xgboost(frame, y):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(n_estimators=20, max_depth=6, enable_categorical=True, n_jobs=1).fit(frame, y)


def _lightgbm(frame, y):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(frame, y)


def _catboost(frame, y):
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 20, "one_hot_max_size": 255, "verbose": 0, "allow_writing_files": False}
    texts = ["job", "town", "sex"]
    model = catboost.CatBoostClassifier(**settings, cat_features=texts, random_seed=0)
    return model.fit(frame, y)


def _histograms(frame, y):
    return ensemble.HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype").fit(frame, y)


@pytest.mark.parametrize("train", [_xgboost, _lightgbm, _catboost, _histograms], ids=lambda train: train.__name__)
def test_permutation_importance_of_categories_is_that_of_scikit_learn(people, train):
    frame, y = people
    if train is _catboost:
        frame = frame.assign(town=frame.town.cat.add_categories("none").fillna("none"))
    model = train(frame, y)
    for settings in ({"n_repeats": 3}, {"n_repeats": 2, "max_samples": 0.5}):
        theirs = inspection.permutation_importance(model, frame, y, random_state=5, **settings)
        ours = glasswood.permutation_importance(model, frame, y, random_state=5, **settings)
        np.testing.assert_array_equal(ours.importances, theirs.importances)


def test_shuffles_in_parts_are_those_of_all_together(X, y, monkeypatch):
    model = MODELS["two classes"](X, y)
    whole = glasswood.permutation_importance(model, X, y > 1, random_state=0, n_repeats=7).importances
    monkeypatch.setattr("glasswood.inspection.rows.MOST_NUMBERS", 1000)
    monkeypatch.setattr("glasswood.inspection.importance.MOST_NUMBERS", 1000)
    np.testing.assert_array_equal(
        glasswood.permutation_importance(model, X, y > 1, random_state=0, n_repeats=7).importances, whole
    )


def test_some_rows_and_own_scores(X, y):
    model = MODELS["regression"](X, y)
    few = glasswood.permutation_importance(model, X, y, max_samples=0.5, random_state=0)
    assert few.importances_mean[2] > few.importances_mean[3]
    fifty = [glasswood.permutation_importance(model, X, y, max_samples=n, random_state=0) for n in (50, np.int64(50))]
    np.testing.assert_array_equal(fifty[0].importances, fifty[1].importances)
    own = glasswood.permutation_importance(model, X, y, scoring=lambda y, p, _: -np.abs(y - p).mean(), random_state=0)
    named = glasswood.permutation_importance(model, X, y, scoring="neg_mean_absolute_error", random_state=0)
    np.testing.assert_allclose(own.importances, named.importances)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, _: glasswood.partial_dependence(m, X, 4), "features holds 4, expected 0 to 3"),
        (lambda m, X, _: glasswood.partial_dependence(m, X, "a"), "no feature is called 'a'"),
        (lambda m, X, _: glasswood.partial_dependence(m, X, [0, 1, 2]), "expected one feature or two"),
        (lambda m, X, _: glasswood.partial_dependence(m, X, 0, kind="all"), "kind is 'all'"),
        (lambda m, X, _: glasswood.partial_dependence(m, X[:0], 0), "X has no rows"),
        (lambda m, X, _: glasswood.partial_dependence(m, X, 0, percentiles=(0.9, 0.1)), "two rising numbers"),
        (
            lambda m, X, _: glasswood.partial_dependence(
                m, np.where(X > 1, X, 0), 0, percentiles=(0, 0.5), grid_resolution=2
            ),
            "are both 0; pass percentiles further apart",
        ),
        (lambda m, X, _: glasswood.partial_dependence(m, X * np.nan, 0), "NaN|missing in all rows"),
        (lambda m, X, y: glasswood.permutation_importance(m, X, y[:3]), r"y has shape \(3,\), expected \(300,\)"),
        (
            lambda m, X, y: glasswood.permutation_importance(m, X, y, scoring="f2"),
            "scoring is 'f2', expected one of r2",
        ),
        (lambda m, X, y: glasswood.permutation_importance(m, X, y, n_repeats=0), "n_repeats is 0"),
        (lambda m, X, y: glasswood.permutation_importance(m, X, y, max_samples=2.0), "max_samples is 2.0"),
        (
            lambda m, X, y: glasswood.permutation_importance(m, X, y, sample_weight=[1]),
            r"sample_weight has shape \(1,\)",
        ),
        (
            lambda m, X, _: glasswood.partial_dependence(m, X, 0, sample_weight=[1, 2]),
            r"sample_weight has shape \(2,\)",
        ),
        (
            lambda m, X, _: glasswood.partial_dependence(m, X, 0, sample_weight=0 * X[:, 0]),
            "sample_weight is 0 in all rows",
        ),
    ],
)
def test_refusals(X, y, call, message):
    with pytest.raises(ValueError, match=message):
        call(MODELS["regression"](X, y), X, y)


def test_labels_of_other_kinds_than_the_classes_are_refused(X, y):
    classifier = MODELS["two classes"](X, y)
    text = np.where(y > 1, "high", "low")
    for scoring in (None, "neg_log_loss"):
        with pytest.raises(ValueError, match=r"y holds '(high|low)', expected one of .* classes, such as \[False"):
            glasswood.permutation_importance(classifier, X, text, scoring=scoring)
    with pytest.raises(ValueError, match="has no labels; replace them by 0, 1"):
        glasswood.permutation_importance(MODELS["regression"](X, y), X, text)


def test_targets_may_be_a_frame_of_one_column(X, y):
    model = MODELS["regression"](X, y)
    expected = glasswood.permutation_importance(model, X, y, random_state=0).importances
    for target in (pandas.DataFrame({"y": y}), y[:, None]):
        found = glasswood.permutation_importance(model, X, target, random_state=0).importances
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("text", [False, True])
def test_importance_of_several_classes_of_catboost(text):
    """CatBoost returns labels of several classes as a column, which beside y of shape (n,) was never equal."""
    catboost = pytest.importorskip("catboost")
    from sklearn.inspection import permutation_importance

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
    y = np.array(["a", "b", "c"])[y] if text else y
    model = catboost.CatBoostClassifier(iterations=10, depth=3, verbose=0, thread_count=1, allow_writing_files=False)
    model.fit(X, y)
    found = glasswood.permutation_importance(model, X, y, random_state=0).importances
    expected = permutation_importance(model, X, y, scoring="accuracy", random_state=0).importances
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0].min() > 0.2


def one_hot_catboost(n=300):
    """CatBoost keeps the hashes of the categories that a split tests, which are few of five."""
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, n)
    X = pandas.DataFrame({"c": np.array(["k0", "k1", "k2", "k3", "k4"])[codes], "x": rng.normal(size=n)})
    model = catboost.CatBoostRegressor(
        iterations=3,
        depth=2,
        one_hot_max_size=50,
        verbose=0,
        thread_count=1,
        cat_features=["c"],
        allow_writing_files=False,
    )
    return model.fit(X, np.array([0, 3.0, 0, 0.1, 0])[codes] + X.x), X


def test_categories_that_no_split_tests_are_part_of_grids():
    model, X = one_hot_catboost()
    assert len(glasswood.load(model).ensemble.categories[0]) < 5
    expected = inspection.partial_dependence(
        model, X, ["c"], categorical_features=["c"], kind="average", method="brute"
    )
    by_label = dict(zip(expected["grid_values"][0], expected["average"][0], strict=True))
    effects = glasswood.effects(model, X)
    for found in (glasswood.partial_dependence(model, X, "c"), effects.dependence("c")):
        assert set(found.grid_values[0]) == set(by_label)
        np.testing.assert_allclose(found.average[0], [by_label[label] for label in found.grid_values[0]], rtol=1e-6)
    chosen = glasswood.partial_dependence(model, X, "c", custom_values={"c": ["k0", "k2"]})
    np.testing.assert_allclose(chosen.average[0], [by_label["k0"], by_label["k2"]], rtol=1e-6)
    local = effects.ale("c")
    assert set(local.grid_values[0]) == set(by_label)
    at = dict(zip(local.grid_values[0], local.average[0], strict=True))
    assert abs(np.mean([at[label] for label in X.c])) < 1e-9
    equal = [label for label in by_label if by_label[label] == min(by_label.values())]
    assert np.ptp([at[label] for label in equal]) < 1e-9


def test_shifts_among_categories_that_no_split_tests():
    model, X = one_hot_catboost()
    moved = X.assign(c=X.c.replace({"k0": "k2"}))
    share = (X.c == "k0").mean()
    assert glasswood.compare(X, moved, model=model).shift[0] == pytest.approx(share, abs=1e-12)
