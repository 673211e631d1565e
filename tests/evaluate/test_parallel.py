"""Threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from glasswood import Explainer
from tests.strategies import full_forest

FORK = """
import os, signal
import numpy as np
from glasswood import Explainer
from tests.strategies import full_forest
forest, X = full_forest(0, 20, 5, 10), np.random.default_rng(0).normal(size=(500, 10))
explainer = Explainer(forest, n_jobs=2)
def results():
    return forest.predict(X, output="margin", n_jobs=2), explainer.shap_values(X)
before = results()
child = os.fork()
if child == 0:
    signal.alarm(20)
    same = all(map(np.array_equal, results(), before))
    os._exit(not same or os.path.exists("/proc/self/task") and len(os.listdir("/proc/self/task")) < 2)
status = os.waitpid(child, 0)[1]
assert all(map(np.array_equal, results(), before))
print("status", status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_forked_process_starts_threads_of_its_own():
    # Python 3.12 warns of forks beside threads: what this is about.
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (run.stdout, run.stderr) == ("status 0\n", "")


def test_calls_of_several_threads_at_a_time_give_the_results_of_one():
    forest = full_forest(0, 60, 6, 10)
    X = np.random.default_rng(0).normal(size=(5000, 10))

    def call(n_jobs):
        explainer = Explainer(forest, device="cpu", n_jobs=n_jobs)
        margins = forest.predict(X, output="margin", device="cpu", n_jobs=n_jobs)
        return margins, explainer.shap_values(X[:200])

    expected = call(1)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(call, [2, 3, 2, 17, 3, 1, 2, 9] * 3):
            for values, wanted in zip(found, expected, strict=True):
                np.testing.assert_array_equal(values, wanted)


@pytest.mark.parametrize(("asked", "expected"), [("3", 3), ("2,4", 2), ("0", None), ("many", None), (None, None)])
def test_threads_of_a_call_that_asks_for_none(asked, expected):
    """OMP_NUM_THREADS as at import, else the cores that the process may use."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if asked is not None:
        environment["OMP_NUM_THREADS"] = asked
    script = "from glasswood.base.parallel import n_threads; print(n_threads(None), n_threads(-1), n_threads(5))"
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    expected = len(os.sched_getaffinity(0)) if expected is None and hasattr(os, "sched_getaffinity") else expected
    assert run.stdout.split() == [str(expected), str(expected), "5"]
