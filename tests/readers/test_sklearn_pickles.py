"""Pickles of scikit-learn's versions: what the installed one unpickles predicts what the version that wrote it did."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn

import glasswood

PICKLES = sorted((Path(__file__).parent / "data" / "versions").glob("sklearn-*.pickle"))
BOOSTED = ("boosted", "histogram")
"""Models whose losses are classes that scikit-learn has moved: only near versions unpickle them."""


def minor(version):
    return tuple(int(part) for part in version.split(".")[:2])


@pytest.mark.parametrize("path", PICKLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_pickles_predict_as_their_version_did(path):
    _, version, name = path.stem.split("-")
    if minor(version) > minor(sklearn.__version__):
        pytest.skip("scikit-learn does not read pickles of later versions")
    try:
        model = pickle.loads(path.read_bytes())
    except (AttributeError, ImportError):
        assert name in BOOSTED
        assert version != sklearn.__version__
        pytest.skip("scikit-learn does not unpickle it")
    forest, told = glasswood.load(model), np.load(f"{path}.npz")
    found, expected = forest.predict(told["X"]), told["predictions"]
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    else:
        np.testing.assert_array_equal(found, expected)
    if "probabilities" in told:
        np.testing.assert_allclose(forest.predict(told["X"], "probability"), told["probabilities"], rtol=1e-12)


def test_the_versions_are_there():
    assert {path.stem.split("-")[1] for path in PICKLES} >= {"1.3.2", "1.4.2", "1.6.1", "1.9.1"}
