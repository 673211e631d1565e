"""Numbers that Python and the kernels must agree on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import glasswood
from glasswood.cuda import encoder
from glasswood.evaluate.cuda import few_rows
from glasswood.explain.cuda import leaf_games, patterns, quadrature, responses, table_launches, tables

NATIVE = Path(glasswood.__file__).parent / "native"


@pytest.mark.parametrize(
    ("module", "ours", "source", "theirs"),
    [
        (encoder, "LANE_ROWS", "common/cuda/encode_rows.cu", "LANE_ROWS"),
        (encoder, "THREADS", "common/cuda/encode_rows.cu", "N_THREADS"),
        (encoder, "MOST_STEPS", "common/cuda/encode.cuh", "MOST_STEPS"),
        (few_rows, "SUMMED_TREES", "evaluate/cuda/walk_few.cu", "SUMMED_TREES"),
        (few_rows, "MOST_THREADS", "evaluate/cuda/walk_few.cu", "MOST_THREADS"),
        (quadrature, "WARP", "explain/cuda/explain_small.cu", "WARP"),
        (tables, "KEY_THREADS", "explain/cuda/tables/find_keys.cu", "THREADS"),
        (tables, "KEY_ROWS", "explain/cuda/tables/find_keys.cu", "ROWS"),
        (leaf_games, "COUNT_THREADS", "explain/cuda/tables/count_states.cu", "THREADS"),
        (leaf_games, "COUNT_ROWS", "explain/cuda/tables/count_states.cu", "ROWS"),
        (leaf_games, "MOST_POINTS", "explain/cuda/tables/leaf_games.cuh", "MOST_POINTS"),
        (tables, "BUILD_THREADS", "explain/cuda/tables/leaf_games.cuh", "THREADS"),
        (tables, "BUILD_THREADS", "explain/cuda/tables/build_tables.cu", "THREADS"),
        (responses, "THREADS", "explain/cuda/weigh_parts.cu", "THREADS"),
        (responses, "MOST_PARTS", "explain/cuda/weigh_parts.cu", "MOST_PARTS"),
        (table_launches, "PAIR_GROUP", "explain/cuda/tables/add_pairs.cu", "GROUP"),
        (patterns, "WARPS", "explain/cuda/explain_patterns.cu", "WARPS"),
        (patterns, "WARP", "explain/cuda/explain_patterns.cu", "WARP"),
        (patterns, "COLLECT_THREADS", "explain/cuda/collect_patterns.cu", "THREADS"),
        (quadrature, "MOST_WARPS", "explain/cuda/explain_small.cu", "MOST_WARPS"),
    ],
)
def test_the_kernels_have_the_same_number(module, ours, source, theirs):
    (number,) = re.findall(rf"^constexpr int .*?\b{theirs} = (\d+)\b", (NATIVE / source).read_text(), re.MULTILINE)
    assert getattr(module, ours) == int(number)
