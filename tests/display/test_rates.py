"""Texts of trees of rates and amounts: what they say is what the model predicts, to the digits that are shown."""

import math
import re

import numpy as np
import pytest

import glasswood

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

FAST = {"n_iter_no_change": 10, "n_jobs": 1, "verbose": False, "alternatives": 0}
NUMBER = r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?"


def contracts(n_rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = pandas.DataFrame(
        {
            "age": rng.integers(18, 90, n_rows).astype(float),
            "power": rng.uniform(40, 200, n_rows),
            "price": np.exp(rng.normal(9, 1, n_rows)),
            "region": pandas.Categorical.from_codes(rng.integers(0, 4, n_rows), ["east", "north", "south", "west"]),
            "garage": pandas.Categorical.from_codes(rng.integers(0, 2, n_rows), ["no", "yes"]),
        }
    )
    rate = 0.3 * np.where(X["age"] < 25, 4.0, np.exp(0.01 * (X["age"] - 25))) * np.exp(0.006 * (X["power"] - 100))
    rate *= (X["price"] / 8000) ** 0.4 * np.array([1, 1.5, 0.6, 0.9])[X["region"].cat.codes]
    rate *= np.where(X["garage"] == "yes", 0.5, 1.0)
    return X, rng.uniform(0.5, 5, n_rows), rate.to_numpy()


def fitted(loss, **options):
    X, years, rate = contracts()
    rng = np.random.default_rng(1)
    counts = rng.poisson(years * rate).astype(float) if loss == "poisson" else years * rate * rng.gamma(9, 1 / 9, 2000)
    model = glasswood.ModelTreeRegressor(loss=loss, max_leaves=3, **FAST, **options)
    return X, years, counts, model.fit(X, counts, exposure=years)


def ends(text):
    """Numbers that are rounded to a text."""
    digits = text.replace(",", "").lower().partition("e")
    unit = 0.5 * 10.0 ** (int(digits[2] or 0) - len(digits[0].partition(".")[2]))
    # Trailing zeros are not written: a number without decimals may have been rounded to fewer places than it shows.
    return float(text.replace(",", "")) - unit, float(text.replace(",", "")) + unit


def factor(text):
    """Ends of a factor's logarithm: 'x 1.3', or a divisor."""
    sign, number = text.split()
    low, high = (math.log(end) for end in ends(number))
    return (low, high) if sign == "×" else (-high, -low)


def scaled(interval, steps):
    low, high = sorted((interval[0] * steps[0], interval[1] * steps[0]))
    further = sorted((interval[0] * steps[1], interval[1] * steps[1]))
    return min(low, further[0]), max(high, further[1])


def read_leaf(text):
    """Read a leaf as a person does: the value, the means, and what multiplies it."""
    value, _, factors = text.partition(": ") if re.match(rf"{NUMBER}( at [^:]+)?: ", text) else (text, "", "")
    base, _, means = value.partition(" at ")
    means = dict(part.split(" = ") for part in means.split(", ")) if means else {}
    of_levels = {name: dict(re.findall(r"(\w+) ([×÷] [\d.,e-]+?)(?:,|$)", levels + ","))
                 for name, levels in re.findall(r"(\w+) \(([^)]*)\)", factors)}  # fmt: skip
    rest = re.sub(r"\w+ \([^)]*\)(, )?", "", factors)
    return base, means, of_levels, [part for part in re.split(r", (?=[×÷])", rest.strip(", ")) if part]


def said(leaf, row):
    """What a leaf's text says of a row: ends of the logarithm of its prediction."""
    base, means, of_levels, parts = leaf
    low, high = (math.log(end) for end in ends(base))
    found = [(low, high)]
    found += [factor(levels.get(row[name], levels.get("others"))) for name, levels in of_levels.items()]
    for part in parts:
        size, _, what = part.partition(" if ") if " if " in part else part.partition(" per ")
        if " if " in part:
            name, category = what.split(" = ")
            found += [factor(size)] if row[name] == category else []
            continue
        if what.startswith("doubling of "):
            name = what.removeprefix("doubling of ")
            middle = ends(means[name])
            steps = [math.log2(row[name] / end) for end in middle]
        else:
            step, name = what.split()
            middle = ends(means[name])
            steps = [(row[name] - end) / float(step.replace(",", "")) for end in middle]
        found.append(scaled(factor(size), steps))
    return sum(low for low, _ in found), sum(high for _, high in found)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_the_text_predicts_what_the_model_predicts(loss):
    X, _, _, model = fitted(loss, log_terms=True)
    text = glasswood.export_text(model, max_terms=None)
    leaves = {int(n): read_leaf(leaf) for n, leaf in re.findall(r"leaf (\d+): (.*?)(?:   \(.*)?$", text, re.MULTILINE)}
    assert len(leaves) == model.n_leaves_ > 1
    assert "per doubling of price" in text
    assert re.search(r"× [\d.]+ per [\d.]+ power", text)
    assert re.search(r"× [\d.]+ if garage = yes", text)
    assert re.search(r"region \(north × [\d.]+, ", text)
    limits = re.search(rf"^Predictions are clipped to ({NUMBER}) \.\.\. ({NUMBER})\.$", text, re.MULTILINE)
    lowest, highest = (math.log(float(end.replace(",", ""))) for end in limits.groups())
    predicted, at = np.log(model.predict(X)), model.apply(X)
    gaps = []
    for i, row in enumerate(X.head(300).to_dict("records")):
        low, high = (min(max(end, lowest), highest) for end in said(leaves[at[i]], row))
        gaps.append(high - low)
        # Terms that four digits hide are left out: half a unit of the last digit each.
        assert low - 2e-3 <= predicted[i] <= high + 2e-3, (row, low, predicted[i], high)
    assert np.median(gaps) < 0.05, "digits that say little prove little"


def test_a_leaf_that_is_one_rate_has_the_mean_of_what_was_counted():
    X, years, counts, _ = fitted("poisson")
    model = glasswood.ModelTreeRegressor(loss="poisson", leaf_model="constant", max_leaves=4, **FAST)
    model.fit(X, counts, exposure=years)
    leaves = model.apply(X)
    for number, rate in re.findall(r"leaf (\d+): (\S+) ", glasswood.export_text(model)):
        own = leaves == int(number)
        assert float(rate) == pytest.approx(counts[own].sum() / years[own].sum(), rel=1e-3)


def test_equations_say_that_they_are_exponents():
    X, _, _, model = fitted("poisson", log_terms=False)
    text = glasswood.export_text(model, digits=17, max_terms=None)
    assert "Leaves add to the logarithm" not in text
    leaf, terms = re.search(r"leaf (\d+): exp\((.*)\)   \(", text).groups()
    at = np.flatnonzero(model.apply(X) == int(leaf))[:50]
    for i in at:
        row, total = X.iloc[i], 0.0
        own = terms
        for name, levels in re.findall(r"\+? ?(\w+) \(([^)]*)\)", terms):
            own_levels = dict(level.split(" ") for level in levels.split(", "))
            total += float(own_levels.get(row[name], own_levels.get("others", "nan")))
        own = re.sub(r"[-+]? ?\w+ \([^)]*\)", "", own).strip()
        first, *parts = re.split(r" (?=[-+] )", own)
        total += float(first)
        for part in filter(None, parts):
            sign, size, *names = part.split()
            value = float(row[names[1]] == names[3]) if names[0] == "if" else row[names[0]]
            total += (-1 if sign == "-" else 1) * float(size.replace(",", "")) * value
        low, high = model.leaf_summary_["lowest"][int(leaf)], model.leaf_summary_["highest"][int(leaf)]
        assert min(max(math.exp(total), low), high) == pytest.approx(model.predict(X.iloc[[i]])[0], rel=1e-9)


def test_rules_notebooks_and_rows_of_nodes_are_those_of_rates():
    _X, _, _, model = fitted("poisson")
    first = next(text for text in model.rules_["equation"] if "×" in text)
    assert "exp(" not in first
    html = model._repr_mimebundle_()["text/html"]
    assert "×" in html
    assert "2,000 rows" not in html, "the root is not shown"
    assert "cover" not in html
    for n in model.leaf_summary_["n_rows"]:
        assert f"{n:,} rows" in html or f"{n} rows" in html


@pytest.mark.parametrize("method", ["mean", "boosting"])
def test_products_of_trees_say_so(method):
    X, years, rate = contracts(600)
    counts = np.random.default_rng(1).poisson(years * rate).astype(float)
    step = glasswood.ModelTreeRegressor(max_leaves=3, generations=3, n_jobs=1)
    options = {"estimator": step, "n_estimators": 2, "max_trees": 4, "n_jobs": 1, "time_limit": None}
    model = glasswood.ModelTreeEnsembleRegressor(loss="poisson", method=method, max_samples=1.0, **options)
    model.fit(X, counts, exposure=years)
    forest, text = model.forest_.ensemble, glasswood.export_text(model, tree=1)
    said = re.search(r"^Prediction = (.*)\.$", text, re.MULTILINE)[1]
    if method == "mean":
        assert said == "the geometric mean of the leaves of 2 trees"
        return
    base = float(said.partition(" × ")[0])
    assert base == pytest.approx(math.exp(forest.base_score[0]), rel=1e-5)
    own = forest.tree_weight
    power = f" each to the power of its weight, here {own[1]:.4g}"
    assert said.endswith(f"trees to the power {own[1]:.4g}" if (own == own[0]).all() else power)


def test_curves_multiply():
    X, years, rate = contracts(1000)
    counts = np.random.default_rng(1).poisson(years * rate).astype(float)
    model = glasswood.AdditiveRegressor(loss="poisson", n_jobs=1).fit(X, counts, exposure=years)
    text = glasswood.export_text(model)
    assert "\nCurves and surfaces multiply by:\n" in text
    assert re.search(r"age: [×÷] [\d.]+ below ", text)


def test_pictures_and_reports_are_of_rates(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, years, counts, model = fitted("poisson")
    ax = glasswood.plot_tree(model)
    drawn = " ".join(text.get_text() for text in ax.texts).replace("\n", " ")
    pyplot.close(ax.figure)
    assert "multiplies the prediction with" in drawn
    assert "-" not in re.search(r"mean (\S+)", drawn)[1]
    path = glasswood.report(model, X, counts, tmp_path / "report.html", exposure=years)
    page = path.read_text()
    assert '"isRate":true' in page.replace(" ", "")
    assert "Leaves are clipped" not in page


def test_workbooks_show_factors(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    _, _, _, model = fitted("poisson")
    glasswood.export_excel(model, tmp_path / "model.xlsx")
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    heads = [cell.value for cell in book["Leaves"][1]]
    assert heads[4:9] == [f"{what} (logarithm)" for what in
                          ("intercept", "at the means", "lowest", "highest", "if missing")]  # fmt: skip
    assert heads[-1] == "prediction at the means"
    assert [cell.value for cell in book["Formula"][1]] == ["step", "value", "coefficient", "mean", "contribution",
                                                           "factor"]  # fmt: skip
    assert book["Formula"]["F3"].value == "=EXP(E3)"
