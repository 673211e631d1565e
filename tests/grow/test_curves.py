"""Curves and surfaces beside equations and trees: functions that are known, exact sums, and what is said of them."""

import io
import itertools
import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

pytest.importorskip("sklearn")

import glasswood
from glasswood import _core
from glasswood.grow.curves import bins, boosting, pairs, shapes

FAST = {"max_leaves": 4, "generations": 3, "population_size": 8, "n_jobs": 1, "time_limit": None}


def bent(n=1500, seed=0, noise=0.3):
    """Two bent columns, a pair, a step, and a column of noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5))
    f = np.sin(4 * X[:, 0]) + 2 * (X[:, 1] > 0.3) + 2 * X[:, 2] * X[:, 3]
    return X, f + noise * rng.normal(size=n), f


def mixed(n=1500, seed=0):
    """Numbers and categories with missing values, as a frame."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=n), "z": rng.uniform(size=n), "kind": rng.choice(list("abcdefg"), n)})
    effect = dict(zip("abcdefg", rng.normal(size=7), strict=True))
    y = np.abs(X.x) + X.kind.map(effect) * (1 + (X.z > 0.5)) + 0.3 * rng.normal(size=n)
    X.loc[::9, "x"] = np.nan
    X.loc[::11, "kind"] = None
    return X, y.to_numpy()


def estimators():
    return {
        "additive": (glasswood.AdditiveRegressor(n_jobs=1), False),
        "curves alone": (glasswood.AdditiveRegressor(n_jobs=1, leaf_model="constant"), False),
        "tree": (glasswood.ModelTreeRegressor(curves=True, pairs="auto", **FAST), False),
        "classes": (glasswood.AdditiveClassifier(n_jobs=1), True),
    }


def steps_at(model, name, x):
    """What a curve of numbers adds at x, read from the table."""
    curve = {key: values[model.curves_["feature"] == name] for key, values in model.curves_.items()}
    place = [np.flatnonzero((curve["from"] <= one) & (one < curve["to"]))[0] for one in x]
    return curve["adds"][place], curve["standard_error"][place]


def test_known_curves_are_found_within_their_bands():
    X, y, _ = bent(4000)
    model = glasswood.AdditiveRegressor(leaf_model="constant", interactions=[(2, 3)]).fit(X, y)
    x = np.linspace(-0.95, 0.95, 60)
    for name, truth in (("x0", np.sin(4 * x)), ("x1", 2.0 * (x > 0.3) - 0.7)):
        adds, error = steps_at(model, name, x)
        within = np.abs(adds - truth) <= 3 * np.maximum(error, 0.05)
        assert within.mean() > 0.9
        assert np.sqrt(np.mean((adds - truth) ** 2)) < 0.15
    noise = model.parts_["share"][model.parts_["part"] == "x4"]
    assert np.abs(noise).sum() < 0.002


def test_the_error_is_near_that_of_the_truth():
    X, y, _ = bent(3000)
    X_test, _, f = bent(2000, seed=1)
    model = glasswood.AdditiveRegressor(interactions=2).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X_test) - f) ** 2)) < 0.2
    low, high = model.predict_interval(X_test).T
    held = np.mean((low <= f + 0.3 * np.random.default_rng(2).normal(size=len(f))) & (f <= high))
    assert held > 0.85


def test_a_planted_pair_among_fifty_columns_is_first():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(2000, 50))
        a, b = sorted(rng.choice(50, 2, replace=False).tolist())
        main = np.sin(6 * X[:, :5]).sum(axis=1) + X[:, 5:9].sum(axis=1)
        y = main + 2 * (X[:, a] - 0.5) * (X[:, b] - 0.5) * 3 + rng.normal(size=len(X))
        data = rows_of(X, y - y.mean())
        axes = bins.axes_of(data.columns, data.weight, 64)
        rest = y - y.mean() - (main - main.mean())
        rows = boosting.CurveRows(
            "squared", 0.0, rest, data.weight, np.zeros((1, 1, len(y))), np.zeros(len(y), np.int32)
        )
        ((i, j),) = boosting._chosen(rows, axes, rows.starts[0], 1, 1)
        found += (axes[i].feature, axes[j].feature) == (a, b)
    assert found == 20


@pytest.mark.slow
def test_the_first_surface_of_a_model_is_the_planted_pair():
    """The whole way: curves of what is not known, then the pair that they leave, among 1,225."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(2000, 50))
        a, b = sorted(rng.choice(50, 2, replace=False).tolist())
        y = np.sin(6 * X[:, :5]).sum(axis=1) + X[:, 5:9].sum(axis=1) + 6 * (X[:, a] - 0.5) * (X[:, b] - 0.5)
        surfaces = glasswood.AdditiveRegressor(interactions=1).fit(X, y + rng.normal(size=len(X))).surfaces_
        pairs = set(zip(surfaces["feature"].tolist(), surfaces["other_feature"].tolist(), strict=True))
        found += pairs == {(f"x{a}", f"x{b}")}
    assert found == 20


def test_noise_has_few_surfaces():
    """Left-out rows that had helped to rank 435 pairs saw gains in pairs of noise."""
    kept, n_with = [], 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(300, 30)), rng.normal(size=300)
        model = glasswood.AdditiveRegressor(n_jobs=1).fit(X, y)
        kept.append(np.mean(model.predict(rng.normal(size=(3000, 30))) ** 2))
        n_with += len(model.surfaces_["adds"]) > 0
    assert np.mean(kept) < 0.015  # of a variance of 1
    assert n_with <= 1


def test_categories_stand_in_the_order_that_is_given():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 200).astype(np.uint16)
    kind = bins.Axis(0, codes, np.zeros(0), 4, np.bincount(codes, minlength=5).astype(float))
    number = bins.axes_of(rows_of(rng.normal(size=(200, 1)), codes).columns, np.ones(200), 64)[0]
    order = [np.array([3.0, 1.0, 2.0, 0.0, 0.0]), np.zeros(number.n_bins)]
    ((groups, places),) = pairs.grouped_pairs([kind, number], [(0, 1)], rng.normal(size=200), np.ones(200), order)
    assert groups[:4].tolist() == [3, 1, 2, 0]
    assert (np.diff(places) >= 0).all()


def test_exact_targets_take_fewer_rounds():
    """Late steps are longer, so that rounds do not rise with the digits that a target has."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 800)
    data = rows_of(x[:, None], np.sin(5 * x))
    (axis,) = bins.axes_of(data.columns, data.weight, 256)
    fold = boosting.folds_of(np.arange(800), 0)
    rows = boosting.CurveRows("squared", 0.0, data.target, data.weight, np.zeros((1, 1, 800)), fold)
    settings, rounds = rows.settings, np.zeros(boosting.FOLDS, np.int32)
    settings.max_rounds = 5000
    n, losses = axis.n_bins, np.zeros((2, 800))
    shape, values, margins = (
        np.array([[n, 1, axis.n_ordered, 0]], np.int32),
        np.zeros((boosting.FOLDS, 1, n)),
        np.zeros((boosting.FOLDS, 1, 800)),
    )
    _core.boost_curves(
        settings, data.target, data.weight, fold[0], axis.codes[None], shape, values, margins, losses, rounds, 1
    )
    assert losses[1].sum() < 1e-3 * losses[0].sum()
    assert rounds.max() < 1000  # 1,248 with steps of one rate


def rows_of(X, y):
    from glasswood.grow.data.columns import TrainingData, numeric_columns

    return TrainingData(numeric_columns(X), y, np.ones(len(y)))


@pytest.mark.parametrize("name", list(estimators()))
def test_the_model_is_the_sum_of_its_parts(name):
    """Margins, from the tables alone."""
    model, is_classifier = estimators()[name]
    X, y = mixed()
    model.fit(X, y > 1 if is_classifier else y)
    forest = model.forest_.ensemble
    rows = X.iloc[:300]
    margins = np.asarray(model.forest_.predict(rows, "margin"))
    parts = from_tables(model, rows)
    alone = margins - parts
    single = glasswood.Forest(truncated(forest))
    np.testing.assert_allclose(alone, np.asarray(single.predict(rows, "margin")), rtol=0, atol=1e-12)


def truncated(forest):
    """Leave the trees of curves out."""
    import dataclasses

    first = forest.n_trees - forest.n_curves
    nodes = int(forest.tree_offsets[first])
    leaves = int((forest.left[:nodes] == 0).sum())
    changes = {
        name: getattr(forest, name)[:nodes] for name in ("feature", "threshold", "left", "default_left", "cover")
    }
    changes |= {name: getattr(forest, name)[:leaves] for name in ("leaf_value", "leaf_id")}
    changes |= {name: getattr(forest, name)[:first] for name in ("tree_output", "tree_weight")}
    if len(forest.category_set):
        changes["category_set"] = forest.category_set[:nodes]
        n_sets = int(changes["category_set"].max(initial=-1)) + 1
        changes["set_offsets"] = forest.set_offsets[: n_sets + 1]
        changes["set_words"] = forest.set_words[: changes["set_offsets"][-1]]
        changes["set_others_left"] = forest.set_others_left[:n_sets]
        if not n_sets:
            changes["category_set"] = np.zeros(0, np.int32)
    if forest.has_linear_leaves:
        changes["linear_offsets"], changes["leaf_range"] = (
            forest.linear_offsets[: leaves + 1],
            forest.leaf_range[:leaves],
        )
    return dataclasses.replace(
        forest, tree_offsets=forest.tree_offsets[: first + 1], n_curves=0, checked=None, **changes
    )


def holds(table, prefix, value):
    """Which entries of a table a row's value belongs to."""
    text = table[f"{prefix}category"]
    if value is None or value != value:
        return np.array([("missing" in one.split(", ")) for one in text.tolist()])
    if isinstance(value, str):
        return np.array([(value in one.split(", ")) for one in text.tolist()])
    with np.errstate(invalid="ignore"):
        return (table[f"{prefix}from"] <= value) & (value < table[f"{prefix}to"])


def from_tables(model, rows):
    """Add up curves and surfaces, row by row."""
    added = np.zeros(len(rows))
    curves, surfaces = model.curves_, model.surfaces_
    for k, row in enumerate(rows.to_dict("records")):
        for name in dict.fromkeys(curves["feature"].tolist()):
            own = (curves["feature"] == name) & holds(curves, "", row[name])
            added[k] += curves["adds"][own].sum()
        for pair in dict.fromkeys(zip(surfaces["feature"].tolist(), surfaces["other_feature"].tolist(), strict=True)):
            own = (surfaces["feature"] == pair[0]) & (surfaces["other_feature"] == pair[1])
            own &= holds(surfaces, "", row[pair[0]]) & holds(surfaces, "other_", row[pair[1]])
            assert own.sum() == 1
            added[k] += surfaces["adds"][own].sum()
    return added


def test_surfaces_have_no_main_effects_and_shares_add_up():
    X, y, _ = bent(600)
    model = glasswood.AdditiveRegressor(interactions=4).fit(X, y)
    surfaces = model.surfaces_
    pairs = set(zip(surfaces["feature"].tolist(), surfaces["other_feature"].tolist(), strict=True))
    assert ("x2", "x3") in pairs
    for pair in pairs:
        own = (surfaces["feature"] == pair[0]) & (surfaces["other_feature"] == pair[1])
        for side in ("from", "other_from"):
            for low in set(surfaces[side][own].tolist()):
                at = own & (surfaces[side] == low)
                assert abs((surfaces["adds"][at] * surfaces["rows"][at]).sum()) < 1e-8 * len(y)
    for name in set(model.curves_["feature"].tolist()):
        own = model.curves_["feature"] == name
        assert abs((model.curves_["adds"][own] * model.curves_["rows"][own]).sum()) < 1e-8 * len(y)
        assert model.curves_["rows"][own].sum() == len(y)
    assert model.parts_["share"].sum() == pytest.approx(1, abs=1e-9)
    assert model.feature_importances_.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", list(estimators()))
def test_explanations_are_those_of_coalitions(name):
    """Shapley values by their definition, over path-dependent coalitions that a walk of each tree gives."""
    model, is_classifier = estimators()[name]
    X, y = mixed(600)
    X = X[["x", "z"]].assign(u=np.random.default_rng(1).normal(size=len(X)))
    model.fit(X, y > 1 if is_classifier else y)
    rows = X.iloc[:5].to_numpy()
    explainer = glasswood.Explainer(model.forest_, X.iloc[:40].to_numpy(), dtype="float64")
    values = np.asarray(explainer.shap_values(rows))
    background = X.iloc[:40].to_numpy()

    def game(row, players):
        mixed_rows = background.copy()
        mixed_rows[:, list(players)] = row[list(players)]
        return float(np.mean(np.asarray(model.forest_.predict(mixed_rows, "margin"))))

    from math import factorial

    for row, found in zip(rows, values, strict=True):
        for j in range(3):
            others = [k for k in range(3) if k != j]
            expected = sum(
                factorial(size) * factorial(2 - size) / 6 * (game(row, (*chosen, j)) - game(row, chosen))
                for size in range(3)
                for chosen in itertools.combinations(others, size)
            )
            assert found[j] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "gamma", "quantile"])
def test_every_loss_gains_from_curves(loss):
    X, _, f = bent(600)
    rng = np.random.default_rng(3)
    positive = np.exp(f / 2)
    y = {
        "poisson": rng.poisson(positive).astype(float),
        "gamma": positive * rng.gamma(4, 0.25, len(f)),
    }.get(loss, f + rng.standard_t(3, len(f)) * 0.3)
    model = glasswood.AdditiveRegressor(loss=loss, interactions=[(2, 3)], n_jobs=1).fit(X, y)
    equation = glasswood.ModelTreeRegressor(loss=loss, max_leaves=1, generations=0, n_jobs=1, time_limit=None).fit(X, y)
    truth = positive if loss in {"poisson", "gamma"} else f
    off, alone = (np.abs(one.predict(X) - truth).mean() for one in (model, equation))
    assert off < 0.6 * alone
    if loss == "quantile":
        high = glasswood.AdditiveRegressor(loss=loss, quantile=0.9, interactions=[(2, 3)], n_jobs=1).fit(X, y)
        X_new, _, f_new = bent(4000, seed=9)
        y_new = f_new + rng.standard_t(3, len(f_new)) * 0.3
        assert 0.86 < np.mean(y_new <= high.predict(X_new)) < 0.93


def test_classes_of_three():
    X, y, f = bent(3600)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1.5])]
    model = glasswood.AdditiveClassifier(interactions=2, n_jobs=1).fit(X[:600], labels[:600])
    best = np.array(["low", "mid", "top"])[np.digitize(f, [0, 1.5])]
    assert np.mean(model.predict(X[600:]) == best[600:]) > 0.8
    true = np.diff(norm.cdf(np.array([-np.inf, 0, 1.5, np.inf]), f[600:, None], 0.3), axis=1)
    linear = LogisticRegression().fit(X[:600], labels[:600])
    shares = true, model.predict_proba(X[600:]), linear.predict_proba(X[600:])
    least, own, straight = (log_loss(labels[600:], one) for one in shares)
    assert own - least < 0.5 * (straight - least)
    assert set(model.curves_["output"].tolist()) == {"low", "mid", "top"}
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-12)


def half_straight(n=400, seed=3):
    """A weak slope and a wave: neither an equation nor curves alone are best."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    return X, X[:, 0] + 0.5 * X[:, 1] + np.sin(4 * X[:, 2]) + 0.8 * rng.normal(size=n)


@pytest.mark.parametrize("labels", [None, ["low", "top"], ["low", "mid", "top"]])
def test_the_table_of_a_mean_of_two_starts_is_the_equation_of_the_model(labels, monkeypatch):
    monkeypatch.setattr(boosting, "SHARES", (0.5,))
    X, y = half_straight()
    cuts = [] if labels is None else np.quantile(y, np.arange(1, len(labels)) / len(labels))
    target = y if labels is None else np.array(labels)[np.digitize(y, cuts)]
    kind = glasswood.AdditiveRegressor if labels is None else glasswood.AdditiveClassifier
    fits = [kind(n_jobs=1, interactions=0, leaf_model=leaf).fit(X, target) for leaf in ("auto", "linear", "constant")]
    own, linear, constant = (model.leaves_["coefficient"] for model in fits)
    leaves, curves = fits[0].leaves_, fits[0].curves_
    is_intercept = leaves["feature"] == "(intercept)"
    np.testing.assert_array_equal(own[~is_intercept], linear[~is_intercept] / 2)
    np.testing.assert_allclose(own[is_intercept], (linear[is_intercept] + constant) / 2, atol=1e-12)
    margins = fits[0].forest_.predict(X, "margin").reshape(len(X), -1)
    names = labels if margins.shape[1] > 1 else [curves["output"][0]]
    values = {f"x{k}": X[:, k] for k in range(4)} | {"(intercept)": np.ones(len(X))}
    for output, name in enumerate(names):
        rest, at, step = margins[:, output].copy(), leaves["leaf"] == output, curves["output"] == name
        for feature, coefficient in zip(leaves["feature"][at], own[at], strict=True):
            rest -= coefficient * values[feature]
        for feature, low, high, adds in zip(*(curves[k][step] for k in ("feature", "from", "to", "adds")), strict=True):
            rest -= adds * ((low <= values[feature]) & (values[feature] < high))
        np.testing.assert_allclose(rest, rest[0], atol=1e-10)


def test_left_out_rows_choose_the_share_of_the_equation():
    """All of it where all is straight, none where nothing is."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    straight = glasswood.AdditiveRegressor(n_jobs=1).fit(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=600))
    np.testing.assert_allclose(straight.leaves_["coefficient"], [0, 1, 2, 3], atol=0.3)
    even = glasswood.AdditiveRegressor(n_jobs=1).fit(X, np.abs(X[:, 0]) + 0.1 * rng.normal(size=600))
    assert even.leaves_["feature"].tolist() == ["(intercept)"]


def test_curves_rise_where_they_must():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))
    for model in (
        glasswood.AdditiveRegressor(monotonic_cst=[1, 0], n_jobs=1),
        glasswood.ModelTreeRegressor(monotonic_cst=[1, 0], curves=True, pairs=3, **FAST),
        glasswood.AdditiveClassifier(monotonic_cst=[1, 0], n_jobs=1),
    ):
        is_classifier = hasattr(model, "predict_proba") or isinstance(model, glasswood.AdditiveClassifier)
        model.fit(X, y > 1 if is_classifier else y)
        grid = np.repeat(X[:50], 80, axis=0)
        grid[:, 0] = np.tile(np.linspace(-3, 3, 80), 50)
        margins = np.asarray(model.forest_.predict(grid, "margin")).reshape(50, 80)
        assert (np.diff(margins, axis=1) >= -1e-12).all()
        assert not len(model.surfaces_["adds"])
        assert len(model.curves_["adds"])


def test_threads_change_nothing():
    X, y, _ = bent(400)
    first, second = (glasswood.AdditiveRegressor(interactions=2, n_jobs=n).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


def test_auto_leaves_curves_out_where_nothing_is_bent():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X @ [1, 2, 0, -1] + rng.normal(size=len(X))
    model = glasswood.ModelTreeRegressor(curves="auto", pairs="auto", **FAST).fit(X, y)
    plain = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    assert model.forest_.ensemble.n_curves == 0
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-12)
    assert model.rules_["leaf"].tolist() == plain.rules_["leaf"].tolist()


def test_curves_beside_a_tree_take_off_its_error():
    X, y, f = bent(800)
    plain = glasswood.ModelTreeRegressor(**FAST).fit(X, y)
    model = glasswood.ModelTreeRegressor(curves="auto", pairs="auto", **FAST).fit(X, y)
    X_test, y_test, f = bent(1500, seed=5)
    off = [np.sqrt(np.mean((one.predict(X_test) - f) ** 2)) for one in (plain, model)]
    assert off[1] < 0.7 * off[0]
    np.testing.assert_array_equal(model.apply(X), plain.apply(X))
    low, high = model.predict_interval(X_test).T
    assert 0.85 < np.mean((low <= y_test) & (y_test <= high)) < 0.97
    assert np.mean(high - low) < np.mean(np.diff(plain.predict_interval(X_test), axis=1))


def test_files_keep_the_curves(tmp_path):
    X, y = mixed(600)
    model = glasswood.AdditiveRegressor(n_jobs=1).fit(X, y)
    model.forest_.save(tmp_path / "model.glasswood")
    loaded = glasswood.load(tmp_path / "model.glasswood")
    assert loaded.ensemble.n_curves == model.forest_.ensemble.n_curves > 0
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 400_000


def test_pictures_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = mixed(300)
    figure = glasswood.AdditiveRegressor(n_jobs=1).fit(X, y).plot()
    figure.savefig(io.BytesIO())
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert "x" in labels
    nothing = glasswood.AdditiveRegressor(n_jobs=1).fit(np.arange(40.0)[:, None], np.arange(40.0)).plot()
    assert "neither" in nothing.axes[0].texts[0].get_text()


def test_targets_whose_squares_are_no_numbers_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(ValueError, match=r"y has values of 1e\+300, curves expect at most 1e\+150; divide the target"):
        glasswood.AdditiveRegressor(interactions=0).fit(X, 1e300 * np.sign(X[:, 0]))
    kept = glasswood.AdditiveRegressor(interactions=0, random_state=0).fit(X, 1e149 * X[:, 0])
    np.testing.assert_allclose(kept.predict(X) / 1e149, X[:, 0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        ("many", "interactions is 'many'"),
        (-1, "interactions is -1"),
        (1.5, "interactions is 1.5"),
        ([("x0", 1)], "names 'x0'"),
        ([(0, 0)], "two different columns"),
        ([(0, 1, 2)], "pairs of columns"),
    ],
)
def test_wrong_interactions_are_refused(interactions, message):
    X, y, _ = bent(60)
    with pytest.raises(ValueError, match=message):
        glasswood.AdditiveRegressor(interactions=interactions).fit(X, y)


def test_what_does_not_go_together_is_refused():
    X, y, _ = bent(60)
    with pytest.raises(ValueError, match="monotonic_cst constrains"):
        glasswood.AdditiveRegressor(interactions=[(0, 1)], monotonic_cst=[1, 0, 0, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match="with interaction_cst"):
        glasswood.ModelTreeRegressor(curves=True, pairs=2, interaction_cst="pairwise", **FAST).fit(X, y)
    with pytest.raises(ValueError, match="trees of an ensemble have not"):
        glasswood.ModelTreeEnsembleRegressor(glasswood.ModelTreeRegressor(curves=True)).fit(X, y)


@pytest.mark.parametrize("name", ["additive", "tree", "classes", "counts"])
def test_weights_are_relative_and_whole_ones_are_repetitions(name):
    X, y, _ = bent(200)
    poisson = glasswood.AdditiveRegressor(loss="poisson", n_jobs=1), False
    model, is_classifier = (estimators() | {"counts": poisson})[name]
    model.set_params(**{"pairs" if name == "tree" else "interactions": 1})
    target = y > 0.5 if is_classifier else np.round(np.exp(y / 2)) if name == "counts" else y
    rng = np.random.default_rng(0)

    def margins(rows, weight=None):
        fitted = model.fit(X[rows], target[rows], sample_weight=weight)
        return np.asarray(fitted.forest_.predict(X, "margin"))

    all_rows, weight = np.arange(len(y)), rng.uniform(0.5, 2, len(y))
    expected = margins(all_rows, weight)
    for scale in (1e-6, 1e6):
        np.testing.assert_allclose(margins(all_rows, scale * weight), expected, rtol=1e-9, atol=1e-9)
    counts = rng.integers(1, 4, len(y))
    repeated = rng.permutation(np.repeat(all_rows, counts))
    np.testing.assert_allclose(margins(repeated), margins(all_rows, counts.astype(float)), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_friedmans_function_is_found_within_its_bands():
    """10 sin(π a b) + 20 (c - 1/2)² + 10 d + 5 e (Friedman 1991), beside five columns of noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 10))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    model = glasswood.AdditiveRegressor(interactions=1, leaf_model="constant").fit(X, signal + rng.normal(size=len(X)))
    assert (model.surfaces_["feature"][0], model.surfaces_["other_feature"][0]) == ("x0", "x1")
    x = np.linspace(0.03, 0.97, 60)
    for name, truth in (("x2", 20 * (x - 0.5) ** 2 - 20 / 12), ("x3", 10 * (x - 0.5)), ("x4", 5 * (x - 0.5))):
        adds, error = steps_at(model, name, x)
        within = np.abs(adds - truth) <= 3 * np.maximum(error, 0.1)
        assert within.mean() > 0.9
    assert set(model.curves_["feature"].tolist()) >= {"x0", "x1", "x2", "x3", "x4"}
    noise = np.isin(model.parts_["part"], [f"x{k}" for k in range(5, 10)])
    assert np.abs(model.parts_["share"][noise]).sum() < 0.002


@pytest.mark.parametrize("kind", [glasswood.ModelTreeRegressor, glasswood.ModelTreeClassifier])
def test_a_fit_without_curves_leaves_none_of_an_earlier_fit(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    y = y > 0 if kind is glasswood.ModelTreeClassifier else y
    settings = {"time_limit": None, "generations": 5, "verbose": False}
    model = kind(curves=True, **settings).fit(X, y)
    assert hasattr(model, "curves_")
    model.set_params(curves=False, alternatives=0).fit(X, y)
    fresh = kind(alternatives=0, **settings).fit(X, y)
    assert vars(model).keys() == vars(fresh).keys()
    with pytest.raises(ValueError, match="has no curves; fit it with curves=True"):
        model.plot()


def test_few_rows_have_no_curves():
    model = glasswood.AdditiveRegressor(n_jobs=1).fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])
    assert not len(model.curves_["adds"])


def test_joined_neighbours_stay_within_the_budget():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=(30, 3)), rng.uniform(0.5, 2, (30, 3))
    for budget in (0.0, 1.0, 10.0, 1e9):
        group = shapes.joined(values, weight, budget)
        assert (np.diff(group) >= 0).all()
        means = np.array(
            [(values * weight)[group == g].sum(0) / weight[group == g].sum(0) for g in range(group[-1] + 1)]
        )
        assert (weight * (values - means[group]) ** 2).sum() <= budget * (1 + 1e-9) + 1e-12
    assert group.max() == 0


def test_gradients_are_those_of_the_losses():
    """Against differences of the losses that the core itself sums, which other tests compare with definitions."""
    rng = np.random.default_rng(0)
    y, m = rng.integers(0, 3, 50).astype(float), rng.normal(size=(3, 50))
    for loss, target, margins in (
        ("squared", y, m[:1]),
        ("logistic", (y > 0).astype(float), m[:1]),
        ("poisson", y, m[:1]),
        ("gamma", y + 0.5, m[:1]),
        ("tweedie", y, m[:1]),
        ("softmax", y, m),
    ):
        level = {"poisson": 1.0, "tweedie": 1.3, "gamma": 2.0}.get(loss, 0.5)
        rows = boosting.CurveRows(loss, level, target, np.ones(50), margins[None], np.zeros(50, np.int32))
        gradient, curvature = rows.slopes(margins)
        step = 1e-5
        for k in range(len(margins)):
            moved = [margins.copy(), margins.copy()]
            moved[0][k] -= step
            moved[1][k] += step
            low, high = (definition(loss, target, one) for one in moved)
            factor = 2 if loss == "squared" else 1
            np.testing.assert_allclose(gradient[k], -(high - low) / (2 * step) / factor, rtol=1e-5, atol=1e-8)
        assert (curvature > 0).all()


def definition(loss, y, m):
    """Losses as their definitions say."""
    if loss == "squared":
        return (y - m[0]) ** 2
    if loss == "logistic":
        return -np.log(np.where(y == 1, 1 / (1 + np.exp(-m[0])), 1 / (1 + np.exp(m[0]))))
    if loss == "poisson":
        return np.exp(m[0]) - y * m[0]
    if loss == "gamma":
        return m[0] + y * np.exp(-m[0])
    if loss == "tweedie":
        return np.exp(0.7 * m[0]) / 0.7 + y * np.exp(-0.3 * m[0]) / 0.3
    p = np.exp(m) / np.exp(m).sum(axis=0)
    return -np.log(p[y.astype(int), np.arange(len(y))])


def test_arguments_of_the_core_are_checked():
    settings = _core.CurveSettings()
    y, one = np.zeros(4), np.zeros((1, 4), np.uint16)
    results = np.zeros((1, 1, 1)), np.zeros((1, 1, 4)), np.zeros((2, 4)), np.zeros(1, np.int32)
    wrong = one + 1
    with pytest.raises(ValueError, match="in no bin"):
        _core.boost_curves(settings, y, y, y.astype(np.int32), wrong, np.array([[1, 1, 1, 0]], np.int32), *results, 1)
    with pytest.raises(ValueError, match="wrong shape"):
        _core.boost_curves(settings, y, y, y.astype(np.int32), one, np.array([[2, 1, 1, 0]], np.int32), *results, 1)


def test_texts_have_a_line_for_each_curve():
    X, y = mixed(900)
    model = glasswood.AdditiveRegressor(n_jobs=1, leaf_model="constant").fit(X, y)
    lines = glasswood.export_text(model).splitlines()
    at = lines.index("Curves and surfaces add:")
    assert len(lines) - at - 1 == model.forest_.ensemble.n_curves
    curve = {key: values[model.curves_["feature"] == "x"] for key, values in model.curves_.items()}
    numbers = curve["category"] == ""
    (line,) = [one for one in lines[at:] if one.startswith("x: ")]
    assert f"{curve['adds'][0]:+.4g} below " in line
    assert f"steps {numbers.sum()}, missing {curve['adds'][~numbers][0]:+.4g}"[:20] in line
    assert any(one.startswith("kind: ") and " for " in one for one in lines[at:])
    assert any(" × " in one and "cells" in one for one in lines[at:])


@pytest.mark.parametrize("name", ["additive", "tree", "classes"])
def test_exports_compute_the_same(name, tmp_path):
    """SQL by DuckDB and ONNX by its runtime, against the model."""
    duckdb, onnxruntime = pytest.importorskip("duckdb"), pytest.importorskip("onnxruntime")
    model, is_classifier = estimators()[name]
    X, y = mixed(400)
    model.fit(X, y > 1 if is_classifier else y)
    connection = duckdb.connect()
    connection.register("given", X.assign(place=np.arange(len(X))))
    query = f"select {glasswood.export_sql(model)} from given order by place"
    found = np.array(connection.execute(query).fetchall(), float).ravel()
    expected = model.predict_proba(X)[:, 1] if is_classifier else model.predict(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    numbers = X[["x", "z"]].to_numpy()
    model.fit(numbers, y > 1 if is_classifier else y)
    model.forest_.save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    name = "response" if is_classifier else session.get_outputs()[0].name
    (found,) = session.run([name], {session.get_inputs()[0].name: numbers})
    expected = model.predict_proba(numbers) if is_classifier else model.predict(numbers).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_reports_and_pictures_of_the_tree_leave_curves_out(tmp_path):
    X, y = mixed(400)
    model = glasswood.ModelTreeRegressor(curves=True, **FAST).fit(X, y)
    path = glasswood.report(model, X, y, tmp_path / "report.html")
    assert "curves and surfaces" in path.read_text()
    assert "curves and surfaces" in model._repr_html_()
    values = glasswood.Explainer(model).shap_values(X.iloc[:3])
    assert np.isfinite(values).all()


@pytest.mark.parametrize("seed", range(3))
def test_surfaces_of_categories_are_judged_by_rows_that_have_not_placed_them(seed):
    """An order of categories by all rows tells surfaces the targets of the rows that judge them."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    tables = {"region": [f"r{i}" for i in range(40)], "brand": [f"b{i}" for i in range(30)]}
    X = pandas.DataFrame(
        {name: pandas.Categorical.from_codes(rng.integers(0, len(one), 1500), one) for name, one in tables.items()}
    ).assign(size=rng.normal(size=1500))
    noise = rng.normal(size=1500)
    model = glasswood.AdditiveRegressor(interactions=3, n_jobs=1).fit(X, noise)
    assert np.mean((model.predict(X) - noise.mean()) ** 2) < 0.006  # of a variance of 1
    model = glasswood.AdditiveClassifier(interactions=3, n_jobs=1).fit(X, rng.uniform(size=1500) < 0.03)
    p = model.predict_proba(X)[:, 1]
    least = -(0.03 * np.log(0.03) + 0.97 * np.log(0.97))
    assert -(0.03 * np.log(p) + 0.97 * np.log1p(-p)).mean() < 1.03 * least


def test_a_planted_pair_of_categories_is_found():
    rng = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    tables = {"region": [f"r{i:02d}" for i in range(12)], "brand": [f"b{i}" for i in range(5)]}
    codes = {name: rng.integers(0, len(one), 3000) for name, one in tables.items()}
    X = pandas.DataFrame({name: pandas.Categorical.from_codes(codes[name], one) for name, one in tables.items()})
    own = rng.permutation(12) % 2 * 2 - 1
    effect = own[codes["region"]] * np.where(codes["brand"] < 2, 1.0, -1.0)
    model = glasswood.AdditiveRegressor(interactions=1, n_jobs=1).fit(X, effect + 0.5 * rng.normal(size=3000))
    assert np.mean((model.predict(X) - effect) ** 2) < 0.05
    assert len(model.surfaces_["adds"])


def test_surfaces_of_categories_are_drawn_cell_by_cell():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"kind": pandas.Categorical(rng.choice(["a", "b", "c"], 1500)), "x": rng.normal(size=1500)}
    )
    y = np.where(frame["kind"] == "a", frame["x"] > 0, -(frame["x"] > 0)) * 3.0
    model = glasswood.AdditiveRegressor(interactions=1, random_state=0).fit(frame, y)
    surfaces = model.surfaces_
    figure = model.plot()
    [drawn] = [ax.images[0].get_array() for ax in figure.axes if ax.images and ax.get_label() != "<colorbar>"]
    cells = {
        side: len(
            {repr(one) for one in zip(*(surfaces[side + key] for key in ("from", "to", "category")), strict=True)}
        )
        for side in ("", "other_")
    }
    assert drawn.shape == (cells["other_"], cells[""])
    np.testing.assert_array_equal(drawn.T.ravel(), surfaces["adds"])
    assert figure.get_supylabel() == "adds to the prediction"
