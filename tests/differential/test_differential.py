"""A few models of `make differential`, and that it would find something."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import glasswood
from tests.differential import frames, run, wrapped
from tests.differential.libraries import LIBRARIES, ignore_their_warnings


@pytest.fixture(autouse=True)
def _quiet():
    ignore_their_warnings()


# The first ONNX file is skl2onnx's, the second glasswood's.
@pytest.mark.parametrize(
    ("name", "number"), [*((name, 1) for name in LIBRARIES), ("onnx", 2), ("codes", 1), ("texts", 1)]
)
def test_a_random_model_of_each_library_agrees(name, number, monkeypatch):
    if name not in run.installed():
        pytest.skip(f"{name} is not installed")
    monkeypatch.setattr(run, "MOST_ROWS", 500)
    assert run.compare(name, 0, number) > 100


def test_a_threshold_that_is_off_by_one_number_is_found(monkeypatch, capsys):
    make = LIBRARIES["sklearn"]

    def spoilt(rng):
        case = make(rng)
        threshold = case.forest.ensemble.threshold.copy()
        split = np.flatnonzero(case.forest.ensemble.feature >= 0)[0]
        threshold[split] = np.nextafter(threshold[split], threshold.dtype.type(np.inf))
        return case._replace(forest=glasswood.Forest(dataclasses.replace(case.forest.ensemble, threshold=threshold)))

    monkeypatch.setitem(LIBRARIES, "sklearn", spoilt)
    monkeypatch.setattr(run, "installed", lambda: ["sklearn"])
    assert run.main(["--seed=0", "--model=3"]) == 1
    found = capsys.readouterr().out
    assert "MODEL 3 of sklearn" in found
    assert "leaf ids differ" in found


@pytest.mark.parametrize("name", frames.SWEEPS)
def test_random_frames_are_equal_or_refused(name):
    outcomes = frames.sweep(name, 0, 12)
    assert not outcomes["WRONG"]
    assert outcomes["equal"] > 3


def test_another_number_is_found(monkeypatch, capsys):
    predict = glasswood.Forest.predict
    monkeypatch.setattr(glasswood.Forest, "predict", lambda self, X: predict(self, X) + 1e-3)
    assert frames.main(["--frames", "4", "--batches", "0"]) == 1
    assert "WRONG: trial" in capsys.readouterr().out


def test_random_wrapped_estimators_agree_or_are_refused():
    sweep = wrapped.Sweep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(25):
            sweep.one(number)
    assert not sweep.wrong
    assert sum(count for found, count in sweep.found.items() if found.startswith("agrees")) > 5


def test_a_wrapped_estimator_that_predicts_otherwise_is_found(monkeypatch):
    made = glasswood.load

    def spoilt(model, **_check):
        trees = made(model, check=False).ensemble
        return glasswood.Forest(dataclasses.replace(trees, leaf_value=trees.leaf_value * 1.01 + 0.01))

    monkeypatch.setattr(glasswood, "load", spoilt)
    sweep = wrapped.Sweep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(25):
            sweep.one(number)
    assert sweep.wrong
