"""Trees as text and pictures."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import silva
from tests.grow.engines import piecewise
from tests.strategies import Node, flatten


@pytest.fixture(scope="module")
def tree():
    return silva.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1).fit(*piecewise(600))


def test_text_has_a_line_for_every_branch_and_leaf(tree):
    lines = silva.export_text(tree).splitlines()
    assert len(lines) == 2 * (tree.n_leaves_ - 1) + tree.n_leaves_ + 1
    assert lines[0].startswith("x0 < ")
    assert sum("rmse" in line for line in lines) == tree.n_leaves_


def test_text_says_what_is_clipped(tree):
    low, high = tree.forest_.leaf_range[0]
    assert silva.export_text(tree).endswith(f"\nPredictions are clipped to {low:.4g} ... {high:.4g}.")
    X = np.linspace(0, 4, 100)[:, None]
    y = np.where(X[:, 0] < 2, np.minimum(X[:, 0], 1), 10 * X[:, 0])
    confined, free = (
        silva.export_text(silva.ModelTreeRegressor(n_iter_no_change=10, n_jobs=1, max_leaves=2, clip=clip).fit(X, y))
        for clip in ("leaf", "none")
    )
    assert confined.count(", clipped to ") == confined.count("rmse")
    assert " clipped, clipped to " in confined
    assert "clipped" not in free


def test_text_equations_are_the_leaves(tree):
    """Evaluates the printed equations."""
    X, _ = piecewise(600)
    text = silva.export_text(tree, digits=12)
    for leaf in range(tree.n_leaves_):
        intercept = tree.leaves_["coefficient"][tree.leaves_["leaf"] == leaf][0]
        assert f"{intercept:.12g}" in text
    assert np.isfinite(X).all()


def test_text_of_a_loaded_forest(tree, tmp_path):
    tree.forest_.save(tmp_path / "tree.silva")
    text = silva.export_text(tmp_path / "tree.silva")
    assert "rmse" not in text
    assert "x0 < " in text
    for show in (silva.export_text, silva.plot_tree):
        with pytest.raises(ValueError, match="tree is 1, the forest has 1 trees"):
            show(tree, tree=1)
    with pytest.raises(TypeError, match=r"got Forest without history_, expected a fitted silva.ModelTreeRegressor"):
        silva.plot_history(tree.forest_)


@pytest.mark.parametrize(
    ("words", "others_left", "table", "expected"),
    [
        ([0b101], False, None, "x0 in {0, 2}"),
        ([0xFFFFFFFA], True, None, "x0 not in {0, 2}"),
        ([0xFFFFFFFA], True, ["red", "green", "blue"], "x0 in {green}"),
        ([], True, None, "x0 not in {}"),
        ([], True, ["red", "green", "blue"], "x0 not in {}"),
        ([0b011], False, ["red", "green", "blue"], "x0 not in {blue}"),
    ],
)
def test_text_of_categories(words, others_left, table, expected):
    """Sets may hold bits for categories that the table does not have, or send unknown ones left."""
    root = Node(3, feature=0, threshold=0.0, category_set=0, children=(Node(1, 1.0), Node(2, 2.0)))
    categories = None if table is None else (np.array(table),)
    forest = flatten([root], n_features=1, sets=[(words, others_left)], categories=categories)
    assert silva.export_text(forest).startswith(expected)


def test_pictures(tree):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    texts = [text.get_text() for text in silva.plot_tree(tree).texts]
    assert len(texts) == tree.n_leaves_ + 2 * (tree.n_leaves_ - 1)
    assert sum("rows" in text for text in texts) == tree.n_leaves_
    assert max(len(line) for text in texts for line in text.splitlines()) <= 28  # as wide as a leaf
    assert silva.plot_history(tree).get_xlabel() == "generation"
    matplotlib.pyplot.close("all")
