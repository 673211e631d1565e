"""Values and interactions against a background by its patterns: what has no tables, leaf by leaf.

The kernels are native/explain/cuda/collect_patterns.cu and explain_patterns.cu.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from glasswood import _core
from glasswood.base.device import import_cupy
from glasswood.base.typing import Doubles, GpuArray, Int64s
from glasswood.cuda.buffers import Buffers, Place
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables, row_strides
from glasswood.cuda.launches import NOWHERE, Plan, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu, gpu_limits
from glasswood.explain.cuda.job import PlannedJob, diagonal_launch, fitting_rows, padded_rows
from glasswood.explain.cuda.quadrature import lay_out_sum
from glasswood.explain.cuda.results import OnGpu, find_targets
from glasswood.explain.cuda.tables import RESERVED_SHARED

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.background import Background
    from glasswood.explain.players import Players
    from glasswood.model.ensemble import TreeEnsemble

NUMBER = np.dtype(np.float64)
"""Of arithmetic and results."""

WARPS, WARP = 4, 32
"""Of a block of native/explain/cuda/explain_patterns.cu."""

COLLECT_THREADS = 128
"""As in native/explain/cuda/collect_patterns.cu."""

FEWEST_LEAVES, MOST_LEAVES = 8, 2048
"""Leaves of a chunk: few enough for many warps where there are few rows, enough to pay for writing its sums."""

CHUNKS, PAIR_CHUNKS = 1000, 500
MOST_PLAYERS, MOST_PAIR_PLAYERS = 64, 32
"""Chunks of a forest, for each output of vector leaves as many fewer, and players of one: pairs have the square of as
many sums."""

SHARED_BYTES = 80 * 1024
"""Sums of a block in shared memory, at most: two blocks fit beside each other."""

FEW_ROWS, MOST_CAPACITY, COLLECT_BYTES = 128, 1024, 40 * 1024
"""Sets that a block sorts, of backgrounds of few rows and of others, and the bytes of shared memory that they may take:
few kernels serve all backgrounds."""

MOST_WORDS = 128
"""Of a set: 4,096 players on a path."""

PATTERN_SHARE = 4
"""Patterns of up to this part of a GPU's memory are kept; more are collected anew for each call, some leaves at a time.
"""

PARTIAL_BYTES, IN_FLIGHT = 2**30, 2**28
"""Sums of chunks for the rows in flight; values of the background rows that become codes together."""

LEAF_WORDS = 4
"""Of a PatternLeaf (native/explain/cuda/pattern_format.h)."""

CODES, SUMS, SETS, SHARES = range(4)
"""Buffers between the launches."""


class Batch(NamedTuple):
    """Chunks whose patterns are on the GPU together, their leaves and the places of their patterns."""

    chunks: range
    leaves: range
    patterns: range


class PatternPlan:
    """The leaves of a forest as the kernels read them; needs no GPU.

    Parameters
    ----------
    forest : TreeEnsemble
        Of constant leaves.
    players : Players
    pairs : bool
        Interactions instead of values.
    n_backgrounds : int
        Whose patterns share the memory of a GPU.

    Attributes
    ----------
    forest : TreeEnsemble
    codes : CodeTables
    arrays : dict
        What `_core.write_pattern_tape` returns.
    n_words, capacity : int
        32-bit words of a set; sets that a block sorts.
    slot_offsets : int64, (n_chunks + 1,)
        Accumulators of each chunk.
    slot_keys : int64, (n_slots,)
        As of a `Tape`.
    """

    forest: TreeEnsemble
    pairs: bool

    def __init__(self, forest: TreeEnsemble, players: Players, pairs: bool, n_backgrounds: int = 1) -> None:
        self.forest, self.pairs, self.n_players, self.width = forest, pairs, players.n, forest.leaf_width
        self._n_backgrounds = n_backgrounds
        self.codes: CodeTables = CodeTables(forest, encode_forest(forest))
        of_chunk = forest.n_leaves * forest.leaf_width // (PAIR_CHUNKS if pairs else CHUNKS)
        limits = int(np.clip(of_chunk, FEWEST_LEAVES, MOST_LEAVES)), MOST_PAIR_PLAYERS if pairs else MOST_PLAYERS
        self.arrays: dict[str, Any] = _core.write_pattern_tape(forest, self.codes.codes, players.of_feature, *limits)
        self.n_words: int = _power_of_two(-(-max(self.arrays["most_positions"], 1) // WARP))
        if self.n_words > MOST_WORDS:
            raise NotImplementedError(
                f"a path of the forest has {self.arrays['most_positions']:,} features, a GPU takes "
                f"{MOST_WORDS * WARP:,} against a background; pass device='cpu' and rows on the host"
            )
        keys = [self._keys(chunk) for chunk in range(self.n_chunks)]
        self.slot_offsets: Int64s = np.cumsum([0, *(len(some) for some in keys)], dtype=np.int64)
        self.slot_keys: Int64s = np.concatenate([*keys, np.zeros(0, np.int64)])

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.arrays["outputs"])

    @property
    def n_leaves(self) -> int:
        """Number of leaves that add anything."""
        return int(self.arrays["chunk_starts"][-1])

    @property
    def pattern_bytes(self) -> int:
        """Bytes of a pattern."""
        return 4 * self.n_words + NUMBER.itemsize

    @property
    def most_kept(self) -> int:
        """Patterns that the current GPU keeps."""
        return gpu_limits().memory // (PATTERN_SHARE * self._n_backgrounds * self.pattern_bytes)

    def capacity(self, n_rows: int) -> int:
        """Return how many sets a block sorts of a background of so many rows."""
        fitting = _power_of_two(COLLECT_BYTES // (2 * self.pattern_bytes) + 1) // 2
        return min(FEW_ROWS if n_rows <= FEW_ROWS else MOST_CAPACITY, MOST_CAPACITY, max(WARP, fitting))

    def shared(self, n_warps: int) -> int:
        """Bytes of shared memory of a block's sums, 0 if they do not fit there."""
        most_slots = int(np.diff(self.slot_offsets).max(initial=1))
        n_bytes = n_warps * WARP * (most_slots | 1) * NUMBER.itemsize
        return n_bytes if n_bytes <= min(SHARED_BYTES, gpu_limits().shared_per_block - RESERVED_SHARED) else 0

    def betas(self) -> Doubles:
        """Return a! b! / (a + b + 1)! for a and b up to the positions of a leaf."""
        n = np.arange(self.arrays["most_positions"] + 1)
        factors = n / (n[:, None] + n + 1)
        factors[:, 0] = 1 / (n + 1)
        result: Doubles = np.cumprod(factors, axis=1)
        return result

    def _keys(self, chunk: int) -> Int64s:
        """Keys of a chunk's accumulators: of each output those of its players, or of their pairs."""
        begin, end = self.arrays["player_starts"][chunk : chunk + 2]
        players = self.arrays["players"][begin:end].astype(np.int64)
        second, first = np.tril_indices(len(players)) if self.pairs else 2 * (np.arange(len(players)),)
        of_outputs = np.arange(self.width) if self.width > 1 else self.arrays["outputs"][chunk : chunk + 1]
        keys = (of_outputs[:, None].astype(np.int64) * self.n_players + players[first]) * self.n_players
        result: Int64s = (keys + players[second]).reshape(-1)
        return result


class Patterns:
    """A background's patterns at the leaves of a plan, on the current GPU.

    Attributes
    ----------
    plan : PatternPlan
    arrays : dict
        Arrays of the plan that both kernels read.
    batches : list of Batch
        One where the patterns are kept.
    kept : dict or None
        `sets` and `shares` of all leaves; None if they are collected for each call.
    """

    plan: PatternPlan

    def __init__(self, plan: PatternPlan, background: Background) -> None:
        cupy, self.plan = import_cupy(), plan
        names = "leaves", "tests", "places", "values", "chunk_starts"
        self.arrays: dict[str, Any] = {name: cupy.asarray(plan.arrays[name]) for name in names}
        self.arrays |= {"slot_offsets": cupy.asarray(plan.slot_offsets), "betas": cupy.asarray(plan.betas())}
        self._rows: dict[str, Any] = self._encode(background)
        self._capacity = plan.capacity(len(background))
        starts = np.append(0, np.cumsum(self._count(), dtype=np.int64))
        self.arrays["pattern_starts"] = cupy.asarray(starts)
        self.batches: list[Batch] = self._divide(starts)
        self.kept: dict[str, Any] | None = None
        if len(self.batches) == 1:
            self.kept = self._keep(self.batches[0])
            self._rows = {}

    def collect(self, batch: Batch) -> PreparedLaunch:
        """Lay out the launch that writes the patterns of a batch to `sets` and `shares`."""
        starts = {"pattern_starts": self.arrays["pattern_starts"][batch.leaves.start :]}
        return self._collecting(batch.leaves, {**starts, "first_pattern": batch.patterns.start}, writes=True)

    def _encode(self, background: Background) -> dict[str, Any]:
        """Codes and weights of the background rows, as the kernel takes them."""
        cupy, codes = import_cupy(), self.plan.codes
        n_rows, stride = len(background), padded_rows(len(background))
        rows = background.on_gpu(cupy.cuda.runtime.getDevice())
        step = fitting_rows(IN_FLIGHT, rows.dtype.itemsize * rows.shape[1] + codes.row_bytes)
        encoded = codes.empty(stride)
        for start in range(0, n_rows, step):
            x = cupy.asarray(rows[start : start + step])
            encoded[:, start : start + padded_rows(len(x))] = codes.encode(x, padded_rows(len(x)))
        weight = cupy.asarray(background.weight) if background.is_weighted else NOWHERE
        total = float(background.total)
        return {"codes": encoded, "stride": stride, "n_rows": n_rows, "weight": weight, "total": total}

    def _count(self) -> Int64s:
        """Patterns of each leaf."""
        cupy, n_leaves = import_cupy(), self.plan.n_leaves
        counts = cupy.zeros(max(n_leaves, 1), np.int32)
        if n_leaves:
            nothing = {"pattern_starts": NOWHERE, "first_pattern": 0}
            counting = self._collecting(range(n_leaves), nothing, writes=False)
            counting.cell("n_patterns")[0] = counts.data.ptr
            counting(cupy.cuda.get_current_stream().ptr)
        result: Int64s = cupy.asnumpy(counts)[:n_leaves].astype(np.int64)
        return result

    def _divide(self, starts: Int64s) -> list[Batch]:
        """Divide the chunks into batches whose patterns fit."""
        plan, most = self.plan, self.plan.most_kept
        of_chunks = starts[plan.arrays["chunk_starts"]]
        bounds = [0]
        while bounds[-1] < plan.n_chunks:
            full = int(np.searchsorted(of_chunks, of_chunks[bounds[-1]] + most, side="right")) - 1
            bounds.append(max(full, bounds[-1] + 1))
        leaves = plan.arrays["chunk_starts"][bounds].tolist()
        patterns = starts[leaves].tolist()
        pairs = (itertools.starmap(range, itertools.pairwise(each)) for each in (bounds, leaves, patterns))
        return [Batch(*each) for each in zip(*pairs, strict=True)]

    def _keep(self, batch: Batch) -> dict[str, Any]:
        cupy, n_patterns = import_cupy(), len(batch.patterns)
        kept = {
            "sets": cupy.empty(max(n_patterns * self.plan.n_words, 1), np.uint32),
            "shares": cupy.empty(max(n_patterns, 1), np.float64),
        }
        collecting = self.collect(batch)
        for name, array in kept.items():
            collecting.cell(name)[0] = array.data.ptr
        collecting(cupy.cuda.get_current_stream().ptr)
        return kept

    def _collecting(self, leaves: range, starts: dict[str, Any], *, writes: bool) -> PreparedLaunch:
        words = LEAF_WORDS * leaves.start
        of_forest = {"leaves": self.arrays["leaves"][words:], "tests": self.arrays["tests"]}
        to = {"n_patterns": NOWHERE, "sets": NOWHERE, "shares": NOWHERE}
        kernel = collect_variant(self.plan.n_words, self.plan.codes.code_type, self._capacity, writes=writes)
        shared = 2 * self._capacity * self.plan.pattern_bytes
        args = {**of_forest, **self._rows, **starts, **to}
        return PreparedLaunch(kernel, (len(leaves), 1), COLLECT_THREADS, args, shared)


class SharedPatterns:
    """Patterns that several jobs read, collected at the first use on each GPU.

    Parameters
    ----------
    plan : PatternPlan
    background : Background
    """

    plan: PatternPlan

    def __init__(self, plan: PatternPlan, background: Background) -> None:
        self.plan, self._background = plan, background
        self._made = PerGpu()

    def on_gpu(self) -> Patterns:
        """Return those of the current GPU."""
        patterns: Patterns = self._made.get(lambda: Patterns(self.plan, self._background))
        return patterns


class PatternJob(PlannedJob):
    """Values or interactions against a background of a forest without tables, in float64.

    Parameters
    ----------
    patterns : SharedPatterns
    chosen : array of int, optional
        Interactions of these players only.
    """

    plan: PatternPlan
    patterns: SharedPatterns

    def __init__(self, patterns: SharedPatterns, chosen: NDArray[np.intp] | None) -> None:
        self.plan, self.patterns = patterns.plan, patterns
        super().__init__(self.plan.forest, self.plan.codes, NUMBER, self.plan.pairs, chosen, self.plan.n_players)

    @property
    def n_slots(self) -> int:
        """Partial sums of a row."""
        return len(self.plan.slot_keys)

    def prepare(self) -> None:
        """Collect the patterns on the current GPU."""
        self.patterns.on_gpu()

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        row_bytes = self.n_slots * self.dtype.itemsize + self.codes.row_bytes
        return fitting_rows(min(PARTIAL_BYTES, gpu_limits().memory // 8), row_bytes)

    def _upload(self) -> OnGpu:
        keys = self.plan.slot_keys
        targets = find_targets(keys, self.n_players, self.forest.n_outputs, self.pairs, self.chosen)
        return OnGpu(import_cupy(), [], targets, self.chosen)

    def _lay_out(self, x: GpuArray, row_shape: tuple[int, ...]) -> Plan | None:
        sums: OnGpu = self._uploads.get(self._upload)
        if not len(sums.target):
            return None
        return PatternLaunches(self.plan, self.patterns.on_gpu(), x, row_shape, sums).plan()


class PatternLaunches:
    """The launches for rows of one type, layout and number on the current GPU."""

    def __init__(
        self, plan: PatternPlan, patterns: Patterns, x: GpuArray, row_shape: tuple[int, ...], sums: OnGpu
    ) -> None:
        self._plan, self._patterns, self._n_rows, self._stride = plan, patterns, len(x), padded_rows(len(x))
        self._x = np.zeros(1, np.uint64)
        encode = plan.codes.prepare(x.dtype, row_strides(x), len(x), self._stride, self._x)
        self._add_up = lay_out_sum(sums, NUMBER, len(x), row_shape, len(plan.slot_keys))
        self._launches: list[PreparedLaunch] = []
        self._places = [Place(self._add_up.cell("partial"), SUMS)]
        if encode is not None:
            self._launches.append(encode)
            self._places.append(Place(encode.cell("codes"), CODES))
        for batch in patterns.batches:
            self._add_batch(batch)
        self._launches.append(self._add_up)
        if plan.pairs:
            result = self._add_up.cell("result")
            self._launches.append(diagonal_launch(NUMBER, len(x), row_shape, sums.chosen, result))

    def plan(self) -> Plan:
        """Codes of rows, then batch after batch patterns and sums of chunks, then those of all."""
        plan, item = self._plan, NUMBER.itemsize
        code_bytes = math.prod(plan.codes.shape(self._stride)) * plan.codes.code_type.itemsize
        rebuilt = [] if self._patterns.kept else self._patterns.batches
        most = max((len(batch.patterns) for batch in rebuilt), default=0)
        sizes = [code_bytes, item * self._stride * len(plan.slot_keys), 4 * plan.n_words * most, item * most]
        buffers = Buffers(sizes, self._places)
        make = None if buffers.n_bytes else buffers.make
        return Plan(self._launches, self._x, self._add_up.cell("result"), buffers, make, buffers.n_bytes)

    def _add_batch(self, batch: Batch) -> None:
        explain = self._explaining(batch)
        self._places += [Place(explain.cell("codes"), CODES), Place(explain.cell("partial"), SUMS)]
        if self._patterns.kept is None:
            collect = self._patterns.collect(batch)
            for launch in (collect, explain):
                self._places += [Place(launch.cell("sets"), SETS), Place(launch.cell("shares"), SHARES)]
            self._launches.append(collect)
        self._launches.append(explain)

    def _explaining(self, batch: Batch) -> PreparedLaunch:
        plan, arrays, n_tiles = self._plan, self._patterns.arrays, -(-self._n_rows // WARP)
        n_warps = min(WARPS, n_tiles)
        shared = plan.shared(n_warps)
        of_forest = {name: arrays[name] for name in ("leaves", "tests", "places", "values")}
        of_chunks = {name: arrays[name][batch.chunks.start :] for name in ("chunk_starts", "slot_offsets")}
        found = self._patterns.kept or {"sets": NOWHERE, "shares": NOWHERE}
        args = {
            **of_forest,
            "width": plan.width,
            **of_chunks,
            "pattern_starts": arrays["pattern_starts"],
            "first_pattern": batch.patterns.start,
            **found,
            "betas": arrays["betas"],
            "n_betas": arrays["betas"].shape[0],
            "codes": NOWHERE,
            "n_rows": self._n_rows,
            "stride": self._stride,
            "n_tiles": n_tiles,
            "partial": NOWHERE,
        }
        kernel = patterns_variant(plan.n_words, plan.codes.code_type, pairs=plan.pairs, shared=shared > 0)
        grid = len(batch.chunks) * -(-n_tiles // n_warps), 1
        return PreparedLaunch(kernel, grid, WARP * n_warps, args, shared)


def collect_variant(n_words: int, code_type: DTypeLike, capacity: int, *, writes: bool) -> Variant:
    """Name the kernel that counts a background's patterns, or writes them."""
    macros = {"WORDS": n_words, "CODE": np.dtype(code_type), "CAPACITY": capacity, "WRITES": int(writes)}
    return variant("explain/cuda/collect_patterns", **macros)


def patterns_variant(n_words: int, code_type: DTypeLike, *, pairs: bool, shared: bool) -> Variant:
    """Name the kernel that explains rows by patterns, with sums in shared or in global memory."""
    macros = {"WORDS": n_words, "CODE": np.dtype(code_type), "PAIRS": int(pairs), "SHARED": int(shared)}
    return variant("explain/cuda/explain_patterns", **macros)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
