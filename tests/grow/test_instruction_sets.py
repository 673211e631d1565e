"""The kernels of every instruction set that this processor runs score trees alike."""

import os
import subprocess
import sys

import numpy as np
import pytest

from silva import _core
from silva.grow.data import STORAGES, prepare
from tests.grow import oracle
from tests.grow.engines import piecewise

SETS = ("v4", "v3", "v2", "scalar")
SCRIPT = """
import sys
import numpy as np
from silva import _core
from tests.grow.engines import engine_of
data = np.load(sys.argv[1])
engine, _ = engine_of(data["X"], data["y"], data["weight"], storage=sys.argv[3], polish_interval=3)
engine.initialise([])
engine.step(6, 1000, 1e-6, 1e9)
np.save(sys.argv[2], np.array(engine.population(), object), allow_pickle=True)
print(_core.instruction_set())
"""


@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_features", [2, 5, 9, 27])
def test_every_instruction_set_scores_alike(instructions, n_features, storage, tmp_path):
    if instructions != "scalar" and _core.instruction_set() not in SETS[: SETS.index(instructions) + 1]:
        pytest.skip(f"this processor does not run x86-64-{instructions}")
    X, y = piecewise(403, n_features)
    rng = np.random.default_rng(3)
    missing = rng.random(X.shape) < 0.05
    missing[:, 0] &= n_features % 4 != 1  # an attribute without an indicator column makes sums of odd width
    X[missing] = np.nan
    weight = rng.uniform(0.1, 3, len(y))
    np.savez(tmp_path / "data.npz", X=X, y=y, weight=weight)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path / "data.npz"), str(tmp_path / "trees.npy"), storage],
        env={**os.environ, "SILVA_ISA": instructions},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == (instructions + "\n", "")
    trees = np.load(tmp_path / "trees.npy", allow_pickle=True)
    assert max(len(tree["feature"]) for tree in trees) > 5
    rows = prepare(X, y, weight, np.ones(n_features, bool), 1, storage)
    for tree in trees:
        assert tree["error"] == pytest.approx(oracle.stored_error(tree, X, rows), rel=1e-9)
        if storage == "float64":
            assert tree["error"] == pytest.approx(oracle.tree_error(tree, X, y, weight), rel=1e-9)
