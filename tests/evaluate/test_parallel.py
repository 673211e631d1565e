"""Threads and processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORK = """
import os, signal
import numpy as np
from silva import Explainer
from tests.strategies import full_forest
forest, X = full_forest(0, 20, 5, 10), np.random.default_rng(0).normal(size=(500, 10))
explainer = Explainer(forest, n_jobs=2)
def results():
    return forest.predict(X, output="margin", n_jobs=2), explainer.shap_values(X)
before = results()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(not all(map(np.array_equal, results(), before)))
status = os.waitpid(child, 0)[1]
assert all(map(np.array_equal, results(), before))
print("status", status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_forked_process_does_not_wait_for_the_threads_of_its_parent():
    # Python 3.12 warns of forks beside threads: what this is about.
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (run.stdout, run.stderr) == ("status 0\n", "")
