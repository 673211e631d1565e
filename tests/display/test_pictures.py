"""Pictures of trees: what they show, and that no text lies on another, whatever the tree and the width."""

import itertools
import warnings

import numpy as np
import pytest

import glasswood
from glasswood.display.measured import Ruler
from tests.grow.engines import piecewise
from tests.sizes import rest_slow

pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

FAST = {"n_iter_no_change": 5, "n_jobs": 1}


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def tree():
    return glasswood.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1).fit(*piecewise(600))


def texts_of(axes):
    return [text.get_text() for text in axes.texts]


def ticks_of(chart):
    """Labels below a chart that are within its limits."""
    low, high = chart.get_xlim()
    return [label for label in chart.get_xticklabels() if low <= label.get_position()[0] <= high]


def all_boxes(axes, smaller=0.5):
    """Where all texts lie, in pixels: those of charts too."""
    figure = axes.figure
    figure.canvas.draw()
    texts = [*axes.texts, *(text for chart in axes.child_axes for text in (*chart.texts, *ticks_of(chart)))]
    boxes = [(text, text.get_window_extent()) for text in texts if text.get_text()]
    turned = [text for text, _ in boxes if text.get_rotation()]
    return [(text, box.padded(-smaller)) for text, box in boxes if text not in turned]


def overlapping(axes):
    """Pairs of texts, one over the other, and texts beyond the figure."""
    boxes = all_boxes(axes)
    pairs = [
        (one.get_text(), other.get_text())
        for (one, box), (other, second) in itertools.combinations(boxes, 2)
        if box.width > 0 and second.width > 0 and box.overlaps(second)
    ]
    figure = axes.figure.bbox
    outside = [text.get_text() for text, box in boxes if box.x0 < figure.x0 - 1 or box.x1 > figure.x1 + 1]
    return pairs + outside


def ugly():
    """Models whose names, categories, missing values and depths are hard to draw."""
    rng = np.random.default_rng(0)
    n = 1500
    x, z = rng.normal(size=(2, n))
    words = "a name that is so long that no column of any picture has room for it, whatever one does"
    yield "long", pandas.DataFrame({words: x, "under_score_" * 6: z}), np.where(x < 0, z, 3 - 2 * z)
    city = rng.choice(["תל אביב", "ירושלים", "מרחב"], n)
    yield "right to left", pandas.DataFrame({"גיל": x, "עיר": pandas.Categorical(city)}), np.where(city == "מרחב", x, 9)
    kind = rng.integers(0, 60, n)
    names = np.array([f"category number {i}" for i in range(60)])
    yield "sixty", pandas.DataFrame({"kind": names[kind], "x": x}), (kind % 7) * np.where(kind < 30, 1, x)
    hostile = ["</script>", r"$\\frac{1$ & % _ ^", "line\nend\ttab", "nul\x00"]
    frame = pandas.DataFrame(rng.normal(size=(n, 4)), columns=hostile)
    frame[hostile[0]] = pandas.Categorical(rng.choice(["$x^2", "<b>", "{}"], n))
    yield "hostile", frame, np.where(frame[hostile[1]] < 0, frame[hostile[2]], 1) + (frame[hostile[0]] == "<b>")
    age = np.where(rng.random(n) < 0.3, np.nan, rng.uniform(0, 90, n))
    yield "missing", pandas.DataFrame({"age": age, "x": x}), np.where(np.isnan(age), 5, np.where(age < 40, x, 2 - x))
    steps = rng.uniform(0, 24, n)
    yield "deep", pandas.DataFrame({"x": steps}), np.floor(steps) ** 1.5 * np.cos(np.floor(steps))
    yield "one leaf", pandas.DataFrame({"x": x, "z": z}), 2 * x + z


UGLY = {name: (X, y) for name, X, y in ugly()}


@pytest.mark.parametrize("name", rest_slow(3, UGLY))
def test_no_text_lies_on_another(name, tmp_path):
    X, y = UGLY[name]
    kind = "constant" if name == "deep" else "linear"
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=12 if name == "deep" else 6, leaf_model=kind).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = glasswood.plot_tree(model, X, y)
        assert not overlapping(axes)
        axes.figure.savefig(tmp_path / "tree.svg")


@pytest.mark.parametrize("size", rest_slow(1, [(4, 3), (6, 2), (14, 20)]))
def test_trees_fit_into_axes_of_any_size(size):
    X, y = UGLY["missing"]
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=5).fit(X, y)
    _, (axes, other) = pyplot.subplots(1, 2, figsize=size)
    glasswood.plot_tree(model, X, y, ax=axes)
    other.plot([1, 2])
    inside = axes.get_window_extent()
    for _, box in all_boxes(axes):
        assert box.x0 >= inside.x0 - 2
        assert box.x1 <= inside.x1 + 2
        assert box.y0 >= inside.y0 - 2
        assert box.y1 <= inside.y1 + 2
    assert not overlapping(axes)


def test_classes_have_their_shares_and_colours():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (1500, 2))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.7)]
    model = glasswood.ModelTreeClassifier(**FAST, max_leaves=4).fit(X, y)
    axes = glasswood.plot_tree(model, X, y, tree=2)
    texts = texts_of(axes)
    assert texts[0].startswith("Tree 2 of 3, ")
    assert texts[0].endswith(": probability of c")
    assert {"c", "not c"} <= set(texts)
    assert any("share of c over the feature" in text for text in texts)
    assert f"1500 rows, {100 * np.mean(y == 'c'):.0f} %" in texts
    others = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(max_depth=2).fit(X, y)
    texts = texts_of(glasswood.plot_tree(others))
    assert {"a", "b", "c"} <= set(texts)
    shares = sorted(((np.mean(y == name), name) for name in "abc"), reverse=True)
    assert "1500 rows, " + ", ".join(f"{100 * share:.0f} % {name}" for share, name in shares) in texts


def test_pictures_are_as_high_as_their_tree():
    X, y = UGLY["deep"]
    chain = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant", max_leaves=12).fit(X, y)
    axes = glasswood.plot_tree(chain, X, y)
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_fontweight() == "bold"]
    assert len(boxes) == 2 * chain.n_leaves_ >= 20
    tops = sorted(box.y0 for box in boxes)
    assert min(np.diff(tops)) >= max(box.height for box in boxes)


def test_categories_are_ticks_and_other_forests_are_drawn():
    kind = np.array(["a", "b", "c"])[np.arange(300) % 3]
    frame = pandas.DataFrame({"kind": pandas.Categorical(kind), "x": np.linspace(0, 1, 300)})
    y = np.where(kind == "b", 5.0, frame.x)
    model = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant", max_leaves=3).fit(frame, y)
    axes = glasswood.plot_tree(model, frame, y)
    chart = axes.child_axes[0]
    assert sorted(label.get_text() for label in chart.get_xticklabels()) == ["a", "b", "c"]
    assert len({tuple(colour) for colour in chart.collections[0].get_facecolors()}) == 2
    boosted = pytest.importorskip("sklearn.ensemble").GradientBoostingRegressor(n_estimators=3, max_depth=2)
    boosted.fit(frame[["x"]], y)
    assert sum(" rows, mean " in text for text in texts_of(glasswood.plot_tree(boosted, tree=2))) == 7


@pytest.mark.parametrize(
    ("names", "is_turned"), [(["a", "b", "c"], False), ([f"category number {i}" for i in range(9)], True)]
)
def test_only_categories_that_do_not_fit_are_turned(names, is_turned):
    kind = np.array(names)[np.arange(900) % len(names)]
    y = np.where(kind == names[1], 5.0, np.arange(900) / 900)
    frame = pandas.DataFrame({"kind": pandas.Categorical(kind)})
    model = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant", max_leaves=2).fit(frame, y)
    labels = ticks_of(glasswood.plot_tree(model, frame, y).child_axes[0])
    assert len(labels) > 1
    assert {label.get_rotation() > 0 for label in labels} == {is_turned}


def test_rows_without_a_value_have_their_place():
    X, y = UGLY["missing"]
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=3).fit(X, y)
    axes = glasswood.plot_tree(model, X, y)
    chart = next(chart for chart in axes.child_axes if len(chart.collections) > 1)
    assert [text.get_text() for text in chart.texts] == ["missing"]
    [(_, mean)] = chart.collections[1].get_offsets().tolist()
    assert mean == pytest.approx(y[np.isnan(X["age"])].mean())


def test_pictures_of_a_tree(tree):
    X, y = piecewise(600)
    texts = texts_of(glasswood.plot_tree(tree))
    assert sum(" rows, mean " in text for text in texts) == 2 * tree.n_leaves_ - 1
    assert sum(text.startswith("leaf ") for text in texts) == tree.n_leaves_
    axes = glasswood.plot_tree(tree, X, y, units={"x0": "m"}, max_terms=1)
    assert len(axes.child_axes) == tree.n_leaves_ - 1
    assert axes.child_axes[0].lines[0].get_xdata()[0] == tree.forest_.ensemble.threshold[0]
    assert "x0 (m)" in texts_of(axes)
    assert "thin line: two standard errors" in texts_of(axes)[1] + texts_of(axes)[2]
    assert texts_of(glasswood.plot_tree(tree, title="Prices"))[0] == "Prices"
    assert glasswood.plot_history(tree).get_xlabel() == "generation"


def test_trees_that_nobody_could_look_at_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    large = pytest.importorskip("sklearn.tree").DecisionTreeRegressor().fit(X, rng.normal(size=3000))
    with pytest.raises(ValueError, match="has 3,000 leaves, pictures show at most 500; use export_text"):
        glasswood.plot_tree(large)


def test_texts_are_measured():
    ruler = Ruler()
    assert ruler.width("iiii", 8) < ruler.width("WWWW", 8) < ruler.width("WWWW", 8, bold=True)
    text = ruler.shortened("a rather long text", 0.5, 8)
    assert text.startswith("a")
    assert "…" in text
    assert ruler.width(text, 8) <= 0.5
    assert ruler.shortened("category number 13", 0.7, 6, n_last=3).endswith("… 13")
    lines = ruler.wrapped("one two three_four five", 0.6, 8, 3)
    assert len(lines) == 3
    assert all(ruler.width(line, 8) <= 0.6 for line in lines)
    assert ruler.wrapped("", 1, 8, 3) == [""]


def test_numbers_of_charts_need_no_factor_elsewhere():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"year": rng.uniform(2017.0001, 2017.0009, 600), "size": 1e12 * rng.lognormal(size=600)})
    y = np.where(frame["year"] < 2017.0005, 3e7, 5e7) + np.where(frame["size"] < 1e12, 0, 1e7)
    tree = glasswood.ModelTreeRegressor(**FAST, leaf_model="constant", max_leaves=4).fit(frame, y)
    axes = glasswood.plot_tree(tree, frame, y)
    axes.figure.canvas.draw()
    for chart in axes.child_axes:
        below, left = (
            [label.get_text() for label in ticks_of(chart)],
            [one.get_text() for one in chart.get_yticklabels()],
        )
        assert len(set(below)) == len(below) > 1
        assert any(text.startswith("2017.000") or text.endswith("T") for text in below)
        assert all(text.endswith("M") for text in left)
        assert not chart.xaxis.get_offset_text().get_text()
        assert not chart.yaxis.get_offset_text().get_text()
    assert not overlapping(axes)


def contrast(first, second):
    """Contrast of two colours by WCAG, 1 to 21."""
    from matplotlib.colors import to_rgb

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_texts_can_be_read_in_light_and_dark(tree, style):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with pyplot.style.context(style):
        ax = glasswood.plot_tree(tree, *piecewise(600))
        paper = ax.figure.get_facecolor()
        behind = [patch.get_facecolor() for patch in ax.patches if patch.get_zorder() == 0]
        for text in ax.texts:
            assert contrast(text.get_color(), paper) > 4.5
        assert all(contrast(pyplot.rcParams["text.color"], colour) > 4.5 for colour in behind)
        pyplot.close("all")


def test_fifteen_classes_have_fifteen_colours():
    from glasswood.base.pictures import class_colours

    for n in (2, 9, 10, 15, 18):
        assert len(set(map(str, class_colours(range(n))))) == n
    many = class_colours(range(40))
    assert len(set(map(str, many))) == 19  # the smallest ones share a grey
    assert len(set(map(str, many[22:]))) == 18


def test_targets_that_are_not_known_are_refused():
    X, y = piecewise(300)
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=2).fit(X, y)
    y = np.where(X[:, 0] > 1, np.nan, y)
    message = (
        f"y holds {int(np.isnan(y).sum())} values that are NaN or infinite, the first in row {np.isnan(y).argmax()}"
    )
    with pytest.raises(ValueError, match=message):
        glasswood.plot_tree(tree, X, y)
    shown = texts_of(glasswood.plot_tree(tree, X[:1]))
    assert any("no rows of X" in text for text in shown)
    assert not any("nan" in text for text in shown)
