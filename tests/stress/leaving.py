"""Processes that end while daemon threads of theirs compute.

Growing is not among the work: numpy.unique (NumPy 2.3 and later) itself aborts such a process, up to Python 3.13.
"""

from __future__ import annotations

import subprocess
import sys

WORK = {
    "predict": "forest.predict(X, device='cpu')",
    "explain": "explainer.shap_values(X)",
    "interactions": "explainer.shap_interaction_values(X[:50])",
    "neighbours": "neighbors.kneighbors(X)",
}

ENDS = {
    "the end of the program": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an error": ("raise ValueError('by itself')", 1),
}
"""How a process ends, and its exit code."""

PROGRAM = """
import sys, threading, time
import numpy as np
import glasswood
from tests.strategies import full_forest
forest = full_forest(0, 100, 8, 8)
X = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
explainer = glasswood.Explainer(forest, device="cpu", n_jobs=2)
explainer.shap_values(X[:10])
neighbors = glasswood.Neighbors(forest, X[:500], check=False, n_jobs=2)
calls = []
def work():
    while True:
        {work}
        calls.append(1)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
while len(calls) < 2:
    time.sleep(0.01)
time.sleep({pause})
{end}
"""


def left(work: str, end: str, pause: float) -> str | None:
    """Run a process that ends by itself some seconds after its threads have begun; None if it does so as it should."""
    code = PROGRAM.format(work=WORK[work], end=ENDS[end][0], pause=pause)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    words = found.stderr.strip().splitlines()[-1:]
    if found.returncode == ENDS[end][1] and words == (["ValueError: by itself"] if end == "an error" else []):
        return None
    return f"{work}, {end} after {pause:.3f} s: exit code {found.returncode}\n{found.stderr[-2000:]}"
