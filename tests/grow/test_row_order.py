"""One tree for all ways to write the same rows: their order, codes of categories, frames and partitions."""

import numpy as np
import pytest

from tests.sizes import rest_slow

pytest.importorskip("sklearn")
pytest.importorskip("pandas")
import pandas as pd

import glasswood

FAST = {"generations": 2, "population_size": 8, "n_jobs": 1, "time_limit": None}
TREE = glasswood.ModelTreeRegressor(generations=2, population_size=4, max_leaves=4)
TEXTS = ["region", "job", "kind"]


def frame(seed=0, n=450):
    """Text of few and of many categories, some of the same mean target, numbers and missing values."""
    rng = np.random.default_rng(seed)
    region, job = rng.choice(list("gabhcdfe"), n), rng.choice([f"job {i}" for i in range(25)], n)
    X = pd.DataFrame(
        {"x": rng.normal(size=n).round(2), "region": region, "job": job, "kind": rng.choice(["u", "v"], n)}
    )
    effect = {name: rng.normal() for name in [*sorted(set(region)), *sorted(set(job))]}
    y = X.x * X.region.map(effect) + X.job.map(effect) + rng.normal(size=n)
    X.loc[::11, "region"] = None
    X.loc[::13, "x"] = np.nan
    return X, y.to_numpy()


def fits():
    """Return estimators by name, and whether their targets are classes."""
    ensemble = {"n_estimators": 2, "n_jobs": 1, "time_limit": None, "max_trees": 3}
    return {
        "tree": (glasswood.ModelTreeRegressor(**FAST), False),
        "smooth": (glasswood.ModelTreeRegressor(smoothing="auto", **FAST), False),
        "huber": (glasswood.ModelTreeRegressor(loss="huber", **FAST), False),
        "quantile": (glasswood.ModelTreeRegressor(loss="quantile", quantile=0.3, **FAST), False),
        "honest": (glasswood.ModelTreeRegressor(honest=0.5, **FAST), False),
        "classes": (glasswood.ModelTreeClassifier(generations=2, n_jobs=1, time_limit=None), True),
        "mean": (glasswood.ModelTreeEnsembleRegressor(TREE, method="mean", **ensemble), False),
        "boosting": (glasswood.ModelTreeEnsembleRegressor(TREE, method="boosting", **ensemble), False),
        "curves": (glasswood.ModelTreeRegressor(curves=True, pairs=2, **FAST), False),
        "additive": (glasswood.AdditiveRegressor(n_jobs=1), False),
        "additive classes": (glasswood.AdditiveClassifier(n_jobs=1), True),
        "boosted classes": (glasswood.ModelTreeEnsembleClassifier(TREE, method="boosting", **ensemble), True),
    }


def predicted(model, X, y, rows):
    model = model.fit(X, y)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return model.predict(rows)


@pytest.mark.sizes("each")
@pytest.mark.parametrize("change", ["rows", "codes backwards", "codes that no row has"])
@pytest.mark.parametrize("name", list(fits()))
def test_neither_the_order_of_rows_nor_of_codes_matters(name, change, request):
    from sklearn.base import clone

    if name != "smooth":
        request.getfixturevalue("unjudged")
    model, is_classifier = fits()[name]
    X, y = frame()
    y = np.digitize(y, [-0.5, 0.8]) if is_classifier else y
    expected = predicted(clone(model), X, y, X)
    rows, targets = X, y
    if change == "rows":
        order = np.random.default_rng(1).permutation(len(y))
        rows, targets = X.iloc[order], y[order]
    elif change == "codes backwards":
        codes = {c: sorted(X[c].dropna().unique(), reverse=True) for c in TEXTS}
    else:
        codes = {c: ["never", *X[c].dropna().unique()] for c in TEXTS}
    if change != "rows":
        rows = X.assign(**{c: pd.Categorical(X[c], codes[c]) for c in TEXTS})
    np.testing.assert_allclose(predicted(clone(model), rows, targets, X), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", rest_slow(1, range(3)))
def test_frames_of_all_libraries_grow_one_tree(seed):
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    X, y = frame(seed)
    table = pl.from_pandas(X)
    columns = ["region", "job", "kind"]
    frames = [
        X, table, table.with_columns(pl.col(columns).cast(pl.Categorical)), pa.Table.from_pandas(X),
        pa.table({c: pa.array(X[c], from_pandas=True).dictionary_encode() if c in columns
                  else pa.array(X[c], from_pandas=True) for c in X.columns}),
        X.astype(dict.fromkeys(columns, "category")),
    ]  # fmt: skip
    found = [predicted(glasswood.ModelTreeRegressor(**FAST), rows, y, rows) for rows in frames]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-9, atol=1e-9)


def test_categories_stand_in_the_order_of_their_labels():
    for labels in ([3, 1, 10, 2], ["b", "a", "C"], [True, False], [2, "a", 1, "B"]):
        column = pd.Series(
            pd.Categorical.from_codes(np.arange(40) % len(labels), pd.Index(labels, tupleize_cols=False))
        )
        y = np.arange(40) % len(labels) * 1.0
        tree = glasswood.ModelTreeRegressor(**FAST)
        tree.fit(pd.DataFrame({"c": column}), y)
        table = tree.forest_.ensemble.categories[0].tolist()
        mixed = len({isinstance(label, str) for label in labels}) > 1
        assert table == (sorted(labels, key=lambda v: (isinstance(v, str), v)) if mixed else sorted(labels))


def test_equal_means_do_not_depend_on_rounding():
    """Targets of few values: categories of the same mean, whose sums differ in their last bits by the order of rows."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"c": rng.choice([f"k{i}" for i in range(60)], 600), "x": rng.normal(size=600)})
    y = rng.choice([0.1, 0.3, 0.7], 600)
    order = rng.permutation(600)
    one = glasswood.ModelTreeRegressor(**FAST).fit(X, y, sample_weight=np.full(600, 0.7))
    other = glasswood.ModelTreeRegressor(**FAST).fit(X.iloc[order], y[order], sample_weight=np.full(600, 0.3))
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9)
