"""Equations of leaves in words: what is shown, in which order, and that it is the model."""

import dataclasses
import re

import numpy as np
import pytest

import glasswood
from glasswood.base.wording import (
    Wording,
    bar_text,
    count_text,
    number_text,
    percent_text,
    signed_text,
    step_near,
    threshold_text,
    threshold_texts,
)
from glasswood.words.equations import leaf_equation, leaf_terms
from tests.array_forest import ArrayForest
from tests.strategies import Node, flatten

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

FAST = {"n_iter_no_change": 10, "n_jobs": 1, "max_leaves": 1}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 3000
    X = pandas.DataFrame(
        {
            "age": rng.uniform(20, 60, n),
            "kind": rng.choice(["low", "middle", "high", "top"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "smoker": rng.choice(["no", "yes"], n, p=[0.8, 0.2]),
            **{f"noise {i}": rng.normal(size=n) for i in range(6)},
        }
    )
    y = 10 * X["age"] + X["kind"].map({"low": 0, "middle": 100, "high": 300, "top": 900}) + 500 * (X["smoker"] == "yes")
    y += sum((6 - i) * X[f"noise {i}"] for i in range(6))
    return X, y, glasswood.ModelTreeRegressor(**FAST).fit(X, y)


def test_terms_are_ordered_by_what_they_do_to_the_rows(people):
    X, _, model = people
    terms = leaf_terms(model.forest_.ensemble, 0)
    spreads = {
        "kind": X["kind"].map({"low": 0, "middle": 100, "high": 300, "top": 900}).std(ddof=0),
        "smoker = yes": 500 * (X["smoker"] == "yes").std(ddof=0),
        "age": 10 * X["age"].std(ddof=0),
        **{f"noise {i}": (6 - i) * X[f"noise {i}"].std(ddof=0) for i in range(6)},
    }
    assert [term.name for term in terms] == sorted(spreads, key=spreads.get, reverse=True)
    np.testing.assert_allclose([term.effect for term in terms], sorted(spreads.values(), reverse=True), rtol=1e-6)


def test_what_is_left_out_is_counted_with_its_spread(people):
    X, _, model = people
    found = leaf_equation(model.forest_.ensemble, 0, Wording(max_terms=3))
    rest = np.sqrt(sum((6 - i) ** 2 * X[f"noise {i}"].var(ddof=0) for i in range(6)))
    assert found.n_smaller == 6
    assert found.smaller == pytest.approx(rest, rel=1e-6)
    text = glasswood.export_text(model, max_terms=3, style="equation")
    assert f" and 6 smaller (±{rest:.2g})" in text
    assert f", 6 smaller (±{rest:.2g})" in glasswood.export_text(model, max_terms=3)
    assert "smaller" not in glasswood.export_text(model, max_terms=None)
    assert model.rules_["equation"][0].count("noise") == 2


@pytest.mark.parametrize("max_terms", [0, 2, 4, None])
def test_shown_terms_are_the_model_at_the_means_of_the_others(people, max_terms):
    X, _, model = people
    found = leaf_equation(model.forest_.ensemble, 0, Wording(max_terms=max_terms))
    shown = {term.name.partition(" = ")[0] for term in found.terms}
    expected = np.full(len(X), found.constant)
    for term in found.terms:
        if term.levels:
            expected += X[term.name].map(dict(term.levels))
        else:
            column, _, category = term.name.partition(" = ")
            expected += term.coefficient * (X[column] == category if category else X[column])
    others = X.copy()
    for name in X.columns.drop(list(shown)):
        if X[name].dtype.kind == "f":
            others[name] = X[name].mean()
    if {"kind", "smoker"} <= shown:
        np.testing.assert_allclose(expected, model.predict(others), rtol=1e-9)
    assert expected.mean() == pytest.approx(model.predict(X).mean(), rel=1e-9)


def test_categories_stand_against_the_mean_of_the_rows(people):
    X, _, model = people
    [term] = [term for term in leaf_terms(model.forest_.ensemble, 0) if term.levels]
    amounts = dict(term.levels)
    values = X["kind"].map({"low": 0, "middle": 100, "high": 300, "top": 900})
    for name, value in (("low", 0), ("middle", 100), ("high", 300), ("top", 900)):
        assert amounts[name] == pytest.approx(value - values.mean(), abs=1e-6)
    text = glasswood.export_text(model)
    top, low = 900 - values.mean(), -values.mean()
    assert f"kind (top +{top:.3g}, high +{300 - values.mean():.3g}, ..., low {low:.3g})" in text


def test_nothing_that_rounding_hides_is_shown(people):
    _, _, model = people
    forest = ArrayForest(model.forest_.ensemble)
    tiny = forest.ensemble.linear_coefficient.copy()
    place = forest.ensemble.linear_feature.tolist().index(3)
    tiny[place] = 1e-9
    shown = glasswood.export_text(dataclasses.replace(forest, linear_coefficient=tiny), max_terms=None)
    assert "noise 0" not in shown
    assert "noise 1" in shown
    unknown = dataclasses.replace(forest, linear_coefficient=tiny, linear_deviation=np.zeros(0))
    assert "noise 0" in glasswood.export_text(unknown, max_terms=None)


def test_constants_that_are_rounding_are_not_shown():
    x = np.linspace(-1, 1, 400)[:, None]
    text = glasswood.export_text(glasswood.ModelTreeRegressor(**FAST).fit(x, 3 * x[:, 0]), style="equation")
    assert text.startswith("leaf 0: 3 x0   (")


def test_classifiers_speak_of_probabilities_and_odds():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"age": rng.uniform(20, 60, 4000), "married": rng.choice(["no", "yes"], 4000, p=[0.7, 0.3])})
    odds = np.exp(-4 + 0.07 * X["age"] + np.log(3) * (X["married"] == "yes"))
    y = np.where(rng.random(4000) < odds / (1 + odds), "rich", "poor")
    model = glasswood.ModelTreeClassifier(**FAST).fit(X, y)
    text = glasswood.export_text(model, units={"age": "years"})
    share = np.mean(y == "rich")
    assert text.startswith(f"Probability of rich ({100 * share:.0f} % of all rows)")
    assert f"leaf 0: {100 * share:.0f} %, odds × " in text
    coefficient = model.leaves_["coefficient"][model.leaves_["feature"] == "age"][0]
    assert f"× {np.exp(10 * coefficient):.2g}" in text
    assert " per 10 years of age" in text
    married = re.search(r"× ([\d.]+) if married = yes", text)
    assert float(married[1]) == pytest.approx(3, rel=0.2)
    text = glasswood.export_text(model, log_odds=True, style="equation")
    married = re.search(r" \+ ([\d.]+) if married = yes", text)
    assert float(married[1]) == pytest.approx(np.log(3), rel=0.2)
    loaded = glasswood.export_text(model.forest_)
    assert "Probability of rich, odds factors in leaves." in loaded
    assert model.leaf_summary_["share"][0] == pytest.approx(share)


def test_each_node_of_a_classifier_has_its_share():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (3000, 2))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.7)]
    model = glasswood.ModelTreeClassifier(n_iter_no_change=10, n_jobs=1, max_leaves=4).fit(X, y)
    for tree, label in enumerate(model.classes_):
        lines = glasswood.export_text(model, tree=tree).splitlines()
        assert lines[0].startswith(f"Probability of {label} ({100 * np.mean(y == label):.0f} % of all rows)")
        for line in lines[1:]:
            if found := re.match(r"^x(\d) (<|>=) ([\d.]+) +[█░]{10} ([\d.]+) % of (\d+) rows$", line):
                feature, side, threshold, percent, n_rows = found.groups()
                inside = (X[:, int(feature)] < float(threshold)) == (side == "<")
                assert inside.sum() == pytest.approx(int(n_rows), abs=5)
                assert 100 * np.mean(y[inside] == label) == pytest.approx(float(percent), abs=1)


def test_rules_hold_the_closest_limits():
    """A chain of splits of one number: each leaf's rule has two limits at most, and says nothing twice."""
    x = np.linspace(0, 20, 2000)
    X = np.where(np.arange(2000) % 9 == 0, np.nan, x)[:, None]
    chain = glasswood.ModelTreeRegressor(n_iter_no_change=5, n_jobs=1, leaf_model="constant", max_leaves=12)
    chain.fit(X, np.where(np.isnan(X[:, 0]), -3, np.floor(x)))
    rules = chain.rules_["rule"].tolist()
    assert len(rules) > 6
    for rule in rules:
        tests = rule.split(" and ")
        assert len(tests) <= 2
        assert not ("present" in rule and len(tests) > 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,235,000"), (2015, "2015"), (12345.678, "12,350"), (0.000012345, "1.234e-05"),
     (-30.05, "-30.05"), (9999.96, "10,000"), (1e20, "1e+20"), (np.inf, "inf"), (0.99996, "1")],
)  # fmt: skip
def test_numbers(value, text):
    assert number_text(value, 4) == text


def test_thresholds_shares_and_steps():
    assert threshold_text(2014.5, 4) == "2014.5"
    assert threshold_text(np.float32(0.1), 4) == "0.1"
    assert threshold_text(26054.5, 4) == "26,054.5"
    assert threshold_text(1.23456789, 4) == "1.235"
    shares = {
        0: "0 %",
        1: "100 %",
        0.0002: "0.02 %",
        0.9999: "99.99 %",
        0.004: "0.4 %",
        0.2449: "24 %",
        np.nan: "unknown",
    }
    assert {share: percent_text(share) for share in shares} == shares
    assert bar_text(0.42) == "████░░░░░░"
    assert [step_near(size) for size in (0.12, 13, 4.4, 700)] == [0.1, 10, 5, 500]
    assert (signed_text(2, 3), signed_text(-2, 3), count_text(20640.0)) == ("+2", "-2", "20,640")


@pytest.mark.parametrize(
    "thresholds",
    [
        [2014.912345, 2014.95],  # rounded up, and written in full because it is short
        [1.23441, 1.234496, 1.234504, 1.23459],  # 1.2345 from below and from above
        [-2014.95, -2014.912345],
        [9999.97, 9999.981234, 10000.04],
    ],
)
def test_near_thresholds_keep_their_order(thresholds):
    texts = threshold_texts([*reversed(thresholds), *thresholds], 4)
    limits = [float(texts[threshold].replace(",", "")) for threshold in thresholds]
    assert limits == sorted(set(limits))
    assert all(abs(limit - x) < 1e-4 * abs(x) for limit, x in zip(limits, thresholds, strict=True))


def test_refusals(people):
    _, _, model = people
    with pytest.raises(ValueError, match="units names 'height', expected features of the model: age, kind"):
        glasswood.export_text(model, units={"height": "cm"})
    with pytest.raises(ValueError, match="max_terms is -1, expected 0 or more, or None"):
        glasswood.export_text(model, max_terms=-1)


def test_linear_trees_of_others_know_deviations_of_rows():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2)) * [1, 50]
    y = X[:, 0] + 0.1 * X[:, 1]
    model = lightgbm.LGBMRegressor(n_estimators=1, num_leaves=2, linear_tree=True, verbose=-1).fit(X, y)
    forest = glasswood.load(model).with_means(X)
    leaves = np.asarray(model.predict(X, pred_leaf=True)).reshape(-1)
    offsets = forest.ensemble.linear_offsets
    for leaf in range(forest.n_leaves):
        for term in range(*offsets[leaf : leaf + 2]):
            values = X[leaves == forest.ensemble.leaf_id[leaf], forest.ensemble.linear_feature[term]]
            assert forest.ensemble.linear_deviation[term] == pytest.approx(values.std(), rel=1e-9)


def test_leaves_around_their_own_mean(people):
    """The value at the means, and what moves it: the same prediction as by the intercept."""
    X, y, model = people
    text = glasswood.export_text(model, digits=8)
    value, age = re.match(r"leaf 0: ([\d.]+) at age = ([\d.]+), noise 0 = ", text).groups()
    assert float(value) == pytest.approx(y.mean(), rel=1e-6)
    assert float(age) == pytest.approx(X["age"].mean(), abs=0.5)
    slope = float(re.search(r"\+ ([\d.]+) per age", text)[1])
    assert slope == pytest.approx(10, rel=1e-6)
    yes, no = map(float, re.search(r"([+-][\d.]+) if smoker = yes, else ([+-][\d.]+)", text).groups())
    share = (X["smoker"] == "yes").mean()
    assert yes - no == pytest.approx(500, rel=1e-6)
    assert yes == pytest.approx(500 * (1 - share), rel=1e-6)
    assert "kind (top +" in text
    with pytest.raises(ValueError, match="style is 'centred', expected 'auto', 'centered' or 'equation'"):
        glasswood.export_text(model, style="centred")
    assert " at " not in glasswood.export_text(model, digits=17, max_terms=None).splitlines()[0]


def with_logarithm(turns):
    """Rows whose target has a linear and a logarithmic term of one feature."""
    rng = np.random.default_rng(0)
    income = np.exp(rng.normal(1.2, 0.45, 4000))
    sign = -1 if turns else 1
    y = 4 * np.log(income) + sign * 1.3 * income + 0.05 * rng.normal(size=4000)
    model = glasswood.ModelTreeRegressor(**FAST, log_terms=True).fit(income[:, None], y)
    return income, model


@pytest.mark.parametrize("turns", [False, True])
def test_linear_and_logarithmic_terms_are_one_effect(turns):
    income, model = with_logarithm(turns)
    assert {"x0", "log x0"} <= set(model.leaves_["feature"])
    [term] = leaf_equation(model.forest_.ensemble, 0, Wording()).terms
    low, high = np.quantile(income, [0.1, 0.9])
    assert (term.curve.low, term.curve.high) == pytest.approx((low, high), rel=0.03)
    ends = model.predict(np.array([[term.curve.low], [term.curve.high]]))
    assert term.curve.change == pytest.approx(np.diff(ends)[0], abs=1e-6)
    assert abs(term.effect) == pytest.approx(model.predict(income[:, None]).std(), rel=0.1)
    text = glasswood.export_text(model)
    assert text.count("x0") == 1
    if not turns:
        assert re.search(r"x0 \(rising, \+[\d.]+ from [\d.]+ to [\d.]+\)", text)
        return
    top = 4 / 1.3
    assert term.curve.turn == pytest.approx(top, rel=0.05)
    up, turn, down, _ = map(float, re.search(r"x0 \((\S+) from \S+ to (\S+), (\S+) to ([\d.]+)\)", text).groups())
    assert up > 0 > down
    assert turn == pytest.approx(top, rel=0.05)
    exact = glasswood.export_text(model, digits=17, max_terms=None)
    assert " log x0" in exact


def test_ends_of_a_curve_keep_to_the_conditions_of_the_leaf():
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(0, 1, 3000))
    y = np.where(x < 1, 50 - 3 * np.log(x) - 2 * x, 8 * np.log(x) + x) + 0.1 * rng.normal(size=3000)
    model = glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1, max_leaves=2, log_terms=True)
    forest = model.fit(x[:, None], y).forest_.ensemble
    assert forest.n_leaves == 2
    for leaf in range(2):
        for term in leaf_equation(forest, leaf, Wording(style="centered")).terms:
            if term.curve is not None:
                assert (term.curve.high <= forest.threshold[0]) or (term.curve.low >= forest.threshold[0])


def with_terms_of_one_number(threshold, mean, deviation):
    """Two leaves with a linear and a logarithmic term each, of the feature that divides them."""
    terms = {
        "linear_offsets": np.array([0, 2, 4]),
        "linear_feature": np.zeros(4, np.int32),
        "linear_category": np.array([-1, -3, -1, -3], np.int32),
        "linear_coefficient": np.array([2.0, 3.0, 0.5, 4.0]),
        "linear_mean": np.array([1.0, mean, 1.0, mean]),
        "linear_deviation": np.array([1.0, deviation, 1.0, deviation]),
        "leaf_range": np.tile([-np.inf, np.inf], (2, 1)),
    }
    leaves = (Node(value=1.0), Node(value=5.0))
    return flatten([Node(children=leaves, feature=0, threshold=threshold)], 1, "float64", **terms)


@pytest.mark.parametrize("style", ["centered", "equation"])
@pytest.mark.parametrize("threshold", [-0.25, 0.0])
def test_logarithms_are_left_out_where_no_number_has_one(threshold, style):
    forest = with_terms_of_one_number(threshold, 0.5, 1.0)
    X = np.array([[threshold - 3], [threshold - 1]])
    below, above = (leaf_equation(forest.ensemble, leaf, Wording(style=style)) for leaf in (0, 1))
    [term] = below.terms
    assert (term.name, term.coefficient, term.curve) == ("x0", 2.0, None)
    assert below.constant + 2.0 * X[:, 0] == pytest.approx(forest.predict(X), abs=1e-12)
    assert above.terms[0].curve is not None
    assert "log" not in glasswood.export_text(forest, style=style)


@pytest.mark.parametrize(("mean", "deviation"), [(600.0, 30.0), (-700.0, 90.0), (0.0, 400.0)])
def test_curves_of_numbers_of_every_size(mean, deviation):
    forest = with_terms_of_one_number(1.0, mean, deviation)
    for leaf in range(2):
        [term] = leaf_equation(forest.ensemble, leaf, Wording(style="centered")).terms
        assert np.isfinite([term.effect, term.curve.low, term.curve.high, term.curve.change]).all()


def test_terms_that_outweigh_those_shown_are_shown():
    """Twelve equal terms: hiding seven of them would hide more than any shown one tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, X.sum(axis=1))
    found = leaf_equation(model.forest_.ensemble, 0, Wording(max_terms=5))
    assert sum(abs(term.effect) < found.smaller for term in found.terms) < 3
    assert len(found.terms) + found.n_smaller == 12
    assert len(found.terms) > 5
    assert len(leaf_equation(model.forest_.ensemble, 0, Wording(max_terms=2)).terms) == 2


def test_names_that_are_numbers_have_quotes():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(500, 2)), columns=["1990", "b"])
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, 3 * X["1990"] + X["b"] + 5)
    assert '3 "1990"' in glasswood.export_text(model, style="equation")
    assert 'per "1990"' in glasswood.export_text(model)
    stump = glasswood.ModelTreeRegressor(**{**FAST, "max_leaves": 2}, leaf_model="constant").fit(X, X["1990"] > 0)
    assert glasswood.export_text(stump).startswith('"1990" < ')
