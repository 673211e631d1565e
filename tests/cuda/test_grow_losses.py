"""Boosting, classes and other losses on a GPU: the searches of every step, and what comes of them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

import glasswood
from glasswood.grow.search import growing
from tests.cuda.emulator import driver_functions
from tests.cuda.growing import is_emulated

STEP = {"penalty": 0.1, "max_leaves": 4, "noise": "uniform", "clip": "leaf", "population_size": 4, "generations": 3}


@pytest.fixture(autouse=True)
def placed(monkeypatch, gpu_engine):  # noqa: ARG001
    """Rows that searches put on the GPU, which sums all of them; an emulated one has a driver of its own."""
    place_rows, found = growing.place_rows, []

    def on_the_gpu(*arguments):
        if (gpu := place_rows(*arguments)) is not None:
            gpu.search.cpu_work = 0
            if is_emulated():
                gpu.search.driver = driver_functions()
            found.append(gpu)
        return gpu

    monkeypatch.setattr(growing, "place_rows", on_the_gpu)
    return found


def rows(n_rows=240):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, 3))
    return X, np.where(X[:, 0] < 0.2, 1 + X[:, 1], 2 - X[:, 1]), rng


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_classes(placed, n_classes):
    X, middle, rng = rows()
    classes = np.digitize(middle + 0.1 * rng.standard_normal(len(middle)), np.linspace(0.8, 1.8, n_classes - 1))
    found = []
    for device in ("cuda", "cpu"):
        model = glasswood.ModelTreeEnsembleClassifier(
            glasswood.ModelTreeRegressor(**STEP, device=device),
            n_estimators=1, method="boosting", max_trees=2, max_samples=1, learning_rate=0.5, n_jobs=1,
        ).fit(X, classes)  # fmt: skip
        assert len(model.estimators_) == 2 * (1 if n_classes == 2 else 3)
        proba = model.forest_.predict(X, "probability", device="cpu")
        found.append(-np.log(proba[np.arange(len(X)), classes]).mean())
    assert len(placed) == len(model.estimators_)
    assert found[0] == pytest.approx(found[1], rel=0.05)


@pytest.mark.parametrize("loss", ["poisson", "quantile"])
def test_losses_of_one_tree(placed, loss):
    X, middle, rng = rows()
    y = rng.poisson(np.exp(middle)).astype(float) if loss == "poisson" else middle + 0.3 * rng.standard_normal(len(X))
    trees = [
        glasswood.ModelTreeRegressor(loss=loss, max_leaves=2, generations=3, population_size=4, device=device, n_jobs=1)
        for device in ("cuda", "cpu")
    ]
    on_gpu, on_cores = (tree.fit(X, y).forest_.predict(X, device="cpu") for tree in trees)
    assert len(placed) == 3
    assert trees[0].n_leaves_ == trees[1].n_leaves_ == 2
    np.testing.assert_allclose(on_gpu, on_cores, rtol=0.05, atol=0.02)
