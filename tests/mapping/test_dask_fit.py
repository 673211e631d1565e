"""Trees that are searched on a sample of Dask's rows and fitted on all of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.dask.triangles import leaf_terms, merge_all, sums_of

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore")
import glasswood.dask  # noqa: E402
from glasswood.dask import fitting  # noqa: E402
from glasswood.grow import classifier  # noqa: E402

QUICK = {"generations": 60, "n_jobs": 1, "max_leaves": 6, "n_iter_no_change": 20, "time_limit": None}


def example(n_rows, seed=0, missing=True):
    """Numbers with missing values, a category of three levels and one of thirty, weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.normal(size=n_rows) for name in "abc"})
    frame["kind"] = rng.choice(["p", "q", "r"], n_rows)
    frame["place"] = rng.choice([f"city {i}" for i in range(30)], n_rows)
    effect = frame["kind"].map({"p": 0.0, "q": 1.0, "r": -2.0}) + frame["place"].str[5:].astype(int) / 10
    y = np.where(frame["a"] < 0.3, 2 * frame["b"], 1 - 3 * frame["c"]) + effect + rng.normal(scale=0.3, size=n_rows)
    if missing:
        frame.loc[rng.random(n_rows) < 0.1, "b"] = np.nan
    return frame.assign(y=y, w=rng.integers(0, 4, n_rows).astype(float))


@pytest.fixture(autouse=True)
def at_once():
    with dask.config.set(scheduler="synchronous"):
        yield


def fitted(frame, n_parts, sample_rows=10**7, weight=None, **settings):
    data = frames.from_pandas(frame, npartitions=n_parts)
    return glasswood.dask.fit(glasswood.ModelTreeRegressor(**{**QUICK, **settings}), data, "y", weight, sample_rows)


def least_squares(tree, frame, weight):
    """Predictions of each leaf's weighted regression on its terms, straight from their meaning."""
    forest, X = tree.forest_, frame.drop(columns=["y", "w"])
    leaves, predicted = tree.apply(X), np.empty(len(frame))
    for leaf, terms in enumerate(leaf_terms(forest.ensemble)):
        at = np.flatnonzero(leaves == leaf)
        columns = np.zeros((len(at), terms.n_columns))
        for feature, category, factor, column in zip(
            terms.features, terms.categories, terms.factors, terms.columns, strict=True
        ):
            values = X.iloc[at, feature]
            if category == -1:
                x = values.to_numpy(float)
                known = ~np.isnan(x)
                columns[:, column] = np.where(known, x, np.average(x[known], weights=weight[at][known]))
            elif category == -2:
                columns[:, column] = values.isna()
            else:
                columns[:, column] += factor * (values == forest.ensemble.categories[feature][category]).to_numpy(float)
        design, root = np.column_stack([np.ones(len(at)), columns]), np.sqrt(weight[at])
        solution = np.linalg.lstsq(design * root[:, None], frame["y"].to_numpy()[at] * root, rcond=None)[0]
        predicted[at] = design @ solution
    return predicted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sample_rows", [10**7, 900])
def test_equations_are_least_squares_of_all_rows(weighted, sample_rows):
    frame = example(4000)
    tree = fitted(frame, 7, sample_rows, "w" if weighted else None, clip="none", max_leaves=4)
    used = frame if weighted else frame.drop(columns="w").assign(w=1.0)
    if not weighted:
        tree = fitted(frame.drop(columns="w"), 7, sample_rows, clip="none", max_leaves=4)
    X, weight = used.drop(columns=["y", "w"]), used["w"].to_numpy()
    np.testing.assert_allclose(tree.predict(X), least_squares(tree, used, weight), rtol=1e-8, atol=1e-8)
    assert (tree.n_rows_, tree.n_rows_searched_) == (4000, min(4000, sample_rows))


def test_all_rows_as_the_sample_give_the_tree_of_fit():
    """Without features of many categories: rows take no part in their own codes where these are chosen."""
    frame = example(3000).drop(columns=["w", "place"])
    tree = fitted(frame, 5)
    alone = glasswood.ModelTreeRegressor(**QUICK, smoothing=0).fit(frame.drop(columns="y"), frame["y"])
    assert tree.leaves_["feature"].tolist() == alone.leaves_["feature"].tolist()
    for name in ("coefficient", "standard_error", "mean"):
        np.testing.assert_allclose(tree.leaves_[name], alone.leaves_[name], rtol=1e-6, atol=1e-9, err_msg=name)
    for name, expected in alone.leaf_summary_.items():
        np.testing.assert_allclose(tree.leaf_summary_[name], expected, rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(tree.forest_.ensemble.cover, alone.forest_.ensemble.cover)
    np.testing.assert_allclose(tree.feature_importances_, alone.feature_importances_, rtol=1e-6)
    assert np.array_equal(tree.forest_.ensemble.threshold, alone.forest_.ensemble.threshold)


def test_equations_have_logarithms():
    frame = example(2000).drop(columns=["w", "place"])
    frame["d"] = np.exp(np.random.default_rng(1).normal(size=2000))
    frame["y"] += 2 * np.log(frame["d"])
    frame.loc[::9, "d"] = np.nan
    tree = fitted(frame, 5, log_terms=True)
    alone = glasswood.ModelTreeRegressor(**QUICK, log_terms=True).fit(frame.drop(columns="y"), frame["y"])
    assert "log d" in tree.leaves_["feature"]
    for name in ("coefficient", "standard_error", "mean"):
        np.testing.assert_allclose(tree.leaves_[name], alone.leaves_[name], rtol=1e-6, atol=1e-9, err_msg=name)


def test_partitions_change_rounding_alone():
    frame = example(2000)
    one, many = (fitted(frame, n, weight="w") for n in (1, 11))
    assert one.leaves_["feature"].tolist() == many.leaves_["feature"].tolist()
    np.testing.assert_allclose(one.leaves_["coefficient"], many.leaves_["coefficient"], rtol=1e-9, atol=1e-12)
    assert one.leaf_summary_["n_rows"].tolist() == many.leaf_summary_["n_rows"].tolist()
    again = fitted(frame, 11, weight="w")
    assert again.forest_.ensemble.linear_coefficient.tobytes() == many.forest_.ensemble.linear_coefficient.tobytes()
    with dask.config.set(scheduler="threads", num_workers=3):
        again = fitted(frame, 11, weight="w")
    assert again.forest_.ensemble.linear_coefficient.tobytes() == many.forest_.ensemble.linear_coefficient.tobytes()


def test_more_rows_than_the_sample_are_closer_to_the_truth():
    frame = example(20_000, missing=False).drop(columns="w")
    rest = example(5000, 1, missing=False).drop(columns="w")
    tree = fitted(frame, 8, sample_rows=400)
    sample = tree.n_rows_searched_
    alone = glasswood.ModelTreeRegressor(**QUICK, smoothing=0).fit(
        *(frame[:sample].drop(columns="y"), frame["y"][:sample])
    )
    error, of_sample = (np.mean((m.predict(rest.drop(columns="y")) - rest["y"]) ** 2) for m in (tree, alone))
    assert error < of_sample
    assert tree.leaf_summary_["n_rows"].sum() == 20_000


def test_features_interact_within_groups_only():
    """More rows than the sample: equations that are fitted again keep to the group of the tree."""
    frame = example(3000).drop(columns="w")
    groups = [["a", "b", "kind"], ["c", "place"]]
    tree = fitted(frame, 5, sample_rows=900, interaction_cst=groups)
    forest = tree.forest_.ensemble
    used = {forest.feature_names[k] for k in {*forest.feature[forest.feature >= 0], *forest.linear_feature}}
    assert used
    assert any(used <= set(group) for group in groups)
    free = fitted(frame, 5, sample_rows=900).forest_.ensemble
    assert not any({*free.linear_feature} <= {list(frame).index(name) for name in group} for group in groups)


def test_limits_and_rows_beyond_them_are_of_all_rows():
    frame = example(3000).drop(columns="w")
    frame.loc[2999, "y"] = 50.0
    for clip in ("leaf", "target"):
        tree = fitted(frame, 4, sample_rows=1500, clip=clip)
        leaves, free = tree.apply(frame.drop(columns="y")), fitted(frame, 4, sample_rows=1500, clip="none")
        predicted = free.predict(frame.drop(columns="y"))
        for leaf, (low, high) in enumerate(tree.forest_.ensemble.leaf_range):
            at = leaves == leaf
            beyond = (predicted[at] < low) | (predicted[at] > high)
            assert tree.leaf_summary_["n_clipped"][leaf] == beyond.sum()
            if clip == "leaf":
                assert (low, high) == (frame["y"][at].min(), frame["y"][at].max())
    assert tree.forest_.ensemble.leaf_range.max() > 50


def test_constant_leaves_and_a_single_leaf():
    frame = example(1500).drop(columns="w")
    tree = fitted(frame, 3, sample_rows=700, leaf_model="constant")
    leaves = tree.apply(frame.drop(columns="y"))
    means = frame["y"].groupby(leaves).mean()
    np.testing.assert_allclose(tree.predict(frame.drop(columns="y")), means[leaves], rtol=1e-12)
    assert fitted(frame, 3, sample_rows=700, max_leaves=1).n_leaves_ == 1


def test_empty_partitions_count_for_nothing():
    frame = example(1200).drop(columns="w").sort_values("a").reset_index(drop=True)
    data = frames.from_pandas(frame, npartitions=6)
    data = data[data["a"] > -0.5]
    tree = glasswood.dask.fit(glasswood.ModelTreeRegressor(**QUICK), data, "y")
    assert tree.n_rows_ == (frame["a"] > -0.5).sum() == tree.leaf_summary_["n_rows"].sum()


def test_samples_are_in_proportion_and_by_seed():
    from glasswood.dask.fitting import _sampled, _shares

    shares = _shares(np.array([10, 0, 1000, 490]), 150)
    assert shares.sum() == 150
    assert shares.tolist() == [1, 0, 100, 49]
    assert _shares(np.array([10, 20]), 31).tolist() == [10, 20]
    part = pd.DataFrame({"a": np.arange(1000)})
    first, again, other = (_sampled(part, 100, *seed, ["a"], None)["a"].tolist() for seed in ((0, 3), (0, 3), (0, 4)))
    assert first == again != other
    assert first == sorted(set(first))
    assert len(first) == 100


def test_sums_hold_whatever_rows_are_divided_into():
    frame = example(900)
    tree = fitted(frame, 1, weight="w", max_leaves=1)
    (terms,) = leaf_terms(tree.forest_.ensemble)
    rows = glasswood.inputs.as_rows(frame.drop(columns=["y", "w"]), tree.forest_.ensemble)
    y, w = frame["y"].to_numpy(), frame["w"].to_numpy()
    whole = sums_of(terms, rows, y, w, 2.0)
    (parts,) = merge_all([[sums_of(terms, rows[i : i + 7], y[i : i + 7], w[i : i + 7], 2.0)] for i in range(0, 900, 7)])
    np.testing.assert_allclose(parts.triangle.T @ parts.triangle, whole.triangle.T @ whole.triangle, atol=1e-9)
    assert (parts.n_rows, parts.low, parts.high) == (900, y.min(), y.max())


class TestErrors:
    def test_data(self):
        frame = example(100)
        with pytest.raises(TypeError, match=r"data is a DataFrame, expected a Dask DataFrame; for rows in memory"):
            glasswood.dask.fit(glasswood.ModelTreeRegressor(), frame, "y")
        with pytest.raises(ValueError, match=r"data have no columns 'z'; they have 'a', 'b'"):
            glasswood.dask.fit(glasswood.ModelTreeRegressor(), frames.from_pandas(frame, npartitions=2), "z")
        for name, value in (("y", np.nan), ("a", np.inf), ("w", -1.0)):
            wrong = frame.copy()
            wrong.loc[99, name] = value
            with pytest.raises(ValueError, match=r"partition 1 has (targets that are not finite|infinite features)"):
                fitted(wrong, 2, 20, weight="w")
        parts = [dask.delayed(frame), dask.delayed(frame.drop(columns="b"))]
        data = frames.from_delayed(parts, meta=frame, verify_meta=False)
        with pytest.raises(ValueError, match=r"partition 1 has the columns 'a', 'c', .*, expected 'a', 'b', 'c'"):
            glasswood.dask.fit(glasswood.ModelTreeRegressor(**QUICK), data, "y")
        with pytest.raises(ValueError, match="data have no rows"):
            fitted(frame[:0], 1)

    def test_parameters(self):
        frame = example(100)
        expected = r"model is a AdditiveRegressor, expected a ModelTreeRegressor or ModelTreeClassifier"
        with pytest.raises(TypeError, match=expected):
            glasswood.dask.fit(glasswood.AdditiveRegressor(), frames.from_pandas(frame, npartitions=2), "y")
        for settings, message in (
            ({"loss": "huber"}, "loss='squared'"),
            ({"smoothing": 15}, "does not smooth leaves"),
            ({"monotonic_cst": {"a": 1}}, "does not support monotonic_cst; fit a sample in one process"),
            ({"curves": "auto"}, "curves is 'auto', but glasswood.dask.fit adds no curves; set it to False"),
            ({"coefficient_signs": {"a": 1}}, "does not support coefficient_signs; fit a sample in one process"),
        ):
            with pytest.raises(ValueError, match=message):
                fitted(frame, 2, **settings)
        with pytest.raises(ValueError, match="sample_rows is 0, expected a whole number of at least 1"):
            fitted(frame, 2, 0)


@pytest.mark.parametrize("kind", ["whole numbers", "text"])
@pytest.mark.parametrize("n_parts", [1, 3, 7])
def test_categories_that_partitions_know_apart_stay_categories(kind, n_parts):
    rng = np.random.default_rng(0)
    codes = np.sort(rng.integers(0, 12, 600))
    labels = {"whole numbers": [7 * k for k in range(12)], "text": [f"s{7 * k}" for k in range(12)]}
    frame = pd.DataFrame({"shop": [labels[kind][code] for code in codes]})
    frame["y"] = 5 * rng.normal(size=12)[codes] + 0.1 * rng.normal(size=600)
    data = frames.from_pandas(frame, npartitions=n_parts, sort=False).map_partitions(
        lambda part: part.assign(shop=part["shop"].astype("category")), meta=frame.iloc[:0].astype({"shop": "category"})
    )
    model = glasswood.ModelTreeRegressor(leaf_model="constant", **{**QUICK, "max_leaves": 3})
    tree = glasswood.dask.fit(model, data, "y")
    alone = glasswood.ModelTreeRegressor(leaf_model="constant", **{**QUICK, "max_leaves": 3})
    alone.fit(frame[["shop"]].astype("category"), frame["y"])
    assert tree.forest_.ensemble.categories[0].tolist() == alone.forest_.ensemble.categories[0].tolist()
    rows = frame[["shop"]].astype("category")
    np.testing.assert_allclose(tree.predict(rows), alone.predict(rows), rtol=1e-9)


@pytest.mark.parametrize("order", [None, 0, 1])
def test_rows_in_any_order_and_partitions_grow_one_tree(order):
    """With all of them as the sample."""
    frame = example(600, missing=True).drop(columns="w")
    rows = frame if order is None else frame.iloc[np.random.default_rng(order).permutation(600)]
    tree = fitted(rows.reset_index(drop=True), 2 if order is None else 3 + order)
    one = fitted(frame, 1)
    X = frame.drop(columns="y")
    np.testing.assert_allclose(tree.predict(X), one.predict(X), rtol=1e-8, atol=1e-8)


def test_seeds_are_numbers_of_any_kind_and_generators():
    frame = example(400, missing=False)
    seeds = [
        1,
        np.int64(1),
        np.uint8(1),
        2,
        np.random.RandomState(5),
        np.random.RandomState(5),
        np.random.RandomState(6),
    ]
    found = [
        fitted(frame, 3, 60, random_state=seed, max_leaves=1, generations=2).fitness_ for seed in seeds
    ]  # fmt: skip
    assert found[0] == found[1] == found[2]
    assert found[0] != found[3]
    assert found[4] == found[5] != found[6]


def amounts(loss, n_rows=4000, seed=0):
    """Targets of a loss whose means are log-linear on each side of a = 0.3; exposures and weights."""
    frame = example(n_rows, seed, missing=False).drop(columns=["y", "w", "place"])
    rng = np.random.default_rng(seed + 1)
    effect = frame["kind"].map({"p": 0.0, "q": 0.5, "r": -0.7})
    mean = np.exp(np.where(frame["a"] < 0.3, 0.5 * frame["b"], 1 - 0.4 * frame["c"]) + effect)
    years, w = rng.uniform(0.3, 3, n_rows), rng.uniform(0.5, 2, n_rows)
    y = {
        "poisson": lambda m: rng.poisson(m).astype(float),
        "gamma": lambda m: rng.gamma(2, m / 2),
        "tweedie": lambda m: np.array([rng.gamma(2, 0.5, n).sum() for n in rng.poisson(m)]),
    }[loss](mean * years)
    return frame.assign(y=y, w=w, years=years)


def dask_of(frame, n_parts):
    return frames.from_pandas(frame.reset_index(drop=True), npartitions=n_parts)


POWERS = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}


@pytest.mark.parametrize("loss", list(POWERS))
def test_equations_of_rates_are_generalised_linear_models_of_all_rows(loss):
    """Leaf by leaf by scikit-learn's solver, on the terms that a sample chose."""
    from sklearn.linear_model import TweedieRegressor

    frame = amounts(loss)
    model = glasswood.ModelTreeRegressor(loss=loss, clip="none", **{**QUICK, "max_leaves": 3})
    tree = glasswood.dask.fit(model, dask_of(frame, 5), "y", "w", 1200, "years")
    X, forest = frame.drop(columns=["y", "w", "years"]), tree.forest_.ensemble
    rates, total = frame["y"] / frame["years"], frame["w"] * frame["years"] ** (2 - POWERS[loss])
    leaves, n_terms = tree.apply(X), 0
    for leaf in range(tree.n_leaves_):
        at, columns = leaves == leaf, []
        for term in range(*forest.linear_offsets[leaf : leaf + 2]):
            column, category = X.iloc[:, forest.linear_feature[term]][at], forest.linear_category[term]
            if category < 0:
                columns.append(column if category == -1 else column.isna())
            else:
                columns.append(column == forest.categories[forest.linear_feature[term]][category])
        n_terms += len(columns)
        design = np.column_stack([np.ones(at.sum()), *columns]).astype(float)
        other = TweedieRegressor(power=POWERS[loss], link="log", alpha=0, tol=1e-10, max_iter=10_000)
        other.fit(design, rates[at], sample_weight=total[at])
        np.testing.assert_allclose(tree.predict(X)[at], other.predict(design), rtol=1e-4)
        assert tree.leaf_summary_["mean"][leaf] == pytest.approx(np.average(rates[at], weights=total[at]))
        off = np.average((rates[at] - tree.predict(X)[at]) ** 2, weights=total[at])
        assert tree.leaf_summary_["rmse"][leaf] == pytest.approx(np.sqrt(off))
        assert tree.leaf_summary_["low"][leaf] == rates[at].min()
        assert tree.leaf_summary_["n_rows"][leaf] == at.sum()
    assert n_terms
    assert (tree.n_rows_, tree.n_rows_searched_) == (4000, 1200)
    np.testing.assert_allclose(tree.predict(X, exposure=frame["years"]), tree.predict(X) * frame["years"])
    assert "given" not in tree.forest_.objective


@pytest.mark.parametrize(
    ("loss", "clip"), [("poisson", "target"), ("poisson", "leaf"), ("gamma", "none"), ("tweedie", "target")]
)
def test_rates_of_all_rows_as_the_sample_are_those_of_fit(loss, clip, monkeypatch):
    """Also where the equations are fitted once more, from the sample's, on the same rows."""
    frame = amounts(loss, 900)
    settings = {"loss": loss, "clip": clip, **QUICK}
    X = frame.drop(columns=["y", "w", "years"])
    alone = glasswood.ModelTreeRegressor(**settings, smoothing=0).fit(X, frame["y"], frame["w"], frame["years"])
    given = dask_of(frame, 4), "y", "w", 10**7, "years"
    tree = glasswood.dask.fit(glasswood.ModelTreeRegressor(**settings), *given)
    np.testing.assert_array_equal(tree.predict(X), alone.predict(X))
    original = fitting._searched
    monkeypatch.setattr(fitting, "_searched", lambda *one: (lambda a, n, c: (a, n - 1, c))(*original(*one)))
    again = glasswood.dask.fit(glasswood.ModelTreeRegressor(**settings), *given)
    np.testing.assert_allclose(again.predict(X), alone.predict(X), rtol=1e-4)
    assert again.leaves_["feature"].tolist() == alone.leaves_["feature"].tolist()
    np.testing.assert_allclose(again.leaves_["standard_error"], alone.leaves_["standard_error"], rtol=1e-3)
    for name, expected in alone.leaf_summary_.items():
        np.testing.assert_allclose(again.leaf_summary_[name], expected, rtol=1e-3, err_msg=name)
    np.testing.assert_allclose(again.forest_.ensemble.cover, alone.forest_.ensemble.cover, rtol=1e-3)
    np.testing.assert_allclose(again.feature_importances_, alone.feature_importances_, rtol=1e-2, atol=1e-4)


def classes_of_rows(n_classes, n_rows=3000, seed=0, missing=True):
    frame = example(n_rows, seed, missing).rename(columns={"y": "score"})
    rng = np.random.default_rng(seed + 5)
    noisy = frame["score"] + rng.logistic(size=n_rows)
    ends = [1.0] if n_classes == 2 else [0.0, 2.5]
    return frame.drop(columns="score").assign(y=np.array(["low", "middle", "top"])[np.digitize(noisy, ends)])


def slopes_left(tree, frame, weight):
    """How far a coefficient is from where the penalised likelihood has no slope, in standard errors: the largest."""
    X, forest = frame.drop(columns=["y", "w"]), tree.forest_.ensemble
    p = tree.predict_proba(X)
    margins = np.asarray(tree.forest_.predict(X, "margin")).reshape(len(X), -1)
    rows = glasswood.inputs.as_rows(X, forest)
    starts, found = forest.leaf_offsets, []
    for k in range(forest.n_trees):
        label = 1 if forest.n_trees == 1 else k
        own = (frame["y"] == tree.classes_[label]).to_numpy(float)
        others = np.zeros(len(X)) if forest.n_trees == 1 else -np.log(np.exp(np.delete(margins, k, 1)).sum(axis=1))
        share = np.average(own, weights=weight)
        for leaf in range(starts[k + 1] - starts[k]):
            at = (tree.apply(X)[:, k] == leaf) & (weight > 0)
            w, rest = weight[at], own[at] - p[at, label]
            spread = w * p[at, label] * (1 - p[at, label])
            value, beyond = forest.leaf_value[starts[k] + leaf, 0], np.average(others[at], weights=w)
            found.append((w @ rest - 1 / (1 + np.exp(-value - beyond)) + share) / np.sqrt(spread.sum()))
            for term in range(*forest.linear_offsets[starts[k] + leaf : starts[k] + leaf + 2]):
                if forest.linear_category[term] != -1:
                    continue  # numbers; categories share columns, and have terms of rows without one
                x = rows[at, forest.linear_feature[term]].astype(float)
                known = ~np.isnan(x)
                z = np.where(known, x - np.average(x[known], weights=w[known]), 0.0)
                scale = np.sqrt(np.average(z**2, weights=w))
                slope = w @ (rest * z / scale) - tree.ridges_[k] * forest.linear_coefficient[term] * scale
                found.append(slope / np.sqrt(spread @ (z / scale) ** 2))
    assert len(found) > 2
    return np.abs(found).max()


@pytest.mark.sizes("each")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_log_odds_are_the_most_likely_of_all_rows(n_classes, weighted):
    """Derivatives of the likelihood less the ridge are 0, straight from their definition."""
    frame = classes_of_rows(n_classes)
    used = frame if weighted else frame.drop(columns="w")
    model = glasswood.ModelTreeClassifier(**{**QUICK, "max_leaves": 3})
    tree = glasswood.dask.fit(model, dask_of(used, 5), "y", "w" if weighted else None, 1000)
    weight = frame["w"].to_numpy() if weighted else np.ones(len(frame))
    assert slopes_left(tree, frame, weight) < 0.02
    few = glasswood.ModelTreeClassifier(**{**QUICK, "max_leaves": 3})
    sample = glasswood.dask.fit(few, dask_of(used[:1000], 5), "y", "w" if weighted else None)
    assert slopes_left(sample, frame, weight) > 0.5
    X, forest = frame.drop(columns=["y", "w"]), tree.forest_.ensemble
    rest = tree.leaf_summary_
    leaves, p = tree.apply(X), tree.predict_proba(X)
    for k in range(forest.n_trees):
        label = 1 if n_classes == 2 else k
        own = (frame["y"] == tree.classes_[label]).to_numpy()
        for leaf in range(forest.leaf_offsets[k], forest.leaf_offsets[k + 1]):
            at = (leaves[:, k] == leaf - forest.leaf_offsets[k]) & (weight > 0)
            losses = -np.log(np.where(own, p[:, label], 1 - p[:, label]))
            assert rest["n_rows"][leaf] == at.sum()
            assert rest["share"][leaf] == pytest.approx(np.average(own[at], weights=weight[at]))
            assert rest["log_loss"][leaf] == pytest.approx(np.average(losses[at], weights=weight[at]), rel=1e-4)
            assert (rest["low"][leaf], rest["high"][leaf]) == (own[at].min(), own[at].max())


@pytest.mark.parametrize("class_weight", [None, "balanced", {"low": 2.0, "middle": 1.0, "top": 0.5}])
def test_classes_of_all_rows_as_the_sample_are_those_of_fit(class_weight):
    frame = classes_of_rows(3, 300).drop(columns=["w", "place"])
    X, settings = frame.drop(columns="y"), {**QUICK, "class_weight": class_weight, "random_state": np.int64(3)}
    alone = glasswood.ModelTreeClassifier(**settings).fit(X, frame["y"])
    for rows, n_parts in ((frame, 4), (frame.iloc[::-1], 3)):
        tree = glasswood.dask.fit(glasswood.ModelTreeClassifier(**settings), dask_of(rows, n_parts), "y")
        np.testing.assert_allclose(tree.predict_proba(X), alone.predict_proba(X), rtol=1e-9)
        assert tree.get_params() == alone.get_params()


def test_steps_on_the_rows_of_the_sample_end_where_fit_does(monkeypatch):
    """With weights of classes."""
    frame = classes_of_rows(3, 900).drop(columns=["w", "place"])
    weights = {"low": 2.0, "middle": 1.0, "top": 0.5}
    X, settings = frame.drop(columns="y"), {**QUICK, "class_weight": weights, "random_state": np.int64(3)}
    original = fitting._searched
    monkeypatch.setattr(fitting, "_searched", lambda *one: (lambda a, n, c: (a, n - 1, c))(*original(*one)))
    monkeypatch.setattr(classifier, "CYCLES", 40)  # three do not reach the joint maximum of all classes
    alone = glasswood.ModelTreeClassifier(**settings).fit(X, frame["y"])
    again = glasswood.dask.fit(glasswood.ModelTreeClassifier(**settings), dask_of(frame, 4), "y")
    np.testing.assert_allclose(again.predict_proba(X), alone.predict_proba(X), atol=0.03)
    assert again.leaves_["feature"].tolist() == alone.leaves_["feature"].tolist()
    np.testing.assert_allclose(again.leaves_["standard_error"], alone.leaves_["standard_error"], rtol=0.02)
    np.testing.assert_allclose(again.forest_.ensemble.cover, alone.forest_.ensemble.cover, rtol=1e-6)


@pytest.mark.parametrize("kind", ["text", "numbers", "categories"])
def test_labels_that_partitions_and_samples_lack_are_classes(kind, limits):
    """Rows are sorted by label, and the rarest one is in no row of the sample."""
    limits(class_cycles=2)
    frame = classes_of_rows(3, 900, missing=False).sort_values("y", kind="stable").reset_index(drop=True)
    frame = frame.drop(columns="w")
    frame.loc[899, "y"] = "zzz"
    if kind == "numbers":
        frame["y"] = frame["y"].map({"low": 3, "middle": 7, "top": 11, "zzz": 40})
    data = dask_of(frame, 6)
    if kind == "categories":
        meta = frame.iloc[:0].astype({"y": "category"})
        data = data.map_partitions(lambda part: part.assign(y=part["y"].astype("category")), meta=meta)
    model = glasswood.ModelTreeClassifier(**{**QUICK, "max_leaves": 2, "class_weight": "balanced"})
    tree = glasswood.dask.fit(model, data, "y", sample_rows=100)
    expected = [3, 7, 11, 40] if kind == "numbers" else ["low", "middle", "top", "zzz"]
    assert tree.classes_.tolist() == expected
    assert tree.n_rows_searched_ in {100, 101, 102, 103}
    p = tree.predict_proba(frame.drop(columns="y"))
    assert p.shape == (900, 4)
    places = np.searchsorted(np.array(expected), frame["y"].to_numpy())
    assert -np.log(p[np.arange(900), places]).mean() < 1.2


@pytest.mark.parametrize("kind", ["classes", "poisson"])
def test_partitions_and_workers_change_rounding_alone_for_other_losses(kind):
    if kind == "classes":
        frame, model = classes_of_rows(2, 1500), glasswood.ModelTreeClassifier(**{**QUICK, "max_leaves": 3})
    else:
        frame = amounts("poisson", 1500).drop(columns="years")
        model = glasswood.ModelTreeRegressor(loss="poisson", **{**QUICK, "max_leaves": 3})

    def coefficients(n_parts):
        original = fitting._searched
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitting, "_searched", lambda *one: (lambda a, n, c: (a, n - 1, c))(*original(*one)))
            return glasswood.dask.fit(model, dask_of(frame, n_parts), "y", "w").forest_.ensemble.linear_coefficient

    one, many = coefficients(1).copy(), coefficients(7).copy()
    np.testing.assert_allclose(one, many, rtol=1e-6, atol=1e-9)
    with dask.config.set(scheduler="threads", num_workers=3):
        assert coefficients(7).tobytes() == many.tobytes()


def test_other_losses_refuse_what_does_not_fit():
    frame = amounts("poisson", 200)
    model = glasswood.ModelTreeRegressor(loss="poisson", **QUICK)
    for name, value, message in (
        ("y", -1.0, "y is -"),
        ("years", 0.0, "exposure is 0 in row|partition 1 has exposures that are not above 0"),
    ):
        wrong = frame.copy()
        wrong.loc[199, name] = value
        for sample in (10**7, 20):
            with pytest.raises(ValueError, match=message):
                glasswood.dask.fit(model, dask_of(wrong, 2), "y", None, sample, "years")
    with pytest.raises(ValueError, match="exposure is for rates"):
        glasswood.dask.fit(glasswood.ModelTreeRegressor(), dask_of(frame, 2), "y", exposure="years")
    labels = classes_of_rows(2, 100).drop(columns="w")
    labels.loc[99, "y"] = None
    with pytest.raises(ValueError, match="partition 1 has rows without a class in column 'y'; drop these rows"):
        glasswood.dask.fit(glasswood.ModelTreeClassifier(), dask_of(labels, 2), "y")


def test_limits_keep_the_sign_of_amounts():
    """As those of trees in memory: no y is below 0, so no prediction is."""
    frame = example(1000).drop(columns="w")
    frame["y"] = np.maximum(frame["y"], 0)
    tree = fitted(frame, 4, sample_rows=400)
    X = frame.drop(columns="y")
    assert tree.predict(X.assign(b=X["b"] * 50, c=X["c"] * 50)).min() >= 0
