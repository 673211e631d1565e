"""Files of many versions of XGBoost, LightGBM and CatBoost, and what the versions that wrote them say of rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.readers.agreement import assert_agrees
from tests.readers.data import make_page

import glasswood

VERSIONS = Path(__file__).parent / "data" / "versions"
FILES = sorted(path for path in VERSIONS.iterdir() if Path(f"{path}.npz").exists() and path.suffix != ".pickle")
MOJOS = sorted(VERSIONS.glob("h2o-*.zip"))
LEAST = {
    "xgboost .model": {"0.80", "0.90", "1.0.2", "1.2.1", "1.3.3", "1.6.2", "2.1.4", "3.0.5"},
    "xgboost .json": {"1.0.2", "1.2.1", "1.3.3", "1.6.2", "3.2.0", "3.4.1"},
    "lightgbm .txt": {"2.0.10", "2.1.2", "2.3.1", "3.0.0", "3.3.5", "4.0.0", "4.7.0"},
    "lightgbm .json": {"2.3.1", "3.3.5", "4.7.0"},
    "catboost .cbm": {"0.20", "0.23.2", "0.26.1", "1.0.6", "1.1.1", "1.2.10"},
    "catboost .json": {"0.20", "0.23.2", "0.26.1", "1.0.6", "1.1.1", "1.2.10"},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore:the file is of XGBoost 1.3.0:UserWarning")
def test_files_mean_what_their_writer_said(path):
    told = dict(np.load(f"{path}.npz"))
    X, contributions = told.pop("X"), told.pop("contributions", None)
    forest = glasswood.load(path)
    assert_agrees(forest, X, **told, sums="float32" if path.name.startswith("xgboost") else "float64")
    if contributions is not None:
        values = glasswood.Explainer(forest, dtype="float64").shap_values(X)
        shape = (len(X), *values.shape[2:], X.shape[1] + 1)
        expected = (
            np.moveaxis(contributions.reshape(shape)[..., :-1], 1, -1) if values.ndim == 3 else contributions[:, :-1]
        )
        np.testing.assert_allclose(values, expected, atol=1e-5 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("path", MOJOS, ids=lambda path: path.name)
def test_mojos_mean_what_their_writer_said(path):
    """Those of 3.26 have "null" as offset_column, and a category with a backslash."""
    pandas = pytest.importorskip("pandas")
    told = json.loads(Path(f"{path}.told.json").read_text())
    forest, frame = glasswood.load(path), pandas.DataFrame(told["rows"], columns=told["columns"])
    frame = frame[list(forest.feature_names)]
    _, *rows = told["told"]
    if forest.classes:
        assert forest.predict(frame).tolist() == [row[0] for row in rows]
        expected = [[float(number) for number in row[1:]] for row in rows]
        np.testing.assert_allclose(forest.predict(frame, "probability"), expected, atol=1e-7)
    else:
        expected = np.array([float(row[0]) for row in rows])
        rounding = 3e-7 * np.abs(expected).max() if "-xgboost-" in path.name else 0  # which adds float32 up
        np.testing.assert_allclose(forest.predict(frame), expected, rtol=1e-7, atol=rounding)
    if "contributions" in told:
        check_contributions(forest, frame, told["contributions"])


def check_contributions(forest, frame, told):
    """H2O's XGBoost has a column for each category, so of features with categories only the sum is the same."""
    names, *rows = told
    expected = np.array(rows, np.float64)
    explainer = glasswood.Explainer(forest, dtype="float64")
    values = explainer.shap_values(frame)
    total = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, expected.sum(axis=1), atol=1e-6)
    if names[:-1] == list(forest.feature_names):
        np.testing.assert_allclose(values, expected[:, :-1], atol=1e-6)


def test_the_versions_are_there():
    found = {kind: set() for kind in LEAST}
    for path in FILES:
        library, version, _ = path.name.split("-")
        found[f"{library} {path.suffix}"].add(version)
    assert all(found[kind] >= versions for kind, versions in LEAST.items())


def test_the_page_of_versions_is_what_the_files_say():
    pytest.importorskip("pyarrow")
    assert make_page.PAGE.read_text() == make_page.page(), "run tests/readers/data/make_page.py"
    assert make_page.BADGE.read_text() == make_page.badge(), "run tests/readers/data/make_page.py"
