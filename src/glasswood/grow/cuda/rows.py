"""The training rows on GPUs: buffers and kernels of the search; the engine launches them itself."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glasswood import _core
from glasswood.base.device import DeviceError, capability, import_cupy
from glasswood.base.escapes import shown
from glasswood.base.parallel import n_threads, side_by_side
from glasswood.cuda.compiler import compile_kernel, compiler_architecture, variant
from glasswood.grow.cuda import parts
from glasswood.grow.cuda.sorting import PORTABLE, sent
from glasswood.grow.data.rows import rank_zones

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.grow.cuda.parts import GpuLayout
    from glasswood.grow.data.rows import TrainingRows

PART_ARRAYS = ("z", "ranks", "order")

C_TYPES = {8: "double", 4: "float"}
"""What kernels call the numbers of z, by their bytes."""

PADDED_BYTES = 16 << 20
"""Size of the rows of z that are padded on the GPU at a time."""

SLACK_BYTES = 64 << 20
"""Left free: the driver rounds allocations up, and kernels and streams take memory of their own."""


def filled(record: Any, **values: Any) -> Any:
    """Set fields of a record of the core, which refuses names that it does not have."""
    for name, value in values.items():
        setattr(record, name, value)
    return record


def kernels(stride: int, z_bytes: int = 8) -> dict[str, Variant]:
    """Kernels of a search over `stride` columns of z, `z_bytes` bytes each, by the engine's names for them."""
    of_lists = ("count_rows", "list_rows", "count_ranks", "find_candidates", "advance_sums", "solve_candidates")
    return {
        "sum_rows": variant("grow/cuda/kernels/sum_rows", STRIDE=stride, STORED=C_TYPES[z_bytes]),
        "add_partials": variant("grow/cuda/kernels/add_partials", STRIDE=stride),
        **{name: variant(f"grow/cuda/kernels/{name}") for name in of_lists},
    }


def padded_rows(rows: TrainingRows, first: int = 0, last: int | None = None) -> NDArray[Any]:
    """Rows of z with zeros behind them up to the width that the kernels take."""
    chosen = rows.z[first:last, : rows.width]
    z = np.zeros((len(chosen), parts.padded_width(rows.width)), rows.z.dtype)
    z[:, : rows.width] = chosen
    return z


def split_order(rows: TrainingRows, bounds: Sequence[int]) -> list[NDArray[np.int32]]:
    """Orders of the parts that lie between the bounds, each (n_features, rows of the part), rows counted within."""
    if len(bounds) == 2:
        return [rows.order]
    flat = np.empty(rows.order.size, np.int32)
    _core.split_order(rows.order, np.asarray(bounds, np.int64), flat, n_threads(None))
    n_features = len(rows.order)
    return [
        flat[n_features * first : n_features * last].reshape(n_features, last - first)
        for first, last in itertools.pairwise(bounds)
    ]


def free_bytes(cupy: Any) -> int:
    """Memory of the current GPU that a search may take."""
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    free = int(cupy.cuda.runtime.memGetInfo()[0])
    if bound := int(pool.get_limit()):
        free = min(free, bound - int(pool.total_bytes()))
    return max(0, free - SLACK_BYTES)


class Memory(Protocol):
    """One GPU, as the layout of the rows needs it. What it hands out lives as long as it does."""

    n_processors: int

    def place(self, array: NDArray[Any]) -> int:
        """Copy an array to the GPU."""

    def place_padded(self, z: NDArray[Any], n_columns: int) -> int:
        """Copy rows of z to the GPU, each padded with zeros to `n_columns` columns."""

    def reserve(self, n_bytes: int) -> int:
        """Take uninitialised memory of the GPU."""

    def pin(self, n_bytes: int) -> int:
        """Take memory of the host that the GPU reads and writes."""

    def register(self, array: NDArray[Any]) -> int:
        """Keep an array of the host where the GPU copies from it at full speed."""

    def make_stream(self) -> int:
        """Make a stream that waits for no other."""

    def make_event(self) -> int:
        """Make an event that takes the time."""

    def load(self, wanted: dict[str, Variant]) -> dict[str, int]:
        """Load kernels, by the names that the engine gives them."""


class GpuMemory:
    """`Memory` of a real GPU, by CuPy."""

    def __init__(self, gpu: int) -> None:
        self._cupy = import_cupy()
        self._gpu = gpu
        self._kept: list[Any] = []
        self._registered: list[int] = []
        with self._cupy.cuda.Device(gpu) as device:
            self.n_processors: int = int(device.attributes["MultiProcessorCount"])
            self.free: int = free_bytes(self._cupy)

    @contextlib.contextmanager
    def _on_gpu(self) -> Iterator[None]:
        """Make the GPU current, and a lack of memory a DeviceError: it was free when the rows were divided."""
        cuda = self._cupy.cuda
        try:
            with cuda.Device(self._gpu):
                yield
        except (cuda.memory.OutOfMemoryError, cuda.runtime.CUDARuntimeError) as error:
            # Not any mention of memory: an illegal access to it is another matter.
            if not re.search("out of memory|MemoryAllocation", str(error), re.IGNORECASE):
                raise
            raise DeviceError(
                f"cuda:{self._gpu} or the host ran out of memory that was free when the search began "
                f"({shown(error)}); end what took it, pass fewer rows or device='cpu'"
            ) from error

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Copy in a stream of its own, and wait for it: several threads copy beside each other."""
        with self._on_gpu(), self._cupy.cuda.Stream(non_blocking=True) as stream:
            yield
            stream.synchronize()

    def place(self, array: NDArray[Any]) -> int:
        """Copy an array to the GPU."""
        with self._copying():
            placed = sent(self._cupy, array)
        self._kept.append(placed)
        return int(placed.data.ptr)

    def place_padded(self, z: NDArray[Any], n_columns: int) -> int:
        """Copy rows of z to the GPU, each padded with zeros to `n_columns` columns."""
        with self._copying():
            padded = self._cupy.zeros((len(z), n_columns), z.dtype)
            n_rows = max(1, PADDED_BYTES // max(padded[:1].nbytes, 1))
            block = self._cupy.empty((min(n_rows, len(z)), z.shape[1]), z.dtype)
            for first in range(0, len(z), n_rows):
                given = np.ascontiguousarray(z[first : first + n_rows])
                block[: len(given)].set(given)
                padded[first : first + n_rows, : z.shape[1]] = block[: len(given)]
        self._kept.append(padded)
        return int(padded.data.ptr)

    def reserve(self, n_bytes: int) -> int:
        """Take uninitialised memory of the GPU."""
        with self._on_gpu():
            self._kept.append(self._cupy.cuda.alloc(n_bytes))
        return int(self._kept[-1].ptr)

    def pin(self, n_bytes: int) -> int:
        """Take memory of the host that the GPU reads and writes."""
        with self._on_gpu():
            self._kept.append(self._cupy.cuda.alloc_pinned_memory(n_bytes))
        return int(self._kept[-1].ptr)

    def register(self, array: NDArray[Any]) -> int:
        """Pin an array where it lies; where the system refuses, copies from it are slower but right."""
        pointer = int(array.ctypes.data)
        if pointer not in self._registered:
            self._kept.append(array)
            with contextlib.suppress(self._cupy.cuda.runtime.CUDARuntimeError):
                self._cupy.cuda.runtime.hostRegister(pointer, array.nbytes, PORTABLE)
                self._registered.append(pointer)
        return pointer

    def make_stream(self) -> int:
        """Make a stream."""
        with self._on_gpu():
            self._kept.append(self._cupy.cuda.Stream(non_blocking=True))
        return int(self._kept[-1].ptr)

    def make_event(self) -> int:
        """Make an event that takes the time."""
        with self._on_gpu():
            self._kept.append(self._cupy.cuda.Event())
        return int(self._kept[-1].ptr)

    def load(self, wanted: dict[str, Variant]) -> dict[str, int]:
        """Compile and load kernels, by the names that the engine gives them."""
        architecture = compiler_architecture(capability(self._gpu))
        functions = {}
        with self._on_gpu():
            for name, kernel in wanted.items():
                module = self._cupy.cuda.function.Module()
                module.load(compile_kernel(kernel, architecture))
                self._kept.append(module.get_function(kernel.kernel))
                functions[name] = int(self._kept[-1].ptr)
        return functions

    def __del__(self) -> None:
        for pointer in getattr(self, "_registered", ()):
            with contextlib.suppress(Exception):
                self._cupy.cuda.runtime.hostUnregister(pointer)


def lay_out(rows: TrainingRows, layouts: Sequence[GpuLayout], memories: Sequence[Memory]) -> _core.GrowGpu:
    """Bring the rows to where the layouts have them, and take the buffers of a search; all GPUs beside each other."""
    copied = parts.are_copies(layouts)
    bounds = layouts[0].bounds if copied else [0, *(bound for layout in layouts for bound in layout.bounds[1:])]
    orders = split_order(rows, bounds)
    first_parts = [0, *itertools.accumulate(0 if copied else layout.n_parts for layout in layouts)]
    first_streams = [0, *itertools.accumulate(layout.n_streams for layout in layouts)]

    def lay_out_gpu(k: int) -> tuple[list[_core.GrowStream], list[_core.GrowPart]]:
        layout, memory = layouts[k], memories[k]
        own = orders[first_parts[k] : first_parts[k] + layout.n_parts]
        found = _parts(rows, layout, memory, own, first_streams[k])
        functions = memory.load(kernels(layout.sizes.stride, rows.z.itemsize))
        return [_stream(layout, memory, functions) for _ in range(layout.n_streams)], found

    by_gpu = side_by_side(lay_out_gpu, len(layouts), len(layouts))
    streams = [stream for own, _ in by_gpu for stream in own]
    return _search(rows, layouts, streams, [part for _, own in by_gpu for part in own])


def _parts(
    rows: TrainingRows, layout: GpuLayout, memory: Memory, orders: Sequence[NDArray[np.int32]], first_stream: int
) -> list[_core.GrowPart]:
    """Place the parts of one GPU."""
    lists, list_sums = memory.reserve(layout.sizes.lists), memory.reserve(layout.sizes.list_sums)
    buffers = [
        {name: memory.reserve(getattr(layout.sizes, name)) for name in PART_ARRAYS}
        for _ in range(min(layout.n_streamed, 2))
    ]
    found = []
    for p, (first, last) in enumerate(itertools.pairwise(layout.bounds)):
        ranks = rows.ranks[:, first:last]
        if p < layout.n_streamed:
            place = _streamed(memory, (padded_rows(rows, first, last), ranks, orders[p]), buffers[p % 2])
        else:
            place = _placed(memory, rows.z[first:last, : rows.width], layout.sizes.stride, ranks, orders[p])
        found.append(
            filled(
                _core.GrowPart(),
                first=first,
                n_rows=last - first,
                stream=first_stream + p % 2,
                lists=lists + 8 * (first - layout.bounds[0]),
                list_bytes=8 * (layout.bounds[-1] - layout.bounds[0]),
                list_sums=list_sums,
                list_sums_bytes=layout.sizes.list_sums // layout.sizes.n_lists,
                z_bytes=(last - first) * layout.sizes.stride * rows.z.itemsize,
                ranks_host_step=rows.ranks.strides[0],
                zones=memory.place(rank_zones(ranks)),
                **place,
            )
        )
    return found


def _search(
    rows: TrainingRows,
    layouts: Sequence[GpuLayout],
    streams: list[_core.GrowStream],
    found: list[_core.GrowPart],
) -> _core.GrowGpu:
    """Hand streams and parts to the engine, with what decides between CPU and GPU."""
    is_chunked = any(layout.n_parts > 1 for layout in layouts)
    search: _core.GrowGpu = filled(
        _core.GrowGpu(),
        streams=streams,
        parts=found,
        cpu_work=parts.cpu_work(len(rows.y), rows.width, is_chunked),
        n_lists=min(layout.sizes.n_lists for layout in layouts),
        n_cells=parts.MOST_CELLS,
        solve_work=parts.SOLVE_WORK,
        sectors=parts.SECTORS if rows.source is None else parts.ARRANGED_SECTORS,
    )
    return search


def _placed(
    memory: Memory, z: NDArray[Any], stride: int, ranks: NDArray[np.int32], order: NDArray[np.int32]
) -> dict[str, int]:
    """Addresses of a part that stays on the GPU."""
    copies = (lambda: memory.place_padded(z, stride), lambda: memory.place(ranks), lambda: memory.place(order))
    placed = dict(zip(PART_ARRAYS, side_by_side(lambda k: copies[k](), 3, 3), strict=True))
    return {**placed, **{f"{name}_host": 0 for name in placed}}


def _streamed(memory: Memory, arrays: Sequence[NDArray[Any]], buffers: dict[str, int]) -> dict[str, int]:
    """Addresses of a part that comes from the host every round."""
    hosts = {f"{name}_host": _registered(memory, array) for name, array in zip(PART_ARRAYS, arrays, strict=True)}
    return {**buffers, **hosts}


def _registered(memory: Memory, array: NDArray[Any]) -> int:
    """Address of an array whose memory is registered whole: parts of one array layout pages."""
    owner = array.base if isinstance(array.base, np.ndarray) else array
    return memory.register(owner) + array.ctypes.data - owner.ctypes.data


def _stream(layout: GpuLayout, memory: Memory, functions: dict[str, int]) -> _core.GrowStream:
    sizes = layout.sizes
    buffers = ("packet", "results", "partials", "partial_counts", "grid_sums")
    stream: _core.GrowStream = filled(
        _core.GrowStream(),
        gpu=layout.gpu,
        n_processors=memory.n_processors,
        stride=sizes.stride,
        stream=memory.make_stream(),
        **{name: memory.reserve(getattr(sizes, name)) for name in buffers},
        packet_host=memory.pin(sizes.packet),
        results_host=memory.pin(sizes.results),
        packet_bytes=sizes.packet,
        results_bytes=sizes.results,
        grid_sums_bytes=sizes.grid_sums,
        n_partials=sizes.n_partials,
        n_counts=sizes.n_counts,
        **functions,
    )
    return stream


class RowsOnGpus:
    """Owns the rows and buffers of a search on GPUs; `search` is what the engine is told of them.

    Parameters
    ----------
    rows : TrainingRows
    gpus : sequence of int
    chunks, more_bytes
        See `glasswood.grow.cuda.parts.divide_rows`.

    Raises
    ------
    DeviceError
        If the rows do not fit; the message says how many would.
    ValueError
        If there are too many columns.
    """

    def __init__(
        self,
        rows: TrainingRows,
        gpus: Sequence[int],
        chunks: str | int | None = "auto",
        more_bytes: Callable[[int], int] | None = None,
    ) -> None:
        memories = {gpu: GpuMemory(gpu) for gpu in gpus}
        n_features, n_rows = rows.ranks.shape
        free = {gpu: memory.free for gpu, memory in memories.items()}
        self.layouts: list[GpuLayout] = parts.divide_rows(
            n_rows, n_features, rows.width, free, chunks, more_bytes, rows.z.itemsize
        )
        self._memories = [memories[layout.gpu] for layout in self.layouts]
        self.search: _core.GrowGpu = lay_out(rows, self.layouts, self._memories)

    @contextlib.contextmanager
    def searching(self, engine: Any) -> Iterator[None]:
        """Leave the caller's current GPU as it is, and turn errors of the driver into DeviceErrors."""
        with import_cupy().cuda.Device(self.layouts[0].gpu), explaining_loss(engine):
            yield


@contextlib.contextmanager
def explaining_loss(engine: Any) -> Iterator[None]:
    """Turn an error of the driver during the search into a DeviceError that carries the best tree so far as `best`."""
    try:
        yield
    except RuntimeError as error:
        found = re.match(r"(CUDA_ERROR\w*) on (cuda:\d+)", str(error))
        if not found:
            raise
        lost = DeviceError(
            f"{found[2]} failed during the search ({found[1]}); the best tree of the generations before is the "
            "attribute `best` of this error"
        )
        lost.best = engine.best()  # type: ignore[attr-defined]
        raise lost from error
