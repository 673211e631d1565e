"""The example of docs/internals/values.md is right: by the definition and by glasswood; page and pictures agree."""

from __future__ import annotations

import importlib.util
import itertools
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest

import glasswood
from glasswood import _core
from tests.oracles import shapley
from tests.strategies import Node, flatten

ROOT = Path(__file__).parent.parent.parent
ROWS = np.array(list(itertools.product((65.0, 80.0), (3.0, 5.0, 8.0, 12.0), (10.0, 20.0))))
"""Each combination of sides, thresholds included."""


def load_example():
    spec = importlib.util.spec_from_file_location("draw_values", ROOT / "tools" / "draw_values.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = load_example()


def node_of(node):
    if isinstance(node, EXAMPLE.Leaf):
        return Node(cover=node.cover, value=node.value)
    return Node(node.cover, 0.0, node.feature, node.threshold, children=tuple(map(node_of, node.children)))


@pytest.fixture(scope="module")
def forest():
    return flatten([node_of(EXAMPLE.TREE)], len(EXAMPLE.FEATURES), "float64")


def test_example_has_the_values_of_the_definition(forest):
    expected = shapley.values(forest, shapley.sides(forest, ROWS))[..., 0]
    np.testing.assert_allclose([EXAMPLE.explain(row) for row in ROWS], expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("algorithm", ["tables", "quadrature"])
def test_example_has_the_values_of_the_library(forest, algorithm):
    explainer = glasswood.Explainer(forest, algorithm=algorithm, dtype="float64")
    found = explainer.shap_values(ROWS)
    np.testing.assert_allclose([EXAMPLE.explain(row) for row in ROWS], found, rtol=1e-12, atol=1e-9)
    assert explainer.expected_value == pytest.approx(EXAMPLE.expected(EXAMPLE.ROW, ()))


def test_steps_are_keys():
    for root in EXAMPLE.ROOTS:
        table = EXAMPLE.table_of(root)
        assert {EXAMPLE.key_of(table, row) for row in ROWS} == {*range(len(table.entries))}
        terms = re.findall(r"([+−]\d+) \[(\w+) > (\d)\]", steps := EXAMPLE.steps_of(table))
        for row in ROWS:
            codes = [
                np.sum([t <= x for t in thresholds]) for x, thresholds in zip(row, ([80], [5, 12], [20]), strict=True)
            ]
            sums = (
                int(w.replace("−", "-")) for w, name, bound in terms if codes[EXAMPLE.FEATURES.index(name)] > int(bound)
            )
            assert int(steps.split()[0]) + sum(sums) == EXAMPLE.key_of(table, row)


def test_page_has_the_numbers_of_the_example():
    text = EXAMPLE.PAGE.read_text(encoding="utf-8")
    assert EXAMPLE.filled(text) == text, "run tools/draw_values.py"
    sums = re.findall(r"([\d.]+) × ([\d.]+) ([+−]) ([\d.]+) × ([\d.]+) = ([\d.]+)", text)
    assert len(sums) == 2
    for a, x, sign, b, y, total in sums:
        found = float(a) * float(x) + (1 if sign == "+" else -1) * float(b) * float(y)
        assert found == pytest.approx(float(total), abs=0.0051)  # as printed


def test_pictures_have_the_numbers_of_the_example():
    table, named = EXAMPLE.table_of(EXAMPLE.SHOWN), EXAMPLE.named
    text = {
        name: (EXAMPLE.IMAGES / f"values-{name}.svg").read_text(encoding="utf-8") for name in ("tables", "row", "tree")
    }
    for entry in table.entries:
        assert all(f">{named(value)}<" in text["tables"] for value in entry)
    entries = [one.entries[EXAMPLE.key_of(one, EXAMPLE.ROW)] for one in map(EXAMPLE.table_of, EXAMPLE.ROOTS)]
    for value in (*np.ravel(entries), *EXAMPLE.explain(EXAMPLE.ROW)):
        assert f">{named(value)}<" in text["row"]
    for split in EXAMPLE.splits_of(EXAMPLE.TREE):
        assert f">{escape(EXAMPLE.name_of(split))}<" in text["tree"]
        assert all(f">{child.cover:g}<" in text["tree"] for child in split.children)


def test_page_counts_california():
    text = EXAMPLE.PAGE.read_text(encoding="utf-8")
    forest = glasswood.load(glasswood.datasets.DATA / "california_housing.json")
    players = np.arange(forest.n_features, dtype=np.int32)
    tables = _core.SubtreeTables32(forest.ensemble, players, 2**28, False, False, False, False, 1)
    assert f"({len(forest.ensemble.leaf_value):,} leaves, {forest.n_features} features)" in text
    n_states = tables.n_bytes / (8 * 4 * tables.n_subtrees)
    assert (
        f"({tables.n_subtrees:,} subtrees of {round(n_states, -1):.0f} states, {tables.n_bytes / 1e6:.0f} MB)" in text
    )
