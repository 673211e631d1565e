"""Sums of chunks to results and the diagonal of interactions, beside NumPy."""

from __future__ import annotations

import types

import numpy as np
import pytest

from glasswood.base.device import import_cupy
from glasswood.explain.cuda.job import diagonal_launch, padded_rows
from glasswood.explain.cuda.quadrature import MOST_ENTRIES, TILE_SLOTS, lay_out_sum, sum_tiles

pytestmark = pytest.mark.usefixtures("gpu")
N_SLOTS = [0, 1, 7, 8, 9, 31, 32, 33, 70, 255, 256, 300, 0, 2]
"""Accumulators of entries: added up by a group of lanes, by a warp, by a block."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 45, 300])
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("many", [2**14, 0])
def test_entries_are_the_sums_of_their_accumulators(limits, dtype, n_rows, copies, many):
    limits(many_slots=many)
    rng = np.random.default_rng(0)
    n_of = np.tile(N_SLOTS, copies)
    n_entries, starts = len(n_of), np.concatenate([[0], np.cumsum(n_of)])
    slots = rng.permutation(starts[-1])
    target = rng.permutation(2 * n_entries)
    mirror = np.where(np.arange(n_entries) % 3 == 0, target[n_entries:], -1)
    target = target[:n_entries]
    partial = np.full((starts[-1], padded_rows(n_rows)), np.nan, dtype)
    partial[:, :n_rows] = rng.normal(size=(starts[-1], n_rows))
    cupy = import_cupy()
    arrays = {"slot_starts": starts, "slots": slots, "target": target, "mirror": mirror}
    sums = types.SimpleNamespace(**{name: cupy.asarray(array.astype(np.int64)) for name, array in arrays.items()})
    sums.host_starts = starts
    result = cupy.zeros((n_rows, 2 * n_entries), dtype)
    launch = lay_out_sum(sums, dtype, n_rows, (2 * n_entries,), len(slots))
    on_gpu = cupy.asarray(partial)
    launch.cell("partial")[0], launch.cell("result")[0] = on_gpu.data.ptr, result.data.ptr
    launch(cupy.cuda.get_current_stream().ptr)
    parts = np.split(slots, starts[1:-1])
    entries = [partial[part, :n_rows].sum(0, dtype=np.float64) for part in parts]
    expected = np.zeros((n_rows, 2 * n_entries))
    expected[:, target] = np.transpose(entries)
    expected[:, mirror[mirror >= 0]] = np.transpose(entries)[:, mirror >= 0]
    np.testing.assert_allclose(cupy.asnumpy(result), expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 7, 16, 17, 32, 33, 70])
@pytest.mark.parametrize("n_features", [2, 40])
def test_the_diagonal_is_what_the_others_leave_of_a_value(n_outputs, n_features):
    rng = np.random.default_rng(1)
    chosen = np.array([n_features - 1, 0])
    matrices = rng.normal(size=(5, 2, n_features, n_outputs))
    cupy = import_cupy()
    result, address = cupy.asarray(matrices), np.zeros(1, np.uint64)
    address[0] = result.data.ptr
    features = cupy.asarray(chosen.astype(np.int32))
    launch = diagonal_launch(result.dtype, 5, matrices.shape[1:], features, address)
    launch(cupy.cuda.get_current_stream().ptr)
    expected = matrices.copy()
    for line, feature in enumerate(chosen):
        expected[:, line, feature] = 2 * matrices[:, line, feature] - matrices[:, line].sum(1)
    np.testing.assert_allclose(cupy.asnumpy(result), expected, rtol=0, atol=1e-12)


def test_tiles_hold_all_entries_and_no_more_accumulators_than_are_worth_a_block():
    rng = np.random.default_rng(2)
    n_of = np.where(rng.random(5000) < 0.02, rng.integers(1, 2000, 5000), rng.integers(0, 9, 5000))
    slot_starts = np.concatenate([[0], np.cumsum(n_of)])
    starts = sum_tiles(slot_starts, MOST_ENTRIES)
    sizes, n_slots = np.diff(starts), np.diff(slot_starts[starts])
    assert (starts[0], starts[-1], sizes.max()) == (0, 5000, MOST_ENTRIES)
    assert sizes.min() >= 1
    assert (n_slots[sizes > 1] <= TILE_SLOTS).all()
    assert len(starts) < 300
