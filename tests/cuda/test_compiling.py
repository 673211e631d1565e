"""Every kernel compiles by NVRTC without a GPU, through the function that users run; hot kernels keep promises."""

from __future__ import annotations

import numpy as np
import pytest

from glasswood.cuda.compiler import ARCHITECTURES, compile_kernel, measure_kernel, variant
from glasswood.evaluate.cuda.evaluator import linear_variant
from glasswood.evaluate.cuda.few_rows import few_variant
from glasswood.evaluate.cuda.node_walks import evaluate_variant, sets_variant
from glasswood.evaluate.cuda.responding import respond_variant
from glasswood.evaluate.cuda.tiles import tiles_variant
from glasswood.explain.cuda.coalitions import (
    differing_variant,
    masks_variant,
    pairs_variant,
    players_variant,
    sum_variant,
)
from glasswood.explain.cuda.leaf_games import background_variant, count_variant, shares_variant
from glasswood.explain.cuda.leaf_tapes import LeafTape
from glasswood.explain.cuda.patterns import collect_variant, patterns_variant
from glasswood.explain.cuda.quadrature import leaves_variant, small_variant, walk_variant
from glasswood.explain.cuda.responses import weigh_variant
from glasswood.explain.cuda.strongest import add_variant as add_magnitudes
from glasswood.explain.cuda.strongest import select_variant, take_variant
from glasswood.explain.cuda.table_launches import (
    FEW_QUADS,
    MOST_QUADS,
    NARROW_THREADS,
    PAIR_THREADS,
    POINT_THREADS,
    WIDE_THREADS,
    add_variant,
    pair_variant,
    points_variant,
)
from glasswood.explain.cuda.tables import build_variant, keys_variant
from glasswood.explain.cuda.tapes import Tape
from glasswood.grow.cuda.rows import kernels
from glasswood.neighbors.cuda import nearest_variant
from glasswood.reference.paths import paths_variant
from glasswood.reference.qr import qr_kernels
from glasswood.reference.speculative import nodes_variant, windows_variant

core = pytest.importorskip("cuda.core", reason="cuda-core is not installed: pip install glasswood[cuda13]")

EMPTY = np.zeros(0, np.int64)


def tape(points, levels=8, tracks=8):
    return Tape(points, EMPTY.astype(np.int32), EMPTY, EMPTY, EMPTY, levels, tracks, 8, 100)


def walk(points, dtype="float32", code="uint16", pairs=False, shared=True, **shape):
    return walk_variant(tape(points, **shape), dtype, np.dtype(code), pairs=pairs, shared=shared)


def leaves(points, dtype="float32", row="float64", pairs=False, shared=True, most_tested=8):
    tape = LeafTape(points, {}, EMPTY, EMPTY, 8, most_tested)
    return leaves_variant(tape, dtype, np.dtype("uint16"), row, pairs=pairs, shared=shared)


def encode(row, value, code, n_columns=32, at_once=1):
    types = {"INPUT": np.dtype(row), "ROW": np.dtype(value), "CODE": np.dtype(code)}
    return variant("common/cuda/encode_rows", **types, COLUMNS=n_columns, AT_ONCE=at_once)


def small(points, row="float32", value="float32", code="uint16", dtype="float32"):
    return small_variant(tape(points, levels=4), dtype, value, code, row)


SMALL = [
    *(variant("evaluate/cuda/sum_leaves", RESULT=real) for real in ("float", "double")),
    *(variant("evaluate/cuda/sum_values", LEAF=leaf, RESULT="float") for leaf in ("float", "double")),
    *(linear_variant(row, "float64") for row in ("float32", "float64")),
    *(
        respond_variant(link, real)
        for link in ("LOGISTIC", "SOFTMAX", "EXP", "BOTH")
        for real in ("float32", "float64")
    ),
    *(
        variant(source, REAL=real)
        for source in ("explain/cuda/close_diagonal", "reference/explain/cuda/read_sums")
        for real in ("float", "double")
    ),
    *(variant("explain/cuda/sum_slots", REAL=real, TILE=rows) for real, rows in (("float", 128), ("double", 64))),
    *(variant("explain/cuda/sum_slots", REAL=real, TILE=32) for real in ("float", "double")),
    *(evaluate_variant(np.dtype(code)) for code in ("uint8", "uint16", "uint32")),
    *(sets_variant(row, value, "uint16") for row, value in (("float32", "float32"), ("float32", "float64"))),
    *(nodes_variant(np.dtype("uint8"), splits, 2)[0] for splits in (1, 15, 255)),
    *(windows_variant(np.dtype("uint16"), levels) for levels in (1, 5)),
    *(encode(row, value, "uint16") for row in ("float32", "float64") for value in ("float32", "float64")),
    encode("float32", "float32", "uint32"),
    encode("float32", "float32", "uint8"),
    encode("float64", "float64", "uint8", 8),
    nearest_variant(),
    small(2),
    small(8, "float64", "float64", "uint32", "float64"),
]
EVALUATE = [
    tiles_variant("narrow_heap", "float32", "float32", 256, "SUMS", depth=8),
    tiles_variant("narrow", "float32", "float32", 256, "SUMS"),
    tiles_variant("narrow", "float32", "float32", 256, "PARTIAL"),
    tiles_variant("narrow", "float32", "float32", 384, "PARTIAL", 12),
    tiles_variant("narrow", "float32", "float32", 768, "PARTIAL", 4),
    tiles_variant("wide", "float32", "float32", 768, "PARTIAL", 6),
    tiles_variant("narrow", "float32", None, 64, "VALUES"),
    tiles_variant("wide_heap", "int32", None, 256, "VALUES", depth=3),
    tiles_variant("wide", "float64", "float64", 128, "SUMS"),
    few_variant("narrow_heap", "float32", "float32", "float32", "float32", 8),
    few_variant("narrow", "float32", "float32", "float32", "float32"),
    few_variant("wide_heap", "float64", "float64", "float64", "float64"),
    few_variant("wide", "float32", "float64", "float32", "float32"),
]
IN_FLOATS = [kernels(4, 4)["sum_rows"], *(qr_kernels("float")[name] for name in ("average_columns", "reorganise"))]
RANKS = [variant(f"grow/cuda/kernels/{name}") for name in ("key_values", "mark_distinct", "write_ranks")]
GROW = [*kernels(4).values(), *qr_kernels().values(), *IN_FLOATS, *RANKS]
SUMS_OF_ROWS = [kernels(stride, size)["sum_rows"] for stride in (4, 8, 16, 24, 56, 96, 128) for size in (8, 4)]
ADD = [
    add_variant(dtype, is_narrow, True, threads)
    for dtype in ("float32", "float64")
    for is_narrow, threads in ((True, NARROW_THREADS[0]), *((False, threads) for threads in WIDE_THREADS[:3]))
] + [
    pair_variant(dtype, n_quads, quads // n_quads, True, PAIR_THREADS[0])
    for dtype, n_quads in (("float32", 1), ("float32", 2), ("float64", 2), ("float64", 4))
    for quads in (MOST_QUADS, FEW_QUADS)
]
TABLES = [
    *(keys_variant(is_packed) for is_packed in (False, True)),
    *(build_variant(dtype, points) for dtype in ("float32", "float64") for points in (2, 4, 8)),
    *(build_variant(dtype, 6) for dtype in ("float32", "float64")),
    *(add_variant(dtype, is_narrow, False, 64) for dtype in ("float32", "float64") for is_narrow in (False, True)),
    *(make(dtype) for dtype in ("float32", "float64") for make in (select_variant, add_magnitudes, take_variant)),
    *(weigh_variant(dtype, is_loss) for dtype in ("float32", "float64") for is_loss in (False, True)),
    *(count_variant(is_weighted, fits) for is_weighted in (False, True) for fits in (False, True)),
    pair_variant("float32", 1, 16, False, 64),
    *(
        points_variant(dtype, n_points, True, threads)
        for dtype in ("float32", "float64")
        for n_points in (4, 6, 8)
        for threads in POINT_THREADS
    ),
    points_variant("float32", 8, False, 64),
    *(
        make(dtype, of_pairs)
        for make in (background_variant, shares_variant)
        for dtype in ("float32", "float64")
        for of_pairs in (False, True)
    ),
]
MASKS = ("uint8", "uint16", "uint32")
COALITIONS = [
    pairs_variant("float32", "uint8", 32, 1, False, False),
    players_variant("uint16"),
    pairs_variant("float32", "uint64", 128, 1, True, False, is_wide=True),
    *(masks_variant(mask, "uint16") for mask in MASKS),
    *(differing_variant(mask) for mask in MASKS),
    *(sum_variant(dtype) for dtype in ("float32", "float64")),
    *(
        pairs_variant("float32", "uint16", team, response, has_sets, False)
        for team in (32, 128, 512)
        for response in (1, 2, 4)
        for has_sets in (False, True)
    ),
    *(pairs_variant("float64", "uint32", 512, response, response == 5, True) for response in (3, 5)),
    *(pairs_variant("float64", "uint16", team, team % 3, False, team == 512, True) for team in (32, 128, 512)),
    masks_variant("uint64", "uint16"),
    *(players_variant(mask) for mask in ("uint8", "uint32", "uint64")),
    *(
        pairs_variant(dtype, mask, team, 2, has_sets, team == 512, is_direct=not has_sets, is_wide=True)
        for dtype in ("float32", "float64")
        for mask, team in (("uint8", 32), ("uint16", 128), ("uint64", 512))
        for has_sets in (False, True)
    ),
    *(pairs_variant("float32", mask, 32, 1, False, False, is_wide=True) for mask in ("uint8", "uint64")),
    pairs_variant("float32", "uint8", 32, 2, False, True, is_direct=True),
]
HOT_PATTERNS = [patterns_variant(1, "uint16", pairs=pairs, shared=True) for pairs in (False, True)]
PATTERNS = [
    *HOT_PATTERNS,
    *(collect_variant(words, "uint16", 1024, writes=writes) for words in (1, 2) for writes in (False, True)),
    collect_variant(16, "uint32", 128, writes=True),
    *(patterns_variant(words, "uint32", pairs=pairs, shared=False) for words in (2, 4, 16) for pairs in (False, True)),
]
LEAVES = [
    leaves(4),
    leaves(2, row="float32"),
    leaves(8, pairs=True),
    leaves(8, "float64", shared=False),
    leaves(8, "float64", pairs=True, most_tested=40),
]
HOT = [walk(points) for points in (2, 3, 4, 8)]
WALKS = [
    *(walk(points) for points in (5, 6, 7)),
    walk(4, "float64"),
    walk(8, "float64", levels=200, tracks=190),
    walk(4, code="uint32", shared=False),
    walk(4, pairs=True),
    walk(8, "float64", pairs=True),
    *(paths_variant(dtype, np.uint16, pairs=pairs) for dtype in ("float32", "float64") for pairs in (False, True)),
]


def name(kernel):
    return "-".join([kernel.source, *(value.replace(" ", "_") for _, value in kernel.macros)])


@pytest.mark.parametrize(
    "kernel",
    [*SMALL, *GROW, *EVALUATE[:1], *HOT[:1], *LEAVES[:1], *ADD[:2], *TABLES[:3], *COALITIONS[:3], *PATTERNS[:3]],
    ids=name,
)
def test_compiles_for_the_newest_and_the_oldest(kernel):
    for architecture in (ARCHITECTURES[0], ARCHITECTURES[-1]):
        assert measure_kernel(kernel, architecture).registers > 0


@pytest.mark.parametrize("kernel", [SMALL[0], GROW[0], small(2)], ids=name)
def test_what_users_run_compiles_once_and_keeps_the_result(monkeypatch, tmp_path, kernel):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = compile_kernel(kernel, 90)
    assert kernel.kernel.encode() in compiled
    monkeypatch.setattr(core, "Program", None)
    assert compile_kernel(kernel, 90) == compiled


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "kernel", [*SMALL, *GROW, *EVALUATE, *HOT, *WALKS, *LEAVES, *ADD, *TABLES, *COALITIONS, *PATTERNS], ids=name
)
def test_compiles_for_every_architecture(kernel, architecture):
    assert measure_kernel(kernel, architecture).spilled < 512


# Frames of levels above the registers' lie in local memory on purpose: (K + 2) * 4 bytes each, 8 levels.
@pytest.mark.parametrize(("points", "registers"), [(2, 64), (4, 64), (8, 102)])
def test_hot_walks_keep_to_their_registers(points, registers):
    found = measure_kernel(walk(points), 90)
    assert found.registers <= registers
    assert found.spilled == 0
    assert found.stack == 8 * (points + 2) * 4


@pytest.mark.parametrize("kernel", EVALUATE, ids=name)
def test_evaluation_stays_in_registers(kernel):
    found = measure_kernel(kernel, 90)
    assert found.registers <= (64 if kernel.source == "evaluate/cuda/walk_few" else 80)
    assert found.stack == found.spilled == 0


@pytest.mark.parametrize("kernel", [small(2), small(4), small(2, "float64", "float64", "uint32", "float64")], ids=name)
def test_small_forests_stay_in_registers(kernel):
    found = measure_kernel(kernel, 90)
    assert found.registers <= 80
    assert found.stack == found.spilled == 0


@pytest.mark.parametrize("kernel", ADD, ids=name)
def test_sums_of_tables_stay_in_registers(kernel):
    found = measure_kernel(kernel, 90)
    threads = int(dict(kernel.macros)["THREADS"])
    assert found.registers * threads * (2 if threads <= 256 else 1) <= 1 << 16
    assert found.stack == found.spilled == 0


@pytest.mark.parametrize("kernel", HOT_PATTERNS, ids=name)
def test_patterns_stay_in_registers(kernel):
    """Of which seven blocks, five of interactions, share those of a multiprocessor."""
    found = measure_kernel(kernel, 90)
    assert found.registers <= (96 if dict(kernel.macros)["PAIRS"] == "1" else 72)
    assert found.stack == found.spilled == 0


@pytest.mark.parametrize("pairs", [False, True])
def test_the_warp_kernel_needs_no_stack(pairs):
    found = measure_kernel(paths_variant("float32", np.uint16, pairs=pairs), 90)
    assert found.registers <= (80 if pairs else 64)
    assert found.stack == found.spilled == 0


@pytest.mark.parametrize("shape", [(32, 2), (32, 1), (8, 2), (8, 1)])
@pytest.mark.parametrize("code", ["uint8", "uint16"])
def test_two_blocks_of_the_encoder_share_a_multiprocessor(code, shape):
    found = measure_kernel(encode("float32", "float32", code, *shape), 90)
    assert found.registers <= 64
    assert found.stack == found.spilled == 0


def test_solving_stays_in_registers():
    """Of as many threads as the largest matrix has tiles."""
    found = measure_kernel(kernels(4)["solve_candidates"], 90)
    assert 512 * found.registers <= 1 << 16
    assert found.stack == found.spilled == 0


# From capability 8.0 on the sums of 8 x 8 tiles are tensor core operations; below they are emulated by shuffles.
@pytest.mark.parametrize("kernel", SUMS_OF_ROWS, ids=name)
def test_sums_of_rows_stay_in_registers(kernel):
    """Of which two blocks share those of a multiprocessor."""
    found = measure_kernel(kernel, 90)
    threads = 256 if dict(kernel.macros)["STRIDE"] == "4" else 128
    assert 2 * threads * found.registers <= 1 << 16
    assert found.stack == found.spilled == 0
