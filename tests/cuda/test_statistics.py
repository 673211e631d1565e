"""Models with target statistics on GPUs: their features are made on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood

pytest.importorskip("catboost")
from tests.readers.test_catboost_ctr import adversarial, frame, train

__all__ = ["frame"]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("output", ["margin", "leaf"])
def test_predictions_are_the_cpus(frame, output):
    forest = glasswood.load(train("combinations of 3", frame))
    rows = adversarial(forest, frame)[:90]
    expected = forest.predict(rows, output=output, device="cpu")
    np.testing.assert_array_equal(forest.predict(rows, output=output, device="cuda"), expected)
