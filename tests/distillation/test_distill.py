"""Trees in place of models, beside scikit-learn's measures and the definitions."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.cli import main

pandas = pytest.importorskip("pandas")
metrics = pytest.importorskip("sklearn.metrics")

N_ROWS = 60
TREE = glasswood.ModelTreeRegressor(clip="leaf", generations=20, verbose=False)
CLASSES = glasswood.ModelTreeClassifier(generations=20, verbose=False)
QUICK = {"sizes": (1, 2), "estimator": TREE}


class Asked:
    """A model that keeps the rows that it is asked for."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, rows):
        self.rows = rows
        return self.answer(rows)


def numbers(seed=0, n=N_ROWS):
    return np.random.default_rng(seed).normal(size=(n, 3))


def steps(X):
    return np.where(X[:, 0] < 0.2, 3 * X[:, 1], 5 - X[:, 2])


def on_segment(row, a, b):
    """Whether rows lie between a and b (m, n_features): the distances over the two parts add up."""
    whole = np.linalg.norm(b - a, axis=1)
    return np.abs(np.linalg.norm(row - a, axis=1) + np.linalg.norm(row - b, axis=1) - whole) < 1e-9


def test_a_model_tree_is_found_again():
    found = glasswood.distill(steps, numbers(n=2000), sizes=[2, 1], estimator=TREE)
    assert found.curve["size"].tolist() == [1, 2]
    assert found.curve["n_leaves"].tolist() == [1, 2]
    assert found.curve["fidelity"][0] < 0.9
    assert found.fidelity > 0.995
    assert found.drawn_fidelity > 0.99
    assert found.model.forest_.ensemble.threshold[0] == pytest.approx(0.2, abs=0.01)


def test_fidelity_is_that_of_scikit_learn():
    model, X = Asked(lambda X: np.sin(3 * X[:, 0]) + X[:, 1]), numbers(n=400)
    found = glasswood.distill(model, X, n_drawn=200, **QUICK)
    answers, predicted = model.predict(model.rows), found.model.predict(model.rows)
    held_out, drawn = slice(300, 400), slice(-50, None)
    assert (found.n_held_out, found.n_drawn) == (100, 50)
    assert found.fidelity == pytest.approx(metrics.r2_score(answers[held_out], predicted[held_out]))
    assert found.drawn_fidelity == pytest.approx(metrics.r2_score(answers[drawn], predicted[drawn]))
    unseen = np.r_[held_out, 550:600]
    assert found.error == pytest.approx(metrics.root_mean_squared_error(answers[unseen], predicted[unseen]))


def test_drawn_rows_lie_between_rows_of_their_part():
    model, X = Asked(steps), numbers()
    glasswood.distill(model, X, n_drawn=80, **QUICK)
    parts = model.rows[:45], model.rows[45:60]
    np.testing.assert_array_equal(np.sort(model.rows[:60], axis=0), np.sort(X, axis=0))
    for part, drawn in zip(parts, (model.rows[60:120], model.rows[120:]), strict=True):
        a, b = np.repeat(part, len(part), axis=0), np.tile(part, (len(part), 1))
        assert all(on_segment(row, a, b).any() for row in drawn)
        assert not any((row == part).all(axis=1).any() for row in drawn)


def frame(kind):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "size": rng.normal(size=N_ROWS).astype(np.float32),
            "rooms": rng.integers(0, 9, N_ROWS),
            "sea": rng.random(N_ROWS) < 0.5,
            "town": rng.choice(["a", "b", "c"], N_ROWS),
            "age": np.where(rng.random(N_ROWS) < 0.3, np.nan, rng.normal(size=N_ROWS)),
        }
    )
    if kind == "pandas":
        return X.assign(town=X["town"].astype("category"), rooms=X["rooms"].astype("Int64"))
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(X)
    return pytest.importorskip("pyarrow").Table.from_pandas(X, preserve_index=False)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_drawn_rows_are_like_the_frame(kind):
    X = frame(kind)
    table = {"pandas": lambda X: X, "polars": lambda X: X.to_pandas(), "pyarrow": lambda X: X.to_pandas()}[kind]
    model = Asked(lambda rows: table(rows)["rooms"].to_numpy(float) + (table(rows)["town"] == "a"))
    found = glasswood.distill(model, X, n_drawn=200, **QUICK)
    assert type(model.rows) is type(X)
    assert list(table(model.rows).dtypes) == list(table(X).dtypes)
    drawn, given = table(model.rows)[N_ROWS:], table(X)
    assert set(drawn["rooms"]) <= set(range(9))
    assert set(drawn["town"]) == set(given["town"])
    assert set(drawn["sea"]) == {True, False}
    assert drawn["age"].isna().any()
    assert not set(drawn["size"]) <= set(given["size"])
    assert found.model.n_features_in_ == 5


def test_named_columns_are_categories():
    X = np.random.default_rng(0).integers(0, 4, (N_ROWS, 2)).astype(float) * 10
    model = Asked(lambda X: X[:, 0] + X[:, 1])
    tree = glasswood.ModelTreeRegressor(categorical_features=[1], generations=20)
    glasswood.distill(model, X, estimator=tree, sizes=[2])
    assert set(model.rows[:, 1]) == {0, 10, 20, 30}
    assert not set(model.rows[:, 0]) <= {0, 10, 20, 30}


def test_the_worst_region_is_named():
    def wild(X):
        return np.where(X[:, 1] > 1.0, 40 * np.sign(np.sin(30 * X[:, 0])), X[:, 0])

    model = Asked(wild)
    found = glasswood.distill(model, numbers(n=2000), sizes=[1], estimator=TREE, random_state=1)
    assert found.worst.rule.startswith("x1 >= ")
    limit = float(found.worst.rule.removeprefix("x1 >= "))
    assert limit == pytest.approx(1.0, abs=0.1)
    rows = model.rows[np.r_[1500:2000, -500:0]]
    rows = rows[rows[:, 1] >= limit]
    error = np.sqrt(np.mean((wild(rows) - found.model.predict(rows)) ** 2))
    assert found.worst.error == pytest.approx(error, rel=1e-3)
    assert found.worst.share == pytest.approx(len(rows) / 1000, abs=1e-3)
    assert found.worst.error > 2 * found.error


@pytest.mark.filterwarnings("ignore:the time limit ended the search")
def test_probabilities_and_classes():
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    X = numbers(n=300)
    for y, n_classes in ((X[:, 0] > 0, 2), (np.digitize(X[:, 0], [-0.5, 0.5]), 3)):
        model = LogisticRegression().fit(X, np.array(["low", "middle", "high"])[y.astype(int)])
        found = glasswood.distill(model, X, sizes=[1, 2], estimator=TREE if n_classes == 2 else CLASSES)
        rows = numbers(1, 500)
        if n_classes == 2:
            assert found.fidelity > 0.9
            np.testing.assert_allclose(found.model.predict(rows), model.predict_proba(rows)[:, 1], atol=0.4)
        else:
            assert set(found.model.classes_) == {"low", "middle", "high"}
            assert np.mean(found.model.predict(rows) == model.predict(rows)) > 0.9
    found = glasswood.distill(RidgeClassifier().fit(X, X[:, 0] > 0), X, sizes=[1], time_limit=0.5)
    assert found.error == pytest.approx(1 - (found.fidelity * 75 + found.drawn_fidelity * 75) / 150)
    assert "same class" in str(found)


def test_a_forest_and_an_ensemble():
    X, _ = glasswood.datasets.california()
    forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
    boosted = glasswood.ModelTreeEnsembleRegressor(n_estimators=1, method="boosting", learning_rate=0.5)
    found = glasswood.distill(forest, X[:800], estimator=boosted, sizes=[2, 6], time_limit=10)
    assert found.curve["fidelity"][1] > found.curve["fidelity"][0] > 0.3
    assert found.model.max_trees == 6
    assert boosted.max_trees == 100
    expected = found.model.forest_.predict(X[:50], device="cpu")
    np.testing.assert_array_equal(found.model.predict(X[:50]), expected)


def test_an_ensemble_of_classifiers():
    estimator = glasswood.ModelTreeEnsembleClassifier(CLASSES, n_estimators=2)
    found = glasswood.distill(
        lambda X: np.where(X[:, 0] > 0, "yes", "no"), numbers(n=200), estimator=estimator, sizes=[2]
    )
    assert found.model.n_estimators == 2
    assert found.fidelity > 0.9
    assert "same class" in str(found)


def test_results_depend_on_the_seed_alone():
    one, same, other = (glasswood.distill(steps, numbers(n=300), random_state=s, **QUICK) for s in (1, 1, 2))
    assert str(one) == str(same)
    assert str(one) != str(other)


def test_constant_answers_and_constant_features():
    X = np.column_stack([numbers(), np.ones(N_ROWS), np.full(N_ROWS, np.nan)])
    found = glasswood.distill(lambda X: np.full(len(X), 2.0), X, **QUICK)
    assert found.fidelity == found.drawn_fidelity == 1
    assert found.error == 0
    assert glasswood.distill(lambda X: X[:, 0], X, **QUICK).fidelity > 0.99


def test_it_shows_itself():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X = pandas.DataFrame(numbers(n=200), columns=["<b>", "y", "z"])
    found = glasswood.distill(lambda X: steps(X.to_numpy()), X, **QUICK)
    text = str(found)
    assert text.startswith("ModelTreeRegressor in place of the model: R² 0.9")
    assert len(text.splitlines()) == 6
    assert "<b>" not in found._repr_html_()
    assert found._repr_html_().count("\n") == 5
    assert "<details" in found._repr_html_()
    ax = found.plot()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.curve["fidelity"])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), found.curve["drawn_fidelity"])
    pyplot.close("all")


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda X: np.where(np.arange(len(X)) == 7, np.nan, 1.0), "returned nan for row 7 of 120, expected finite"),
        (lambda X: np.full(len(X), np.inf), "returned inf for row 0"),
        (lambda _: np.zeros(5), r"returned shape \(5,\) for 120 rows, expected \(120,\)"),
        (lambda _: 1.0, r"returned shape \(\) for 120 rows"),
        (lambda X: np.zeros((len(X), 2, 2)), r"returned shape \(120, 2, 2\)"),
        (lambda X: X, "not probabilities; distill one output at a time"),
        (lambda X: np.array(["yes"] * len(X)), "the class yes for all 120 rows"),
        (lambda X: X[:, 0] + 1j, "complex128, expected real numbers or classes"),
    ],
)
def test_answers_that_are_none(predict, message):
    with pytest.raises(ValueError, match=message):
        glasswood.distill(predict, numbers(), **QUICK)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"predict": 3}, TypeError, "predict is a int, expected a function of rows, or a model"),
        ({"X": numbers()[:5]}, ValueError, "X has 5 rows, expected at least 8"),
        ({"X": numbers()[:, 0]}, ValueError, "X is 1-dimensional"),
        ({"X": "rows.csv"}, TypeError, "X is a str, expected a NumPy array or a frame"),
        ({"sizes": []}, ValueError, "sizes is"),
        ({"sizes": [0, 2]}, ValueError, "sizes is"),
        ({"sizes": [1.5]}, ValueError, "sizes is"),
        ({"n_drawn": 0}, ValueError, "n_drawn is 0, expected"),
        ({"estimator": "tree"}, TypeError, "estimator is a str, expected a model tree"),
        ({"estimator": glasswood.ModelTreeClassifier()}, TypeError, "returned numbers, and ModelTreeClassifier learns"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        glasswood.distill(**({"predict": steps, "X": numbers()} | QUICK | arguments))


def test_the_command_line(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    X, _ = glasswood.datasets.california()
    X[:500].to_csv(tmp_path / "rows.csv", index=False)
    model, out = glasswood.datasets.DATA / "california_housing.json", tmp_path / "tree.glasswood"
    given = ["distill", str(model), str(tmp_path / "rows.csv"), "-o", str(out), "--max-leaves", "2", "--drawn", "400"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("ModelTreeRegressor in place of the model")
    assert "leaf 1: " in printed
    answers = glasswood.load(model).predict(X[:500])
    assert metrics.r2_score(answers, glasswood.load(out).predict(X[:500])) > 0.6
    assert main([*given[:2], str(tmp_path / "none.csv"), *given[3:]]) == 1
