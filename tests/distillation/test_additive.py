"""Forests as sums of curves and surfaces."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from tests.strategies import Options, random_forest, random_rows


def data(n=800, gaps=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    if gaps:
        X[::7, 0] = np.nan
        X[::11, 2] = np.nan
    return X, y


def boosted(library, X, y):
    """Models of depth 2, and their own margins."""
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMRegressor(max_depth=2, num_leaves=4, n_estimators=60, verbose=-1, n_jobs=1).fit(X, y)
        return model, model.predict
    if library == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(max_depth=2, n_estimators=60, n_jobs=1).fit(X, y > 0)
        return model, lambda rows: model.predict(rows, output_margin=True)
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostRegressor(depth=2, iterations=60, verbose=False, thread_count=1, allow_writing_files=False)
    model.fit(X, y)
    return model, model.predict


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_models_of_depth_two_are_sums(library):
    X, y = data()
    model, margin = boosted(library, X, y)
    found = glasswood.additive(model, X)
    assert found.is_exact
    assert found.kept == pytest.approx(1)
    rows = np.random.default_rng(1).normal(size=(2000, 4)) * 3
    rows[::5, 0] = rows[::6, 2] = rows[::8, 1] = np.nan
    exact = np.asarray(glasswood.load(model).predict(rows, "margin"))
    np.testing.assert_allclose(np.asarray(found.forest_.predict(rows, "margin")), exact, rtol=0, atol=1e-9)
    tolerance = 1e-5 if library == "xgboost" else 1e-9  # XGBoost adds in float32
    np.testing.assert_allclose(np.asarray(found.forest_.predict(rows, "margin")), margin(rows), rtol=0, atol=tolerance)
    assert found.mean == pytest.approx(np.asarray(glasswood.load(model).predict(X, "margin")).mean(), abs=1e-6)


def test_surfaces_are_pure_and_curves_about_zero():
    X, y = data(gaps=False)
    model, _ = boosted("lightgbm", X, y)
    found = glasswood.additive(model, X)
    for name in set(found.curves_["feature"].tolist()):
        own = found.curves_["feature"] == name
        assert abs(found.curves_["adds"][own] @ found.curves_["rows"][own]) < 1e-6
    surfaces = found.surfaces_
    pairs = set(zip(surfaces["feature"].tolist(), surfaces["other_feature"].tolist(), strict=True))
    assert pairs
    for pair in pairs:
        own = (surfaces["feature"] == pair[0]) & (surfaces["other_feature"] == pair[1])
        for side in ("from", "other_from"):
            for low in set(surfaces[side][own].tolist()):
                at = own & (surfaces[side] == low)
                assert abs(surfaces["adds"][at] @ surfaces["rows"][at]) < 1e-6


def test_categories_and_classes():
    pd = pytest.importorskip("pandas")
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=900), "kind": pd.Categorical(rng.choice(list("abcde"), 900))})
    y = (X.x + (X.kind.isin(["b", "d"]) * 2) + rng.normal(size=900)).to_numpy()
    labels = np.digitize(y, [0, 2])
    model = lightgbm.LGBMClassifier(max_depth=2, n_estimators=10, verbose=-1, n_jobs=1).fit(X, labels)
    found = glasswood.additive(model, X)
    assert found.is_exact
    np.testing.assert_allclose(found.forest_.predict(X, "margin"), model.predict(X, raw_score=True), atol=1e-9)
    np.testing.assert_allclose(found.forest_.predict(X, "probability"), model.predict_proba(X), atol=1e-9)


def test_deeper_models_keep_a_share():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = data(1000)
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(X, y)
    found = glasswood.additive(model, X)
    assert not found.is_exact
    margins, own = model.predict(X), np.asarray(found.forest_.predict(X))
    assert found.kept[0] == pytest.approx(1 - np.var(margins - own) / np.var(margins), abs=1e-9)
    assert found.kept[0] > 0.95
    fewer = glasswood.additive(model, X, interactions=0)
    assert fewer.kept[0] < found.kept[0]
    assert not len(fewer.surfaces_["adds"])


def test_what_is_no_sum_of_constants_is_refused():
    X, y = data(100)
    tree = glasswood.ModelTreeRegressor(generations=2, population_size=8, time_limit=None).fit(X, y)
    with pytest.raises(NotImplementedError, match="linear ones"):
        glasswood.additive(tree, X)


def test_numbers_beside_each_other_stay_apart():
    """Midway between two float32 numbers is none of that type: half of the rows went to the other side."""
    xgboost = pytest.importorskip("xgboost")
    rng, beside = np.random.default_rng(0), [np.float32(1)]
    for _ in range(7):
        beside.append(np.nextafter(beside[-1], np.float32(2)))
    X = np.column_stack([np.array(beside)[rng.integers(0, 8, 4000)], rng.normal(size=(4000, 2))]).astype(np.float32)
    y = 3.0 * np.isin(X[:, 0], beside[1::2]) + (X[:, 1] > 0) * (X[:, 2] > 0) * (X[:, 0] > beside[3])
    model = xgboost.train({"max_depth": 4, "nthread": 1, "eta": 0.5}, xgboost.DMatrix(X, y), 20)
    found = glasswood.additive(model, X)
    assert not found.is_exact
    assert found.kept[0] > 0.99


def adds_of(table, before, entry, x):
    """Where an entry of a table applies to the numbers of a feature."""
    low, high, category = (table[before + key][entry] for key in ("from", "to", "category"))
    inside = (x >= low) & ((x < high) | (np.isinf(high) & ~np.isnan(x))) if low == low else np.zeros(len(x), bool)
    return inside | (np.isnan(x) if "missing" in category else False)


def by_tables(found, rows):
    """Margins of rows by the tables alone, but for a number that all have."""
    total, curves, surfaces = np.zeros(len(rows)), found.curves_, found.surfaces_
    for entry, adds in enumerate(curves["adds"]):
        total += adds * adds_of(curves, "", entry, rows[:, int(curves["feature"][entry][1:])])
    for entry, adds in enumerate(surfaces["adds"]):
        one, other = (rows[:, int(surfaces[key][entry][1:])] for key in ("feature", "other_feature"))
        total += adds * (adds_of(surfaces, "", entry, one) & adds_of(surfaces, "other_", entry, other))
    return total


@pytest.mark.parametrize("seed", range(40))
def test_random_forests_are_what_their_tables_say(seed):
    """Rows on thresholds and beside them, infinite and missing, of both types; and exact sums are the forest."""
    rng = np.random.default_rng(seed)
    options = Options(
        shape=str(rng.choice(["stump", "bushy", "bushy"])),
        n_trees=int(rng.integers(1, 5)),
        n_features=int(rng.choice([2, 3, 4])),
        row_type=str(rng.choice(["float32", "float64"])),
        thresholds=str(rng.choice(["plain", "ties"])),
        weights=str(rng.choice(["ones", "dart"])),
    )
    forest = random_forest(seed, options)
    rows, new = random_rows(seed, forest, int(rng.choice([1, 40, 300]))), random_rows(seed + 1000, forest, 300)
    for feature in range(options.n_features):
        if not np.isnan(rows[:, feature]).any():  # then it is not said where missing values go
            new[np.isnan(new[:, feature]), feature] = 0.3
        if np.isinf(rows[:, feature]).any():  # an entry from infinity on holds what no number is
            rows[np.isinf(rows[:, feature]), feature] = 1.0
    rows[np.abs(rows) > 1e38] = 1.0
    found = glasswood.additive(forest, rows)
    margins = np.asarray(found.forest_.predict(new, "margin"))
    scale = 1e-12 * (1 + np.abs(margins).max() + np.abs(forest.ensemble.leaf_value).sum())
    if found.is_exact:
        np.testing.assert_allclose(margins, np.asarray(forest.predict(new, "margin")), rtol=0, atol=scale)
    with np.errstate(over="ignore"):
        rest = margins - by_tables(found, new.astype(options.row_type))
    np.testing.assert_allclose(rest, rest[0], rtol=0, atol=10 * scale)
