"""Numbers that Python and the kernels must agree on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import silva
from silva.cuda import encoder
from silva.evaluate.cuda import few_rows
from silva.explain.cuda import small_forests
from silva.grow import data
from silva.grow.cuda import paper as cuda_qr
from silva.grow.cuda import parts

NATIVE = Path(silva.__file__).parent / "native"


@pytest.mark.parametrize(
    ("module", "ours", "source", "theirs"),
    [
        (parts, "LARGEST_BLOCK", "grow/cuda/shared/records.h", "kMostRows"),
        (parts, "LIST_TILE", "grow/cuda/shared/records.h", "kListTile"),
        (data, "ZONE", "grow/cuda/shared/records.h", "kZone"),
        (parts, "MOST_SLOTS", "grow/cuda/shared/records.h", "kMostSlots"),
        (parts, "MOST_CUTS", "grow/cuda/shared/cuts.h", "kGrid"),
        (cuda_qr, "TILE_DOUBLES", "grow/paper/householder.h", "kTileDoubles"),
        (cuda_qr, "CHUNK_ROWS", "grow/paper/householder.h", "kChunkRows"),
        (cuda_qr, "KEY_TILE", "grow/paper/records.h", "kKeyTile"),
        (cuda_qr, "N_EVENTS", "grow/paper/gpu.h", "kQrEvents"),
        (data, "LANES", "grow/sums/gram.h", "kLanes"),
        (encoder, "TILE_ROWS", "common/cuda/encode_rows.cu", "TILE_ROWS"),
        (encoder, "THREADS", "common/cuda/encode_rows.cu", "N_THREADS"),
        (encoder, "MOST_STEPS", "common/cuda/encode.cuh", "MOST_STEPS"),
        (few_rows, "SUMMED_TREES", "evaluate/cuda/walk_few.cu", "SUMMED_TREES"),
        (few_rows, "MOST_THREADS", "evaluate/cuda/walk_few.cu", "MOST_THREADS"),
        (small_forests, "WARP", "explain/cuda/explain_small.cu", "WARP"),
        (small_forests, "MOST_WARPS", "explain/cuda/explain_small.cu", "MOST_WARPS"),
    ],
)
def test_the_kernels_have_the_same_number(module, ours, source, theirs):
    (number,) = re.findall(rf"^constexpr int .*?\b{theirs} = (\d+)\b", (NATIVE / source).read_text(), re.MULTILINE)
    assert getattr(module, ours) == int(number)
