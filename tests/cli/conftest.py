"""Models and tables on disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.cli.files import N_ROWS, NAMES, train


@pytest.fixture(scope="package")
def data():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(N_ROWS, 4)).astype(np.float32), columns=NAMES)
    frame.loc[::7, "b"] = np.nan
    return frame


@pytest.fixture(scope="package")
def target(data):
    return data["a"] * data["c"] + data["b"].fillna(2) + (data["d"] > 0)


@pytest.fixture(scope="package")
def regressor(data, target):
    return train(data, target)


@pytest.fixture(scope="package")
def classifier(data, target):
    """Three classes."""
    return train(data, np.digitize(target, [0, 2]), objective="multi:softprob", num_class=3)


@pytest.fixture(scope="package")
def table(data):
    """The data with its columns in another order, an id and a count."""
    return data[["d", "b", "a", "c"]].assign(id=[f"row {i}" for i in range(N_ROWS)], count=np.arange(N_ROWS))


@pytest.fixture(scope="package")
def files(tmp_path_factory, regressor, classifier, table):
    """A folder with both models, the table as CSV, as Parquet with several row groups, and a hundred times as long."""
    folder = tmp_path_factory.mktemp("cli")
    regressor.save_model(folder / "regressor.json")
    classifier.save_model(folder / "classifier.json")
    table.to_csv(folder / "data.csv", index=False)
    table.to_parquet(folder / "data.parquet", row_group_size=300)
    pd.concat([table] * 100).to_parquet(folder / "long.parquet")
    return folder
