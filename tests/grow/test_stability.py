"""How often splits and terms come back on bootstrap samples."""

import numpy as np
import pandas as pd
import pytest

import glasswood

FAST = {"n_iter_no_change": 10, "n_jobs": 1, "stability": 4}


def two_planes(n_rows=400):
    """One true split, one true term on each side, and a feature of noise."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 5, (n_rows, 3)), columns=list("abn"))
    y = np.where(X["a"] < 2, 3 * X["b"], 10 - 2 * X["b"])
    return X, y + 0.1 * rng.standard_normal(n_rows)


def found(model):
    return pd.DataFrame(model.stability_)


def test_true_splits_and_terms_come_back():
    X, y = two_planes()
    table = found(glasswood.ModelTreeRegressor(**FAST).fit(X, y))
    splits, terms = table[table["kind"] == "split"], table[table["kind"] == "term"]
    assert splits[["at", "feature"]].to_numpy().tolist() == [[0, "a"]]
    assert splits["frequency"].tolist() == [1.0]
    assert terms[terms["feature"] == "b"]["frequency"].min() > 0.95


def test_splits_of_noise_do_not():
    rng = np.random.default_rng(1)
    X, y = rng.uniform(0, 1, (200, 4)), rng.standard_normal(200)
    model = glasswood.ModelTreeRegressor(**{**FAST, "penalty": 0.2, "noise": "uniform"}).fit(X, y)
    splits = found(model).query("kind == 'split'")
    assert len(splits) > 1
    assert splits["frequency"].mean() < 0.5


def test_splits_by_sets_and_missing_values_and_any_number_of_threads():
    X, y = two_planes()
    X["kind"] = np.where(X["a"] < 2, "p", np.where(np.arange(len(X)) % 2, "q", "r"))
    X["a"] = np.where(np.arange(len(X)) % 3 == 0, np.nan, 0.0)
    tables = [found(glasswood.ModelTreeRegressor(**{**FAST, "n_jobs": jobs}).fit(X, y)) for jobs in (1, 2)]
    pd.testing.assert_frame_equal(*tables)
    first = tables[0].iloc[0]
    assert (first["kind"], first["feature"], first["frequency"]) == ("split", "kind", 1.0)


def test_without_samples_there_is_none():
    model = glasswood.ModelTreeRegressor(**{**FAST, "stability": 0}).fit(*two_planes())
    assert not hasattr(model, "stability_")
    with pytest.raises(ValueError, match="stability is -1, expected at least 0"):
        glasswood.ModelTreeRegressor(stability=-1).fit(*two_planes())
