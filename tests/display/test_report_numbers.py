"""Reports of numbers that are hard to write: very small, very large, or within a narrow range."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from tests.display.browser import Page, settle
from tests.display.test_report import content

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Path of a page about a boosted forest of float64 thresholds."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "year": rng.uniform(2017.0001, 2017.0009, 600),
            "tiny": 1e-9 * rng.normal(size=600),
            "rare": np.where(rng.uniform(size=600) < 0.02, rng.normal(size=600), 0.0),
        }
    )
    y = 1e4 * (X["year"] - 2017) + 1e9 * X["tiny"] + 9 * (X["rare"] != 0)
    model = ensemble.HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    return glasswood.report(model, X, y, tmp_path_factory.mktemp("numbers") / "report.html")


def ticks(page, chart):
    """Texts along the axis below a chart."""
    texts = page.locator(f"{chart} svg").first.locator("text[text-anchor=middle]").all_text_contents()
    return [text for text in texts if any(letter.isdigit() for letter in text)]


def choose(page, feature):
    """Choose the feature of the scatter plot, and wait until it is drawn."""
    page.locator("#scatter select").first.select_option(label=feature)
    settle(page)


def test_every_feature_has_a_panel(report):
    data = content(report)
    names = [data["features"][entry["feature"]]["name"] for entry in data["dependence"]]
    assert sorted(names) == ["rare", "tiny", "year"]
    assert all(np.isfinite(entry["grid"]).all() and np.ptp(entry["grid"]) > 0 for entry in data["dependence"])


def test_ticks_of_a_narrow_range_differ(browser, report):
    shown = Page(browser, report)
    choose(shown.page, "year")
    found = ticks(shown.page, "#scatter")
    assert len(found) > 2
    assert len(set(found)) == len(found)
    shown.close()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Path of a page with large targets, long names and 300 categories, of which ten are frequent."""
    rng = np.random.default_rng(1)
    codes = np.where(rng.uniform(size=900) < 0.5, rng.integers(100, 110, 900), rng.integers(0, 300, 900))
    X = pandas.DataFrame(
        {
            "a name of a feature that is longer than any axis of a chart has room for": rng.normal(size=900),
            "huge": 1e12 * rng.lognormal(size=900),
            "branch": pandas.Categorical([f"branch number {code:03d} of the company" for code in codes]),
        }
    )
    y = pandas.Series(1e7 * (X.iloc[:, 0] + codes / 100 + (X["huge"] > 1e12)), name="yearly revenue")
    model = glasswood.ModelTreeRegressor(max_leaves=6, n_iter_no_change=5, n_jobs=1, random_state=0).fit(X, y)
    return glasswood.report(model, X, y, tmp_path_factory.mktemp("crowded") / "report.html")


OUTSIDE = """margin => [...document.querySelectorAll("svg text")].filter((text) => {
    const own = text.getBoundingClientRect(), chart = text.closest("svg").getBoundingClientRect();
    return own.width && (own.left < chart.left - margin || own.right > chart.right + margin);
}).map((text) => text.textContent)"""

TOUCHING = """() => [...document.querySelectorAll("svg")].flatMap((chart) => {
    const texts = [...chart.querySelectorAll("text[text-anchor=middle]:not([transform])")];
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width);
    return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
        .filter(([, b]) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
        .map(([other]) => `${one} | ${other}`));
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_texts_of_charts_have_room(browser, crowded, width):
    shown = Page(browser, crowded, width)
    choose(shown.page, "huge")
    assert shown.page.evaluate(OUTSIDE, 19.2) == []  # the margin of the page
    assert shown.page.evaluate(TOUCHING) == []
    shown.close()


def test_names_of_categories_differ_where_they_are_cut(browser, crowded):
    shown = Page(browser, crowded)
    names = content(crowded)["features"][2]["categories"].values()
    cut = shown.page.evaluate("names => told(names, 60)", list(names))
    assert len(set(cut)) == len(names)
    assert shown.page.evaluate("told(['a', 'b'], 60)") == ["a", "b"]
    shown.close()


def test_of_many_categories_the_most_frequent_are_shown(browser, crowded):
    data = content(crowded)
    panel = next(entry for entry in data["dependence"] if entry["feature"] == 2)
    frequent = {f"branch number {code} of the company" for code in range(100, 110)}
    assert len(panel["grid"]) == 40 < panel["of"]
    assert frequent <= set(panel["grid"])
    shown = Page(browser, crowded)
    caption = f"branch: the 40 most frequent of {panel['of']} categories"
    assert caption in shown.page.locator("#dependence").inner_text()
    shown.close()


def test_large_numbers_have_separators(browser, crowded):
    shown = Page(browser, crowded)
    texts = shown.page.evaluate("[1234567.8, 12345, 0.5, -2.5e-9, 1e-9, 3e15, 7].map((x) => fmt(x))")
    assert texts == ["1,234,568", "12,345", "0.5", "−2.5e−9", "1e−9", "3e+15", "7"]
    shown.close()


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Path of a page with long numbers and long names of features, all of which the model uses."""
    rng = np.random.default_rng(2)
    X = pandas.DataFrame(
        {
            "average_number_of_occupants_per_household_of_the_block": 1234567.891 + 1e5 * rng.normal(size=400),
            "contract_start_expressed_as_fractional_year": 2017 + rng.integers(1, 10, 400) / 1e4,
            "MedianIncomeOfTheBlockGroupInTensOfThousands": 1e-7 * rng.normal(size=400),
            "composition": pandas.Categorical(rng.choice(["a flat that several people share", "house"], 400)),
        }
    )
    y = np.where(X.iloc[:, 1] < 2017.0004, X.iloc[:, 0] / 1e5, 5) + 1e7 * X.iloc[:, 2] + (X.iloc[:, 3] == "house")
    model = glasswood.ModelTreeRegressor(max_leaves=4, n_iter_no_change=10, n_jobs=1, random_state=0).fit(X, y)
    return glasswood.report(model, X, y, tmp_path_factory.mktemp("exact") / "report.html")


CUT_FIELDS = """() => [...document.querySelectorAll("#what-if input[type=number]")]
    .filter((field) => field.scrollWidth > field.clientWidth).map((field) => field.value)"""


@pytest.mark.parametrize("width", [390, 1280])
def test_fields_show_all_digits(browser, exact, width):
    shown = Page(browser, exact, width)
    page = shown.page
    values = page.eval_on_selector_all("#what-if input[type=number]", "all => all.map((one) => one.value)")
    assert any(len(value) > 15 for value in values)
    assert page.evaluate(CUT_FIELDS) == []
    page.locator("#what-0 input[type=number]").fill("-1234567.89101112131415")
    assert page.evaluate(CUT_FIELDS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown.close()


def test_a_slider_stays_under_the_pointer(browser, exact):
    shown = Page(browser, exact)
    page = shown.page
    for feature, longest in ((0, 10), (1, 12), (2, 12)):
        slider = page.locator(f"#what-{feature} input[type=range]")
        room, values = slider.bounding_box()["width"], []
        for share in (0.13, 0.5, 0.77):
            slider.click(position={"x": share * room, "y": 5})
            values.append(page.input_value(f"#what-{feature} input[type=number]"))
            assert slider.bounding_box()["width"] == room
        assert len(set(values)) == 3
        assert max(map(len, values)) <= longest
        assert page.evaluate(f"glasswood.row[{feature}]") == float(values[-1])
    shown.close()


def test_rows_of_a_narrow_range_differ(browser, exact):
    shown = Page(browser, exact)
    values = [2017.0001, 2017.0009, 2017, 8.3252, 0]
    texts = shown.page.evaluate("values => values.map((value) => valueText(1, value))", values)
    assert texts == ["2017.0001", "2017.0009", "2017", "8.3252", "0"]
    assert shown.page.evaluate("valueText(0, 1234567.891)") == "1,234,568"
    shown.close()


def test_long_names_leave_room_for_rows(browser, exact):
    shown = Page(browser, exact)
    page = shown.page
    page.eval_on_selector_all("#rows details", "all => all.forEach((one) => { one.open = true; })")
    rooms = page.eval_on_selector_all("#rows .table", "all => all.map((one) => [one.scrollWidth, one.clientWidth])")
    assert len(rooms) == 3
    assert all(own <= room for own, room in rooms)
    name = "average_number_of_occupants_per_household_of_the_block"
    for header in page.locator(f'#rows th[title="{name}"]').all():
        assert header.inner_text() == name[:35] + "…"
        box, text = header.bounding_box(), header.locator(".heading").bounding_box()
        assert box["x"] <= text["x"]
        assert text["x"] + text["width"] <= box["x"] + box["width"]
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth && !one.title).length"
    assert page.eval_on_selector_all("#rows td, #rows .heading", cut) == 0
    shown.close()


@pytest.mark.parametrize("redact", [False, True])
def test_thresholds_differ_from_the_ends_of_a_narrow_range(tmp_path, redact):
    rng = np.random.default_rng(3)
    X = pandas.DataFrame({"date": 2017 + rng.integers(1, 10, 400) / 1e4, "size": rng.uniform(1, 9, 400)})
    y = 9 * (X["date"] > 2017.00045) + 5 * (X["size"] > 4)
    model = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, y)
    nodes = content(glasswood.report(model, X, y, tmp_path / "report.html", redact=redact))["trees"][0]["nodes"]
    tests = {node["tests"][0] for node in nodes if "tests" in node}
    limits = {name: float(limit) for name, limit in (test.split(" < ") for test in tests)}
    assert limits.keys() == {"date", "size"}
    assert 2017.0004 < limits["date"] <= 2017.0005
    assert abs(limits["date"] - glasswood.load(model).ensemble.threshold[0]) < 0.0008 / 200
    picture = "\n".join(text.get_text() for text in glasswood.plot_tree(model, X, y).texts)
    assert all(f"date {side} {limits['date']}" in picture for side in ("<", ">="))
    assert all(len(test) <= len("size < 4.001") for test in tests if test.startswith("size"))
    assert "date < 2017\n" in glasswood.export_text(model)
