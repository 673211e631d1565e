"""Threads that predict, explain, grow, fail and fork at a time, interrupts meanwhile; results are a single thread's.

Beside them, processes end while threads of theirs compute (leaving.py).

python -m tests.stress --seconds 60 --threads 8 --seed 1. Each thread's actions depend on the seed alone; only which of
them meet does not.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
import traceback

import numpy as np

import glasswood
from tests.example_forests import with_models
from tests.strategies import Options, full_forest, random_forest, random_rows
from tests.stress.leaving import ENDS, WORK, left

FORK_SECONDS = 16
BRIEFLY = 10
"""Seconds that are too few for processes of their own."""
DTYPES = ("float32", "float64")
ALGORITHMS = ("serial", "by_sample", "by_node", "windowed", "auto")


class Model:
    """A forest with what one thread makes of some rows."""

    def __init__(self, forest, seed):
        self.forest = forest
        self.X = random_rows(seed, forest, 300, "float32")
        if not forest.ensemble.nan_allowed:
            self.X[np.isnan(self.X)] = 0
        if forest.ensemble.has_linear_leaves:
            self.X = np.where(np.isfinite(self.X), self.X, 0).clip(-1e3, 1e3)
        self.margins = forest.predict(self.X, "margin", "serial", "cpu", 1)
        self.leaves = forest.predict(self.X, "leaf", "serial", "cpu", 1)
        self.explainers = {dtype: glasswood.Explainer(forest, dtype=dtype, device="cpu") for dtype in DTYPES}
        one = {dtype: glasswood.Explainer(forest, dtype=dtype, n_jobs=1, device="cpu") for dtype in DTYPES}
        self.values = {dtype: explainer.shap_values(self.X) for dtype, explainer in one.items()}
        self.pairs = one["float32"].shap_interaction_values(self.X[:40])
        self.predictor, self.row = forest.predictor("margin"), one["float32"].row()
        self.rows = [self.row(np.ascontiguousarray(x)) for x in self.X]


def make_models():
    """Forests of every kind."""
    several = Options(n_trees=20, n_features=6, n_outputs=3, categorical=True, row_type="float64")
    vectors = Options(n_trees=10, n_features=4, n_outputs=3, vector_leaves=True)
    forests = (
        full_forest(0, 60, 7, 8),
        random_forest(1, several),
        random_forest(2, vectors),
        with_models(random_forest(3, Options(n_trees=4, n_features=5)), 4, -1, 1),
    )
    return [Model(forest, seed) for seed, forest in enumerate(forests)]


def some(rng, values):
    """One of them, as it is."""
    return values[int(rng.integers(len(values)))]


def same(found, expected):
    """Raise AssertionError unless all bits are the same."""
    np.testing.assert_array_equal(found, expected)


def predict(rng, model):
    first, n = int(rng.integers(200)), int(rng.integers(1, 100))
    algorithm, n_jobs = some(rng, ALGORITHMS), int(rng.integers(1, 5))
    forest = model.forest if rng.random() < 0.7 else pickle.loads(pickle.dumps(model.forest))
    rows = slice(first, first + n)
    try:
        same(forest.predict(model.X[rows], "margin", algorithm, "cpu", n_jobs), model.margins[rows])
        same(forest.predict(model.X[rows], "leaf", algorithm, "cpu", n_jobs), model.leaves[rows])
    except ValueError:
        assert algorithm == "by_node"  # refuses large trees


def explain(rng, model):
    dtype, rows = some(rng, ("float32", "float64")), slice(int(rng.integers(200)), 300)
    same(model.explainers[dtype].shap_values(model.X[rows]), model.values[dtype][rows])


def explain_anew(rng, model):
    """First uses: layouts and tables are made while others make theirs."""
    n_jobs, dtype = int(rng.integers(1, 5)), some(rng, ("float32", "float64"))
    explainer = glasswood.Explainer(model.forest, dtype=dtype, n_jobs=n_jobs, device="cpu")
    same(explainer.prepare().shap_values(model.X[:50]), model.values[dtype][:50])


def interact(rng, model):
    n = int(rng.integers(1, 40))
    same(model.explainers["float32"].shap_interaction_values(model.X[:n]), model.pairs[:n])


def single_rows(rng, model):
    for at in rng.integers(300, size=20):
        row = np.ascontiguousarray(model.X[at])
        same(model.predictor(row), model.margins[at])
        same(model.row(row), model.rows[at])


def fail(_, model):
    """Errors leave everything usable."""
    wrong = np.zeros((3, model.forest.n_features + 1), np.float32)
    for call in (model.forest.predict, model.explainers["float32"].shap_values, model.predictor, model.row):
        try:
            call(wrong)
        except ValueError:
            continue
        raise AssertionError("rows of another width were taken")


def grow(rng, _):
    """The same tree for the same seed, whatever runs beside it."""
    seed, n_jobs = int(rng.integers(3)), int(rng.integers(1, 4))
    same(grown(seed, n_jobs), GROWN[seed])


def grown(seed, n_jobs):
    X = np.random.default_rng(seed).normal(size=(200, 3))
    y = np.where(X[:, 0] < 0, X[:, 1], 2 - X[:, 2])
    tree = glasswood.ModelTreeRegressor(generations=3, random_state=seed, n_jobs=n_jobs)
    return tree.fit(X, y).predict(X)


def fork(rng, model):
    """A child of this thread predicts and explains with threads of its own."""
    n_jobs = int(rng.integers(1, 4))
    child = os.fork()
    if child == 0:
        code = 1
        faulthandler.dump_traceback_later(FORK_SECONDS / 2)
        try:
            same(model.forest.predict(model.X, "margin", "by_sample", "cpu", n_jobs), model.margins)
            same(model.explainers["float32"].shap_values(model.X), model.values["float32"])
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + FORK_SECONDS
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("a forked process hangs")
        time.sleep(0.005)
    assert status[1] == 0, f"a forked process ended with {status[1]}"


ACTIONS = {
    predict: 8,
    explain: 6,
    explain_anew: 2,
    interact: 2,
    single_rows: 4,
    fail: 2,
    grow: 1,
    fork: 1,
}
GROWN = {}


class Stress:
    """Threads until the time is up or one of them fails."""

    def __init__(self, given):
        self.given = given
        self.models = make_models()
        for seed in range(3):
            GROWN[seed] = grown(seed, 1)
        self.end = time.monotonic() + given.seconds
        self.counts, self.failures, self.lock = collections.Counter(), [], threading.Lock()

    def run(self):
        """Workers, and interrupts of the main thread's own calls."""
        workers = [threading.Thread(target=self.work, args=(n,), daemon=True) for n in range(self.given.threads)]
        if not self.given.no_forks and self.given.seconds > BRIEFLY:
            workers.append(threading.Thread(target=self.leave, daemon=True))
        for worker in workers:
            worker.start()
        self.interrupt()
        for worker in workers:
            worker.join(2 * FORK_SECONDS)
            if worker.is_alive():
                faulthandler.dump_traceback()
                self.failures.append("a thread hangs")

    def is_over(self):
        return time.monotonic() > self.end or self.failures

    def work(self, thread):
        """One thread's actions, which depend on seed and thread alone."""
        rng = np.random.default_rng([self.given.seed, thread])
        actions = [action for action in ACTIONS if not (action is fork and self.given.no_forks)]
        shares = np.array([ACTIONS[action] for action in actions], float)
        while not self.is_over():
            action = actions[int(rng.choice(len(actions), p=shares / shares.sum()))]
            self.attempt(action, rng, some(rng, self.models))

    def leave(self):
        """Processes that end in the middle, one after the other."""
        rng = np.random.default_rng([self.given.seed, 10**6 + 1])
        while not self.is_over():
            if failure := left(some(rng, [*WORK]), some(rng, [*ENDS]), rng.uniform(0, 0.1)):
                self.failures.append(f"leave: {failure}")
            with self.lock:
                self.counts["processes that ended while threads computed"] += 1

    def attempt(self, action, rng, model):
        """Count an action, and keep what it should not have raised."""
        try:
            action(rng, model)
        except Exception:
            self.failures.append(f"{action.__name__}:\n{traceback.format_exc()}")
        with self.lock:
            self.counts[action.__name__] += 1

    def interrupt(self):
        """Calls of the main thread that a signal ends, most of them midway."""
        rng = np.random.default_rng([self.given.seed, 10**6])
        while not self.is_over():
            model, action = some(rng, self.models), some(rng, (predict_many, explain_many, grow_long))
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.2))
            try:
                action(model)
                self.counts["main: ended by itself"] += 1
                time.sleep(0.25)
            except KeyboardInterrupt:
                self.counts[f"main: interrupted {action.__name__}"] += 1
            except Exception:
                self.failures.append(traceback.format_exc())
            finally:
                stop_timer()


def predict_many(model):
    X = np.repeat(model.X, 300, axis=0)
    same(model.forest.predict(X, "margin", "by_sample", "cpu", 2), np.repeat(model.margins, 300, axis=0))


def explain_many(model):
    X = np.repeat(model.X, 30, axis=0)
    same(model.explainers["float64"].shap_values(X), np.repeat(model.values["float64"], 30, axis=0))


def grow_long(_):
    """Growing notes interrupts of Python's own handler; this one is the stress's, which raises."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    glasswood.ModelTreeRegressor(generations=200, n_jobs=2).fit(X, X[:, 0] * X[:, 1])


def stop_timer():
    """No interrupt after this."""
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return
        except KeyboardInterrupt:
            continue


def raise_interrupt(_number, _frame):
    raise KeyboardInterrupt


def main(arguments=None):
    """Return the exit code: 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="tests.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-forks", action="store_true", help="for the thread sanitizer, which does not follow them")
    given = parser.parse_args(arguments)
    faulthandler.enable()
    signal.signal(signal.SIGALRM, raise_interrupt)
    stress = Stress(given)
    stress.run()
    print(f"seed {given.seed}, {given.seconds:g} s, {given.threads} threads")
    for name, n in sorted(stress.counts.items()):
        print(f"{n:9} {name}")
    for failure in stress.failures:
        print(f"FAILURE {failure}")
    sys.stdout.flush()
    return int(bool(stress.failures))
