"""Rows, column transformers and a comparison that tests of scikit-learn's composed models share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import glasswood

N_ROWS = 250


def make_data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": np.round(rng.normal(40, 10, N_ROWS), 1),
            "income": rng.lognormal(size=N_ROWS),
            "city": rng.choice(["Rome", "Oslo", "Lima", "Bonn"], N_ROWS, p=[0.5, 0.3, 0.18, 0.02]),
            "city_kind": rng.choice(["a", "b"], N_ROWS),
        }
    )
    X.loc[::9, "income"] = np.nan
    y = X["age"] / 10 + np.nan_to_num(X["income"]) + 3 * (X["city"] == "Rome") - (X["city_kind"] == "a")
    return X, y.to_numpy()


def columns(**options):
    return ColumnTransformer(
        [
            ("num", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
            ("cat", OneHotEncoder(handle_unknown="ignore", **options), ["city", "city_kind"]),
        ]
    )


def sources_of(forest):
    return [" + ".join(columns) for columns in forest.ensemble.transform.source_columns]


def check(model, X, **options):
    forest = glasswood.load(model, check=X)
    expected = model.predict(X)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(forest.predict(X, **options), expected, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(forest.predict(X, **options), expected)
    return forest
