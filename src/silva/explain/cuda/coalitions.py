"""Exact values of responses against a background on a GPU (native/explain/cuda/coalitions)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from silva.cuda.codes import encode_forest
from silva.cuda.compiler import variant
from silva.cuda.encoder import CodeTables
from silva.cuda.launches import NOWHERE, PreparedLaunch
from silva.cuda.limits import gpu_limits
from silva.device import import_cupy, on_host
from silva.explain.coalition_responses import LOG_LOSS, SOFTMAX_LOSS
from silva.explain.cuda.job import Job, padded_rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from silva.cuda.compiler import Variant
    from silva.explain.coalitions import CoalitionExplainer
    from silva.explain.game import Settings
    from silva.typing import Array, Doubles, Explained, GpuArray

MASK_THREADS, MASK_ROWS = 128, 8
"""As in native/explain/cuda/coalitions/find_masks.cu."""

DIFFERING_WARPS, SUM_THREADS = 4, 128
"""As in find_differing.cu and sum_parts.cu."""

TEAMS = ((9, 32), (12, 128), (20, 512))
"""Players on which pairs of rows differ, at most, and threads that take such a pair."""

MOST_PLAYERS, WEIGHTS = 32, 34
"""Bits of a mask; numbers of a row of the table of weights, as in explain_pairs.cu."""

TOGETHER = 64
"""Background rows of one sum."""

MASK_BYTES, SUM_BYTES, CUBE_BYTES = 2**30, 2**28, 2**30
"""Of rows that are explained together, of their sums, and of cubes in global memory."""


class Team(NamedTuple):
    """Pairs that differ on fewest ... most players, and the threads that take one of them."""

    fewest: int
    most: int
    threads: int


class CoalitionJobs:
    """The one job that GPUs have of exact responses: their values.

    Parameters
    ----------
    settings : Settings
    on_cpu : CoalitionExplainer
        What explains the same on the CPU.
    """

    def __init__(self, settings: Settings, on_cpu: CoalitionExplainer) -> None:
        self._dtype, self._on_cpu = settings.dtype, on_cpu

    def serves(self, kind: Explained) -> bool:
        """Whether GPUs explain this."""
        return not self._on_cpu.cpu_only(kind)

    def job(self, kind: Explained, chosen: Array | None = None) -> Job:  # noqa: ARG002
        """Make the job."""
        return CoalitionJob(self._on_cpu, self._dtype)


class CoalitionJob(Job):
    """Values of one response; rows of losses have their labels' places behind their features.

    Parameters
    ----------
    on_cpu : CoalitionExplainer
        Of constant leaves, at most 32 players and a response that the core computes.
    dtype : dtype
        Of the results. Margins are sums of 32-bit integers for float32, of 64-bit integers for float64.
    """

    def __init__(self, on_cpu: CoalitionExplainer, dtype: DTypeLike) -> None:
        forest, players = on_cpu.game.forest, on_cpu.game.players
        codes = encode_forest(forest)
        super().__init__(forest, CodeTables(forest, codes), dtype, False, None, players.n)
        self.response, self._background, self._most = on_cpu.response, on_cpu.background, on_cpu.most
        is_short = self.dtype.itemsize == np.dtype(np.float32).itemsize
        self._plan = on_cpu.layout.gpu_plan(codes.node_column, codes.node_rank, is_short)
        self._n_bits = int(self._plan["player_bit"].max(initial=-1)) + 1
        sizes = (bits for bits in (8, 16, 32) if bits >= self._n_bits)
        self._mask = np.dtype(f"uint{next(sizes)}")

    def prepare(self) -> None:
        """Find the background's masks on the current GPU."""
        self._on_gpu()

    def _batch_rows(self, n_rows: int, row_shape: tuple[int, ...]) -> int:  # noqa: ARG002
        n_leaves = len(self._plan["first_condition"]) - 1
        n_sums = self._n_parts * self._n_bits * self.response.n * len(TEAMS)
        row_bytes = n_leaves * self._mask.itemsize + 4 * len(self._background.rows)
        most_rows = 65_535  # of a grid's second axis
        return max(1, min(MASK_BYTES // max(1, row_bytes), SUM_BYTES // max(1, 8 * n_sums), most_rows))

    @property
    def _n_parts(self) -> int:
        return -(-len(self._background.rows) // TOGETHER)

    def _queue(self, x: GpuArray, result: GpuArray) -> None:
        cupy, n_features = import_cupy(), self.forest.n_features
        if not len(x) or not self._n_bits:
            result.fill(0)
            return
        shared = self._on_gpu()
        rows, labels = x[:, :n_features], NOWHERE
        if self.response.code in {LOG_LOSS, SOFTMAX_LOSS}:
            labels = cupy.empty(len(x), np.int32)
            labels[...] = x[:, n_features]
        masks = self._masks_of(rows, shared)
        differ, histogram = self._differing(masks, shared)
        counts = on_host(histogram)
        if counts[self._most + 1 :].any():
            most = int(np.flatnonzero(counts)[-1])
            raise NotImplementedError(
                f"rows differ from background rows on up to {most} features, GPUs are exact up to {self._most}; pass "
                "device='cpu' and rows on the host, groups of features, or rule='rescale'"
            )
        teams = [team for team in self._teams() if counts[team.fewest : team.most + 1].any()]
        numbers = self._n_bits * self.response.n
        sums = cupy.zeros((max(1, len(teams)), len(x), self._n_parts, numbers), np.float64)
        for team, of_team in zip(teams, sums, strict=False):
            self._explain(team, masks, labels, differ, shared, of_team)
        sizes = {"n_kinds": len(sums), "n_rows": len(x), "n_parts": self._n_parts, "n_bits": self._n_bits}
        players = {"bit": shared["player_bit"], "n_players": self.n_players, "n_responses": self.response.n}
        args = {"sums": sums, **sizes, **players, "result": result}
        grid = -(-len(x) * self.n_players * self.response.n // SUM_THREADS), 1
        _run(sum_variant(self.dtype), grid, SUM_THREADS, args)

    def _teams(self) -> list[Team]:
        """Teams for pairs of each number of players, the last for those of the most."""
        result, fewest = [], 1
        for most, threads in TEAMS:
            result.append(Team(fewest, min(most, self._n_bits, self._most), threads))
            fewest = most + 1
            if fewest > min(self._n_bits, self._most):
                break
        return result

    def _explain(
        self, team: Team, masks: GpuArray, labels: Any, differ: GpuArray, shared: dict[str, Any], sums: GpuArray
    ) -> None:
        """Queue the values of pairs that one kind of team takes."""
        cupy, response = import_cupy(), self.response
        threads = max(team.threads, 128)
        n_teams, n_warps, k = threads // team.threads, threads // 32, self.forest.n_outputs
        queue = 32 + 32 * 4 // self._mask.itemsize
        cube = (k + 1) << team.most
        fixed = 8 * n_teams * self._n_bits * response.n + n_warps * (2 * self.dtype.itemsize + 4 * queue)
        n_bytes = fixed + n_teams * cube * self.dtype.itemsize
        is_global = n_bytes > gpu_limits().shared_per_block - 1024
        n_rows, most_rows = len(masks), len(masks)
        room: Any = NOWHERE
        if is_global:
            most_rows = max(1, CUBE_BYTES // (cube * self.dtype.itemsize * n_teams * self._n_parts))
            room = cupy.empty(min(n_rows, most_rows) * self._n_parts * n_teams * cube, self.dtype)
        kernel = pairs_variant(self.dtype, self._mask, team.threads, response.code or 0, is_global)
        plan, m = self._plan, len(self._background.rows)
        for first in range(0, n_rows, most_rows):
            some = slice(first, min(first + most_rows, n_rows))
            args = {
                "rows": masks[some],
                "others": shared["masks"],
                "n_leaves": masks.shape[1],
                "first": shared["first_leaf"],
                "value": shared["value"],
                "width": self.forest.leaf_width,
                "n_outputs": k,
                "base": shared["base"],
                "unit": plan["unit"],
                "scale": response.scale,
                "labels": labels if labels is NOWHERE else labels[some],
                "differ": differ[some],
                "share": shared["share"],
                "n_others": m,
                "together": TOGETHER,
                "fewest": team.fewest,
                "most": team.most,
                "weights": shared["weights"],
                "n_players": self._n_bits,
                "n_responses": response.n,
                "sums": sums[some],
                "cubes": room,
            }
            _run(kernel, (some.stop - some.start, self._n_parts), threads, args, fixed if is_global else n_bytes)

    def _masks_of(self, x: GpuArray, shared: dict[str, Any]) -> GpuArray:
        cupy, n_leaves = import_cupy(), len(self._plan["first_condition"]) - 1
        stride = padded_rows(len(x))
        codes = self.codes.encode(x, stride)
        masks: GpuArray = cupy.empty((len(x), n_leaves), self._mask)
        conditions = {name: shared[name] for name in ("conditions", "first_condition")}
        args = {"codes": codes, "stride": stride, "n_rows": len(x), **conditions, "n_leaves": n_leaves, "masks": masks}
        kernel = masks_variant(self._mask, self.codes.code_type)
        _run(kernel, (-(-n_leaves // MASK_THREADS), -(-len(x) // MASK_ROWS)), MASK_THREADS, args)
        return masks

    def _differing(self, masks: GpuArray, shared: dict[str, Any]) -> tuple[GpuArray, GpuArray]:
        """Players on which each pair differs, as bits, and how many pairs differ on 0 to 32 of them."""
        cupy, m = import_cupy(), len(self._background.rows)
        differ, histogram = cupy.empty((len(masks), m), np.uint32), cupy.zeros(MOST_PLAYERS + 1, np.uint32)
        n_words = masks.shape[1] * self._mask.itemsize // 4
        args = {"rows": masks, "others": shared["masks"], "n_words": n_words, "n_others": m}
        args |= {"differ": differ, "histogram": histogram}
        kernel = differing_variant(self._mask)
        _run(kernel, (-(-m // DIFFERING_WARPS), len(masks)), 32 * DIFFERING_WARPS, args)
        return differ, histogram

    def _on_gpu(self) -> dict[str, Any]:
        """Arrays of the forest and of the background on the current GPU."""
        shared: dict[str, Any] = self._uploads.get(self._upload)
        return shared

    def _upload(self) -> dict[str, Any]:
        cupy, plan = import_cupy(), self._plan
        names = ("conditions", "first_condition", "first_leaf", "value", "base", "player_bit")
        shared = {name: cupy.asarray(plan[name]) for name in names}
        shared["share"] = cupy.asarray(self._background.weight / self._background.total)
        shared["weights"] = cupy.asarray(weights_of_sizes())
        shared["masks"] = self._masks_of(cupy.asarray(self._background.rows), shared)
        return shared


def weights_of_sizes() -> Doubles:
    """Shapley's weights (w(s - 1) + w(s), w(s)) of coalitions of s among d players: [d][s][2]."""
    result = np.zeros((MOST_PLAYERS + 1, WEIGHTS, 2))
    for d in range(1, MOST_PLAYERS + 1):
        w = np.array([1 / (d * math.comb(d - 1, s)) for s in range(d)])
        result[d, :d, 1] = w
        result[d, : d + 1, 0] = np.append(w, 0) + np.append(0, w)
    return result


def _run(kernel: Variant, grid: tuple[int, int], threads: int, args: dict[str, Any], shared: int = 0) -> None:
    stream = import_cupy().cuda.get_current_stream()
    PreparedLaunch(kernel, grid, threads, args, shared)(stream.ptr)


def masks_variant(mask: DTypeLike, code: DTypeLike) -> Variant:
    """Name the kernel that finds the masks of rows."""
    return variant("explain/cuda/coalitions/find_masks", MASK=np.dtype(mask), CODE=np.dtype(code))


def differing_variant(mask: DTypeLike) -> Variant:
    """Name the kernel that finds the players on which rows differ."""
    return variant("explain/cuda/coalitions/find_differing", MASK=np.dtype(mask))


def pairs_variant(dtype: DTypeLike, mask: DTypeLike, team: int, response: int, is_global: bool) -> Variant:
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
        IN_GLOBAL=int(is_global),
    )


def sum_variant(dtype: DTypeLike) -> Variant:
    """Name the kernel that adds up sums of parts of the background."""
    return variant("explain/cuda/coalitions/sum_parts", REAL=np.dtype(dtype))
