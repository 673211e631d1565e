"""What notebooks show: trees, and results that draw themselves; nothing of a model becomes markup."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import glasswood
from glasswood.base.escapes import markup
from glasswood.base.wording import number_text
from glasswood.words.outline import MOST_LEAVES, estimator_html, tree_html
from tests.strategies import full_forest

sklearn = pytest.importorskip("sklearn")
pandas = pytest.importorskip("pandas")

HOSTILE = "</summary><script>alert(1)</script>"
FAST = {"n_iter_no_change": 5, "n_jobs": 1}


class Balanced(HTMLParser):
    """Notes elements that are not closed in their order, and all that there are."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, _attributes):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({HOSTILE: rng.uniform(size=900), "job": rng.choice(["a", HOSTILE], 900)})
    return X, np.where(X[HOSTILE] < 0.5, X["job"] == "a", X[HOSTILE] < 0.8)


def shown(model):
    return model._repr_mimebundle_()["text/html"]


def test_fitted_trees_show_their_tree(people):
    X, y = people
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=4)
    assert "leaf 0" not in shown(model)
    text = shown(model.fit(X, y.astype(float)))
    assert "sk-container-id" in text
    assert text.endswith(estimator_html(model))
    assert model._repr_html_().endswith(estimator_html(model))
    assert HOSTILE not in text
    text = estimator_html(model)
    assert len(re.findall(r"leaf \d+: <code>", text)) == model.n_leaves_
    assert Balanced(text).seen <= {"div", "strong", "details", "summary", "small", "code"}
    assert "&lt;script&gt;" in text
    assert f"{model.n_leaves_} leaves, training rmse" in text


def test_trees_are_shown_where_diagrams_are(people):
    X, y = people
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=3).fit(X, y.astype(float))
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


@pytest.mark.parametrize("has_shap", [True, False])
def test_explanations_are_tables_with_bars(people, has_shap, request):
    if has_shap:
        pytest.importorskip("shap")
    else:
        request.getfixturevalue("without_shap")
    X, y = people
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=4).fit(X, y.astype(float))
    explanation = glasswood.Explainer(model, X[:100])(X[:50])
    for part, n_lines in ((explanation, 2), (explanation[3], 2), (explanation[:, "job"], 1), (explanation[3:4], 2)):
        text = part._repr_html_()
        assert Balanced(text).seen <= {"div", "strong", "small", "table", "tr", "th", "td", "span"}
        assert text.count("linear-gradient") == n_lines
    row = explanation[3]
    text = row._repr_html_()
    total = explanation.base_values[3] + row.values.sum()
    assert f"base value {number_text(explanation.base_values[3], 4)}, sum {number_text(total, 4)}" in text
    first = int(np.argmax(np.abs(row.values)))
    assert text.index(markup(row.feature_names[first])) < text.index(markup(row.feature_names[1 - first]))
    ends = {f"{50 + 50 * sign:.1f}%" for sign in np.sign(row.values[[first]])}
    assert all(f" {end}" in text for end in ends)
    pairs = glasswood.Explainer(model)(X[:50], interactions=True)
    assert pairs._repr_html_().count("linear-gradient") == 2


def test_classifiers_show_shares(people):
    X, y = people
    model = glasswood.ModelTreeClassifier(**FAST, max_leaves=4).fit(X, np.where(y, HOSTILE, "no"))
    assert HOSTILE not in shown(model)
    text = estimator_html(model)
    assert "Probability of <b>" in text
    assert Balanced(text).seen <= {"div", "strong", "details", "summary", "small", "code", "span", "b"}
    share = np.mean(np.where(y, HOSTILE, "no") == model.classes_[1])
    assert f"{100 * share:.0f} % of 900 rows" in text
    several = glasswood.ModelTreeClassifier(**FAST, max_leaves=3).fit(X, np.where(y, "b", X["job"]))
    assert "The first of the trees" in shown(several)


def test_large_trees_are_left_out():
    forest = full_forest(0, 1, 6, 3)
    assert forest.n_leaves > MOST_LEAVES
    assert tree_html(forest, 0, None) == ""


def test_effects_draw_themselves(people):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = people
    model = glasswood.ModelTreeRegressor(**FAST, max_leaves=4).fit(X, y.astype(float))
    found = glasswood.partial_dependence(model, X, 0, kind="both", grid_resolution=10)
    axes = found.plot()
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), found.average[0])
    assert axes.get_xlabel() == f"{HOSTILE[:31]}…"
    axes = glasswood.partial_dependence(model, X, "job").plot()
    assert sorted(label.get_text() for label in axes.get_xticklabels()) == sorted(
        ["a", f"{HOSTILE[:8]}…{HOSTILE[-7:]}"]
    )
    axes = glasswood.partial_dependence(model, X, [0, "job"], grid_resolution=5).plot()
    assert axes.get_ylabel() == "job"
    importance = glasswood.permutation_importance(model, X, y.astype(float), n_repeats=2, random_state=0)
    axes = importance.plot()
    widths = [bar.get_width() for bar in axes.patches]
    np.testing.assert_allclose(widths, np.sort(importance.importances_mean))
    assert "names" not in importance
    matplotlib.pyplot.close("all")


def test_messages_say_what_to_pass(people):
    X, y = people
    mixed = np.column_stack([np.arange(900).astype(object), X["job"]])
    with pytest.raises(
        ValueError, match=r"column 1 of X holds text .* categorical_features=\[1\], or pass a data frame"
    ):
        glasswood.ModelTreeRegressor(**FAST).fit(mixed, y.astype(float))
    with pytest.raises(ValueError, match=r"y holds text \(yes\), expected numbers; use glasswood.ModelTreeClassifier"):
        glasswood.ModelTreeRegressor(**FAST).fit(np.zeros((2, 1)), ["yes", "no"])
    model = glasswood.ModelTreeRegressor(**FAST).fit(X, y.astype(float))
    given = {
        "holds .*DataFrame\\(X\\)": X.iloc[:2].to_dict("records"),
        "is .*DataFrame\\(\\[X\\]\\)": X.iloc[0].to_dict(),
    }
    for message, rows in given.items():
        with pytest.raises(TypeError, match=message):
            model.predict(rows)
