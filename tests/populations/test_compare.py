"""What changed between populations and between models, beside means of predictions."""

from __future__ import annotations

import dataclasses
import json
import warnings

import numpy as np
import pytest

import glasswood
from glasswood.cli import main
from glasswood.populations import comparing
from tests.strategies import Options, random_forest, random_rows

pandas = pytest.importorskip("pandas")

FORESTS = {
    "numbers": Options(n_trees=7, n_features=4),
    "categories, three outputs": Options(n_trees=5, n_features=3, row_type="float64", categorical=True, n_outputs=3),
}


@pytest.fixture(scope="module", name="california")
def _california():
    X, _ = glasswood.datasets.california()
    return X.sample(frac=1, random_state=0), glasswood.load(glasswood.datasets.DATA / "california_housing.json")


def means(forest, rows, weights=None):
    found = np.asarray(forest.predict(rows, "margin"), np.float64).reshape(len(rows), -1)
    return np.average(found, axis=0, weights=weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_changes_add_up_to_the_change_of_the_mean(name, weighted):
    for seed in range(3):
        forest = random_forest(seed, FORESTS[name])
        a, b = (random_rows(seed + n, forest, n, dtype=FORESTS[name].row_type) for n in (150, 70))
        rng = np.random.default_rng(seed)
        weights = (rng.gamma(1, size=150), rng.gamma(1, size=70)) if weighted else (None, None)
        found = glasswood.compare(a, b, model=forest, sample_weight=weights)
        size = 1e-9 * np.abs(np.asarray(forest.predict(np.vstack([a, b]), "margin"), np.float64)).max()
        np.testing.assert_allclose(found.before, means(forest, a, weights[0]), atol=max(size, 1e-9), rtol=1e-6)
        np.testing.assert_allclose(found.after, means(forest, b, weights[1]), atol=max(size, 1e-9), rtol=1e-6)
        np.testing.assert_allclose(found.before + found.change.sum(axis=0), found.after, rtol=0, atol=size)


def test_the_change_is_the_mean_value_against_the_other_population(california):
    X, forest = california
    a, b = X[:500], X[500:800]
    values = glasswood.Explainer(forest, a, dtype="float64").shap_values(b)
    found = glasswood.compare(a, b, model=forest)
    np.testing.assert_allclose(found.change[:, 0], values.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.magnitude[:, 0], np.abs(values).mean(axis=0), rtol=1e-9)
    other = glasswood.compare(b, a, model=forest)
    np.testing.assert_allclose(other.change, -found.change, rtol=1e-7, atol=1e-9)


def test_long_comparisons_say_what_they_cost(limits, california):
    X, forest = california
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        glasswood.compare(X[:50], X[50:90], model=forest)
    limits(warned_seconds=0)
    with pytest.warns(comparing.CostWarning, match=r"comparing 90 rows takes about \d+ s more") as found:
        glasswood.compare(X[:50], X[50:90], model=forest)
    assert len(found) == 1


def test_standard_errors_are_those_of_repeated_samples():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = glasswood.datasets.california()
    small = ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=4, subsample=0.1, random_state=0)
    forest = glasswood.load(small.fit(X, y))
    rng = np.random.default_rng(0)
    found = []
    for _ in range(24):
        rows = rng.choice(len(X), 1200, replace=False)
        found.append(glasswood.compare(X.iloc[rows[:600]], X.iloc[rows[600:]], model=forest))
    spread = np.std([one.change[:, 0] for one in found], axis=0)
    estimated = np.mean([one.standard_error[:, 0] for one in found], axis=0)
    assert (0.6 * spread < estimated).all()
    assert (estimated < 1.7 * spread).all()


@pytest.mark.slow
def test_a_drift_that_was_planted_is_named_first(california):
    X, forest = california
    rng = np.random.default_rng(0)
    named = 0
    for trial in range(20):
        order = rng.permutation(len(X))
        a, b = X.iloc[order[:10_000]], X.iloc[order[10_000:]].copy()
        name = X.columns[trial % 8]
        b[name] += (0.3 if trial < 8 else -0.3 if trial < 16 else 0.5) * X[name].std()
        found = glasswood.compare(a, b, model=forest)
        named += found.strongest()[0] == name == found.names[np.argmax(found.shift)]
    assert named == 20


def test_one_drift(california):
    X, forest = california
    a, b = X[:2000], X[2000:4000].copy()
    b["MedInc"] += 1
    found = glasswood.compare(a, b, model=forest)
    assert found.strongest()[0] == "MedInc"
    assert found.rows()[0]["feature"] == "MedInc"
    assert found.rows()[0]["change"] > 10 * found.rows()[0]["standard_error"]
    assert str(found).splitlines()[1].split()[0] == "MedInc"


def test_shifts_are_distances_of_distributions():
    stats = pytest.importorskip("scipy.stats")
    forest = random_forest(0, Options(n_trees=3, n_features=3))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(80, 3)).astype(np.float32), rng.normal(0.5, size=(60, 3)).astype(np.float32)
    a[:, 1], b[:, 1] = rng.integers(0, 4, 80), rng.integers(1, 5, 60)
    b[:45, 2] = np.nan
    found = glasswood.compare(a, b, model=forest)
    assert abs(found.shift[0] - stats.ks_2samp(a[:, 0], b[:, 0]).statistic) < 1e-9
    assert abs(found.shift[1] - stats.ks_2samp(a[:, 1].astype(float), b[:, 1].astype(float)).statistic) < 1e-12
    assert found.shift[2] >= 0.75
    assert (found.shift_error > 0).all()


def test_shifts_of_categories():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"c": pandas.Categorical(rng.choice(list("abc"), 300)), "x": rng.normal(size=300)})
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, X["x"] + (X["c"] == "a"))
    a, b = X[:150], X[150:].copy()
    b["c"] = pandas.Categorical(["a"] * 75 + ["d"] * 75, categories=["a", "b", "c", "d"])
    found = glasswood.compare(a, b, model=model)
    share = a["c"].value_counts(normalize=True)
    expected = (abs(share["a"] - 0.5) + share["b"] + share["c"] + 0.5) / 2
    assert abs(found.shift[0] - expected) < 1e-12


@pytest.mark.parametrize("library", ["scikit-learn", "CatBoost", "pipeline"])
def test_categories_are_read_once(library):
    ensemble, pipeline = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.pipeline")
    rng = np.random.default_rng(0)
    codes = rng.choice([3, 7, 9], 400)
    X = np.column_stack([codes, rng.normal(size=400)])
    y = X[:, 1] + np.where(codes == 7, 4, 0)
    if library == "CatBoost":
        catboost = pytest.importorskip("catboost")
        X = pandas.DataFrame({"c": codes.astype(str), "x": X[:, 1]})
        settings = {"iterations": 10, "depth": 3, "one_hot_max_size": 10, "verbose": 0, "allow_writing_files": False}
        model = catboost.CatBoostRegressor(**settings, cat_features=["c"]).fit(X, y)
    elif library == "pipeline":
        preprocessing = pytest.importorskip("sklearn.preprocessing")
        grown = ensemble.GradientBoostingRegressor(n_estimators=10)
        model = pipeline.make_pipeline(preprocessing.StandardScaler(), grown).fit(X, y)
    else:
        model = ensemble.HistGradientBoostingRegressor(categorical_features=[0], max_iter=10).fit(X, y)
    a, b = X[:200], X[200:]
    found = glasswood.compare(a, b, model=model)
    np.testing.assert_allclose(found.before[0], model.predict(a).mean(), rtol=1e-6)
    np.testing.assert_allclose(found.after[0], model.predict(b).mean(), rtol=1e-6)
    both = glasswood.compare(model, model, X=a, background=b)
    np.testing.assert_allclose(both.before[0], model.predict(a).mean(), rtol=1e-6)


def test_models_differ_where_their_values_differ(california):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, forest = california
    rows = X[:300]
    model = ensemble.HistGradientBoostingRegressor(max_iter=20, random_state=0).fit(rows, rows["MedInc"])
    for background in (None, X[300:350]):
        found = glasswood.compare(forest, model, X=rows, background=background)
        values = [glasswood.Explainer(one, background, dtype="float64").shap_values(rows) for one in (forest, model)]
        np.testing.assert_allclose(found.change[:, 0], (values[1] - values[0]).mean(axis=0), atol=1e-10)
        np.testing.assert_allclose(found.magnitude[:, 0], np.abs(values[1] - values[0]).mean(axis=0), atol=1e-10)
        np.testing.assert_allclose(found.before, means(forest, rows), rtol=1e-6)
        np.testing.assert_allclose(found.after, means(glasswood.load(model), rows), rtol=1e-9)
        total = found.before + found.offset + found.change.sum(axis=0)
        np.testing.assert_allclose(total, found.after, atol=1e-9)
    assert found.shift is None
    same = glasswood.compare(forest, forest, X=rows)
    assert (same.change == 0).all()
    assert (same.offset == 0).all()


def test_groups_and_probabilities():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    model = ensemble.HistGradientBoostingClassifier(max_iter=10).fit(X, X[:, 0] + X[:, 1] > 0)
    a, b = X[:60], X[60:100] + np.array([1, 0, 0, 0])
    found = glasswood.compare(a, b, model=model, output="probability", groups={"first": [0, 1]})
    expected = [model.predict_proba(rows)[:, 1].mean() for rows in (a, b)]
    np.testing.assert_allclose([found.before[0], found.after[0]], expected, rtol=1e-9)
    np.testing.assert_allclose(found.change.sum(), expected[1] - expected[0], atol=1e-9)
    assert found.names[0] == "first"
    assert found.shift is None


def test_one_row_has_no_standard_errors(california):
    X, forest = california
    found = glasswood.compare(X[:1], X[1:2], model=forest)
    assert np.isnan(found.standard_error).all()
    assert len(found.strongest()) == 8
    assert json.loads(json.dumps(found.to_dict()))["standard_error"][0] == [None]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, _: glasswood.compare(X, X), TypeError, "pass model"),
        (lambda X, f: glasswood.compare(X, X, model=f, X=X), TypeError, "pass model"),
        (lambda X, f: glasswood.compare(X, X, model=f, background=X), TypeError, "background is for two models"),
        (lambda X, f: glasswood.compare(X, X, model=f, n_batches=1), ValueError, "n_batches is 1"),
        (lambda X, f: glasswood.compare(X[:0], X, model=f), ValueError, "a has no rows"),
        (lambda X, f: glasswood.compare(X, X.drop(columns="MedInc"), model=f), ValueError, "b: "),
        (lambda X, f: glasswood.compare(X, X, model=f, sample_weight=(None, [1, 1])), ValueError, "sample_weight of b"),
        (lambda X, f: glasswood.compare(f, random_forest(0, Options(n_trees=2)), X=X), ValueError, "a has 8 features"),
    ],
)
def test_what_is_refused(california, call, error, message):
    X, forest = california
    with pytest.raises(error, match=message):
        call(X[:50], forest)


def test_features_by_the_size_of_their_change(california):
    """Uncertain ones are marked, and the last line is what all of them add up to."""
    X, forest = california
    found = glasswood.compare(X[:300], X[3000:3300], model=forest)
    rows = found.rows()
    sizes = [abs(row["change"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert {row["is_certain"] for row in rows} == {True, False}
    told = str(found).splitlines()
    for row, line in zip(rows, told[1:9], strict=True):
        assert line[2:].startswith(row["feature"])
        assert (line[0] == "?") == (abs(row["change"]) <= 2 * row["standard_error"])
    assert told[9].split() == ["total", f"{found.after[0] - found.before[0]:+.4g}"]


def classifier(n=3000):
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(2 * n, 5)), columns=list("abcde"))
    model = HistGradientBoostingClassifier(max_iter=10).fit(X, X["a"] + X["b"] * X["c"] > 0)
    return X[:n], X[n:].assign(a=X["a"][n:] + 0.5), model


def test_rows_of_probabilities_are_drawn():
    """Figures of drawn rows lie within their standard errors of those of all rows; means are those of all."""
    a, b, model = classifier(800)
    whole = glasswood.compare(a, b, model=model, output="probability", max_rows=None)
    some = glasswood.compare(a, b, model=model, output="probability", max_rows=250)
    assert whole.n_explained is None
    assert some.n_explained == (250, 250)
    np.testing.assert_array_equal(some.before, whole.before)
    np.testing.assert_array_equal(some.after, whole.after)
    assert (np.abs(some.change - whole.change) < 3.5 * some.standard_error + 1e-9).all()
    assert (some.standard_error[:1] > whole.standard_error[:1]).all()
    np.testing.assert_allclose(some.before + some.offset + some.change.sum(axis=0), some.after)
    assert "Explained by 250 of 800 and 250 of 800 rows, drawn at random" in str(some)
    assert "(drawn rows)" in str(some)
    same = glasswood.compare(a, b, model=model, output="probability", max_rows=250)
    np.testing.assert_array_equal(same.change, some.change)


def test_as_many_rows_are_drawn_as_take_some_seconds(limits):
    a, b, model = classifier(600)
    assert glasswood.compare(a, b, model=model).n_explained is None  # the margin has no pairs
    assert glasswood.compare(a, b, model=model, output="probability").n_explained is None
    limits(comparison_operations=1.0)
    assert glasswood.compare(a, b, model=model, output="probability").n_explained == (200, 200)
    few = glasswood.compare(a[:50], b, model=model, output="probability")
    assert few.n_explained == (50, 200)
    other = glasswood.compare(model, model, X=a, background=b[:20], output="probability")
    assert other.n_explained == (200, 200)
    assert not other.change.any()
    with pytest.raises(ValueError, match="max_rows is 0, expected a number of rows"):
        glasswood.compare(a, b, model=model, max_rows=0)


def test_text_names_what_is_explained_and_the_order(california):
    X, forest = california
    told = str(glasswood.compare(X[:100], X[100:200], model=forest)).splitlines()
    assert told[0].startswith("mean prediction")
    assert told[-1] == "? The change does not exceed two standard errors."
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3).fit(X[:500], X["MedInc"][:500] > 4)
    assert str(glasswood.compare(X[:100], X[100:200], model=model)).startswith("mean margin (log-odds) ")
    chances = glasswood.compare(X[:100], X[100:200], model=model, output="probability")
    assert str(chances).startswith("mean probability ")
    summaries = [glasswood.Explainer(model).summary(rows) for rows in (X[:100], X[100:200])]
    assert str(glasswood.compare(*summaries)).startswith("mean output ")


def test_changes_that_rounding_makes_are_written_as_0(california):
    X, forest = california
    found = glasswood.compare(X[:333], X[:333], model=forest)
    assert np.abs(found.change).max() < 1e-12
    assert {line.split()[1] for line in str(found).splitlines()[1:]} == {"0"}
    moved = glasswood.compare(X[:333], X[:333].assign(MedInc=X["MedInc"][:333] + 1e-9), model=forest)
    apart = dataclasses.replace(moved, change=np.full(moved.change.shape, 1e-9))
    assert "+1e-09 ±" in str(apart)


def test_pictures(california):
    pytest.importorskip("matplotlib").use("agg")
    X, forest = california
    found = glasswood.compare(X[:100], X[100:200], model=forest)
    assert len(found.plot()) == 2
    assert len(glasswood.compare(forest, forest, X=X[:50]).plot()) == 1


def test_command_line(california, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    X, _ = california
    model = glasswood.datasets.DATA / "california_housing.json"
    X[:200].to_csv(tmp_path / "a.csv", index=False)
    X[200:400].assign(MedInc=X[200:400]["MedInc"] + 1).to_csv(tmp_path / "b.csv", index=False)
    given = ["compare", str(model), str(tmp_path / "a.csv")]
    assert main([*given, str(tmp_path / "b.csv"), "-o", str(tmp_path / "c.json")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("mean prediction")
    assert told[1].split()[0] == "MedInc"
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["names"] == list(X.columns)
    assert main([*given, "--other", str(model)]) == 0
    page = tmp_path / "page.html"
    assert (
        main(["report", str(model), str(tmp_path / "b.csv"), "--before", str(tmp_path / "a.csv"), "-o", str(page)]) == 0
    )
    assert "What changed" in page.read_text()
    capsys.readouterr()
    assert main(given) == 1
    assert "second file of rows" in capsys.readouterr().err
    assert main([*given, str(tmp_path / "b.csv"), "-o", str(tmp_path / "b.csv")]) == 1
