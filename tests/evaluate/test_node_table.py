"""Forests as tables of nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import glasswood

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "c": rng.choice(list("xyz"), 200)})
    X["c"] = X["c"].astype("category")
    return X, X["a"] + (X["c"] == "y") * X["b"]


def test_nodes_are_those_of_xgboost(data):
    """Trees of the same shape: a node of either table is found by its path from the root."""
    X, y = data
    booster = xgboost.XGBRegressor(n_estimators=3, max_depth=3).fit(X[["a", "b"]], y).get_booster()
    expected, found = booster.trees_to_dataframe(), glasswood.load(booster).trees_to_dataframe()
    lacks = [name for name in expected.columns if name not in found.columns]
    assert [name for name in lacks if name != "Target"] == ["Gain"]  # XGBoost 3.4 names the output of a tree
    theirs, ours = by_path(expected), by_path(found)
    assert theirs.keys() == ours.keys()
    for path, node in theirs.items():
        other = ours[path]
        assert node["Feature"] == other["Feature"]
        np.testing.assert_allclose(other["Cover"], node["Cover"])
        if node["Feature"] == "Leaf":
            np.testing.assert_allclose(other["Value"], node["Gain"], rtol=1e-6)
        else:
            np.testing.assert_allclose(other["Split"], node["Split"], rtol=1e-6)
            assert (other["Missing"] == other["Yes"]) == (node["Missing"] == node["Yes"])


def by_path(table):
    nodes = {row["ID"]: row for row in table.to_dict("records")}
    result = {}
    for tree in range(table["Tree"].max() + 1):
        pending = [(f"{tree}-0", f"{tree}")]
        while pending:
            name, path = pending.pop()
            result[path] = nodes[name]
            if nodes[name]["Feature"] != "Leaf":
                pending += [(nodes[name]["Yes"], path + "y"), (nodes[name]["No"], path + "n")]
    return result


def test_categories_are_named(data):
    X, y = data
    forest = glasswood.load(
        lightgbm.LGBMRegressor(n_estimators=9, verbose=-1, min_data_per_group=1, cat_smooth=1).fit(X, y)
    )
    table = forest.trees_to_dataframe()
    named = table["Category"].dropna()
    assert len(named)
    assert {one for categories in named for one in categories} <= {"x", "y", "z"}
    assert table.loc[named.index, "Split"].isna().all()
    assert len(table) == forest.n_nodes


def test_outputs_are_named_by_classes(data):
    X, y = data
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    forest = glasswood.load(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, labels))
    assert forest.output_names == ("high", "low", "mid")
    assert sorted(forest.trees_to_dataframe()["Output"].unique()) == [0, 1, 2]
    assert glasswood.load(lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y)).output_names == ("0",)
