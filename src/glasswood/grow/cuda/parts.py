"""The division of a search's rows among GPUs, and the memory that it needs: numbers only, no GPU needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glasswood import _core
from glasswood.base.device import DeviceError

TILE = 8
"""More than NARROW columns of z are padded to a multiple of this many: a tensor core operation's side."""

NARROW = TILE // 2
"""So few columns are padded to this many, and the operation takes two rows side by side."""

MOST_COLUMNS = 16 * TILE
N_LISTS = 4
"""Lists of rows that threshold searches may hold at a time; further ones wait."""

MOST_LISTS = 16
"""The same where memory allows."""

LIST_CHOICES = ((MOST_LISTS, True), (N_LISTS, True), (N_LISTS, False))
"""Lists of a GPU with all rows, and whether sums between their candidates have room too, from ample to scarce."""

PACKET_BYTES = 16 << 20
MANY_ZONES = 16
"""Zones of a part from which parts may differ by one."""

SECTORS = 8
"""Cost of a gathered number, in numbers that are read in a row: memory answers by sectors."""

ARRANGED_SECTORS = 64
"""The same where most rows outside of a box are passed over."""

MOST_STRANDS = 4
"""Strands of a block's rows, each summed by itself, at most (sum_strands of cuda/shared/records.h)."""

RESULT_BYTES = 64 << 20
LIST_SUMS_BYTES = 64 << 20
"""Sums between the candidates of a list that stay on the GPU at most."""

GRID_SUMS_BYTES = 256 << 20
"""Sums that stay on the GPU in one batch of requests: between candidates of rows that are sent to be cut, and up to
every eighth candidate."""

GRID_SUMS = (_core.GROW_GRID + 2) // _core.GROW_SUMMED_BINS
"""Candidates of a grid, its ends counted, up to which sums are kept."""

PARTIAL_BYTES = 256 << 20

MOST_CELLS = 1 << 15
"""Cells of ranks that the rows of a threshold search are counted in at once."""

CHUNK_SHARE = 8
"""Largest part of a GPU's free memory that a chunk of streamed rows takes, as its inverse; there are two chunks."""

CPU_WORK = 30_000
"""Requests of fewer multiplications than this are answered by the CPU: a thousand rows of few columns, which lie
scattered in memory and take a core about as long as a round of the GPU."""

STREAMED_WORK = 256
"""Where rows come in chunks, the CPU also answers what reads less than one row in this number."""

SOLVE_WORK = 600_000
"""Multiplications below which the errors of all leaves at one grid of candidates are the CPU's to find: some 40
microseconds of one core."""

SMALL_DATA = 3_000_000
"""With fewer multiplications than this for the sums of all rows the CPU answers everything."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of a GPU's buffers, and the numbers that they follow from.

    Attributes
    ----------
    z, ranks, order : int
        Of the rows of one part; see `glasswood.grow.data.rows.TrainingRows`.
    zones : int
        Of the ranks of one part.
    lists : int
        Of the rows of all parts of the GPU.
    list_sums : int
        Of sums between the candidates of lists.
    packet, results, partials, partial_counts, grid_sums : int
        Of one stream: what goes to the GPU, what comes back and what lies between.
    n_partials, n_counts : int
        Partial sums and counts that the latter two hold.
    stride : int
        Columns of z on the GPU.
    n_lists : int
        Lists of rows.
    """

    z: int
    ranks: int
    order: int
    zones: int
    lists: int
    list_sums: int
    packet: int
    results: int
    partials: int
    partial_counts: int
    grid_sums: int
    n_partials: int
    n_counts: int
    stride: int
    n_lists: int

    @property
    def rows(self) -> int:
        """Bytes of the rows of one part."""
        return self.z + self.ranks + self.order

    @property
    def stream(self) -> int:
        """Bytes of GPU memory that a stream works in."""
        return self.packet + self.results + self.partials + self.partial_counts + self.grid_sums


def buffer_sizes(
    n_rows: int,
    n_features: int,
    width: int,
    n_listed: int | None = None,
    n_lists: int = N_LISTS,
    *,
    z_bytes: int = 8,
    keeps_sums: bool = False,
) -> Sizes:
    """Sizes of all buffers, by rows of a part, features and columns of z, and rows of all parts together.

    A number of z takes `z_bytes`. A GPU that has all rows may keep sums between candidates.

    Raises
    ------
    ValueError
        If there are more columns than the kernels take.
    """
    blocks = -(-width // TILE)
    if width > MOST_COLUMNS:
        raise ValueError(
            f"leaf models have {width} columns (intercept, features, missing indicators, y), growing on a GPU takes "
            f"at most {MOST_COLUMNS}; use device='cpu' or fewer features"
        )
    stride = padded_width(width)
    partial = blocks * (blocks + 1) // 2 * TILE * TILE * 8
    blocks_of_all = (_core.GROW_SLOTS + MOST_STRANDS - 1) * -(-n_rows // _core.GROW_BLOCK_ROWS)
    n_partials = max(PARTIAL_BYTES // partial, blocks_of_all, (_core.GROW_GRID + 3) * MOST_STRANDS)
    a_leaf = (width * (width + 1) // 2 + 1) * 8  # count and sums
    a_grid = (_core.GROW_GRID + 3 + 2 * GRID_SUMS) * a_leaf
    a_list = min(LIST_SUMS_BYTES, 2 * _core.GROW_SLOTS * (_core.GROW_GRID + 2) * a_leaf)
    n_counts = max(n_partials, n_lists * (-(-n_rows // _core.GROW_LIST_TILE) + 1))
    return Sizes(
        z=n_rows * stride * z_bytes,
        ranks=n_rows * n_features * 4,
        order=n_rows * n_features * 4,
        zones=-(-n_rows // _core.GROW_ZONE) * n_features * 8,
        lists=n_lists * (n_rows if n_listed is None else n_listed) * 8,
        list_sums=n_lists * a_list if keeps_sums else 0,
        packet=PACKET_BYTES,
        results=max(RESULT_BYTES, _core.GROW_SLOTS * a_leaf + 8),
        partials=n_partials * partial,
        partial_counts=n_counts * 4,
        grid_sums=max(min(GRID_SUMS_BYTES, a_grid * _core.GROW_SLOTS), a_grid) if keeps_sums else 0,
        n_partials=n_partials,
        n_counts=n_counts,
        stride=stride,
        n_lists=n_lists,
    )


def padded_width(width: int) -> int:
    """Columns of z on the GPU."""
    return NARROW if width <= NARROW else -(-width // TILE) * TILE


@dataclass(frozen=True)
class GpuLayout:
    """The rows that one GPU holds, in contiguous parts.

    Attributes
    ----------
    gpu : int
    bounds : tuple of int
        Rows between which the parts lie.
    n_streamed : int
        Parts, from the first on, that pass through two buffers on the GPU every round; the others stay there.
    sizes : Sizes
        For the largest part.
    more_bytes : int
        What the rows need beside these buffers.
    """

    gpu: int
    bounds: tuple[int, ...]
    n_streamed: int
    sizes: Sizes
    more_bytes: int = 0

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    @property
    def n_streams(self) -> int:
        """Two where there are several parts: one is copied while the other is summed."""
        return min(self.n_parts, 2)

    @property
    def on_device(self) -> int:
        """Bytes of GPU memory."""
        in_memory = self.n_parts - self.n_streamed + min(self.n_streamed, 2)
        buffers = self.sizes.lists + self.sizes.list_sums + self.n_streams * self.sizes.stream
        buffers += in_memory * self.sizes.rows + self.n_parts * self.sizes.zones
        return buffers + self.more_bytes


class DataShape(NamedTuple):
    """Rows, features, columns of z, bytes that rows need beside the buffers, and bytes of a number of z."""

    n_rows: int
    n_features: int
    width: int
    more_bytes: Callable[[int], int] | None = None
    z_bytes: int = 8


def divide_rows(
    n_rows: int,
    n_features: int,
    width: int,
    free: dict[int, int],
    chunks: str | int | None = "auto",
    more_bytes: Callable[[int], int] | None = None,
    z_bytes: int = 8,
) -> list[GpuLayout]:
    """Divide the rows evenly among GPUs, and those of a GPU into parts where they do not fit.

    Where all rows fit on each of several GPUs, every one gets a copy; they share the work then.

    Parameters
    ----------
    n_rows, n_features, width : int
    free : dict
        Bytes of free memory by GPU.
    chunks : {"auto"}, int or None
        Rows of a part at most, and of a copy; None keeps all rows on the GPUs.
    more_bytes : callable, optional
        Maps a number of rows to bytes that they need on a GPU beside the buffers of the search.
    z_bytes : int
        Of a number of z.

    Raises
    ------
    DeviceError
        If a GPU's memory does not suffice; the message names the GPU and says how many rows fit.
    """
    shape = DataShape(n_rows, n_features, width, more_bytes, z_bytes)
    if copies := _copies(n_rows, shape, free, chunks):
        return copies
    gpus = list(free)
    edges = even_bounds(0, n_rows, len(gpus))
    return [
        _layout(gpu, edges[g], edges[g + 1], shape, free[gpu], chunks)
        for g, gpu in enumerate(gpus)
        if edges[g] < edges[g + 1]
    ]


def even_bounds(first: int, last: int, n_parts: int) -> tuple[int, ...]:
    """Rows between which as many parts of about equal size lie, and their ends.

    Large parts begin at a zone's first row: one that lay across two zones would tell little of its rows.
    """
    step = _core.GROW_ZONE if (last - first) // n_parts >= MANY_ZONES * _core.GROW_ZONE else 1
    inner = (first + (last - first) * p // n_parts for p in range(1, n_parts))
    return (first, *(row // step * step for row in inner), last)


def are_copies(layouts: Sequence[GpuLayout]) -> bool:
    """Whether each of several GPUs holds all rows."""
    return len(layouts) > 1 and layouts[0].bounds == layouts[1].bounds


def _copies(n_rows: int, shape: DataShape, free: dict[int, int], chunks: str | int | None) -> list[GpuLayout] | None:
    """Give every GPU all rows, if there are several GPUs with enough memory."""
    if len(free) < 2 or n_rows > _most_rows(n_rows, chunks):
        return None
    for n_lists, keeps_sums in LIST_CHOICES:
        layouts = [_laid_out(gpu, 0, n_rows, shape, 1, 0, n_lists, keeps_sums) for gpu in free]
        if all(layout.on_device <= free[layout.gpu] for layout in layouts):
            return layouts
    return None


def _most_rows(n_rows: int, chunks: str | int | None) -> int:
    """Largest number of rows of a part, of `n_rows` in all."""
    return n_rows if chunks is None or chunks == "auto" else int(chunks)


def _layout(gpu: int, first: int, last: int, shape: DataShape, free: int, chunks: str | int | None) -> GpuLayout:
    """Take the rows of one GPU, as few parts as its memory or `chunks` allows."""
    n_rows = last - first
    most = _most_rows(n_rows, chunks)
    for n_lists, keeps_sums in LIST_CHOICES:
        whole = _laid_out(gpu, first, last, shape, 1, 0, n_lists, keeps_sums)
        if whole.on_device <= free and most >= n_rows:
            return whole
    if chunks is None:
        raise _too_large(whole, n_rows, shape, free)
    n_parts = -(-n_rows // (_chunk_rows(n_rows, shape, free) if chunks == "auto" else most))
    least = _laid_out(gpu, first, last, shape, n_parts, n_parts)
    if least.on_device > free:
        raise _too_large(least, n_rows, shape, free)
    for n_streamed in range(n_parts):
        layout = _laid_out(gpu, first, last, shape, n_parts, n_streamed)
        if layout.on_device <= free:
            return layout
    return least


def _laid_out(
    gpu: int,
    first: int,
    last: int,
    shape: DataShape,
    n_parts: int,
    n_streamed: int,
    n_lists: int = N_LISTS,
    keeps_sums: bool = False,
) -> GpuLayout:
    n_rows = last - first
    bounds = even_bounds(first, last, n_parts)
    largest = max(end - begin for begin, end in itertools.pairwise(bounds))
    sizes = buffer_sizes(
        largest,
        shape.n_features,
        shape.width,
        n_rows,
        n_lists,
        z_bytes=shape.z_bytes,
        keeps_sums=keeps_sums and largest == shape.n_rows,
    )
    return GpuLayout(gpu, bounds, n_streamed, sizes, shape.more_bytes(n_rows) if shape.more_bytes else 0)


def _chunk_rows(n_rows: int, shape: DataShape, free: int) -> int:
    """Rows of a chunk, at least two of which make up the data."""
    a_row = buffer_sizes(1, shape.n_features, shape.width, z_bytes=shape.z_bytes).rows
    return max(1, min(-(-n_rows // 2), free // CHUNK_SHARE // a_row))


def _too_large(layout: GpuLayout, n_rows: int, shape: DataShape, free: int) -> DeviceError:
    fitting = n_rows
    while fitting and _laid_out(layout.gpu, 0, fitting, shape, 1, 0).on_device > free:
        fitting = fitting * 9 // 10
    advice = f"about {fitting:,} rows fit: pass fewer rows," if fitting else "no number of rows fits: free memory,"
    chunks = " chunks='auto'" if layout.n_parts == 1 and fitting and not shape.more_bytes else ""
    halved = _laid_out(layout.gpu, 0, n_rows, shape._replace(z_bytes=4), 1, 0).on_device
    storage = " storage='float32'," if shape.z_bytes > 4 and halved <= free else ""
    return DeviceError(
        f"cuda:{layout.gpu} has {free:,} bytes free, growing on {n_rows:,} rows of {shape.n_features} features "
        f"takes {layout.on_device:,}; {advice}{storage}{chunks} or device='cpu'"
    )


def cpu_work(n_rows: int, width: int, is_chunked: bool) -> int:
    """Multiplications below which a request stays on the CPU."""
    all_rows = n_rows * (width * (width + 1) // 2 + 20)
    if CPU_WORK and all_rows < SMALL_DATA:
        return 2 * all_rows
    return max(CPU_WORK, all_rows // STREAMED_WORK if is_chunked and CPU_WORK else 0)
