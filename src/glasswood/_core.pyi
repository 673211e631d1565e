from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class EvaluatePlan:
    def __init__(self, forest: object) -> None: ...
    def margins(self, rows: NDArray[Any], out: NDArray[np.float64], n_threads: int, serial: bool) -> None: ...
    def leaves(self, rows: NDArray[Any], out: NDArray[np.int32], n_threads: int, serial: bool) -> None: ...
    def margins_on_grid(
        self,
        rows: NDArray[Any],
        grid: NDArray[Any],
        columns: list[int],
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
    def sums_on_grid(
        self,
        rows: NDArray[Any],
        grid: NDArray[Any],
        columns: list[int],
        weights: NDArray[np.float64] | None,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...

class NodePlan:
    def __init__(
        self, forest: object, window_levels: int, reductions: int, ranks: bool, lanes: bool = False
    ) -> None: ...
    @property
    def code_bits(self) -> int: ...
    @property
    def lane_cost(self) -> float: ...
    @property
    def class_cost(self) -> float: ...
    @property
    def trees_in_lanes(self) -> bool: ...
    @property
    def in_registers(self) -> bool: ...
    def margins(self, rows: NDArray[Any], out: NDArray[np.float64], n_threads: int) -> None: ...
    def leaves(self, rows: NDArray[Any], out: NDArray[np.int32], n_threads: int) -> None: ...
    def margins_of_ranks(
        self, rows: NDArray[Any], ranks: NDArray[np.uint8], out: NDArray[np.float64], n_threads: int
    ) -> None: ...
    def ranks(self, feature: int, values: NDArray[np.float32]) -> NDArray[np.uint8] | None: ...
    def moved_margins(
        self,
        rows: NDArray[Any],
        features: list[int],
        sources: NDArray[np.int64],
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...

def category_hashes(texts: list[str]) -> NDArray[np.int64]: ...
def object_floats(array: NDArray[np.object_]) -> NDArray[np.float64] | None: ...
def object_codes(array: NDArray[np.object_]) -> tuple[NDArray[np.int64], list[Any]] | None: ...

class StatisticTables:
    def __init__(
        self,
        projections: list[list[int]],
        tables: list[tuple[int, NDArray[np.uint64]]],
        columns: list[tuple[int, NDArray[np.float32]]],
    ) -> None: ...

class StatisticRows:
    def __init__(self, tables: StatisticTables, codes: NDArray[np.int32], values: list[NDArray[np.int32]]) -> None: ...
    def look_up(self, first: int, out: NDArray[np.float32], n_threads: int) -> None: ...

class RankTables:
    def __init__(
        self,
        projections: list[list[int]],
        tables: list[tuple[int, NDArray[np.uint64]]],
        columns: list[tuple[int, NDArray[np.uint8]]],
    ) -> None: ...

class RankRows:
    def __init__(self, tables: RankTables, codes: NDArray[np.int32], values: list[NDArray[np.int32]]) -> None: ...
    def look_up(self, first: int, out: NDArray[np.uint8], n_threads: int) -> None: ...

class RowPredictor:
    def __init__(
        self, plan: EvaluatePlan | NodePlan, result: str, missing: float, serial: bool, reduced: tuple[Any, ...]
    ) -> None: ...
    def __call__(self, row: NDArray[Any]) -> Any: ...

class GpuLaunch:
    def __init__(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: int,
        overlaps: bool = False,
    ) -> None: ...

class GpuPlan:
    def __init__(
        self,
        owner: object,
        launches: list[GpuLaunch],
        rows: int,
        result: int,
        make_buffers: Callable[[], Any] | None,
        n_bytes: int,
        first_beside: int,
        begin: int,
        sides: list[tuple[int, int]],
    ) -> None: ...

class GpuCalls:
    def __init__(
        self,
        driver: dict[str, int],
        array_type: type,
        current_stream: Callable[[], int],
        capsule: Any,
        empty: Callable[..., Any],
        out_of_memory: type,
        most: int,
        most_bytes: int,
    ) -> None: ...
    def again(self, X: Any, output: str, algorithm: str, device: str) -> Any: ...
    def keep(
        self,
        X: Any,
        output: str,
        algorithm: str,
        device: str,
        plan: GpuPlan,
        shape: tuple[int, ...],
        dtype: Any,
        spare_bytes: int,
    ) -> None: ...

class _ExplainPlan:
    def __init__(self, forest: object, player_of: NDArray[np.int32], interactions: bool) -> None: ...
    @property
    def expected_value(self) -> NDArray[np.float64]: ...
    def values(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int) -> None: ...
    def interactions(
        self, rows: NDArray[Any], selected: NDArray[np.int32], out: NDArray[Any], n_threads: int
    ) -> None: ...

class ExplainPlan32(_ExplainPlan): ...
class ExplainPlan64(_ExplainPlan): ...

class _SubtreeTables:
    def __init__(
        self,
        forest: object,
        player_of: NDArray[np.int32],
        table_bytes: int,
        forced: bool,
        of_pairs: bool,
        has_background: bool,
        n_threads: int,
    ) -> None: ...
    def like(self) -> _SubtreeTables: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def plan_bytes(self) -> int: ...
    @property
    def n_subtrees(self) -> int: ...
    @property
    def n_rebuilt(self) -> int: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def walked_trees(self) -> NDArray[np.int32]: ...
    @property
    def cut_nodes(self) -> NDArray[np.int64]: ...
    def build(self, n_threads: int) -> None: ...
    def build_background(self, rows: NDArray[Any], weight: NDArray[np.int64], total: int, n_threads: int) -> None: ...
    def has_few(self, n_rows: int) -> bool: ...
    def values(
        self,
        rows: NDArray[Any],
        out: NDArray[Any],
        adds: bool,
        n_threads: int,
        against: tuple[NDArray[Any], NDArray[np.int64], int] | None = None,
    ) -> None: ...
    def interactions(
        self,
        rows: NDArray[Any],
        places: NDArray[np.int32],
        out: NDArray[Any],
        adds: bool,
        n_threads: int,
        against: tuple[NDArray[Any], NDArray[np.int64], int] | None = None,
    ) -> None: ...

def effect_sums(
    forest: object,
    rows: NDArray[Any],
    weights: NDArray[np.float64] | None,
    grid: NDArray[Any],
    points: NDArray[Any],
    place: NDArray[np.int32],
    pair_place: NDArray[np.int32],
    n_points: NDArray[np.int32],
    first_main: NDArray[np.int64],
    first_joint: NDArray[np.int64],
    total: NDArray[np.float64],
    main: NDArray[np.float64],
    joint: NDArray[np.float64],
    row_main: NDArray[np.float64],
    row_joint: NDArray[np.float64],
    n_threads: int,
) -> None: ...

class PatternWalk:
    def __init__(
        self,
        forest: object,
        player_of: NDArray[np.int32],
        rows: NDArray[Any],
        weight: NDArray[np.int64],
        total: int,
        n_threads: int,
    ) -> None: ...
    @property
    def n_bytes(self) -> int: ...
    def values(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int) -> None: ...
    def interactions(
        self, rows: NDArray[Any], places: NDArray[np.int32], out: NDArray[Any], n_threads: int
    ) -> None: ...
    def indices(
        self, rows: NDArray[Any], players: NDArray[np.int32], is_banzhaf: bool, out: NDArray[Any], n_threads: int
    ) -> None: ...

class CoalitionRows:
    @property
    def n_bytes(self) -> int: ...

class CoalitionForest:
    def __init__(self, forest: object, player_of: NDArray[np.int32]) -> None: ...
    @property
    def n_used(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    def gpu_plan(self, column: NDArray[np.int32], rank: NDArray[np.int32], is_short: bool) -> dict[str, Any]: ...
    def bit_players(self) -> NDArray[np.int32]: ...
    def rows(self, rows: NDArray[Any], n_threads: int) -> CoalitionRows: ...
    def averages(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        share: NDArray[np.float64],
        response: int,
        scale: float,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
    def path_averages(self, rows: CoalitionRows, out: NDArray[np.float64], n_threads: int) -> None: ...
    def sums(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        share: NDArray[np.float64],
        response: int,
        scale: float,
        labels: NDArray[np.int32],
        numbers: NDArray[np.int32],
        kind: str,
        most: int,
        n_responses: int,
        out: NDArray[np.float64],
        n_differ: NDArray[np.int32],
        n_threads: int,
    ) -> None: ...
    def differing(self, rows: CoalitionRows, background: CoalitionRows, n_threads: int) -> NDArray[np.int32]: ...
    def margins(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        pairs: NDArray[np.int64],
        first: NDArray[np.int64],
        most: int,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
    def players(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        pairs: NDArray[np.int64],
        first: NDArray[np.int64],
        n: int,
        n_threads: int,
    ) -> NDArray[np.int32]: ...
    def chains(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        pairs: NDArray[np.int64],
        first: NDArray[np.int64],
        ranks: NDArray[np.int32],
        n_chains: int,
        out: NDArray[np.float64],
        margin_values: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
    def pair_sums(
        self,
        rows: CoalitionRows,
        background: CoalitionRows,
        pairs: NDArray[np.int64],
        first: NDArray[np.int64],
        responses: NDArray[np.float64],
        numbers: NDArray[np.int32],
        kind: str,
        most: int,
        n_responses: int,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...

class LinearPatternWalk:
    def __init__(
        self,
        forest: object,
        player_of: NDArray[np.int32],
        rows: NDArray[Any],
        weight: NDArray[np.int64],
        total: int,
        n_threads: int,
    ) -> None: ...
    @property
    def n_bytes(self) -> int: ...
    def values(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int) -> None: ...

class CoverWalk:
    def __init__(self, forest: object, player_of: NDArray[np.int32]) -> None: ...
    def indices(
        self, rows: NDArray[Any], players: NDArray[np.int32], is_banzhaf: bool, out: NDArray[Any], n_threads: int
    ) -> None: ...

def middle_of_trees(forest: object, has_background: bool) -> NDArray[np.float64]: ...

class SubtreeTables32(_SubtreeTables): ...
class SubtreeTables64(_SubtreeTables): ...

class RowTrees32:
    def __init__(self, forest: object, player_of: NDArray[np.int32], n_threads: int) -> None: ...

class RowTrees64:
    def __init__(self, forest: object, player_of: NDArray[np.int32], n_threads: int) -> None: ...

class _RowExplainer:
    def __init__(
        self, of: _SubtreeTables | RowTrees32 | RowTrees64, missing: float, top: int, reduced: tuple[Any, ...]
    ) -> None: ...
    def __call__(self, row: NDArray[Any]) -> Any: ...

class RowExplainer32(_RowExplainer): ...
class RowExplainer64(_RowExplainer): ...

class TableBatch:
    first_subtree: int
    n_subtrees: int
    first_chunk: int
    n_chunks: int
    is_kept: bool
    is_narrow: bool
    n_quads: int
    n_points: int
    most_stage_numbers: int
    most_stage_subtrees: int
    most_slots: int

def plan_gpu_tables(
    forest: object,
    player_of: NDArray[np.int32],
    table_bytes: int,
    real_bytes: int,
    forced: bool,
    of_pairs: bool,
    has_background: bool,
    n_threads: int,
) -> dict[str, Any]: ...
def breadth_first(
    offsets: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]: ...
def node_depth(offsets: NDArray[np.int64], left: NDArray[np.int32]) -> NDArray[np.int32]: ...
def max_threads() -> int: ...
def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def leaf_layouts() -> dict[str, Any]: ...
def gauss_legendre(n: int) -> NDArray[np.float64]: ...
def tree_shapes(forest: object, codes: object) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
def write_tape(
    forest: object,
    codes: object,
    walks: object,
    t: NDArray[np.float64],
    w: NDArray[np.float64],
    n_points: int,
    pairs: bool,
    selected: NDArray[np.uint8],
    in_double: bool,
) -> dict[str, Any]: ...
def extract_paths(forest: object, codes: object) -> dict[str, NDArray[Any]]: ...
def pack_paths(sizes: NDArray[np.int32], heuristic: int) -> NDArray[np.int32]: ...
def split_order(
    order: NDArray[np.int32], bounds: NDArray[np.int64], parts: NDArray[np.int32], n_threads: int
) -> None: ...
def rank_again(
    known: NDArray[np.int32],
    n_known: int,
    rows: NDArray[np.int32],
    values: NDArray[np.float64],
    ranks: NDArray[np.int32],
    order: NDArray[np.int32],
    distinct: NDArray[np.float64],
    starts: NDArray[np.int32],
) -> int: ...

GROW_LANES: int
GROW_ZONE: int
GROW_LIST_TILE: int
GROW_BLOCK_ROWS: int
GROW_SLOTS: int
GROW_GRID: int
GROW_SUMMED_BINS: int
RESPONSE_MARGIN: int
RESPONSE_LOGISTIC: int
RESPONSE_SOFTMAX: int
RESPONSE_EXP: int
RESPONSE_LOG_LOSS: int
RESPONSE_SOFTMAX_LOSS: int
QR_CHUNK_ROWS: int
QR_KEY_TILE: int
QR_KEYS: int
QR_EVENTS: int

def qr_block_rows(side: int) -> int: ...

class GrowSettings:
    def __init__(self) -> None: ...
    bic: bool
    qr: bool
    n: float
    alpha: float
    penalty: float
    split_weight: float
    levels: list[int]
    max_terms: int
    term: list[int]
    rows_per_parameter: float
    crossover: float
    mutation: float
    min_samples_leaf: int
    max_leaves: int
    max_depth: int
    seed: int
    population: int
    polish_interval: int
    polish_random: int
    n_threads: int
    cache_bytes: int
    swap_subtrees: float
    swap_splits: float
    swap_branches: float
    copy_better: float
    new_split: float
    shift_threshold: float
    prune: float
    search_threshold: float
    expand: float
    change_model: float
    polish_models: bool
    polish_variants: bool
    polish_thresholds: bool
    polish_splits: bool
    polish_pull_ups: bool
    polish_rotations: bool

class GrowStream:
    def __init__(self) -> None: ...
    stream: int
    gpu: int
    n_processors: int
    stride: int
    packet: int
    packet_host: int
    packet_bytes: int
    results: int
    results_host: int
    results_bytes: int
    partials: int
    n_partials: int
    partial_counts: int
    n_counts: int
    grid_sums: int
    grid_sums_bytes: int
    sum_rows: int
    add_partials: int
    count_rows: int
    list_rows: int
    count_ranks: int
    find_candidates: int
    advance_sums: int
    solve_candidates: int

class GrowPart:
    def __init__(self) -> None: ...
    first: int
    n_rows: int
    stream: int
    z: int
    ranks: int
    order: int
    zones: int
    z_bytes: int
    z_host: int
    ranks_host: int
    order_host: int
    ranks_host_step: int
    lists: int
    list_bytes: int
    list_sums: int
    list_sums_bytes: int

class GrowQr:
    def __init__(self) -> None: ...
    events: list[int]
    packet: int
    packet_host: int
    packet_bytes: int
    results: int
    results_bytes: int
    leaves: int
    sorted_leaves: int
    sorted_rows: int
    spare_rows: int
    tile_counts: int
    matrices: int
    triangles: int
    n_triangle_doubles: int
    means: int
    chunks: int
    coefficients: int
    n_coefficients: int
    redistribute: int
    count_keys: int
    scan_keys: int
    separate: int
    average_columns: int
    reorganise: int
    factorise: int
    calc_models: int
    estimate_errors: int
    reduction: int

class GrowGpu:
    def __init__(self) -> None: ...
    streams: list[GrowStream]
    parts: list[GrowPart]
    qr: GrowQr | None
    driver: dict[str, int]
    cpu_work: int
    solve_work: float
    n_lists: int
    n_cells: int
    sectors: int

class GrowEngine:
    def __init__(self, rows: object, settings: GrowSettings, gpu: GrowGpu | None) -> None: ...
    def initialise(self, trees: list[dict[str, Any]], seconds: float = ...) -> None: ...
    def step(
        self, generations: int, patience: int, tolerance: float, seconds: float, least_work: float = 0.0
    ) -> list[tuple[int, float, float, int, float]]: ...
    def is_at_rest(self, patience: int, least_work: float = 0.0) -> bool: ...
    def best(self) -> dict[str, Any]: ...
    def population(self) -> list[dict[str, Any]]: ...
    def apply(
        self, name: str, tree: dict[str, Any], node: int, other: dict[str, Any] | None, other_node: int, seed: int
    ) -> list[dict[str, Any]]: ...
    @property
    def work(self) -> float: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def gpu_counters(self) -> tuple[int, float]: ...
    @property
    def procedure_seconds(self) -> dict[str, float]: ...
    @property
    def counters(self) -> tuple[int, int, int, int]: ...

def spread_rows(
    starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], place: NDArray[np.int32], out: NDArray[Any]
) -> None: ...
def strongest_entries(
    matrices: NDArray[np.floating],
    entries: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.floating],
    n_threads: int,
) -> None: ...
def add_magnitudes(
    matrices: NDArray[np.floating], entries: NDArray[np.int64], strength: NDArray[np.float64], n_threads: int
) -> None: ...
def add_values(
    values: NDArray[np.floating],
    total: NDArray[np.float64],
    squares: NDArray[np.float64],
    magnitudes: NDArray[np.float64],
    leads: NDArray[np.int64],
    counts: NDArray[np.int64],
    lowest: int,
    n_threads: int,
) -> None: ...
def index_leaves(
    positions: NDArray[np.int32],
    first_leaf: NDArray[np.int32],
    order: NDArray[np.int32],
    counts: NDArray[np.uint16] | None,
    row_weight: NDArray[np.float64] | None,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...
def weigh_leaves(
    positions: NDArray[np.int32],
    first_leaf: NDArray[np.int32],
    counts: NDArray[np.uint16] | None,
    row_weight: NDArray[np.float64] | None,
    n_threads: int,
) -> NDArray[np.float64]: ...

class RowShares:
    def __init__(
        self,
        offsets: NDArray[np.int64],
        rows: NDArray[np.int32],
        first_leaf: NDArray[np.int32],
        weight: NDArray[np.uint16],
        n_rows: int,
    ) -> None: ...
    @property
    def prefers_codes(self) -> bool: ...
    def nearest(
        self,
        positions: NDArray[np.int32],
        first_own: int,
        rows: NDArray[np.int32],
        shares: NDArray[np.int32],
        by: str,
        n_threads: int,
    ) -> None: ...
    def squares(
        self,
        positions: NDArray[np.int32],
        first_own: int,
        group: NDArray[np.int32],
        query_group: NDArray[np.int32],
        out: NDArray[np.uint64],
        by: str,
        n_threads: int,
    ) -> None: ...

class TargetMixture:
    def __init__(
        self,
        offsets: NDArray[np.int64],
        ranks: NDArray[np.int32],
        first_leaf: NDArray[np.int32],
        mass: NDArray[np.float64],
        share: NDArray[np.float64],
        targets: NDArray[np.float64],
    ) -> None: ...
    def quantiles(
        self,
        positions: NDArray[np.int32],
        q: NDArray[np.float64],
        linear: bool,
        weighted: bool,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
    def below(
        self,
        positions: NDArray[np.int32],
        ranks: NDArray[np.int32],
        weighted: bool,
        out: NDArray[np.float64],
        n_threads: int,
    ) -> None: ...
