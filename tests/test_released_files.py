"""Files that earlier releases wrote load, and return what they returned (docs/about/policies.md).

Until 0.1.0 is released, a change of the format writes its files anew (tests/readers/data/make_glasswood.py).
"""

from pathlib import Path

import numpy as np
import pytest

import glasswood

FOLDER = Path(__file__).parent / "readers" / "data"


def files(kind):
    return sorted(FOLDER.glob(f"glasswood-*-{kind}.glasswood"))


@pytest.mark.parametrize("path", files("forest"), ids=lambda path: path.stem)
def test_forests(path):
    expected = np.load(path.with_suffix(".npz"))
    forest = glasswood.load(path)
    np.testing.assert_array_equal(forest.predict(expected["X"], "leaf"), expected["leaf"])
    np.testing.assert_allclose(forest.predict(expected["X"], "margin"), expected["margin"], 1e-12)


@pytest.mark.parametrize("path", files("explainer"), ids=lambda path: path.stem)
def test_explainers(path):
    expected = np.load(path.with_suffix(".npz"))
    explainer = glasswood.Explainer.load(path)
    assert explainer.expected_value == pytest.approx(float(expected["expected_value"]), rel=1e-12)
    scale = np.abs(expected["values"]).max()
    np.testing.assert_allclose(explainer.shap_values(expected["X"]), expected["values"], atol=1e-6 * scale)


def test_there_are_files():
    assert files("forest")
    assert files("explainer")
