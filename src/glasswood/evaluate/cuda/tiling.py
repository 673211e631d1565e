"""The division of rows and trees among the blocks of a GPU (evaluate/cuda/walk_tiles.cu): a model of the costs.

Its constants are fitted to the times of all tilings of ten forests, 100 and 1000 trees of depth 4 to 16, and batches of
a thousand to a million rows, on an H200.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from glasswood.cuda.per_gpu import Limits

THREADS, TEAM_THREADS = 1024, 768
"""Threads of a multiprocessor that the kernel's registers allow; those of several teams, whose sums are longer."""

LEAST_THREADS = 64
"""Threads of a block at least: with fewer, nodes are read one by one instead."""

TEAMS = {384: (1,), 256: (1, 3), 192: (1, 4), 128: (1, 2, 3, 6), 64: (1, 4, 6, 12), 32: (1, 8, 12)}
"""Numbers of teams that may share a tile's rows, by lanes."""

SHARING = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 26, 32, 40, 52)
STAGES = (32768, 16384, 8192, 4096)
"""Bytes of a stage of trees, of which a block has two."""

SUM_BYTES = 16
"""Bytes of the sum of a row and team (ExactSum)."""

LEAST_TEAM_BYTES = 64
"""Bytes of the stage for each team, at least: a header and the two upper levels."""

RESERVED_BYTES = 1024
"""Shared memory that the driver takes of each block."""

TILES_PER_MULTIPROCESSOR = 2
"""Tiles from which blocks do not share the trees of a tile."""

ISSUED = 7080.0
"""Instructions that a multiprocessor issues in a microsecond."""

TOP, LEVEL, LINKED, JOINED, UNSTAGED = 3.3, 7.7, 1.5, 15.8, 21.6
"""Instructions of a row and tree: its top and its leaf, a level of a heap, times this of linked nodes; a sum that knows
its order; a level that is not staged."""

TREE_LATENCY, LEVEL_LATENCY, UNSTAGED_LATENCY, GROUP_LATENCY = 0.033, 0.045, 0.37, 0.45
"""Microseconds of a walk if nothing else is to do: of a tree, a level, one that is not staged; of a group of trees."""

OVERLAP = 2.5
"""Exponent of the sum of instructions and latency: 1 if neither hides the other, large if the longer is all."""

COPIED, EXPOSED = 43_900.0, 0.48
"""Bytes that a multiprocessor takes from the second-level cache in a microsecond while all do; what the walks leave."""

BLOCK_TIME, JOIN_TIME, JOINED_AT_ONCE, READ_TIME = 3.7, 1.6, 8, 0.45
"""Microseconds to start a block, to wait for its tile, and (the last) to read JOINED_AT_ONCE sums."""

VALUES_TIME, VALUES_MOVED = 3.0, 1_500_000.0
"""Microseconds of a launch that adds trees' values up; bytes of them that are written and read in one."""

Numbers = NDArray[Any]


class Work(NamedTuple):
    """Rows and their columns, codes in a word, trees, their levels and bytes, and whether they are heaps.

    Blocks that share a tile join sums, or divide `n_outputs`, or if that is 0 write the values of some trees.
    """

    n_rows: int
    n_columns: int
    codes_per_word: int
    n_trees: int
    depth: int
    n_bytes: int
    is_heap: bool
    joins: bool
    n_outputs: int = 0


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
        lanes, teams, stage, _ = _columns_of([self])
        return int(_shared_bytes(lanes, teams, stage, n_columns, codes_per_word)[0])


def fits(n_columns: int, limits: Limits, *, has_teams: bool) -> bool:
    """Whether a tile of `n_columns` columns of 8-bit codes fits into shared memory, for teams or for one."""
    lanes, teams, stage, _ = _tilings(1)
    found = _resident(lanes, teams, stage, n_columns, 4, limits) > 0
    return bool((found & (lanes * teams >= LEAST_THREADS) & (has_teams | (teams == 1))).any())


@functools.lru_cache(maxsize=1024)
def choose_tiling(work: Work, limits: Limits) -> Tiling:
    """Pick the tiling with the least expected time; tiles must fit."""
    lanes, teams, stage, sharing = tilings = _tilings(max(work.n_outputs, 1))
    n_tiles = -(-work.n_rows // (lanes * work.codes_per_word))
    is_many = n_tiles >= limits.n_multiprocessors * TILES_PER_MULTIPROCESSOR
    most = np.where(is_many, 1, work.n_outputs or work.n_trees)
    usable = (_resident(lanes, teams, stage, work.n_columns, work.codes_per_word, limits) > 0) & (sharing <= most)
    if work.n_outputs:
        usable &= teams == 1
    times = np.where(usable, _expected_times(work, tilings, limits), np.inf)
    best = int(np.argmin(times))
    return Tiling(*(int(one[best]) for one in tilings))


def expected_time(work: Work, tiling: Tiling, limits: Limits) -> float:
    """Microseconds of the walks."""
    return float(_expected_times(work, _columns_of([tiling]), limits)[0])


def _expected_times(work: Work, tilings: tuple[Numbers, ...], limits: Limits) -> Numbers:
    lanes, teams, stage, sharing = tilings
    of_tree, of_team = work.n_bytes / max(work.n_trees, 1), stage / teams
    is_large = of_team < of_tree
    levels = np.where(is_large, 1 + np.log2(np.maximum(of_tree / of_team, 1)), 0)
    of_group = np.where(is_large, teams, _trees_of_groups(work.n_trees, work.n_bytes, teams, stage, sharing))
    if work.n_outputs:
        of_group = np.minimum(of_group, -(-work.n_trees // work.n_outputs))
    n_groups = -(-work.n_trees // of_group)
    of_block = -(-n_groups // sharing)
    n_sharing = -(-n_groups // of_block)
    of_one = -(-(-(-work.n_rows // (lanes * work.codes_per_word)) * n_sharing) // limits.n_multiprocessors)
    turns = -(-of_one // np.maximum(_resident(lanes, teams, stage, work.n_columns, work.codes_per_word, limits), 1))
    rounds = of_block * -(-of_group // teams)
    is_joined = (teams * sharing > 1) & (work.n_outputs == 0)
    level = LEVEL if work.is_heap else LEVEL * LINKED
    instructions = work.codes_per_word * (TOP + level * work.depth + JOINED * is_joined + UNSTAGED * levels)
    issue = of_one * (lanes * teams / 32) * rounds * instructions / ISSUED
    latency = turns * rounds * (TREE_LATENCY + LEVEL_LATENCY * work.depth + UNSTAGED_LATENCY * levels)
    copied = np.where(is_large, work.n_trees * of_team, work.n_bytes) / n_sharing + 4 * work.n_columns * lanes
    time = (issue**OVERLAP + latency**OVERLAP) ** (1 / OVERLAP) + EXPOSED * of_one * copied / COPIED
    time += BLOCK_TIME * turns + GROUP_LATENCY * turns * of_block
    reads = -(-lanes * work.codes_per_word // (lanes * teams)) * -(-n_sharing // JOINED_AT_ONCE)
    result: Numbers = time + (is_joined & (n_sharing > 1)) * (JOIN_TIME + READ_TIME * reads)
    return result


def values_time(n_bytes: int) -> float:
    """Microseconds to write the values of trees and to add them up in a launch of their own."""
    return VALUES_TIME + n_bytes / VALUES_MOVED


def trees_of_group(n_trees: int, n_bytes: int, tiling: Tiling) -> int:
    """Trees that are staged together: those of a block are divided evenly, in multiples of the teams."""
    return int(_trees_of_groups(n_trees, n_bytes, *_columns_of([tiling])[1:])[0])


def _trees_of_groups(n_trees: int, n_bytes: int, teams: Numbers, stage: Numbers, sharing: Numbers) -> Numbers:
    of_block = -(-n_trees // sharing)
    n_groups = -(-of_block // np.maximum(1, stage * n_trees // max(n_bytes, 1)))
    evenly = -(-of_block // n_groups)
    result: Numbers = -(-evenly // teams) * teams
    return result


def _shared_bytes(lanes: Numbers, teams: Numbers, stage: Numbers, n_columns: int, codes_per_word: int) -> Numbers:
    sums = np.where(teams > 1, lanes * codes_per_word * teams * SUM_BYTES, 0)
    result: Numbers = n_columns * lanes * 4 + np.maximum(2 * stage, sums)
    return result


def _resident(
    lanes: Numbers, teams: Numbers, stage: Numbers, n_columns: int, codes_per_word: int, limits: Limits
) -> Numbers:
    """Blocks that a multiprocessor has room for; 0 if a block does not fit."""
    shared = _shared_bytes(lanes, teams, stage, n_columns, codes_per_word)
    threads = np.where(teams == 1, THREADS, TEAM_THREADS) // (lanes * teams)
    resident = np.maximum(1, np.minimum(limits.shared_per_multiprocessor // (shared + RESERVED_BYTES), threads))
    result: Numbers = np.where(shared > limits.shared_per_block, 0, resident)
    return result


@functools.lru_cache(maxsize=64)
def _tilings(n_outputs: int) -> tuple[Numbers, ...]:
    """Lanes, teams, stage and sharing of all tilings; blocks of one output each are among them."""
    return _columns_of(
        [
            Tiling(lanes, teams, stage, sharing)
            for lanes, all_teams in TEAMS.items()
            for teams in all_teams
            for stage in STAGES
            if stage >= LEAST_TEAM_BYTES * teams
            for sharing in sorted({*SHARING, n_outputs})
        ]
    )


def _columns_of(tilings: list[Tiling]) -> tuple[Numbers, ...]:
    return tuple(np.array([(one.lanes, one.teams, one.stage, one.sharing) for one in tilings], np.int64).T)
