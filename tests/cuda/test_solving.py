"""The kernels of a sweep whose sums stay on the GPU, beside the arithmetic of the cores: the same bits."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.cuda.emulator import load_driver
from tests.native import load_library

FUSES = "fma" in (Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else "")
N_PARTS = 6
MANY_PARTS = 35
"""Beyond the ends of a grid."""


@pytest.fixture(scope="module")
def library():
    flags = ["-O3"]
    if FUSES:  # as CMake has it done: with -O2 GCC 12 takes some products and sums apart
        flags += ["-mavx", "-mfma", "-ffp-contract=fast"]
    load_driver()
    found = load_library(Path(__file__).with_name("solve_host.cpp"), *flags)
    found.residual_of.restype = ctypes.c_double
    return found


def address(array):
    return ctypes.c_void_p(array.ctypes.data)


def records(width, seed, n_parts=N_PARTS):
    """Count and packed sums of rows of standardised columns, some of them constant or made of others, part by part."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n_parts):
        z = rng.standard_normal((rng.integers(3, 60), width))
        z[:, 0] = 1
        if width > 5:
            z[:, 3] = 0.25
            z[:, 5] = z[:, 1] - 2 * z[:, 2] + 1e-7 * rng.standard_normal(len(z))
        gram = z.T @ z
        found.append(np.concatenate([[len(z)], gram[np.triu_indices(width)]]))
    return np.array(found)


def running_sums(parts, base):
    total, sums = np.zeros(parts.shape[1]) if base is None else base.copy(), []
    for part in parts:
        total = total + part
        sums.append(total)
    return sums


@pytest.mark.parametrize("width", [2, 4, 5, 8, 9, 10, 33, 61, 92, 124])
@pytest.mark.parametrize("from_the_right", [False, True])
@pytest.mark.parametrize("n_parts", [N_PARTS, 9, MANY_PARTS])
def test_errors_at_cuts(library, width, from_the_right, n_parts):
    """Of all columns and of some, with and without sums before the first part."""
    rng = np.random.default_rng(width)
    parts = records(width, width, n_parts)
    base = None if from_the_right else records(width, 0)[0]
    order = parts[::-1] if from_the_right else parts
    step = parts.shape[1] * (-1 if from_the_right else 1)
    first = parts[-1 if from_the_right else 0]
    some = np.flatnonzero(np.append(True, rng.random(max(width - 2, 0)) < 0.5))
    work = np.empty((width + 1) * (width + 3))
    n_cuts = n_parts - 1
    before = np.full((2, n_cuts // 8, parts.shape[1]), np.nan)
    for columns in (np.arange(width - 1), some):
        columns = np.ascontiguousarray(columns, np.int32)
        answers = np.full((2, n_cuts, 2), np.nan)
        sums = running_sums(order, base)[:n_cuts]
        least = int(sums[1][0])
        library.solve_candidates(
            None if base is None else address(base), address(first), ctypes.c_int64(step), n_cuts, address(columns),
            len(columns), width, least, 2, address(before), address(answers),
        )  # fmt: skip
        for answer in answers:
            np.testing.assert_array_equal(answer[:, 0], [record[0] for record in sums])
            assert np.isnan(answer[0, 1])
            grams = [record[1:].copy() for record in sums[1:]]
            expected = [
                library.residual_of(address(gram), width, address(columns), len(columns), address(work))
                for gram in grams
            ]
            if FUSES:
                np.testing.assert_array_equal(answer[1:, 1], expected)
            else:
                np.testing.assert_allclose(answer[1:, 1], expected, rtol=1e-9, atol=1e-9 * sums[-1][-1])


@pytest.mark.parametrize("n_parts", [1, 2, N_PARTS])
@pytest.mark.parametrize("is_first", [False, True])
def test_parts_that_a_sweep_leaves_behind(library, n_parts, is_first):
    """From the right too; more entries than the blocks have threads."""
    parts = records(92, 1)
    for step in (1, -1):
        before = records(92, 2)[0]
        expected = running_sums(parts[::step][:n_parts], None if is_first else before)[-1]
        first = parts[0 if step > 0 else -1]
        library.advance_sums(
            None if is_first else address(before), address(before), address(first),
            ctypes.c_int64(step * parts.shape[1]), parts.shape[1], n_parts,
        )  # fmt: skip
        np.testing.assert_array_equal(before, expected)
