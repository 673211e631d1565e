"""ModelTreeClassifier: trees of logistic regressions."""

import itertools
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_info, threadpool_limits

import glasswood
from glasswood.grow import classifier, likelihood
from glasswood.grow.logistic import LogisticRows, fit_logistic_leaf

FAST = {"n_iter_no_change": 20, "n_jobs": 1}


def known(n, seed=0):
    """A tree of three logistic models; rows, classes and the true probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 4))
    margin = np.where(X[:, 0] < 0, np.where(X[:, 1] < 0.5, 3 * X[:, 2], 1 - 3 * X[:, 2]), 2 * X[:, 3] - 1)
    p = 1 / (1 + np.exp(-margin))
    return X, (rng.random(n) < p).astype(int), p


def three(n, seed=0):
    """Three classes: one by a threshold, the others by a line below it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    noisy = X[:, 1] + X[:, 2] + 0.2 * rng.standard_normal(n)
    return X, np.array(["a", "b", "c"])[np.where(X[:, 0] > 0.3, 2, noisy > 0)]


@pytest.fixture(scope="module")
def binary():
    X, y, _ = known(2000)
    return glasswood.ModelTreeClassifier(**FAST).fit(X, y), X


@pytest.fixture(scope="module")
def several():
    X, y = three(900)
    return glasswood.ModelTreeClassifier(**FAST).fit(X, y), X


def test_finds_the_known_tree(binary):
    model, _ = binary
    X, y, p = known(4000, seed=1)
    assert model.n_leaves_ == 3
    assert log_loss(y, model.predict_proba(X)) < log_loss(y, p) + 0.02
    splits = model.forest_.ensemble.feature[model.forest_.ensemble.feature >= 0]
    assert sorted(splits) == [0, 1]


@pytest.mark.parametrize("fitted", ["binary", "several"])
def test_nodes_count_the_rows_that_reach_them(fitted, request):
    model, X = request.getfixturevalue(fitted)
    leaves = model.forest_.ensemble.feature < 0
    np.testing.assert_allclose(model.forest_.ensemble.cover[leaves], model.leaf_summary_["n_rows"], rtol=1e-9)
    np.testing.assert_allclose(
        model.forest_.ensemble.cover[model.forest_.ensemble.tree_offsets[:-1]], len(X), rtol=1e-9
    )
    for tree in range(model.forest_.n_trees):
        lines = glasswood.export_text(model, tree).splitlines()
        for above, line in itertools.pairwise(lines):
            if "leaf " in line:
                leaf = int(line.strip("| ").removeprefix("leaf ").partition(":")[0])
                assert f"{model.leaf_summary_['n_rows'][leaf]} rows" in above + line
                assert "(log-loss" in line or " rows, log-loss" in line


def test_rows_count_by_their_weights_in_nodes():
    X, y = three(600)
    weight = np.random.default_rng(0).uniform(0.5, 2, 600)
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, y == "c", weight)
    reached = model.apply(X)
    assert model.n_leaves_ > 1
    for leaf in range(model.n_leaves_):
        at = np.flatnonzero(model.forest_.ensemble.feature < 0)[leaf]
        own = (reached == leaf).any(axis=1)
        assert model.forest_.ensemble.cover[at] == pytest.approx(weight[own].sum() / weight.mean(), rel=1e-6)
        assert model.leaf_summary_["n_rows"][leaf] == own.sum()
    line = next(line for line in glasswood.export_text(model).splitlines() if "leaf 0:" in line)
    cover = model.forest_.ensemble.cover[model.forest_.ensemble.feature < 0][0]
    assert f"({model.leaf_summary_['n_rows'][0]} rows, weight {cover:.4g}, log-loss" in line


def test_probabilities_are_calibrated(binary):
    model, _ = binary
    X, y, _ = known(20_000, seed=2)
    p = model.predict_proba(X)[:, 1]
    bins = np.digitize(p, np.quantile(p, np.linspace(0, 1, 11)[1:-1]))
    for k in range(10):
        assert abs(y[bins == k].mean() - p[bins == k].mean()) < 0.05


def test_exclusive_or_is_two_leaves():
    X = np.random.default_rng(0).uniform(-1, 1, (1500, 2))
    y = X[:, 0] * X[:, 1] > 0
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    assert model.n_leaves_ <= 4
    assert model.score(X, y) > 0.97
    assert model.classes_.dtype == bool


def test_log_odds_are_the_leaf_equations(binary):
    model, X = binary
    leaf = model.apply(X)[:, 0]
    expected = np.zeros(len(X))
    for number, name, value in zip(*(model.leaves_[key] for key in ("leaf", "feature", "coefficient")), strict=True):
        rows = leaf == number
        expected[rows] += value * (1 if name == "(intercept)" else X[rows, int(name[1:])])
    limit = np.log(2 * len(X))
    np.testing.assert_allclose(model.decision_function(X), np.clip(expected, -limit, limit), rtol=1e-9, atol=1e-9)
    probability = 1 / (1 + np.exp(-model.decision_function(X)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], probability, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (probability > 0.5).astype(int))


def test_several_classes(several):
    model, _ = several
    X, y = three(600, seed=1)
    probabilities = model.predict_proba(X)
    assert model.score(X, y) > 0.9
    assert probabilities.shape == (600, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    margin = model.decision_function(X)
    np.testing.assert_allclose(probabilities, np.exp(margin) / np.exp(margin).sum(axis=1, keepdims=True), rtol=1e-9)
    assert log_loss(y, probabilities) < 0.25


@pytest.mark.parametrize("which", ["binary", "several"])
def test_explanations_files_and_texts(which, request, tmp_path):
    model, X = request.getfixturevalue(which)
    explainer = glasswood.Explainer(model, dtype="float64")
    total = explainer.expected_value + explainer.shap_values(X[:50]).sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X[:50]), rtol=1e-9, atol=1e-9)
    model.forest_.save(tmp_path / "classes.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "classes.glasswood").predict(X), model.predict(X))
    texts = [glasswood.export_text(model, tree=tree) for tree in range(model.forest_.n_trees)]
    assert sum(text.count("log-loss") for text in texts) == model.n_leaves_
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_categories_have_an_order_for_each_class():
    rng = np.random.default_rng(0)
    kind = rng.choice(list("uvwxyz"), 1200)
    X = pd.DataFrame({"kind": kind, "noise": rng.normal(size=1200)})
    y = np.select([np.isin(kind, ["u", "x"]), np.isin(kind, ["v", "y"])], ["one", "two"], "three")
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    assert model.score(X, y) == 1
    assert (model.predict_proba(X).max(axis=1) > 0.95).all()


def test_one_class_and_classes_that_hardly_occur():
    X, y, _ = known(300)
    alone = glasswood.ModelTreeClassifier(**FAST).fit(X, np.full(300, "only"))
    assert set(alone.predict(X)) == {"only"}
    np.testing.assert_array_equal(alone.predict_proba(X), 1)
    assert alone.leaf_summary_["share"].tolist() == [1]
    assert alone.leaf_summary_["n_clipped"].tolist() == [0]
    assert "Probability of only (100 % of all rows)" in glasswood.export_text(alone)
    assert "leaf 0: 100 %   (300 rows, log-loss" in glasswood.export_text(alone)
    rare = np.where(np.arange(300) == 5, 2, y)
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, rare)
    assert model.predict_proba(X).shape == (300, 3)
    assert model.predict_proba(np.full((1, 4), 50.0)).max() <= 1
    weightless = glasswood.ModelTreeClassifier(**FAST).fit(X, rare, sample_weight=(rare != 2).astype(float))
    assert weightless.classes_.tolist() == [0, 1, 2]
    assert weightless.predict_proba(X)[:, 2].max() < 0.02


@pytest.mark.parametrize(
    "labels",
    [
        [0.0, 1.0, np.nan, 1.0],
        pd.Series(["a", "b", None, "b"]),
        pd.Series(["a", "b", None, "b"], dtype=object),
        np.array([np.float64(0), 1, np.nan, 1], object),
        pd.Series([0, 1, None, 1], dtype="Int64"),
        pd.Series([True, False, None, True]),
    ],
)
def test_rows_without_a_class_are_named(labels):
    with pytest.raises(ValueError, match=r"y is (nan|None|<NA>) in row 2, expected a class; drop the rows without one"):
        glasswood.ModelTreeClassifier(**FAST).fit(np.zeros((4, 2)), labels)


@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_columns_in_another_order_are_matched_by_forest_(kind):
    X, y, _ = known(300)
    X = pd.DataFrame(X, columns=list("abcd"))
    if kind == "categories":
        X["d"] = np.where(X["d"] > 0, "u", "v")
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"must be in the same order(.|\n)*use forest_\.predict of the estimator"):
        model.predict(X[list("dcba")])
    np.testing.assert_array_equal(model.forest_.predict(X[list("dcba")]), model.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [2, 4, 9])
def test_more_columns_than_rows(n_rows, n_classes):
    X = np.random.default_rng(0).normal(size=(n_rows, 12))
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, np.arange(n_rows) % n_classes)
    p = model.predict_proba(X * 100)
    assert model.n_leaves_ == model.forest_.n_trees
    assert p.min() > 0
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_a_row_of_weight_two_is_two_rows():
    X, y, _ = known(400)
    weight = np.random.default_rng(0).integers(0, 3, 400)
    repeated = np.repeat(np.arange(400), weight)
    one = glasswood.ModelTreeClassifier(**FAST).fit(X, y, sample_weight=weight)
    other = glasswood.ModelTreeClassifier(**FAST).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_leaves_are_ridge_logistic_regressions(ridge):
    """Against scikit-learn's, which sees the row at the means as two of part of a row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) * [1, 5, 0.1] + [0, 2, 0]
    y = (rng.random(80) < 0.4).astype(float)
    prior = 0.3
    rows = LogisticRows(X, y, np.ones(80), np.zeros(80), float(np.log(prior / (1 - prior))))
    [(model, margin, _)] = fit_logistic_leaf(rows, np.arange(3), [ridge])
    np.testing.assert_allclose(margin, model.predict(X), rtol=1e-9, atol=1e-9)
    standard = np.vstack([(X - X.mean(axis=0)) / X.std(axis=0), np.zeros((2, 3))])
    weight = np.append(np.ones(80), [prior, 1 - prior])
    oracle = LogisticRegression(C=1 / ridge, tol=1e-12, max_iter=10_000)
    oracle.fit(standard, np.append(y, [1, 0]), sample_weight=weight)
    np.testing.assert_allclose(model.coefficients, oracle.coef_[0] / X.std(axis=0), rtol=1e-4)
    assert model.value == pytest.approx(oracle.intercept_[0], rel=1e-4)
    p = oracle.predict_proba(standard[:80])[:, 1]
    assert model.rmse == pytest.approx(log_loss(y, p), rel=1e-5)


def test_deviances_of_rows_that_are_left_out():
    """Against fits without each row."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = (rng.random(60) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)
    rows = LogisticRows(X, y, np.ones(60), np.zeros(60), 0.0)
    [(_, _, approximate)] = fit_logistic_leaf(rows, np.arange(2), [1.0])
    exact = np.empty(60)
    for i in range(60):
        others = rows.taken(np.delete(np.arange(60), i).astype(np.int32))
        model = fit_logistic_leaf(others, np.arange(2), [1.0])[0].model
        margin = model.predict(X[i : i + 1])[0]
        exact[i] = 2 * (np.logaddexp(0, margin) - y[i] * margin)
    assert approximate.sum() == pytest.approx(exact.sum(), rel=0.02)
    np.testing.assert_allclose(approximate, exact, rtol=0.2)


@pytest.mark.filterwarnings("ignore:the time limit ended the search")
def test_time_for_fits_is_taken_off_the_searches(monkeypatch):
    calls, seconds = [], 0.2

    def slowly(*arguments):
        calls.append(time.sleep(seconds))
        return fitted(*arguments)

    fitted = likelihood.candidate_of
    monkeypatch.setattr(likelihood, "candidate_of", slowly)
    X, y = three(300)
    glasswood.ModelTreeClassifier(**FAST, rounds=5, time_limit=0.5).fit(X, y)
    assert len(calls) == 6  # two a search, of which each class has one; all rounds would have 30
    calls.clear()
    seconds = 0
    glasswood.ModelTreeClassifier(**{**FAST, "n_iter_no_change": 2}, max_leaves=1, rounds=2, time_limit=None).fit(X, y)
    assert len(calls) == 12


def test_trees_grow_with_one_thread_of_blas(monkeypatch):
    def watched(*arguments):
        seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return best_tree(*arguments)

    seen, best_tree = set(), classifier.best_tree
    monkeypatch.setattr(classifier, "best_tree", watched)
    with threadpool_limits(2, "blas"):
        glasswood.ModelTreeClassifier(**FAST).fit(*three(100))
    assert seen == {1}


def test_fits_do_not_depend_on_where_they_start():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, -3]
    X[::7, 2] = np.nan
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(float)
    rows = LogisticRows(X, y, rng.uniform(0.5, 2, 300), rng.standard_normal(300), 0.3)
    ridges = (0.1, 10.0, 1000.0)
    together = fit_logistic_leaf(rows, np.arange(4), ridges)
    for ridge, fit in zip(ridges, together, strict=True):
        alone = fit_logistic_leaf(rows, np.arange(4), [ridge])[0]
        again = fit_logistic_leaf(rows, np.arange(4), [ridge], together[0].model)[0]
        for other in (alone, again):
            np.testing.assert_allclose(other.model.coefficients, fit.model.coefficients, rtol=1e-4, atol=1e-7)
            np.testing.assert_allclose(other.model.errors, fit.model.errors, rtol=1e-4)
            np.testing.assert_allclose(other.left_out, fit.left_out, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("parameters", "y", "error", "message"),
    [
        ({"rounds": 0}, [0, 1] * 5, ValueError, "rounds is 0, expected at least 1"),
        ({"rounds": 1.5}, [0, 1] * 5, TypeError, "rounds is 1.5, expected an integer"),
        ({"max_depth": 40}, [0, 1] * 5, ValueError, "max_depth is 40, expected 0 to 18"),
        ({}, np.linspace(0, 1, 10), ValueError, "Unknown label type"),
        ({}, None, ValueError, "requires y to be passed"),
    ],
)
def test_what_is_refused(parameters, y, error, message):
    with pytest.raises(error, match=message):
        glasswood.ModelTreeClassifier(**parameters).fit(np.arange(10.0)[:, None], y)


TITANIC = {
    ("1st", "male", "child"): (0, 5), ("1st", "male", "adult"): (118, 57),
    ("1st", "female", "child"): (0, 1), ("1st", "female", "adult"): (4, 140),
    ("2nd", "male", "child"): (0, 11), ("2nd", "male", "adult"): (154, 14),
    ("2nd", "female", "child"): (0, 13), ("2nd", "female", "adult"): (13, 80),
    ("3rd", "male", "child"): (35, 13), ("3rd", "male", "adult"): (387, 75),
    ("3rd", "female", "child"): (17, 14), ("3rd", "female", "adult"): (89, 76),
    ("crew", "male", "adult"): (670, 192), ("crew", "female", "adult"): (3, 20),
}  # fmt: skip
"""Lost and saved by class, sex and age: the British Board of Trade's inquiry, 1912."""


def titanic():
    rows = [(*who, saved) for who, counts in TITANIC.items() for saved in (0, 1) for _ in range(counts[saved])]
    frame = pd.DataFrame(rows, columns=["class", "sex", "age", "saved"])
    return frame.drop(columns="saved"), frame["saved"].to_numpy()


def test_titanic_has_several_equations():
    """Class meant something else to women and men: unseen rows are predicted better than by one equation, or two."""
    X, y = titanic()
    one, by_sex, grown = [], [], []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:1400], order[1400:]

        def fit(rows, max_leaves):
            return glasswood.ModelTreeClassifier(max_leaves=max_leaves, **FAST).fit(X.iloc[rows], y[rows])

        model, p = fit(train, 64), np.zeros(len(y))
        for sex in ("male", "female"):
            of_sex = (X["sex"] == sex).to_numpy()
            p[of_sex] = fit(train[of_sex[train]], 1).predict_proba(X[of_sex])[:, 1]
        one.append(log_loss(y[test], fit(train, 1).predict_proba(X.iloc[test])))
        by_sex.append(log_loss(y[test], p[test]))
        grown.append(log_loss(y[test], model.predict_proba(X.iloc[test])))
        assert 1 < model.n_leaves_ <= 4
    assert (np.array(grown) < np.array(one) - 0.015).all()
    assert np.mean(grown) <= np.mean(by_sex)
