"""How rows are divided among GPUs, and into chunks where they do not fit."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from glasswood import _core
from glasswood.base.device import DeviceError
from glasswood.grow.cuda import parts


def test_the_gpu_with_too_little_memory_is_named():
    with pytest.raises(DeviceError, match=r"cuda:5 has 1,000,000,000 bytes free, growing on 25,000,064 rows"):
        parts.divide_rows(50_000_000, 2, 4, {2: 2**36, 5: 10**9}, None)


def test_rows_in_float32_take_half_of_the_memory():
    doubles, floats = (parts.buffer_sizes(1000, 10, 12, 1000, z_bytes=size) for size in (8, 4))
    assert (doubles.z, floats.z) == (1000 * 16 * 8, 1000 * 16 * 4)
    assert dataclasses.replace(floats, z=doubles.z) == doubles
    free = {0: 5_000_000_000}
    (streamed,), (resident,) = (parts.divide_rows(20_000_000, 10, 12, free, "auto", None, size) for size in (8, 4))
    assert streamed.n_streamed > resident.n_streamed
    assert resident.on_device <= 5_000_000_000


def test_the_message_names_float32_where_it_makes_the_rows_fit():
    sizes = [parts.buffer_sizes(20_000_000, 10, 12, z_bytes=size) for size in (8, 4)]
    doubles, floats = (size.lists + size.stream + size.rows for size in sizes)
    message = r"rows fit: pass fewer rows, storage='float32', chunks='auto' or device='cpu'"
    with pytest.raises(DeviceError, match=message):
        parts.divide_rows(20_000_000, 10, 12, {0: doubles - 1}, None)
    assert parts.divide_rows(20_000_000, 10, 12, {0: doubles - 1}, None, None, 4)[0].n_streamed == 0
    with pytest.raises(DeviceError, match=r"rows fit: pass fewer rows, chunks='auto' or device='cpu'"):
        parts.divide_rows(20_000_000, 10, 12, {0: floats - 1}, None)


def test_gpus_of_different_memory_stream_as_much_as_they_must():
    large, small = parts.divide_rows(50_000_000, 5, 7, {2: 2**36, 5: 3_300_000_000}, "auto")
    assert (large.n_parts, large.n_streamed) == (1, 0)
    assert 0 < small.n_streamed < small.n_parts
    assert small.on_device <= 3_300_000_000
    assert (large.bounds[-1], small.bounds[-1]) == (small.bounds[0], 50_000_000)


@pytest.mark.parametrize(("n_rows", "n_parts"), [(10_000_000, 2), (9_999_999, 3), (200_000, 4), (40_000, 1), (1000, 7)])
def test_large_parts_hold_whole_zones(n_rows, n_parts):
    bounds = parts.even_bounds(0, n_rows, n_parts)
    sizes = np.diff(bounds)
    large = n_rows // n_parts >= parts.MANY_ZONES * _core.GROW_ZONE
    assert bounds[0] == 0
    assert bounds[-1] == n_rows
    assert len(sizes) == n_parts
    assert (sizes > 0).all()
    assert np.ptp(sizes) <= (2 * _core.GROW_ZONE if large else 1)
    assert not large or all(bound % _core.GROW_ZONE == 0 for bound in bounds[:-1])
    (layout,) = parts.divide_rows(n_rows, 2, 4, {0: 2**40}, -(-n_rows // n_parts))
    assert layout.n_parts == n_parts
    assert layout.sizes.ranks == max(sizes) * 2 * 4


def test_more_lists_where_memory_allows():
    (ample,) = parts.divide_rows(50_000_000, 2, 4, {0: 2**36}, "auto")
    (scarce,) = parts.divide_rows(50_000_000, 2, 4, {0: ample.on_device - 1}, "auto")
    assert [layout.sizes.n_lists for layout in (ample, scarce)] == [parts.MOST_LISTS, parts.N_LISTS]
    assert ample.sizes.lists == 4 * scarce.sizes.lists
    assert (scarce.n_parts, scarce.n_streamed) == (1, 0)


@pytest.mark.parametrize("whole_number", [int, np.int64, np.uint16])
def test_chunks_of_any_whole_number_type(whole_number):
    """Also where all rows fit."""
    (layout,) = parts.divide_rows(1000, 2, 4, {0: 2**40}, whole_number(300))
    assert layout.bounds == (0, 250, 500, 750, 1000)


def test_even_chunks_need_memory():
    with pytest.raises(DeviceError, match=r"cuda:0 has 1,000,000 bytes free.*no number of rows fits"):
        parts.divide_rows(1000, 2, 4, {0: 10**6}, "auto")


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match=r"130 columns .* at most 128; use device='cpu'"):
        parts.buffer_sizes(1000, 128, 130)


def test_the_message_counts_the_rows_that_fit():
    with pytest.raises(
        DeviceError, match=r"cuda:3 has .* about ([0-9,]+) rows fit: pass fewer rows, chunks='auto' or device='cpu'"
    ) as caught:
        parts.divide_rows(50_000_000, 2, 4, {3: 2**30}, None)
    fitting = int(re.search(r"about ([0-9,]+) rows", str(caught.value))[1].replace(",", ""))
    (layout,) = parts.divide_rows(fitting, 2, 4, {3: 2**30}, None)
    assert 0.8 * 2**30 < layout.on_device <= 2**30
