"""What users are told while they wait."""

import logging
import sys
import threading

import numpy as np
import pytest

import glasswood
from glasswood.base import progress
from tests.strategies import full_forest


@pytest.mark.parametrize("is_slow", [True, False])
def test_only_what_takes_longer_than_a_moment_is_announced(is_slow, limits, caplog):
    limits(progress_silence=0.01 if is_slow else 60)
    with caplog.at_level(logging.WARNING, "glasswood"), progress.announcing("building"):
        for timer in threading.enumerate():
            if is_slow and isinstance(timer, threading.Timer):
                timer.join()
    assert [record.getMessage() for record in caplog.records] == ["building"] * is_slow


def test_tables_are_announced_once(monkeypatch, caplog):
    said = []
    monkeypatch.setattr(
        "glasswood.explain.tables.announcing", lambda what: said.append(what) or progress.announcing(what)
    )
    explainer = glasswood.Explainer(full_forest(0, n_trees=20, depth=6, n_features=4), algorithm="tables")
    for _ in range(2):
        explainer.shap_values(np.zeros((5, 4), np.float32))
    (one,) = said
    assert one.startswith("building tables of values, ")
    assert not caplog.records


class Closed:
    """A stream that a service has closed."""

    closed = True

    def isatty(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [None, Closed(), object()])
@pytest.mark.parametrize("verbose", [False, True])
def test_fit_needs_no_standard_error(monkeypatch, stream, verbose):
    """It raised AttributeError under pythonw and in services."""
    if verbose and type(stream) is object:
        stream = None
    monkeypatch.setattr(sys, "stderr", stream)
    X = np.random.default_rng(0).normal(size=(60, 2))
    for estimator, y in ((glasswood.ModelTreeRegressor, X[:, 0]), (glasswood.ModelTreeClassifier, X[:, 0] > 0)):
        estimator(generations=2, verbose=verbose).fit(X, y)
