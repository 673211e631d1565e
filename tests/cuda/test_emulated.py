"""Evaluation on an emulated GPU against the oracle: every kernel and every launch, where no GPU is needed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

import silva.evaluate.cuda_few
import silva.evaluate.cuda_tiles
import silva.evaluate.packing
from silva.evaluate.packing import choose_format
from silva.cuda.codes import encode_forest
from tests.cuda.emulator import COMPILER, emulated_gpu
from tests.example_forests import empty_forest, with_linear_leaves
from tests.oracles import evaluate
from tests.strategies import Options, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
ALGORITHMS = ("serial", "by_sample", "by_node", "windowed")
few = settings(max_examples=15)


@pytest.fixture(scope="module")
def cupy(tmp_path_factory):
    with emulated_gpu(tmp_path_factory.mktemp("kernels")) as module:
        yield module


def check(forest, X, algorithm, output="leaf"):
    if output == "leaf":
        expected = evaluate.leaf_ids(forest, X)
    else:
        expected = forest.predict(X, output=output, device="cpu")
    found = forest.predict(X, output=output, algorithm=algorithm, device="cuda")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(example=forests_and_rows(max_rows=20))
@few
def test_leaves_match_the_oracle(cupy, algorithm, example):
    check(*example, algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(example=forests_and_rows(max_rows=20))
@few
def test_margins_match_the_cpu(cupy, algorithm, example):
    check(*example, algorithm, "margin")


@given(example=forests_and_rows(max_rows=20))
@few
def test_margins_of_many_rows_match_the_cpu(cupy, example):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(silva.evaluate.cuda_few, "MOST_ROWS", 0)
        check(*example, "by_sample", "margin")


FORMS = {"narrow": (7, 200), "heap": (5, 2000), "wide": (12, 2000)}
"""Depth and number of thresholds of forests that get each format."""


def forest_of(form, n_trees=9, **fields):
    depth, n_values = FORMS[form]
    options = Options(shape="mixed", n_trees=n_trees, n_features=4, weights="dart", **fields)
    forest = random_forest(3, options) if form == "wide" else full_forest(3, n_trees, depth, 4)
    rng = np.random.default_rng(0)
    pool = np.sort(rng.normal(size=n_values)).astype(forest.threshold.dtype)
    threshold = np.where(forest.feature >= 0, rng.choice(pool, forest.n_nodes), 0)
    if form != "narrow":
        # One feature with more thresholds than 8 bits number.
        threshold = np.where(forest.feature >= 0, rng.normal(size=forest.n_nodes), 0).astype(pool.dtype)
    return dataclasses.replace(forest, threshold=threshold.astype(pool.dtype))


@pytest.mark.parametrize("stage", [256, 4096])
@pytest.mark.parametrize("n_rows", [1, 130, 2100])
@pytest.mark.parametrize("form", FORMS)
def test_formats(cupy, monkeypatch, form, n_rows, stage):
    """Trees that fit a stage and trees that do not; tiles that take all trees and tiles that take a part."""
    forest = forest_of(form)
    monkeypatch.setattr(silva.evaluate.packing, "MOST_CODES", {"narrow": 256 if form == "narrow" else 0, "heap": 2**16, "wide": 2**16})
    monkeypatch.setattr(silva.evaluate.packing, "DEEPEST_HEAP", 10 if form == "heap" else 0)
    monkeypatch.setattr(silva.evaluate.cuda_tiles, "STAGES", (stage,))
    monkeypatch.setattr(silva.evaluate.cuda_few, "MOST_ROWS", 0)
    silva.evaluate.cuda_tiles.tile_shapes.cache_clear()
    assert choose_format(forest, encode_forest(forest)) == form
    X = random_rows(5, forest, n_rows, "float32")
    check(forest, X, "by_sample")
    check(forest, X, "by_sample", "margin")
    silva.evaluate.cuda_tiles.tile_shapes.cache_clear()
