"""Numbers that Python and the kernels must agree on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import silva
from silva.cuda import encoder
from silva.evaluate import cuda_few
from silva.explain import cuda_small
from silva.grow import cuda_qr, data, parts

NATIVE = Path(silva.__file__).parent / "native"


@pytest.mark.parametrize(
    ("module", "ours", "source", "theirs"),
    [
        (parts, "LARGEST_BLOCK", "grow/route.h", "kMostRows"),
        (parts, "LIST_TILE", "grow/route.h", "kListTile"),
        (data, "ZONE", "grow/route.h", "kZone"),
        (parts, "MOST_SLOTS", "grow/route.h", "kMostSlots"),
        (parts, "MOST_CUTS", "grow/cuts.h", "kGrid"),
        (cuda_qr, "TILE_DOUBLES", "grow/householder.h", "kTileDoubles"),
        (cuda_qr, "CHUNK_ROWS", "grow/householder.h", "kChunkRows"),
        (cuda_qr, "KEY_TILE", "grow/qr_tasks.h", "kKeyTile"),
        (cuda_qr, "N_EVENTS", "grow/gpu_qr.h", "kQrEvents"),
        (data, "LANES", "grow/gram.h", "kLanes"),
        (encoder, "TILE_ROWS", "common/encode_rows.cu", "TILE_ROWS"),
        (encoder, "THREADS", "common/encode_rows.cu", "N_THREADS"),
        (encoder, "MOST_STEPS", "common/columns.h", "MOST_STEPS"),
        (cuda_few, "SUMMED_TREES", "evaluate/few.cu", "SUMMED_TREES"),
        (cuda_few, "MOST_THREADS", "evaluate/few.cu", "MOST_THREADS"),
        (cuda_small, "WARP", "explain/small.cu", "WARP"),
        (cuda_small, "MOST_WARPS", "explain/small.cu", "MOST_WARPS"),
    ],
)
def test_the_kernels_have_the_same_number(module, ours, source, theirs):
    (number,) = re.findall(rf"^constexpr int .*?\b{theirs} = (\d+)\b", (NATIVE / source).read_text(), re.MULTILINE)
    assert getattr(module, ours) == int(number)
