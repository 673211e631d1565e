"""Trees as text and pictures."""

import dataclasses
import json
import re

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from tests.grow.engines import piecewise
from tests.strategies import Node, chain_forest, flatten


@pytest.fixture(scope="module")
def tree():
    return glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1).fit(*piecewise(600))


def test_text_has_a_line_for_every_branch_and_leaf(tree):
    lines = glasswood.export_text(tree).splitlines()
    assert len(lines) == 2 * (tree.n_leaves_ - 1) + tree.n_leaves_ + 1
    assert lines[0].startswith("x0 < ")
    assert sum("rmse" in line for line in lines) == tree.n_leaves_


def test_text_counts_leaves_as_apply_does(tree):
    X, _ = piecewise(600)
    numbers = np.unique(tree.apply(X))
    for line in glasswood.export_text(tree).splitlines():
        if "rmse" in line:
            leaf = int(line.strip("| ").removeprefix("leaf ").partition(":")[0])
            assert f"({tree.leaf_summary_['n_rows'][leaf]} rows" in line
            numbers = numbers[numbers != leaf]
    assert not len(numbers)


def test_text_names_the_side_of_missing_values_where_there_were_some(tree, tmp_path):
    assert "missing" not in glasswood.export_text(tree)
    tree.forest_.save(tmp_path / "tree.glasswood")
    assert "missing" not in glasswood.export_text(tmp_path / "tree.glasswood")
    X, y = piecewise(600)
    X[::9, 0] = np.nan
    some = glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1).fit(X, y)
    assert "or missing" in glasswood.export_text(some)
    assert some.forest_.ensemble.missing_seen.tolist() == [True] + [False] * (X.shape[1] - 1)


def test_text_of_one_leaf_says_why():
    X = np.random.default_rng(0).normal(size=(200, 2))
    one = glasswood.ModelTreeRegressor(n_iter_no_change=5, n_jobs=1).fit(X, X[:, 0])
    assert glasswood.export_text(one).splitlines()[-1] == "No split paid off: this holds for all rows."
    assert one.rules_["rule"].tolist() == ["all rows"]


def test_rules_are_a_table(tree):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, _ = piecewise(600)
    table = pandas.DataFrame(tree.rules_)
    assert table.columns.tolist() == ["leaf", "rule", "rows", "mean", "equation", "rmse"]
    assert polars.DataFrame(tree.rules_).height == tree.n_leaves_
    assert table.rows.sum() == len(X)
    leaves, names = tree.apply(X), {f"x{i}": X[:, i] for i in range(X.shape[1])}
    for leaf, rule in zip(table.leaf, table.rule, strict=True):
        follows = np.all([eval(test, {}, names) for test in rule.split(" and ")], axis=0)
        assert (follows == (leaves == leaf)).mean() > 0.99  # thresholds are rounded to four digits


def test_an_extra_is_named_where_scikit_learn_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in ("sklearn.base", "glasswood.grow.tree_estimator", "glasswood.grow.estimator"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import glasswood.grow

    with pytest.raises(
        ImportError, match=r"glasswood.ModelTreeRegressor needs scikit-learn: pip install 'glasswood\[sklearn\]'"
    ):
        glasswood.grow.__getattr__("ModelTreeRegressor")


def test_text_says_what_is_clipped(tree):
    low, high = tree.forest_.ensemble.leaf_range[0]
    assert glasswood.export_text(tree).endswith(f"\nPredictions are clipped to {low:.4g} ... {high:.4g}.")
    X = np.linspace(0, 4, 100)[:, None]
    y = np.where(X[:, 0] < 2, np.minimum(X[:, 0], 1), 10 * X[:, 0])
    confined, free = (
        glasswood.export_text(
            glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1, max_leaves=2, clip=clip).fit(X, y)
        )
        for clip in ("leaf", "none")
    )
    assert confined.count(", clipped to ") == confined.count("rmse")
    assert " clipped, clipped to " in confined
    assert "clipped" not in free


def test_text_equations_are_the_leaves(tree):
    """Evaluates the printed equations."""
    X, _ = piecewise(600)
    text = glasswood.export_text(tree, digits=12, style="equation")
    for leaf in range(tree.n_leaves_):
        intercept = tree.leaves_["coefficient"][tree.leaves_["leaf"] == leaf][0]
        assert f"{intercept:.12g}" in text
    assert np.isfinite(X).all()


def test_different_thresholds_are_written_differently():
    """Near ones have more digits, all others the usual ones."""

    def split(threshold, *children):
        return Node(3.0, feature=0, threshold=threshold, children=children)

    low = split(2016.71234, split(2016.67891, Node(1.0), Node(1.0)), Node(1.0))
    forest = flatten([split(2025.98765, low, Node(1.0))], n_features=1, row_type="float64")
    text = glasswood.export_text(forest)
    for limit in ("2026", "2016.71", "2016.68"):
        assert f"x0 < {limit}\n" in text
        assert f"x0 >= {limit}" in text


def test_text_of_a_loaded_forest(tree, tmp_path):
    tree.forest_.save(tmp_path / "tree.glasswood")
    text = glasswood.export_text(tmp_path / "tree.glasswood")
    assert "rmse" not in text
    assert "x0 < " in text
    for show in (glasswood.export_text, glasswood.plot_tree):
        with pytest.raises(ValueError, match="tree is 1, the forest has 1 tree: expected 0 to 0"):
            show(tree, tree=1)
    with pytest.raises(TypeError, match=r"got Forest without history_, expected a fitted glasswood.ModelTreeRegressor"):
        glasswood.plot_history(tree.forest_)


@pytest.mark.parametrize(
    ("words", "others_left", "table", "expected"),
    [
        ([0b101], False, None, "x0 in {0, 2}"),
        ([0xFFFFFFFA], True, None, "x0 not in {0, 2}"),
        ([0xFFFFFFFA], True, ["red", "green", "blue"], "x0 = green"),
        ([], True, None, "x0 not in {}"),
        ([], True, ["red", "green", "blue"], "x0 not in {}"),
        ([0b011], False, ["red", "green", "blue"], "x0 != blue"),
        ([0b01], False, ["no", "yes"], "x0 = no"),
    ],
)
def test_text_of_categories(words, others_left, table, expected):
    """Sets may hold bits for categories that the table does not have, or send unknown ones left."""
    root = Node(3, feature=0, threshold=0.0, category_set=0, children=(Node(1, 1.0), Node(2, 2.0)))
    categories = None if table is None else (np.array(table),)
    forest = flatten([root], n_features=1, sets=[(words, others_left)], categories=categories)
    assert glasswood.export_text(forest).startswith(expected)


def test_sizes_of_nodes_are_rows_only_where_the_model_counts_them(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = (X[:, 0] + rng.normal(size=500) > 1).astype(int)
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y)  # covers: sums of p (1 - p)
    forest = glasswood.load(model)
    lines = glasswood.export_text(forest).splitlines()
    found = [float(line.rpartition("(cover ")[2].rstrip(")")) for line in lines if "leaf" in line]
    np.testing.assert_allclose(sum(found), forest.ensemble.cover[0], rtol=1e-4)
    assert not any("rows" in line for line in lines)
    counted = xgboost.XGBRegressor(n_estimators=1, max_depth=2, n_jobs=1).fit(X, y)
    lines = glasswood.export_text(counted).splitlines()
    assert sum(int(line.rpartition("(")[2].removesuffix(" rows)")) for line in lines if "leaf " in line) == 500
    none = dataclasses.replace(forest.ensemble, cover=np.zeros_like(forest.ensemble.cover))
    assert not any("(" in line for line in glasswood.export_text(none).splitlines())
    path = glasswood.report(forest, X, y, tmp_path / "report.html")
    page = json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)[1])
    assert page["trees"][1]["nodes"][0]["rows"] == 500


def test_leaves_of_classes_name_them():
    tree = pytest.importorskip("sklearn.tree")
    X = np.repeat([1.0, 2.0, 3.0], 4)[:, None]
    y = np.array(["low"] * 4 + ["middle"] * 4 + ["low", "high", "high", "high"])
    model = tree.DecisionTreeClassifier().fit(X, y)
    leaves = [line.partition(": ")[2] for line in glasswood.export_text(model).splitlines() if "leaf" in line]
    assert sorted(leaves) == [
        "100 % low   (4 rows)",
        "100 % middle   (4 rows)",
        "75 % high, 25 % low   (4 rows)",
    ]
    several = tree.DecisionTreeRegressor(max_depth=1).fit(X, np.column_stack([X[:, 0] > 1, np.ones(12)]))
    assert "leaf 1: 0, 1   (4 rows)" in glasswood.export_text(several)


def test_trees_deeper_than_pythons_stack_have_a_text_and_no_picture():
    pytest.importorskip("matplotlib")
    forest = chain_forest(2000, 1e-3)
    lines = glasswood.export_text(forest).splitlines()
    assert len(lines) == 2000 * 2 + 2001
    depths = np.array([line.count("|   ") for line in lines])
    assert depths.max() == 2000
    assert np.diff(depths).max() == 1
    with pytest.raises(ValueError, match=r"tree 0 has 2,001 leaves, pictures show at most 500; use export_text"):
        glasswood.plot_tree(forest)


def test_leaves_of_adult_can_be_read():
    """Texts shorten what they show, not the model: its losses stay as they were."""
    X, y = glasswood.datasets.adult()
    tree = glasswood.ModelTreeClassifier(max_leaves=12, n_iter_no_change=5, time_limit=None).fit(X[::6], y[::6])
    leaves = [line.split(": ", 1)[1] for line in glasswood.export_text(tree).splitlines() if "leaf " in line]
    assert len(leaves) == tree.n_leaves_ > 4
    assert max(map(len, leaves)) <= 300


def test_numbers_that_go_left_are_written_as_the_libraries_store_them():
    """No threshold is a number that rows of its own value would pass on the other side, none is a denormal."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = np.column_stack([np.maximum(rng.normal(size=600), 0), 2.0 * rng.integers(0, 3, 600)])
    y = (X[:, 0] > 0) + 2.0 * (X[:, 1] > 1)
    text = glasswood.export_text(ensemble.HistGradientBoostingRegressor(max_iter=1, max_leaf_nodes=4).fit(X, y))
    tests = {line.split("leaf")[0].strip("| ") for line in text.splitlines() if line.strip("| ")[0] == "x"}
    assert {test.removesuffix(" or missing") for test in tests} == {"x0 <= 0", "x0 > 0", "x1 <= 1", "x1 > 1"}
    lightgbm = pytest.importorskip("lightgbm")
    text = glasswood.export_text(lightgbm.LGBMRegressor(n_estimators=1, num_leaves=4, verbose=-1).fit(X, y))
    assert "x0 <= 0 or missing" in text
    assert "x0 > 0" in text
    assert "e-" not in text


def evaluated(text, row):
    """What a person computes from a printed tree of numbers: its leaf's equation at a row, by names."""
    lines, depth = text.splitlines(), 0
    for line in lines:
        level = line.count("|   ")
        body = line.replace("|   ", "")
        if level != depth:
            continue
        if body.startswith("leaf "):
            equation = body.partition(": ")[2].partition("   (")[0]
            total, sign, words = 0.0, 1.0, equation.split(" ")
            while words:
                word = words.pop(0)
                if word in "+-":
                    sign = -1.0 if word == "-" else 1.0
                    continue
                if word in row:  # categories, each with its amount
                    listed = " ".join(words).partition(")")
                    amounts = dict(part.rsplit(" ", 1) for part in listed[0].removeprefix("(").split(", "))
                    total += sign * float(amounts.get(row[word], amounts.get("others", 0)))
                    words = listed[2].split()
                    continue
                amount = float(word.replace(",", ""))
                if words[:1] == ["if"]:
                    name, _, category = words[1:4]
                    amount, words = amount * (row[name] == category), words[4:]
                    total += sign * amount
                    continue
                total += sign * amount * (float(row[words.pop(0)]) if words and words[0] in row else 1.0)
            return total
        name, side, limit = body.split("  ")[0].split(" ")[:3]
        value, limit = row[name], limit.replace(",", "")
        passes = {"<": value < float(limit), ">=": value >= float(limit)}[side]
        depth += passes
    raise AssertionError("no leaf")


def test_printed_trees_add_up_to_predictions():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"size": rng.normal(size=500), "age": rng.uniform(1, 9, 500)})
    X["kind"] = pandas.Categorical(rng.choice(list("abcdefg"), 500))
    y = 100 + np.where(X["size"] < 0, X["age"], -X["age"]) + X["kind"].cat.codes
    single = glasswood.ModelTreeRegressor(max_leaves=3, clip="none", generations=5)
    whole = {"n_estimators": 1, "max_trees": 2, "learning_rate": 1.0, "max_samples": 1, "time_limit": None}
    model = glasswood.ModelTreeEnsembleRegressor(single, method="boosting", **whole, n_jobs=1).fit(X, y)
    forest = glasswood.load(model).ensemble
    texts = [glasswood.export_text(model, tree, digits=17, max_terms=None) for tree in range(forest.n_trees)]
    note = texts[0].splitlines()[-1]
    base = float(note.removeprefix("Prediction = ").split(" + ")[0])
    assert note.endswith(f" + the leaves of {forest.n_trees} trees.")
    for i in range(0, 500, 50):
        found = base + sum(evaluated(text, X.iloc[i].to_dict()) for text in texts)
        assert found == pytest.approx(model.predict(X.iloc[[i]])[0], abs=1e-4)


def test_how_predictions_follow_from_leaves():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 100 + (X[:, 0] > 0)
    mean = ensemble.RandomForestRegressor(3, max_depth=1, random_state=0).fit(X, y)
    assert glasswood.export_text(mean).endswith("Prediction = the mean of the leaves of 3 trees.")
    boosted = ensemble.GradientBoostingRegressor(n_estimators=2, max_depth=1).fit(X, y)
    assert glasswood.export_text(boosted).endswith(f"Prediction = {y.mean():.6g} + 0.1 × the leaves of 2 trees.")
    classes = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=1).fit(X, np.where(y > 100, "in", "out"))
    assert "Log-odds of out = " in glasswood.export_text(classes)


def test_exact_texts_name_every_category():
    pandas, ensemble = pytest.importorskip("pandas"), pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"c": pandas.Categorical(rng.choice([f"k{i:02d}" for i in range(20)], 2000))})
    y = np.where(X["c"].cat.codes % 2, 5.0, 0.0) + rng.normal(size=2000)
    model = ensemble.HistGradientBoostingRegressor(max_iter=1, max_leaf_nodes=2, categorical_features="from_dtype").fit(
        X, y
    )
    short = glasswood.export_text(model)
    exact = glasswood.export_text(model, digits=17, max_terms=None)
    assert "... 4 more" in short
    assert "more" not in exact
    assert all(f"k{i:02d}" in exact for i in range(1, 20, 2))
