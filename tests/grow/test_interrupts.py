"""Ctrl-C keeps the tree, whenever it comes after the search has begun."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

import glasswood
from glasswood.grow import estimator, likelihood
from glasswood.grow.search import engine, growing


@pytest.fixture
def data():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    return X, np.where(X[:, 0] < 0.5, X[:, 1], 3 - X[:, 1])


def interrupted_by(function):
    def interrupt(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return function(*arguments, **options)

    return interrupt


@pytest.mark.parametrize(
    ("module", "name"),
    [(estimator, "watching"), (growing, "search"), (growing, "grown_tree"), (estimator, "leaf_table")],
)
def test_an_interrupt_beside_the_search_keeps_the_tree(data, monkeypatch, module, name):
    monkeypatch.setattr(module, name, interrupted_by(getattr(module, name)))
    tree = glasswood.ModelTreeRegressor(generations=2, n_jobs=1).fit(*data)
    assert tree.interrupted_
    assert np.isfinite(tree.predict(data[0])).all()
    assert tree.n_iter_ == (0 if name in {"watching", "search"} else 2)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_interrupts_that_follow_keep_the_tree_too(data, monkeypatch):
    @contextlib.contextmanager
    def watching(*_):
        yield (lambda _: signal.raise_signal(signal.SIGINT),)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(estimator, "watching", watching)
    monkeypatch.setattr(growing, "grown_tree", interrupted_by(growing.grown_tree))
    tree = glasswood.ModelTreeRegressor(n_jobs=1).fit(*data)
    assert tree.interrupted_
    assert tree.n_iter_ == 1


def test_an_interrupt_in_searches_beside_each_other_keeps_the_tree(data, monkeypatch):
    def interrupting(*values):
        if threading.current_thread() is not threading.main_thread():
            begun.append(0)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return progress(*values)

    begun, progress = [], engine.Progress
    monkeypatch.setattr(engine, "Progress", interrupting)
    tree = glasswood.ModelTreeRegressor(generations=2, n_jobs=2, smoothing="auto").fit(data[0][:60], data[1][:60])
    assert begun
    assert tree.interrupted_
    assert np.isfinite(tree.predict(data[0])).all()


def test_handlers_of_others_stay(data):
    def handler(_number, _frame):
        raise NotImplementedError

    previous = signal.signal(signal.SIGINT, handler)
    try:
        glasswood.ModelTreeRegressor(
            generations=1, n_jobs=1, callbacks=[lambda _: signal.getsignal(signal.SIGINT) is not handler]
        ).fit(*data)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, previous)


def counting_searches(monkeypatch, at):
    """Count the searches that begin; an interrupt comes in the one of that number."""
    begun, progress = [], engine.Progress

    def searching(*arguments, **options):
        begun.append(len(begun))
        return original(*arguments, **options)

    def interrupting(*values):
        if len(begun) > at and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        return progress(*values)

    original, sent = growing.search, []
    monkeypatch.setattr(growing, "search", searching)
    monkeypatch.setattr(engine, "Progress", interrupting)
    return begun


def test_one_interrupt_ends_all_sizes_of_a_distillation(data, monkeypatch):
    """It once ended the search of one size, and the others took their time."""
    begun = counting_searches(monkeypatch, 1)
    student = glasswood.ModelTreeRegressor(generations=5, clip="leaf", noise="uniform")
    found = glasswood.distill(lambda X: X[:, 0], data[0], sizes=[2, 4, 8, 16, 32], estimator=student, time_limit=None)
    assert found.interrupted
    assert found.curve["size"].tolist() == [2, 4]
    assert [model.interrupted_ for model in found.models] == [False, True]
    assert "interrupted: the last student is the best so far" in str(found)
    assert len(begun) < 5
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_distillation_without_interrupts_says_nothing(data):
    student = glasswood.ModelTreeRegressor(generations=2)
    found = glasswood.distill(lambda X: X[:, 0], data[0], sizes=[2], estimator=student, time_limit=None)
    assert not found.interrupted
    assert "interrupted" not in str(found)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("method", ["mean", "boosting"])
def test_one_interrupt_ends_all_trees_of_an_ensemble(data, monkeypatch, method, n_jobs):
    begun = counting_searches(monkeypatch, 1)
    base = glasswood.ModelTreeRegressor(generations=5, noise="uniform")
    grown = glasswood.ModelTreeEnsembleRegressor(base, 40, method=method, max_trees=3, time_limit=None, n_jobs=n_jobs)
    grown.fit(*data)
    assert grown.interrupted_
    assert len(begun) < 10
    assert len(grown.samples_) == len(np.unique(grown.sequence_)) < 10
    assert np.isfinite(grown.predict(data[0])).all()


def test_an_interrupt_ends_the_splits_of_a_classifier(data, monkeypatch):
    monkeypatch.setattr(likelihood, "candidate_of", interrupted_by(likelihood.candidate_of))
    monkeypatch.setattr(likelihood, "proposed_splits", None)
    tree = glasswood.ModelTreeClassifier(generations=2, n_jobs=1).fit(data[0], data[1] > 1.5)
    assert tree.interrupted_


def test_an_interrupt_among_alternatives_keeps_those_found(data, monkeypatch):
    parameters = {"generations": 40, "n_jobs": 1, "leaf_model": "constant"}
    X, rng = data[0], np.random.default_rng(0)
    y = np.sin(6 * X[:, 0]) + X[:, 1] + rng.normal(scale=0.3, size=300)
    whole = glasswood.ModelTreeRegressor(**parameters).fit(X, y).alternatives_
    assert len(whole.forests) > 1
    calls, fit = [], growing.grown_tree

    def interrupting(*values, **named):
        calls.append(0)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return fit(*values, **named)

    monkeypatch.setattr(growing, "grown_tree", interrupting)
    model = glasswood.ModelTreeRegressor(**parameters).fit(X, y)
    assert model.interrupted_
    assert len(model.alternatives_.forests) < len(whole.forests)
    assert len(calls) < 8
