"""Runs the engine: generations in slices, between which callbacks, the progress bar and Ctrl-C have their turn."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood import _core
from glasswood.base.device import DeviceError, find_gpus, is_cuda_usable, parse_device
from glasswood.base.escapes import shown
from glasswood.base.parallel import n_threads
from glasswood.grow.search.process import Interrupts
from glasswood.grow.tree.pruning import choice_factor
from glasswood.model.facts import CUT_SHORT

if TYPE_CHECKING:
    from glasswood.grow.cuda.rows import RowsOnGpus
    from glasswood.grow.data.columns import TrainingColumns
    from glasswood.grow.data.rows import TrainingRows
    from glasswood.grow.data.sorting import Sorter

SLICE_SECONDS = 0.2
"""Generations run for about this long between two looks at the outside."""

GPU_WORK = 5e6
"""device="auto" takes a GPU from this many rows times columns squared. An H200 was faster a generation from a tenth of
that, but a first search pays 0.6 s for the GPU's set-up."""

PATIENCE = 100
"""Generations without improvement after which n_iter_no_change="auto" ends a search."""

LEAST_WORK = 2.0
"""Seconds of counted work before which it does not: small data take a hundred generations in a tenth of a second."""

FEW_GENERATIONS = 3
"""Generations before which a search has hardly begun: the first one only begins the local search."""

LEAST_SECONDS = 1.0
"""Seconds for splits that do not pay of the trees that were met, where the time limit has ended the search."""

CACHE_BYTES = 2**28

SORTED_ROWS = 1 << 20
"""Fewer rows are sorted on the cores, in a tenth of a second a column."""

OPERATORS: dict[str, float] = {
    "swap_subtrees": 1.0,
    "swap_splits": 1.0,
    "swap_branches": 1.0,
    "copy_better": 1.0,
    "new_split": 1.0,
    "shift_threshold": 1.0,
    "prune": 0.5,
    "search_threshold": 0.1,
    "expand": 1.0,
    "change_model": 1.0,
}
"""Relative rates: four crossovers, four mutations of a test, two of a leaf."""

POLISH = ("models", "variants", "thresholds", "splits", "pull_ups", "rotations")
"""Moves of the local search."""


Trees = list[dict[str, Any]]
"""Trees as arrays by node: tests by rank in the engine, by value (`to_values`) between two searches."""


@dataclass(frozen=True)
class Progress:
    """What a callback is told.

    Attributes
    ----------
    generation : int
    fitness : float
        Fitness of the best tree; smaller is better.
    rmse : float
        Root mean squared error of the best tree on the training rows, in units of y.
    n_leaves : int
        Number of leaves of the best tree.
    mean_leaves : float
        Over the population.
    seconds : float
        Since the call of `fit`.
    least_seconds_left, most_seconds_left : float
        Until the search ends if nothing improves any more, and by the other limits at the latest; from the pace so far.
    """

    generation: int
    fitness: float
    rmse: float
    n_leaves: int
    mean_leaves: float
    seconds: float
    least_seconds_left: float = math.inf
    most_seconds_left: float = math.inf


@dataclass(frozen=True, eq=False)
class Circumstances:
    """What a search depends on beside its data and the parameters of the estimator.

    Attributes
    ----------
    seed : int
    started : float
        `time.perf_counter` when the call began.
    home : int or None
        GPU on which the caller's rows live.
    population : list of dict
        Trees to start from, by value.
    callbacks : sequence of callables
    interrupts : Interrupts
    margin : float
        Part of the best tree's error by which trees may exceed it that the search is to keep; 0: it keeps none.
    """

    seed: int
    started: float = field(default_factory=time.perf_counter)
    home: int | None = None
    population: Sequence[dict[str, Any]] = ()
    callbacks: Sequence[Callable[..., Any]] = ()
    interrupts: Interrupts = field(default_factory=Interrupts)
    margin: float = 0.0

    def now(self, **changes: Any) -> Circumstances:
        """Return those of a search that begins now, from no population unless one is among the changes."""
        return replace(self, **{"started": time.perf_counter(), "population": (), **changes})

    def beside(self, seed: int) -> Circumstances:
        """Return those of a search beside others, which an interrupt ends without an exception."""
        return self.now(seed=seed, callbacks=(), interrupts=Interrupts(self.interrupts), margin=0.0)


@dataclass
class SearchResult:
    """The best tree as arrays by node, the last population, one record a generation, and what the search took.

    `cut_short` says that the time limit ended it before `FEW_GENERATIONS`; `met` are trees of other splits near the
    best one, if they were asked for, and the best one itself.
    """

    best: dict[str, Any]
    population: list[dict[str, Any]]
    history: list[Progress] = field(default_factory=list)
    interrupted: bool = False
    n_evaluations: int = 0
    n_rows_read: int = 0
    procedure_seconds: dict[str, float] = field(default_factory=dict)
    cut_short: bool = False
    met: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the evolutionary search, the same for all estimators; tests and benchmarks have others.

    Attributes
    ----------
    crossover_probability, mutation_probability : float
        Probability of crossing each pair of trees, and of mutating each tree.
    tol : float
        Least relative gain of fitness that counts as an improvement.
    test_weight : float
        Number of parameters that a test counts as under BIC. A threshold is chosen among all rows, so it costs more
        than a coefficient. With 1, the textbook count, chance cuts off small leaves.
    alpha : float
        Price of a parameter under ``fitness="weighted"``.
    rows_per_parameter : float
        Smallest number of rows in a leaf for each coefficient of its model, including the intercept.
    operator_rates : dict
        Rates of operators that differ from `OPERATORS`; 0 switches an operator off.
    polish : sequence of str
        Moves of the local search, some of `POLISH`.
    polish_interval : int
        Generations between two polishings.
    polish_trees : int
        Random trees per polishing. After the first polishing, those of every four are polished together; after 20
        generations without improvement, every second of these trees is newly grown.
    """

    crossover_probability: float = 0.2
    mutation_probability: float = 0.8
    tol: float = 1e-6
    test_weight: float = 2.0
    alpha: float = 0.001
    rows_per_parameter: float = 5.0
    operator_rates: Mapping[str, float] = field(default_factory=dict)
    polish: Sequence[str] = POLISH
    polish_interval: int = 5
    polish_trees: int = 1


def find_sorter(device: str, home: int | None, n_rows: int, n_columns: int) -> Sorter | None:
    """Find what sorts many rows on the GPUs that are to sum them; None for the cores."""
    if n_rows < SORTED_ROWS or not _may_take_gpus(device, home, n_rows * (n_columns + 2) ** 2):
        return None
    from glasswood.grow.cuda.sorting import GpuSorter

    try:
        return GpuSorter(find_gpus(_with_home(device, home)))
    except DeviceError:
        return None  # place_rows says what is wrong with them


def _may_take_gpus(device: str, home: int | None, work: float) -> bool:
    """Whether a search of this work, rows times columns squared, is asked to run on GPUs, or is faster there."""
    kind, _ = parse_device(device)
    return kind not in {"cpu", "auto"} or (
        kind == "auto" and (home is not None or (work >= GPU_WORK and is_cuda_usable()))
    )


def _with_home(device: str, home: int | None) -> str:
    """Name the GPU that the caller's array lives on where the device leaves open which."""
    kind, index = parse_device(device)
    if home is not None and (kind == "auto" or (kind == "cuda" and index is None)):
        return f"cuda:{home}"
    return "cuda" if kind == "auto" else device


def place_rows(
    device: str,
    algorithm: str,
    home: int | None,
    rows: TrainingRows,
    chunks: str | int | None = "auto",
    max_leaves: int = 64,
) -> RowsOnGpus | None:
    """Put the rows on the GPUs that are to sum them; None for the cores.

    Parameters
    ----------
    device : str
    algorithm : {"gram", "qr"}
    home : int or None
        GPU on which the caller's array lives.
    rows : TrainingRows
    chunks : {"auto"}, int or None
    max_leaves : int
        Largest number of leaves of a tree.

    Raises
    ------
    DeviceError
        If a GPU is asked for and cannot be used. Where it was not asked for, a warning says so.
    """
    kind, _ = parse_device(device)
    if not _may_take_gpus(device, home, len(rows.y) * rows.width * rows.width):
        return None
    from glasswood.grow.cuda.parts import MOST_COLUMNS
    from glasswood.grow.cuda.qr_rows import QrRowsOnGpu
    from glasswood.grow.cuda.rows import RowsOnGpus

    if kind == "auto" and rows.width > MOST_COLUMNS:
        if home is not None:
            message = (
                f"growing on the CPU: leaf models have {rows.width} columns, a GPU supports at most {MOST_COLUMNS}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None
    try:
        gpus = find_gpus(_with_home(device, home))
        return QrRowsOnGpu(rows, gpus[0], max_leaves) if algorithm == "qr" else RowsOnGpus(rows, gpus, chunks)
    except DeviceError as error:
        if kind != "auto":
            raise
        warnings.warn(f"growing on the CPU: {shown(error)}", RuntimeWarning, stacklevel=3)
        return None


def is_pruned(model: Any) -> bool:
    """Whether the best tree of the search is pruned by the noise about its splits and terms."""
    return bool(model.noise == "any" and model.fitness == "bic")


def engine_numbers(
    model: Any, rows: TrainingRows, columns: TrainingColumns, copies: float, seed: int, margin: float = 0.0
) -> dict[str, Any]:
    """Numbers that the engine needs, by name.

    Parameters
    ----------
    model : ModelTreeRegressor
    rows : TrainingRows
    columns : TrainingColumns
    copies : float
        Mean number of copies of each row: BIC counts rows without copies, and a leaf needs as many times as many rows.
    seed : int
    margin : float
        As in `Circumstances`.
    """
    search: SearchSettings = model.search_settings
    moves = search.polish
    bic, any_sets = model.fitness == "bic", bool(columns.is_categorical.any())
    factor = choice_factor(len(rows.y) / copies, columns.n_features) if is_pruned(model) else 1.0
    return {
        **OPERATORS,
        **search.operator_rates,
        **{f"polish_{move}": move in moves for move in POLISH},
        "bic": bic,
        "n": len(rows.y) / copies if bic else len(rows.y),
        "alpha": search.alpha,
        "penalty": model.penalty * factor,
        "split_weight": search.test_weight if bic else 1,
        "levels": [0 if table is None else len(table) for table in columns.categories] if any_sets else [],
        "min_samples_leaf": -(-model.min_samples_leaf * copies // 1),
        "rows_per_parameter": search.rows_per_parameter * copies,
        "max_terms": -1 if model.max_terms_per_leaf is None else model.max_terms_per_leaf,
        "term": columns.sources.tolist(),
        "max_leaves": model.max_leaves,
        "max_depth": model.max_depth,
        "seed": seed,
        "population": model.population_size,
        "crossover": search.crossover_probability,
        "mutation": search.mutation_probability,
        "polish_interval": search.polish_interval if moves and model.algorithm == "gram" else 0,
        "polish_random": search.polish_trees,
        "n_threads": n_threads(model.n_jobs),
        "cache_bytes": CACHE_BYTES,
        "qr": model.algorithm == "qr",
        "margin": margin,
    }


def engine_settings(values: dict[str, Any]) -> _core.GrowSettings:
    """Set what the engine knows by these names, each in its type."""
    settings = _core.GrowSettings()
    for name, value in values.items():
        setattr(settings, name, type(getattr(settings, name))(value))
    return settings


def make_engine(rows: TrainingRows, settings: dict[str, Any], gpu: RowsOnGpus | None = None) -> _core.GrowEngine:
    """Build an engine over the training rows."""
    return _core.GrowEngine(rows, engine_settings(settings), None if gpu is None else gpu.search)


def search(
    engine: _core.GrowEngine,
    rows: TrainingRows,
    model: Any,
    given: Circumstances,
    gpu: RowsOnGpus | None = None,
) -> SearchResult:
    """Run generations until one of the model's limits ends them; an interrupt keeps the best tree."""
    history: list[Progress] = []
    met: list[dict[str, Any]] = []
    interrupted = False
    interrupts, tol, (patience, least_work) = given.interrupts, model.search_settings.tol, at_rest(model)
    try:
        with contextlib.nullcontext() if gpu is None else gpu.searching(engine):
            engine.initialise(to_ranks(list(given.population), rows), _seconds(model, given.started))
            n_steps = 1
            interrupts.raises, interrupted = True, interrupts.have_come
            while _goes_on(engine, model, given.started) and not interrupted:
                began = time.perf_counter()
                left = _seconds(model, given.started)
                wanted = min(n_steps, model.generations - engine.counters[0])
                records = engine.step(wanted, patience, tol, left, least_work)
                history += [_progress(record, rows, given.started) for record in records]
                interrupted = engine.interrupted or interrupts.have_come or _tell(engine, model, given, history)
                n_steps = _next_slice(n_steps, time.perf_counter() - began)
            if given.margin and not interrupted:
                met = engine.met(max(_seconds(model, given.started), LEAST_SECONDS))
            interrupts.raises = False
    except KeyboardInterrupt:
        interrupted = True
    n_generations, _, n_evaluations, n_rows_read = engine.counters
    is_late = not interrupted and _seconds(model, given.started) <= 0
    ended = is_late and n_generations < min(FEW_GENERATIONS, model.generations)
    return SearchResult(
        engine.best(),
        engine.population(),
        history,
        interrupted,
        n_evaluations,
        n_rows_read,
        engine.procedure_seconds,
        ended,
        met,
    )


def cut_short_text(*results: SearchResult) -> str:
    """Say it, as it follows an objective, if the time limit ended a search that had hardly begun; else nothing."""
    return f"; {CUT_SHORT}, which had hardly begun" if any(result.cut_short for result in results) else ""


def warn_if_cut_short(limit: float | None, *results: SearchResult) -> None:
    """Warn if the time limit ended a search that had hardly begun."""
    if cut := [result for result in results if result.cut_short]:
        message = (
            f"{CUT_SHORT} after {len(cut[0].history)} generations (time_limit={limit:g}): better trees have hardly "
            "been looked for; raise time_limit, or pass fewer columns or rows"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def at_rest(model: Any) -> tuple[int, float]:
    """Say after how many generations without improvement the search ends, and not before how much counted work."""
    if model.n_iter_no_change == "auto":
        return PATIENCE, LEAST_WORK
    return model.n_iter_no_change, 0.0


def _seconds(model: Any, started: float) -> float:
    """Seconds that are left of the limit."""
    return math.inf if model.time_limit is None else model.time_limit - (time.perf_counter() - started)


def _goes_on(engine: _core.GrowEngine, model: Any, started: float) -> bool:
    in_time = _seconds(model, started) > 0
    return engine.counters[0] < model.generations and in_time and not engine.is_at_rest(*at_rest(model))


def _next_slice(n_steps: int, seconds: float) -> int:
    return int(np.clip(n_steps * SLICE_SECONDS / max(seconds, 1e-6), 1, 2 * n_steps + 1))


def _progress(record: tuple[int, float, float, int, float], rows: TrainingRows, started: float) -> Progress:
    generation, fitness, error, leaves, mean_leaves = record
    rmse = math.sqrt(max(error, 0.0) / len(rows.y)) * (rows.target.scale or 0.0)
    return Progress(generation, fitness, rmse, leaves, mean_leaves, time.perf_counter() - started)


def _tell(engine: _core.GrowEngine, model: Any, given: Circumstances, history: list[Progress]) -> bool:
    """Whether any callback asks to stop."""
    if not history or not given.callbacks:
        return False
    least, most = _seconds_left(engine, model, history[-1])
    progress = replace(history[-1], least_seconds_left=least, most_seconds_left=most)
    return any(callback(progress) for callback in given.callbacks)


def _seconds_left(engine: _core.GrowEngine, model: Any, now: Progress) -> tuple[float, float]:
    """Least and most."""
    patience, least_work = at_rest(model)
    generation, improved, _, _ = engine.counters
    pace = now.seconds / max(generation, 1)
    limits = [pace * (model.generations - generation)]
    if model.time_limit is not None:
        limits.append(model.time_limit - now.seconds)
    most = max(min(limits), 0.0)
    rest = pace * max(patience - (generation - improved), 0)
    if (work := engine.work) > 0:
        rest = max(rest, now.seconds * (least_work / work - 1))
    return min(rest, most), most


def to_values(population: Trees, rows: TrainingRows) -> Trees:
    """Trees whose cuts are the values at which they cut; +inf where every value goes left."""
    return [{**_structure(tree), "value": _values(tree, rows)} for tree in population]


def to_ranks(population: Trees, rows: TrainingRows) -> Trees:
    """Put the trees over other training rows; those that test what is no longer there are dropped."""
    n_features = len(rows.column)
    fitting = [tree for tree in population if len(tree["model"]) == n_features * len(tree["feature"])]
    return [{**_structure(tree), "threshold": _ranks(tree, rows)} for tree in fitting]


def _structure(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: tree[name] for name in ("feature", "missing_left", "left", "right", "model")}


def _values(tree: dict[str, Any], rows: TrainingRows) -> Any:
    values = np.zeros(len(tree["threshold"]))
    for node in np.flatnonzero(tree["feature"] >= 0):
        distinct, cut = rows.distinct(tree["feature"][node]), tree["threshold"][node]
        values[node] = distinct[cut] if cut < len(distinct) else np.inf
    return values


def _ranks(tree: dict[str, Any], rows: TrainingRows) -> Any:
    cuts = np.zeros(len(tree["value"]), np.int32)
    for node in np.flatnonzero(tree["feature"] >= 0):
        cuts[node] = np.searchsorted(rows.distinct(tree["feature"][node]), tree["value"][node])
    return cuts
