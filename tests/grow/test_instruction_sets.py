"""The kernels of every instruction set that this processor runs score trees alike."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from glasswood.grow.data.rows import prepare
from tests.grow import oracle
from tests.grow.engines import piecewise
from tests.instruction_sets import SETS, skip_unless_runs

CASES = [(2, "float64"), (5, "float32"), (9, "float64"), (27, "float32"), (27, "float64")]
SCRIPT = """
import pickle, sys
from glasswood import _core
from tests.grow.engines import engine_of
from tests.grow.test_instruction_sets import CASES, make_data
populations = {}
for n_features, storage in CASES:
    engine, _ = engine_of(*make_data(n_features), storage=storage, polish_interval=3)
    engine.initialise([])
    engine.step(6, 1000, 1e-6, 1e9)
    populations[n_features, storage] = engine.population()
with open(sys.argv[1], "wb") as file:
    pickle.dump(populations, file)
print(_core.instruction_set())
"""


def make_data(n_features):
    X, y = piecewise(403, n_features)
    rng = np.random.default_rng(3)
    missing = rng.random(X.shape) < 0.05
    missing[:, 0] &= n_features % 4 != 1  # an attribute without an indicator column makes sums of odd width
    X[missing] = np.nan
    return X, y, rng.uniform(0.1, 3, len(y))


@pytest.fixture(scope="module", params=SETS)
def populations(request, tmp_path_factory):
    """Trees of each case, grown by a process that was told the instruction set."""
    skip_unless_runs(request.param)
    path = tmp_path_factory.mktemp("trees") / "populations"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(path)],
        env={**os.environ, "GLASSWOOD_ISA": request.param},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == (request.param + "\n", "")
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize(("n_features", "storage"), CASES)
def test_every_instruction_set_scores_alike(populations, n_features, storage):
    X, y, weight = make_data(n_features)
    trees = populations[n_features, storage]
    assert max(len(tree["feature"]) for tree in trees) > 5
    rows = prepare(X, y, weight, np.ones(n_features, bool), 1, storage)
    for tree in trees:
        assert tree["error"] == pytest.approx(oracle.stored_error(tree, X, rows), rel=1e-9)
        if storage == "float64":
            assert tree["error"] == pytest.approx(oracle.tree_error(tree, X, y, weight), rel=1e-9)
