"""Exact values of responses against a background on a GPU (native/explain/cuda/coalitions)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from glasswood import _core
from glasswood.base.device import import_cupy, on_host
from glasswood.base.parallel import cached_property
from glasswood.base.typing import Array, Explained, GpuArray, Int32s
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.compiler import variant
from glasswood.cuda.encoder import CodeTables
from glasswood.cuda.launches import NOWHERE, PreparedLaunch
from glasswood.cuda.per_gpu import PerGpu, gpu_limits
from glasswood.explain.cuda.coalition_sets import NARROW, Wanted, wanted_sets, weights_of_sets, weights_of_sizes
from glasswood.explain.cuda.job import Job, diagonal_launch, padded_rows

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.explain.background import Background
    from glasswood.explain.game import Settings
    from glasswood.explain.responses.coalitions import CoalitionExplainer
    from glasswood.explain.responses.response import Response
    from glasswood.model.ensemble import TreeEnsemble

MASK_THREADS, MASK_ROWS = 128, 8
"""As in native/explain/cuda/coalitions/find_masks.cu."""

DIFFERING_WARPS, SUM_THREADS = 4, 128
"""As in find_differing.cu, find_players.cu and sum_parts.cu."""

TEAMS = ((9, 32), (12, 128), (20, 512))
"""Players on which pairs of rows differ, at most, and threads that take such a pair."""

LISTED_BYTES = 40_000
"""Shared memory of four warps that list players; beyond it, a block has one."""

RESPONSES = ("RESPONSE_MARGIN", "RESPONSE_LOGISTIC", "RESPONSE_SOFTMAX", "RESPONSE_EXP", "RESPONSE_LOG_LOSS")
"""Numbers of the core that explain_pairs.cu distinguishes; any other is the loss of the softmax."""

TOGETHER = 64
"""Background rows of one sum."""

MASK_BYTES, SUM_BYTES, CUBE_BYTES = 2**30, 2**28, 2**30
"""Memory for the masks of rows that are explained together, for their sums, and for cubes in global memory."""


class Team(NamedTuple):
    """Pairs that differ on fewest ... most players, and the threads that take one of them."""

    fewest: int
    most: int
    threads: int


class Block(NamedTuple):
    """Threads and teams of a block, its bytes of shared memory, and whether cubes and sums of values are in global."""

    threads: int
    n_teams: int
    shared: int
    is_global: bool
    is_direct: bool


class CoalitionJobs:
    """Jobs that GPUs have of exact responses: values, pairs, indices of sets.

    Parameters
    ----------
    settings : Settings
    on_cpu : CoalitionExplainer
        What explains the same on the CPU.
    """

    def __init__(self, settings: Settings, on_cpu: CoalitionExplainer) -> None:
        self._dtype, self._on_cpu = settings.dtype, on_cpu

    def serves(self, kind: Explained) -> bool:  # noqa: ARG002
        """Whether GPUs explain this."""
        return not self._on_cpu.cpu_only

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:
        """Make a job of values, of pairs, or of the pairs of some players."""
        plan = self._plan
        if kind == "values":
            number = plan.bit
            return CoalitionJob(plan, self._dtype, Wanted(None, plan.n_bits, number, weights_of_sizes()))
        players = np.arange(len(plan.bit))
        chosen = players if chosen is None else chosen
        pairs = np.stack(np.broadcast_arrays(chosen[:, None], players), axis=-1).reshape(-1, 2)
        return CoalitionJob(plan, self._dtype, wanted_sets(plan.bit, pairs, weights_of_sets(of_pair=0.5)), chosen)

    def of_sets(self, sets: Int32s, is_banzhaf: bool) -> Job:
        """Make a job of indices of sets of players (n_sets, 4), padded with -1."""
        return CoalitionJob(self._plan, self._dtype, wanted_sets(self._plan.bit, sets, weights_of_sets(is_banzhaf)))

    @cached_property
    def _plan(self) -> CoalitionPlan:
        return CoalitionPlan(self._on_cpu, self._dtype)


class CoalitionPlan:
    """A forest and its background as GPUs read them, for all jobs.

    Parameters
    ----------
    on_cpu : CoalitionExplainer
        Of constant leaves, at most GPU_PLAYERS players and a response that the core computes.
    dtype : dtype
        Type of the results. Margins are sums of 32-bit integers for float32, of 64-bit integers for float64.

    Attributes
    ----------
    bit : int32, (P,)
        The number of each player among those that leaves ask for, -1 of others; its bit in masks unless `is_wide`.
    is_wide : bool
        Whether bits of masks are places of the leaf's path, as there are too many players.
    mask : dtype
        Of the conditions that a row does not meet at a leaf.
    """

    forest: TreeEnsemble
    response: Response
    background: Background
    most: int
    cheaper: str
    unit: Any
    bit: Any
    n_bits: int
    n_leaves: int

    def __init__(self, on_cpu: CoalitionExplainer, dtype: DTypeLike) -> None:
        self.forest, self.response, self.background = on_cpu.game.forest, on_cpu.response, on_cpu.background
        self.most, self.cheaper, codes = on_cpu.most, on_cpu.cheaper, encode_forest(self.forest)
        self.codes: CodeTables = CodeTables(self.forest, codes)
        is_short = np.dtype(dtype).itemsize == np.dtype(np.float32).itemsize
        self._arrays = on_cpu.layout.gpu_plan(codes.node_column, codes.node_rank, is_short)
        self.unit, self.bit = self._arrays["unit"], self._arrays["player_bit"]
        self.n_bits, self.n_leaves = int(self.bit.max(initial=-1)) + 1, len(self._arrays["first_condition"]) - 1
        self.is_wide = self.n_bits > NARROW
        mask_bits = next(bits for bits in (8, 16, 32, 64) if bits >= self._arrays["n_bits"])
        self.mask: np.dtype[Any] = np.dtype(f"uint{mask_bits}")
        self._uploads = PerGpu()

    @property
    def n_parts(self) -> int:
        """Sums of background rows."""
        return -(-len(self.background) // TOGETHER)

    @property
    def listed(self) -> int:
        """Players of which a wide pair has room."""
        return min(self.most, self.n_bits)

    @property
    def pair_bytes(self) -> int:
        """Bytes of the players on which a pair differs."""
        return 2 * (1 + self.listed) if self.is_wide else 4

    def on_gpu(self) -> dict[str, Any]:
        """Arrays of the forest and of the background on the current GPU."""
        shared: dict[str, Any] = self._uploads.get(self._upload)
        return shared

    def _upload(self) -> dict[str, Any]:
        cupy, arrays = import_cupy(), self._arrays
        names = ["conditions", "first_condition", "first_leaf", "value", "base"]
        names += ["first_place", "place"] if self.is_wide else []
        shared = {name: cupy.asarray(arrays[name]) for name in names}
        shared = {"first_place": NOWHERE, "place": NOWHERE} | shared
        shared["share"] = cupy.asarray(self.background.weight / self.background.total)
        shared["masks"] = self.masks_of(cupy.asarray(self.background.rows), shared)
        return shared

    def masks_of(self, x: GpuArray, shared: dict[str, Any]) -> GpuArray:
        """Queue the masks of rows, (n, n_leaves)."""
        stride = padded_rows(len(x))
        codes = self.codes.encode(x, stride)
        masks: GpuArray = import_cupy().empty((len(x), self.n_leaves), self.mask)
        conditions = {name: shared[name] for name in ("conditions", "first_condition")}
        sizes = {"stride": stride, "n_rows": len(x), "n_leaves": self.n_leaves}
        kernel = masks_variant(self.mask, self.codes.code_type)
        grid = -(-self.n_leaves // MASK_THREADS), -(-len(x) // MASK_ROWS)
        _run(kernel, grid, MASK_THREADS, {"codes": codes, **sizes, **conditions, "masks": masks})
        return masks


class CoalitionJob(Job):
    """One kind of result of one response; rows of losses have their labels' places behind their features.

    Parameters
    ----------
    plan : CoalitionPlan
    dtype : dtype
    wanted : Wanted
    chosen : array of int or None
        Of pairs, the players whose pairs are wanted.
    """

    plan: CoalitionPlan
    wanted: Wanted

    def __init__(self, plan: CoalitionPlan, dtype: DTypeLike, wanted: Wanted, chosen: Array | None = None) -> None:
        super().__init__(plan.forest, plan.codes, dtype, chosen is not None, chosen, len(plan.bit))
        self.plan, self.wanted = plan, wanted

    def prepare(self) -> None:
        """Find the background's masks on the current GPU."""
        self.plan.on_gpu()

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        plan = self.plan
        n_sums = plan.n_parts * self.wanted.n * plan.response.n * len(TEAMS)
        row_bytes = plan.n_leaves * plan.mask.itemsize + plan.pair_bytes * len(plan.background)
        most_rows = 65_535  # of a grid's second axis
        return max(1, min(MASK_BYTES // max(1, row_bytes), SUM_BYTES // max(1, 8 * n_sums), most_rows))

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        cupy, plan, wanted, n_features = import_cupy(), self.plan, self.wanted, self.forest.n_features
        if not len(x) or not wanted.n:
            result.fill(0)
            return
        shared, mine = plan.on_gpu(), self._uploads.get(self._upload)
        rows, labels = x[:, :n_features], NOWHERE
        if plan.response.code in {_core.RESPONSE_LOG_LOSS, _core.RESPONSE_SOFTMAX_LOSS}:
            labels = cupy.empty(len(x), np.int32)
            labels[...] = x[:, n_features]
        masks = plan.masks_of(rows, shared)
        pairs, histogram = self._differing(masks, shared)
        counts = on_host(histogram)
        self._refuse_estimates(counts)
        teams = [team for team in self._teams() if counts[team.fewest : team.most + 1].any()]
        n_responses = plan.response.n
        sums = cupy.zeros((max(1, len(teams)), len(x), plan.n_parts, wanted.n * n_responses), np.float64)
        for team, of_team in zip(teams, sums, strict=False):
            self._explain(team, masks, labels, pairs, shared | mine, of_team)
        sizes = {"n_kinds": len(sums), "n_rows": len(x), "n_parts": plan.n_parts, "n_numbers": wanted.n}
        entries = {"number": mine["number"], "n_entries": len(wanted.number), "n_responses": n_responses}
        grid = -(-len(x) * len(wanted.number) * n_responses // SUM_THREADS), 1
        _run(sum_variant(self.dtype), grid, SUM_THREADS, {"sums": sums, **sizes, **entries, "result": result})
        if self.pairs:
            address = np.array([result.data.ptr], np.uint64)
            closing = diagonal_launch(self.dtype, len(x), result.shape[1:], mine["chosen"], address)
            closing(cupy.cuda.get_current_stream().ptr)

    def _refuse_estimates(self, counts: Array) -> None:
        """Raise NotImplementedError where pairs differ on more players than are exact; counts are those of pairs."""
        most = self.plan.most
        if counts[most + 1 :].any():
            raise NotImplementedError(
                f"rows differ from background rows on up to {int(np.flatnonzero(counts)[-1])} features, GPUs are exact "
                f"up to {most} and estimate nothing; pass device='cpu' and rows on the host, or {self.plan.cheaper}"
            )

    def _teams(self, fewest: int = 1) -> list[Team]:
        """Teams for pairs of each number of players, the last for those of the most."""
        result = []
        for most, threads in TEAMS:
            result.append(Team(fewest, min(most, self.plan.n_bits, self.plan.most), threads))
            fewest = most + 1
            if fewest > min(self.plan.n_bits, self.plan.most):
                break
        return result

    def _explain(
        self,
        team: Team,
        masks: GpuArray,
        labels: Any,
        pairs: GpuArray,
        shared: dict[str, Any],
        sums: GpuArray,
        of_means: bool = False,
    ) -> None:
        """Queue the sums of pairs that one kind of team takes; of means, all background rows are one part."""
        cupy, plan, wanted, response = import_cupy(), self.plan, self.wanted, self.plan.response
        n_others = len(plan.background)
        n_parts, together = (1, n_others) if of_means else (plan.n_parts, TOGETHER)
        block, k = self._block(team, of_means), self.forest.n_outputs
        n_rows, most_rows = len(masks), len(masks)
        room: Any = NOWHERE
        if block.is_global:
            of_block = block.n_teams * ((k + 1) << team.most)
            most_rows = max(1, CUBE_BYTES // (of_block * self.dtype.itemsize * n_parts))
            room = cupy.empty(min(n_rows, most_rows) * n_parts * of_block, self.dtype)
        has_sets = wanted.sets is not None and not of_means
        kernel = pairs_variant(
            self.dtype,
            plan.mask,
            team.threads,
            response.code or 0,
            has_sets,
            block.is_global,
            of_means,
            is_direct=block.is_direct,
            is_wide=plan.is_wide,
        )
        of_team = {"n_others": n_others, "together": together, "fewest": team.fewest, "most": team.most, "cubes": room}
        args = self._arguments(shared) | of_team
        for first in range(0, n_rows, most_rows):
            some = slice(first, min(first + most_rows, n_rows))
            args |= {"rows": masks[some], "n_leaves": masks.shape[1], "pairs": pairs[some], "sums": sums[some]}
            args["labels"] = labels if labels is NOWHERE else labels[some]
            _run(kernel, (some.stop - some.start, n_parts), block.threads, args, block.shared)

    def _arguments(self, shared: dict[str, Any]) -> dict[str, Any]:
        """Arguments of explain_pairs.cu that are the same for all rows and teams."""
        plan, names = self.plan, ("value", "base", "share", "weights", "sets", "first_place", "place")
        return {name: shared[name] for name in names} | {
            "others": shared["masks"],
            "first": shared["first_leaf"],
            "width": self.forest.leaf_width,
            "n_outputs": self.forest.n_outputs,
            "unit": plan.unit,
            "scale": plan.response.scale,
            "n_numbers": self.wanted.n,
            "n_responses": plan.response.n,
            "n_players": plan.n_bits,
            "listed": plan.listed,
        }

    def _block(self, team: Team, of_means: bool) -> Block:
        """Lay out a block of explain_pairs.cu: values in its shared memory if they fit, then cubes if they do."""
        plan, wanted = self.plan, self.wanted
        has_sets, limit = wanted.sets is not None or of_means, gpu_limits().shared_per_block - 1024
        queue = 32 + 32 * (4 // plan.mask.itemsize or 1)
        of_warp = 2 * (8 if has_sets else self.dtype.itemsize) + 4 * queue
        of_team = -(-plan.n_bits // 8) * 8 if plan.is_wide else 0
        cube = self.dtype.itemsize * (self.forest.n_outputs + 1) << team.most

        def laid(threads: int, of_values: int) -> tuple[int, int]:
            n_teams = threads // team.threads
            return n_teams, threads // 32 * of_warp + n_teams * (of_team + of_values)

        threads = max(team.threads, 128)
        n_teams, fixed = laid(threads, 8 * wanted.n * plan.response.n)
        is_direct = not has_sets and fixed > limit
        if has_sets or is_direct:
            threads = team.threads
            n_teams, fixed = laid(threads, 0)
        is_global = fixed + n_teams * cube > limit
        return Block(threads, n_teams, fixed if is_global else fixed + n_teams * cube, is_global, is_direct)

    def _differing(self, masks: GpuArray, shared: dict[str, Any]) -> tuple[GpuArray, GpuArray]:
        """Players on which each pair differs, as bits or lists, and how many pairs differ on 0, 1, ... of them."""
        cupy, plan, m = import_cupy(), self.plan, len(self.plan.background)
        histogram = cupy.zeros(max(NARROW, plan.n_bits) + 1, np.uint32)
        n_words = masks.shape[1] * plan.mask.itemsize // max(4, plan.mask.itemsize)
        args = {"rows": masks, "others": shared["masks"], "n_words": n_words, "n_others": m, "histogram": histogram}
        if not plan.is_wide:
            pairs = cupy.empty((len(masks), m), np.uint32)
            grid = -(-m // DIFFERING_WARPS), len(masks)
            _run(differing_variant(plan.mask), grid, 32 * DIFFERING_WARPS, args | {"differ": pairs})
            return pairs, histogram
        pairs = cupy.empty((len(masks), m, 1 + plan.listed), np.uint16)
        n_warps = DIFFERING_WARPS if DIFFERING_WARPS * plan.n_bits <= LISTED_BYTES else 1
        args |= {"first_place": shared["first_place"], "place": shared["place"], "n_players": plan.n_bits}
        args |= {"most": plan.listed, "pairs": pairs}
        grid = -(-m // n_warps), len(masks)
        _run(players_variant(plan.mask), grid, 32 * n_warps, args, n_warps * plan.n_bits)
        return pairs, histogram

    def _upload(self) -> dict[str, Any]:
        cupy, wanted = import_cupy(), self.wanted
        mine = {"number": cupy.asarray(wanted.number), "weights": cupy.asarray(wanted.weights)}
        mine["sets"] = NOWHERE if wanted.sets is None else cupy.asarray(wanted.sets)
        return mine | {"chosen": cupy.asarray(self.chosen.astype(np.int32))}


def _run(kernel: Variant, grid: tuple[int, int], threads: int, args: dict[str, Any], shared: int = 0) -> None:
    stream = import_cupy().cuda.get_current_stream()
    PreparedLaunch(kernel, grid, threads, args, shared)(stream.ptr)


def masks_variant(mask: DTypeLike, code: DTypeLike) -> Variant:
    """Name the kernel that finds the masks of rows."""
    return variant("explain/cuda/coalitions/find_masks", MASK=np.dtype(mask), CODE=np.dtype(code))


def differing_variant(mask: DTypeLike) -> Variant:
    """Name the kernel that finds the players on which rows differ."""
    return variant("explain/cuda/coalitions/find_differing", MASK=np.dtype(mask))


def players_variant(mask: DTypeLike) -> Variant:
    """Name the kernel that lists the players on which rows differ, of more than `NARROW` players."""
    return variant("explain/cuda/coalitions/find_players", MASK=np.dtype(mask))


@functools.cache  # calls of microseconds: it has many macros
def pairs_variant(
    dtype: DTypeLike,
    mask: DTypeLike,
    team: int,
    response: int,
    has_sets: bool,
    is_global: bool,
    of_means: bool = False,
    *,
    is_direct: bool = False,
    is_wide: bool = False,
) -> Variant:
    """Name the kernel that explains pairs of rows."""
    real = np.dtype(dtype)
    unit = "int" if real.itemsize == np.dtype(np.int32).itemsize else "long long"
    return variant(
        "explain/cuda/coalitions/explain_pairs",
        REAL=real,
        UNIT=unit,
        MASK=np.dtype(mask),
        TEAM=team,
        RESPONSE=response,
        **{name: getattr(_core, name) for name in RESPONSES},
        SETS=int(has_sets),
        AVERAGES=int(of_means),
        IN_GLOBAL=int(is_global),
        DIRECT=int(is_direct),
        WIDE=int(is_wide),
    )


def sum_variant(dtype: DTypeLike) -> Variant:
    """Name the kernel that adds up sums of parts of the background."""
    return variant("explain/cuda/coalitions/sum_parts", REAL=np.dtype(dtype))
