"""California housing: a forest, its explainer, and rows with an id."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import glasswood

DATA = Path(glasswood.__file__).parent / "data"
N_ROWS = 3000


@pytest.fixture(scope="session")
def forest():
    return glasswood.load(DATA / "california_housing.json")


@pytest.fixture(scope="session")
def explainer(forest):
    return glasswood.Explainer(forest, n_jobs=1)


@pytest.fixture(scope="session")
def rows():
    """Features among other columns, in another order than the model's."""
    frame = pd.read_parquet(DATA / "california_housing.parquet")[:N_ROWS]
    return frame[frame.columns[::-1]].assign(id=[f"row {i}" for i in range(N_ROWS)], count=np.arange(N_ROWS))


@pytest.fixture(scope="session")
def predictions(forest, rows):
    return forest.predict(rows[list(forest.feature_names)])


@pytest.fixture(scope="session")
def values(explainer, forest, rows):
    return explainer.shap_values(rows[list(forest.feature_names)])


@pytest.fixture(scope="session", autouse=True)
def workers_of_this_python():
    """Engines start processes by themselves: with this interpreter."""
    import sys

    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    os.environ.update(dict.fromkeys(before, sys.executable))
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
