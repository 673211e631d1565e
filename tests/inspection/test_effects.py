"""Effects of all features and pairs, beside sums over rows and the definitions."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest

import glasswood
from glasswood import _core
from tests.strategies import Options, full_forest, random_forest, random_rows

FORESTS = {
    "numbers": Options(n_trees=9, n_features=4),
    "categories, three outputs": Options(n_trees=5, n_features=3, row_type="float64", categorical=True, n_outputs=3),
    "chains, vectors": Options(n_trees=4, n_features=3, shape="deep chain", n_outputs=2, vector_leaves=True),
    "many features": Options(n_trees=6, n_features=90, shape="deep chain"),
}


def predicted(forest, rows, changes=None, output="margin"):
    """Predictions with other values in some columns, (n, k)."""
    rows = np.array(rows)
    for feature, values in (changes or {}).items():
        rows[:, feature] = values
    found = np.asarray(forest.predict(rows, output), np.float64).reshape(len(rows), -1)
    return found[:, 1:] if output == "probability" and found.shape[1] == 2 else found


def mean_with(forest, rows, changes, weight=None, output="margin"):
    return np.average(predicted(forest, rows, changes, output), axis=0, weights=weight)


def grids_of(forest, rows, n):
    """Values of the rows, of each feature, without missing ones."""
    grids = {}
    for feature in range(forest.n_features):
        values = np.unique(rows[:, feature][~np.isnan(rows[:, feature])])
        grids[feature] = values[:: max(1, len(values) // n)][:n]
    return {feature: grid for feature, grid in grids.items() if len(grid)}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_curves_and_surfaces_are_means_of_predictions(name, weighted):
    for seed in range(3):
        forest = random_forest(seed, FORESTS[name])
        rows = random_rows(seed, forest, (1, 67, 200)[seed], dtype=FORESTS[name].row_type)
        weight = np.random.default_rng(seed).gamma(1, size=len(rows)) if weighted else None
        grids = grids_of(forest, rows, 5)
        used = [f for f in np.unique(forest.ensemble.feature[forest.ensemble.feature >= 0]) if f in grids][:4]
        given = {int(feature): grids[feature] for feature in used}
        found = glasswood.effects(forest, rows, features=list(given), sample_weight=weight, custom_values=given)
        size = 1e-12 * np.abs(predicted(forest, rows)).max() * forest.n_trees
        np.testing.assert_allclose(found.mean, mean_with(forest, rows, {}, weight), atol=size)
        for feature, grid in given.items():
            each = [mean_with(forest, rows, {feature: value}, weight) for value in grid]
            np.testing.assert_allclose(found.dependence(feature).average, np.transpose(each), rtol=0, atol=size)
        for a, b in itertools.permutations(given, 2):
            each = [[mean_with(forest, rows, {a: x, b: y}, weight) for y in given[b]] for x in given[a]]
            expected = np.transpose(np.array(each), (2, 0, 1))
            np.testing.assert_allclose(found.dependence(a, b).average, expected, rtol=0, atol=size)


def test_bits_do_not_depend_on_the_number_of_threads():
    forest = random_forest(0, Options(n_trees=40, n_features=6))
    rows = random_rows(0, forest, 40_000)
    weight = np.random.default_rng(0).gamma(1, size=len(rows))
    found = []
    for n_jobs in (1, 2, 3):
        with glasswood.config_context(n_jobs=n_jobs):
            effects = glasswood.effects(forest, rows, sample_weight=weight)
            found.append([effects.dependence(*pair).average for pair in effects.pairs])
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


def test_deep_trees_whose_rows_are_moved_together():
    forest = full_forest(0, 1, 13, 9)
    rows = random_rows(0, forest, 9000)
    grids = grids_of(forest, rows, 3)
    for weight in (None, np.random.default_rng(0).gamma(1, size=len(rows))):
        found = glasswood.effects(forest, rows, sample_weight=weight, custom_values=grids)
        size = 1e-12 * np.abs(predicted(forest, rows)).max()
        for a, b in ((0, 1), (3, 8)):
            each = [[mean_with(forest, rows, {a: x, b: y}, weight)[0] for y in grids[b]] for x in grids[a]]
            np.testing.assert_allclose(found.dependence(a, b).average[0], each, rtol=1e-10, atol=size)


@pytest.fixture(scope="module", name="classifier")
def _classifier():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) > 0.2
    return ensemble.HistGradientBoostingClassifier(max_iter=15, random_state=0).fit(X, y), X


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_probabilities_are_means_too(classifier, output):
    model, X = classifier
    forest = glasswood.load(model)
    found = glasswood.effects(model, X, output=output, pairs=[(1, 0)], grid_resolution=6)
    for feature in range(4):
        curve = found.dependence(feature)
        each = [mean_with(forest, X, {feature: value}, output=output)[0] for value in curve.grid_values[0]]
        np.testing.assert_allclose(curve.average[0], each, rtol=1e-9)
    surface = found.dependence(1, 0)
    each = [
        [mean_with(forest, X, {1: x, 0: y}, output=output)[0] for y in surface.grid_values[1]]
        for x in surface.grid_values[0]
    ]
    np.testing.assert_allclose(surface.average[0], each, rtol=1e-9, atol=1e-12)


def h_of(forest, rows, points, output, weight):
    """H of all pairs and of each feature, by the formulae of Friedman and Popescu (2008), section 8.1."""
    own = weight[points]

    def centred(values):
        return values - np.average(values, weights=own)

    def dependence(features):
        each = [mean_with(forest, rows, {f: rows[p, f] for f in features}, weight, output)[0] for p in points]
        return centred(np.array(each))

    one = {feature: dependence([feature]) for feature in range(forest.n_features)}
    pairs = {}
    for a, b in itertools.combinations(one, 2):
        both = dependence([a, b])
        whole = np.average(both**2, weights=own)
        pairs[a, b] = np.sqrt(np.average((both - one[a] - one[b]) ** 2, weights=own) / whole) if whole > 1e-25 else 0
    whole = centred(predicted(forest, rows[points], output=output)[:, 0])
    overall = [
        np.sqrt(np.average((whole - one[f] - dependence([g for g in one if g != f])) ** 2, weights=own)
                / np.average(whole**2, weights=own))
        for f in one
    ]  # fmt: skip
    return pairs, overall


@pytest.mark.parametrize("output", ["margin", "probability"])
@pytest.mark.parametrize("weighted", [False, True])
def test_h_is_that_of_its_formula(classifier, output, weighted):
    model, X = classifier
    forest = glasswood.load(model)
    weight = np.random.default_rng(1).gamma(1, size=len(X)) if weighted else None
    found = glasswood.effects(model, X, output=output, pairs="all", sample_weight=weight, grid_resolution=3)
    result = found.interactions(n_points=17)
    points = np.linspace(0, len(X) - 1, 17).astype(int)
    pairs, overall = h_of(forest, X, points, output, np.ones(len(X)) if weight is None else weight)
    np.testing.assert_allclose(result.h[:, 0], list(pairs.values()), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(result.overall[:, 0], overall, rtol=1e-7, atol=1e-7)
    assert result.pairs == [(f"x{a}", f"x{b}") for a, b in pairs]


def test_h_of_sums_is_zero_and_of_products_is_not():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    additive = ensemble.GradientBoostingRegressor(max_depth=1, n_estimators=50).fit(X, X[:, 0] + X[:, 1])
    assert glasswood.effects(additive, X).interactions().h.max() == 0
    product = ensemble.GradientBoostingRegressor(max_depth=3).fit(X, X[:, 0] * X[:, 1])
    assert glasswood.effects(additive, X, features=[1]).interactions().h.shape == (0, 1)
    found = glasswood.effects(product, X).interactions()
    assert found.h[0, 0] > 0.9
    assert found.pairs[np.argmax(found.strength[:, 0])] == ("x0", "x1")
    assert glasswood.effects(product, X).strongest_pairs()[0] == ("x0", "x1")


def ale_of(forest, X, feature, edges, output, weight):
    """Equation 15 of Apley and Zhu (2020), row by row."""
    sums, sizes = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for row in range(len(X)):
        x = X[row, feature]
        if np.isnan(x):
            continue
        k = next(k for k in range(len(edges) - 1) if x <= edges[k + 1] or k == len(edges) - 2)
        upper, lower = (predicted(forest, X[row : row + 1], {feature: edges[k + up]}, output)[0, 0] for up in (1, 0))
        sums[k] += weight[row] * (upper - lower)
        sizes[k] += weight[row]
    curve = np.concatenate([[0], np.cumsum(sums / sizes)])
    return curve - ((curve[1:] + curve[:-1]) / 2 * sizes).sum() / sizes.sum()


@pytest.mark.parametrize("output", ["margin", "probability"])
@pytest.mark.parametrize("bins", [7, "thresholds"])
def test_accumulated_effects_are_those_of_the_definition(classifier, output, bins):
    model, X = classifier
    weight = np.random.default_rng(2).gamma(1, size=len(X))
    found = glasswood.effects(model, X, output=output, sample_weight=weight, pairs=()).ale(0, bins=bins)
    expected = ale_of(glasswood.load(model), X, 0, found.grid_values[0], output, weight)
    np.testing.assert_allclose(found.average[0], expected, rtol=1e-7, atol=1e-9)


def test_accumulated_effects_of_pairs_are_those_of_the_definition(classifier):
    model, X = classifier
    forest = glasswood.load(model)
    found = glasswood.effects(model, X).ale(0, 1, bins=5)
    first, second = found.grid_values
    sums, sizes = np.zeros((len(first) - 1, len(second) - 1)), np.zeros((len(first) - 1, len(second) - 1))
    for row in X[~np.isnan(X[:, :2]).any(axis=1)]:
        k = next(k for k in range(len(first) - 1) if row[0] <= first[k + 1])
        m = next(m for m in range(len(second) - 1) if row[1] <= second[m + 1])
        at = {(i, j): predicted(forest, row[None], {0: first[k + i], 1: second[m + j]})[0, 0]
              for i in (0, 1) for j in (0, 1)}  # fmt: skip
        sums[k, m] += at[1, 1] - at[0, 1] - at[1, 0] + at[0, 0]
        sizes[k, m] += 1
    assert (sizes > 0).all()
    local = sums / sizes
    total = np.zeros((len(first), len(second)))
    for k in range(1, len(first)):
        for m in range(1, len(second)):
            total[k, m] = local[:k, :m].sum()
    surface = found.average[0]
    # What is added to the sum of differences depends on one feature each (equations 16 and 17).
    rest = surface - total
    np.testing.assert_allclose(rest - rest[:1] - rest[:, :1] + rest[:1, :1], 0, atol=1e-9)
    middle = (surface[1:, 1:] + surface[1:, :-1] + surface[:-1, 1:] + surface[:-1, :-1]) / 4
    assert abs((middle * sizes).sum()) < 1e-7
    steps = np.diff(surface, axis=0)
    np.testing.assert_allclose(((steps[:, 1:] + steps[:, :-1]) / 2 * sizes).sum(axis=1), 0, atol=1e-7)


def test_accumulated_effects_of_a_model_that_adds_up_are_its_terms():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).uniform(-1, 1, size=(1500, 2))
    model = ensemble.GradientBoostingRegressor(max_depth=1, n_estimators=80).fit(X, X[:, 0] ** 2 + X[:, 1])
    found = glasswood.effects(model, X)
    ale = found.ale(0, bins="thresholds")
    curve = glasswood.effects(model, X, custom_values={0: ale.grid_values[0]}).dependence(0)
    np.testing.assert_allclose(np.diff(ale.average), np.diff(curve.average), atol=1e-10)
    np.testing.assert_allclose(found.ale(0, 1, bins=6).average, 0, atol=1e-10)


def test_categories_move_to_their_neighbours():
    lightgbm = pytest.importorskip("lightgbm")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"colour": rng.choice(["red", "green", "blue"], 400), "x": rng.normal(size=400)})
    frame["colour"] = frame["colour"].astype("category")
    y = frame["x"] + frame["colour"].map({"red": 0.0, "green": 5.0, "blue": 1.0}).astype(float)
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1).fit(frame, y)
    found = glasswood.effects(model, frame)
    assert sorted(found.dependence("colour").grid_values[0]) == ["blue", "green", "red"]
    for value, mean in zip(*(found.dependence("colour")[key] for key in ("grid_values", "average")), strict=True):
        for category, one in zip(value, mean, strict=True):
            every = frame.assign(colour=pandas.Categorical([category] * 400, categories=["blue", "green", "red"]))
            np.testing.assert_allclose(one, model.predict(every).mean(), rtol=1e-9)
    ale = found.ale("colour")
    assert list(ale.grid_values[0]) == ["red", "blue", "green"]
    share = frame["colour"].value_counts(normalize=True)
    assert abs(ale.average[0] @ share[list(ale.grid_values[0])].to_numpy()) < 1e-9
    own = model.predict(frame)
    pair = frame["colour"].isin(["red", "blue"]).to_numpy()
    swapped = frame.assign(colour=frame["colour"].map({"red": "blue", "blue": "red", "green": "green"}))
    swapped["colour"] = pandas.Categorical(swapped["colour"], categories=["blue", "green", "red"])
    sign = np.where(frame["colour"] == "red", 1, -1)
    step = (sign * (model.predict(swapped) - own))[pair].mean()
    np.testing.assert_allclose(ale.average[0, 1] - ale.average[0, 0], step, rtol=1e-9)
    with pytest.raises(NotImplementedError, match="'colour' has categories, which have no order"):
        found.ale("colour", "x")


def test_linear_leaves_are_predicted_point_by_point():
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.where(X[:, 0] > 0, X[:, 1], -X[:, 1])
    model = glasswood.ModelTreeRegressor(generations=30, device="cpu").fit(X, y)
    found = glasswood.effects(model, X, pairs=[(0, 1)], grid_resolution=5)
    forest = glasswood.load(model)
    curve = found.dependence(1)
    each = [mean_with(forest, X, {1: value})[0] for value in curve.grid_values[0]]
    np.testing.assert_allclose(curve.average[0], each, rtol=1e-6, atol=1e-6)


def test_ugly_rows():
    forest = random_forest(3, Options(n_trees=5, n_features=4))
    rows = random_rows(3, forest, 60)
    rows[:, 0], rows[:, 1] = 2.5, np.nan
    found = glasswood.effects(forest, rows)
    assert found.dependence(0).grid_values[0].tolist() == [2.5]
    assert np.isnan(found.dependence(1).grid_values[0]).all()
    np.testing.assert_allclose(found.dependence(0).average[:, 0], found.mean, rtol=1e-9)
    np.testing.assert_allclose(found.ale(0).average, 0)
    with pytest.raises(ValueError, match="feature 1 is missing in all rows"):
        found.ale(1)
    far = glasswood.effects(forest, rows, custom_values={2: [-1e30, 1e30]}).dependence(2)
    for value, mean in zip([-1e30, 1e30], far.average[0], strict=True):
        np.testing.assert_allclose(mean, mean_with(forest, rows, {2: value})[0], rtol=1e-9)
    spike = np.array(rows)
    spike[:, 3] = np.where(np.arange(60) < 58, 0, np.arange(60))
    assert len(glasswood.effects(forest, spike, grid_resolution=3).dependence(3).grid_values[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": [9]}, "features holds 9"),
        ({"pairs": "some"}, "pairs is 'some'"),
        ({"pairs": [(0, 0)]}, "pairs holds"),
        ({"features": [0, 1], "pairs": [(0, 2)]}, "pairs holds"),
        ({"output": "leaf"}, "output is 'leaf'"),
        ({"sample_weight": np.full(20, -1.0)}, "sample_weight is -1 in row 0"),
        ({"sample_weight": np.ones(3)}, "sample_weight has shape"),
        ({"custom_values": {0: np.arange(20_000), 1: np.arange(20_000)}}, "smaller grid_resolution"),
    ],
)
def test_what_is_refused(arguments, message):
    forest = random_forest(0, Options(n_trees=3, n_features=3))
    with pytest.raises(ValueError, match=message):
        glasswood.effects(forest, random_rows(0, forest, 20), **arguments)


def test_what_objects_refuse():
    forest = random_forest(0, Options(n_trees=3, n_features=3))
    rows = random_rows(0, forest, 20)
    found = glasswood.effects(forest, rows, features=[0, 1], pairs=())
    for call, message in (
        (lambda: found.dependence(2), "was not computed"),
        (lambda: found.dependence(0, 1), "pair"),
        (lambda: found.dependence(), "expected one feature"),
        (lambda: found.ale(0, bins=0), "bins is 0"),
        (lambda: found.interactions(n_points=0), "n_points is 0"),
        (lambda: glasswood.effects(forest, rows[:0]), "X has no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_core_checks_what_it_is_given():
    forest = random_forest(0, Options(n_trees=3, n_features=3)).ensemble
    rows = np.zeros((5, 3), np.float32)
    place, pair, sizes, none = np.zeros(3, np.int32), np.full(1, -1, np.int32), np.ones(1, np.int32), np.zeros(0)
    first = np.zeros(1, np.int64)

    def call(**changes):
        given = {
            "forest": forest, "rows": rows, "weights": None, "grid": rows[:1], "points": rows[:0], "place": place,
            "pair_place": pair, "n_points": sizes, "first_main": first, "first_joint": first[:0], "total": np.zeros(1),
            "main": np.zeros(1), "joint": none, "row_main": none, "row_joint": none, "n_threads": 1,
        } | changes  # fmt: skip
        _core.effect_sums(**given)

    call()
    for changes, message in (
        ({"weights": np.ones(4)}, "weights are not one a row"),
        ({"place": place + 1}, "no such place"),
        ({"place": place[:2]}, "places have the wrong length"),
        ({"n_points": sizes + 1}, "the grid has too few rows"),
        ({"main": none}, "the result is too short"),
        ({"total": none}, "the result has the wrong shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call(**changes)


def test_pictures():
    pytest.importorskip("matplotlib").use("agg")
    forest = random_forest(0, Options(n_trees=9, n_features=5))
    found = glasswood.effects(forest, random_rows(0, forest, 200))
    figure = found.plot()
    assert sum(ax.get_visible() for ax in figure.axes) >= 5
    assert found.interactions().plot().get_xlabel()
    assert found.ale(0).plot().get_ylabel() == "accumulated local effect on the prediction"
    assert "5 features, 10 pairs, 200 rows" in repr(found)


def test_pictures_have_room_beside_long_names():
    pytest.importorskip("matplotlib").use("agg")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kinds = pandas.Categorical(rng.choice(["a", "a category whose name is a whole sentence"], 300))
    X = pandas.DataFrame({"a feature " + "with a long name " * 9: rng.normal(size=300), "kind": kinds})
    model = glasswood.ModelTreeRegressor(max_leaves=3, generations=3, n_jobs=1).fit(X, X.iloc[:, 0] + (kinds == "a"))
    figure = glasswood.effects(model, X, pairs="all").plot()
    change = glasswood.compare(X[:150], X[150:], model=model)
    drawn = [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]
    figure.canvas.draw()
    for axes in (*drawn, *change.plot()):
        texts = [axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
        assert max(len(text.get_text()) for text in texts) <= 36
        assert axes.get_window_extent().width > 150
    assert max(map(len, str(change).splitlines())) < 100


@pytest.fixture(scope="module")
def shops():
    """Rows with 60 categories and a number of four values, and classifiers and regressors of them."""
    pandas, ensemble = pytest.importorskip("pandas"), pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 60, 1500)
    X = pandas.DataFrame({"shop": pandas.Categorical([f"shop number {k:02d} in the north" for k in codes])})
    X["months"], X["x"] = rng.choice([12.0, 24, 36, 48], 1500), rng.normal(size=1500)
    y = codes % 7 + X["months"] / 12 + X["x"]
    fit = {"max_iter": 10, "categorical_features": "from_dtype"}
    labels = np.where(y > 5, "rich", "poor")
    return (
        X,
        ensemble.HistGradientBoostingRegressor(**fit).fit(X, y),
        ensemble.HistGradientBoostingClassifier(**fit).fit(X, labels),
    )


def test_pictures_name_the_unit_that_they_draw(shops):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, regression, classes = shops
    for model, settings, label in (
        (regression, {}, "mean prediction"),
        (classes, {}, "mean log-odds of rich"),
        (classes, {"output": "probability"}, "mean probability of rich"),
    ):
        found = glasswood.effects(model, X, features=["x", "months"], **settings)
        assert found.dependence("x").plot().get_ylabel() == label
        assert found.ale("x").plot().get_ylabel() == label.replace("mean", "accumulated local effect on the")
    assert glasswood.partial_dependence(classes, X, "x").plot().get_ylabel() == "mean probability of rich"
    assert found.dependence("x").plot().yaxis.get_ticklabels()[1].get_text().endswith(" %")
    [line] = found.dependence("months").plot().lines
    assert (line.get_linestyle(), line.get_marker()) == ("None", "o")  # four values are no line
    pyplot.close("all")


def test_many_categories_are_all_named_or_the_extremes(shops):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, regression, _ = shops
    found = glasswood.effects(regression, X)
    ax = found.dependence("shop").plot()
    texts = [text.get_text() for text in ax.get_xticklabels()]
    assert len(set(texts)) == 60
    assert max(map(len, texts)) <= 16
    heights = ax.lines[0].get_ydata()
    assert (np.diff(heights) >= 0).all()
    figure, small = pyplot.subplots(figsize=(3, 3))
    found.dependence("shop").plot(small)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in small.get_xticklabels()]
    assert 10 < len(boxes) < 60
    assert all(first.x1 <= second.x0 + 1 for first, second in pairwise(boxes))
    assert small.get_xlabel().endswith("highest of 60")
    shown = small.lines[0].get_ydata()
    np.testing.assert_allclose([shown[0], shown[-1]], [heights[0], heights[-1]])
    ax = found.dependence("x", "shop").plot()
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert all(first.y1 <= second.y0 + 1 for first, second in pairwise(boxes))
    pyplot.close("all")
