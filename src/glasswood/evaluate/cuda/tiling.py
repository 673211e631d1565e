"""The division of rows and trees among the blocks of a GPU (evaluate/cuda/walk_tiles.cu): a model of the costs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from glasswood.cuda.per_gpu import Limits

THREADS = 768
"""Threads of a multiprocessor that the kernel's registers allow."""

ENOUGH_THREADS = 512
"""Threads of a multiprocessor, four rows each, that hide the latency of shared memory well enough."""

TEAMS = {256: (1, 3), 192: (1, 4), 128: (1, 2, 3, 6), 64: (1, 4, 6, 12), 32: (1, 8, 12)}
"""Numbers of teams that may share a tile's rows, by lanes."""

SHARING = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 26, 32, 40, 52)
STAGES = (16384, 8192, 4096)
"""Bytes of a stage of trees, of which a block has two."""

WIDE_STAGE, SUM_BYTES = 32768, 16
"""Stage of several teams, if there is room for it; bytes of the sum of a row and team (ExactSum)."""

LEAST_TEAM_BYTES = 64
"""Bytes of the stage for each team, at least: a header and the two upper levels."""

RESERVED_BYTES = 1024
"""Shared memory that the driver takes of each block."""

TILES_PER_MULTIPROCESSOR = 2
"""Tiles from which blocks do not share the trees of a tile."""

CYCLES, ISSUED = 1850.0, 2.6
"""Cycles of a microsecond; instructions that a multiprocessor issues in one."""

TOP, LEVEL, JOINED = 14.0, 10.5, 12.0
"""Instructions of a row and tree: its top and its leaf, a level below, a sum that knows its order."""

TREE_LATENCY, LEVEL_LATENCY = 0.1, 0.1
"""Microseconds of a walk if nothing else is to do."""

COPIED, EXPOSED = 42_000.0, 0.5
"""Bytes that a multiprocessor takes from the second-level cache in a microsecond while all do; what the walks leave."""

BLOCK_TIME, JOIN_TIME, JOINED_AT_ONCE, READ_TIME = 2.5, 2.5, 8, 0.4
"""Microseconds to start a block, to wait for its tile, and (the last) to read JOINED_AT_ONCE sums."""


class Work(NamedTuple):
    """Rows and their columns, codes in a word, trees, their levels and bytes; whether sums may be joined."""

    n_rows: int
    n_columns: int
    codes_per_word: int
    n_trees: int
    depth: int
    n_bytes: int
    joins: bool


@dataclass(frozen=True)
class Tiling:
    """Lanes (a word of rows each) and teams of a block, bytes of a stage, blocks that share the trees of a tile."""

    lanes: int
    teams: int
    stage: int
    sharing: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.teams

    def shared_bytes(self, n_columns: int, codes_per_word: int) -> int:
        """Shared memory of a block."""
        sums = self.lanes * codes_per_word * self.teams * SUM_BYTES if self.teams > 1 else 0
        return n_columns * self.lanes * 4 + max(2 * self.stage, sums)

    def resident(self, n_columns: int, codes_per_word: int, limits: Limits) -> int:
        """Blocks that a multiprocessor has room for; 0 if a block does not fit."""
        shared = self.shared_bytes(n_columns, codes_per_word)
        if shared > limits.shared_per_block:
            return 0
        return max(1, min(limits.shared_per_multiprocessor // (shared + RESERVED_BYTES), THREADS // self.threads))


def fits(n_columns: int, limits: Limits) -> bool:
    """Whether a tile of `n_columns` columns fits into shared memory."""
    return bool(_plain(n_columns, 4, limits))


@functools.lru_cache(maxsize=1024)
def choose_tiling(work: Work, limits: Limits) -> Tiling:
    """Pick the tiling with the least expected time; tiles must fit."""
    plain = _plain(work.n_columns, work.codes_per_word, limits)[0]
    n_tiles = _ceil(work.n_rows, plain.lanes * work.codes_per_word)
    resident = plain.resident(work.n_columns, work.codes_per_word, limits)
    is_many = n_tiles >= limits.n_multiprocessors * TILES_PER_MULTIPROCESSOR
    if is_many and (resident * plain.threads >= ENOUGH_THREADS or not work.joins):
        return plain
    tilings = list(_candidates(work, limits, most_sharing=1 if is_many else max(SHARING)))
    return min(tilings, key=lambda tiling: expected_time(work, tiling, limits))


def expected_time(work: Work, tiling: Tiling, limits: Limits) -> float:
    """Microseconds of the walks."""
    of_group = trees_of_group(work.n_trees, work.n_bytes, tiling)
    n_groups = _ceil(work.n_trees, of_group)
    of_block = _ceil(n_groups, tiling.sharing)
    n_sharing = _ceil(n_groups, of_block)
    n_blocks = _ceil(work.n_rows, tiling.lanes * work.codes_per_word) * n_sharing
    resident = tiling.resident(work.n_columns, work.codes_per_word, limits)
    of_one = _ceil(n_blocks, limits.n_multiprocessors)
    turns = _ceil(of_one, resident)
    rounds = of_block * _ceil(of_group, tiling.teams)
    joined = JOINED if tiling.teams * tiling.sharing > 1 else 0.0
    instructions = work.codes_per_word * (TOP + LEVEL * work.depth + joined)
    issue = of_one * tiling.threads // 32 * rounds * instructions / (CYCLES * ISSUED)
    latency = turns * rounds * (TREE_LATENCY + LEVEL_LATENCY * work.depth)
    n_bytes = min(work.n_bytes, work.n_trees * tiling.stage // tiling.teams)
    copies = of_one * (n_bytes / n_sharing + 4 * work.n_columns * tiling.lanes) / COPIED
    time = max(issue, latency) + EXPOSED * copies + BLOCK_TIME * turns
    if n_sharing > 1:
        rows_of_thread = _ceil(tiling.lanes * work.codes_per_word, tiling.threads)
        time += JOIN_TIME + READ_TIME * rows_of_thread * _ceil(n_sharing, JOINED_AT_ONCE)
    return time


def trees_of_group(n_trees: int, n_bytes: int, tiling: Tiling) -> int:
    """Trees that are staged together: those of a block are divided evenly, in multiples of the teams."""
    of_block = _ceil(n_trees, tiling.sharing)
    n_groups = _ceil(of_block, max(1, tiling.stage * n_trees // max(n_bytes, 1)))
    return _ceil(_ceil(of_block, n_groups), tiling.teams) * tiling.teams


def _candidates(work: Work, limits: Limits, most_sharing: int) -> Iterator[Tiling]:
    for lanes, all_teams in TEAMS.items():
        for teams in all_teams if work.joins else (1,):
            for stage in (WIDE_STAGE, *STAGES) if teams > 1 else STAGES:
                is_enough = stage >= LEAST_TEAM_BYTES * teams
                if is_enough and Tiling(lanes, teams, stage, 1).resident(work.n_columns, work.codes_per_word, limits):
                    yield from (
                        Tiling(lanes, teams, stage, sharing)
                        for sharing in SHARING
                        if sharing <= min(most_sharing, work.n_trees)
                    )
                    break


@functools.lru_cache(maxsize=256)
def _plain(n_columns: int, codes_per_word: int, limits: Limits) -> tuple[Tiling, ...]:
    """Tilings of one team, for each number of lanes with the best stage; by rows that are resident, then by size."""
    tilings: dict[int, Tiling] = {}
    for lanes in (256, 128, 64):
        for stage in reversed(STAGES):
            tiling = Tiling(lanes, 1, stage, 1)
            resident = tiling.resident(n_columns, codes_per_word, limits)
            if resident and (
                lanes not in tilings or resident >= tilings[lanes].resident(n_columns, codes_per_word, limits)
            ):
                tilings[lanes] = tiling
    return tuple(
        sorted(tilings.values(), key=lambda c: (-c.lanes * c.resident(n_columns, codes_per_word, limits), -c.lanes))
    )


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)
