"""Rows to rank codes on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.columns import WARP, SearchTables
from silva.cuda.compiler import variant
from silva.cuda.limits import gpu_limits
from silva.cuda.prepared import NOWHERE, PreparedLaunch
from silva.device import import_cupy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from silva.cuda.codes import Codes
    from silva.cuda.compiler import Variant
    from silva.forest import Forest

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
}
TILE_ROWS, TILE_PITCH, THREADS = 128, 33, 512
"""Of native/common/encode_rows.cu; encode_columns.cu has as many threads."""

LANE_ROWS = 16
"""Rows that a lane of encode_columns.cu takes at a time; `stride` is a multiple of them."""

BLOCKS_PER_MULTIPROCESSOR = 2
"""Blocks of encode_columns.cu that share a multiprocessor."""

ENOUGH_BLOCKS = 132 * 8
"""Further tiles of rows are taken by the same blocks, which have their thresholds already. Where there are fewer,
copying the thresholds takes longer than reading them where they are."""


class CodeTables:
    """The columns of a forest, uploaded to each GPU that uses them.

    Parameters
    ----------
    forest : Forest
    codes : Codes
    code_type : dtype, optional
        Unsigned type of the codes; that of `codes` by default.

    Attributes
    ----------
    codes : Codes
    code_type : dtype
    row_bytes : int
        Bytes of the codes of one row.
    """

    def __init__(self, forest: Forest, codes: Codes, code_type: Any = None) -> None:
        self.codes = codes
        self.code_type = np.dtype(codes.code_type if code_type is None else code_type)
        self.row_bytes = codes.n_columns * self.code_type.itemsize
        self._forest = forest
        self._search = SearchTables(codes, forest.zero_missing)
        self._groups, self._image, self._group_bytes = self._search.lane_groups(forest)
        self._tile_bytes = TILE_ROWS * TILE_PITCH * codes.thresholds.itemsize
        self._on_gpu: dict[int, dict[str, Any]] = {}

    def encode(self, x: Any, stride: int) -> Any:
        """Codes of the rows of a CuPy array: (n_columns, stride), 0 beyond the rows; queued on the current stream.

        `stride` is a multiple of `LANE_ROWS`.
        """
        result = self.room(stride)
        call = self.prepare(x.dtype, row_strides(x), len(x), stride)
        if call is not None:
            call.addresses[0], call.addresses[-1] = x.data.ptr, result.data.ptr
            call(import_cupy().cuda.get_current_stream().ptr)
        return result

    def room(self, stride: int) -> Any:
        """Memory for codes on the current GPU."""
        return import_cupy().empty((max(self.codes.n_columns, 1), stride), self.code_type)

    def prepare(self, input_type: Any, strides: tuple[Any, Any], n_rows: int, stride: int) -> PreparedLaunch | None:
        """Launch that encodes rows: their address and that of the codes are the first and the last argument.

        None if there are no columns.
        """
        if not self.codes.n_columns:
            return None
        sizes = (NOWHERE, *map(np.int64, strides), np.int32(n_rows), np.int64(stride))
        lay_out = self._by_columns if self._serves_lanes() else self._by_rows
        kernel, grid, more, shared = lay_out(stride)
        named = encode_variant(kernel, input_type, self.codes, self.code_type)
        return PreparedLaunch(named, grid, THREADS, (*sizes, *more, self.columns(), NOWHERE), shared)

    def _serves_lanes(self) -> bool:
        return 0 < self._group_bytes <= gpu_limits().shared_per_block

    def _by_columns(self, stride: int) -> tuple[str, tuple[int, int], tuple[Any, ...], int]:
        """Kernel, grid, further arguments and shared memory where lanes take columns."""
        groups, image = self._tables()["groups"], self._tables()["image"]
        n_groups = len(self._groups)
        n_tiles = -(-stride // (THREADS // WARP * LANE_ROWS))
        resident = min(BLOCKS_PER_MULTIPROCESSOR, gpu_limits().shared_per_multiprocessor // (self._group_bytes + 1024))
        n_blocks = max(1, gpu_limits().n_multiprocessors * max(resident, 1) // n_groups)
        return "common/encode_columns", (min(n_tiles, n_blocks), n_groups), (groups, image), self._group_bytes

    def _by_rows(self, stride: int) -> tuple[str, tuple[int, int], tuple[Any, ...], int]:
        """Answer the same where lanes take rows, for columns of many thresholds."""
        n_tiles, runs = -(-stride // TILE_ROWS), self._tables()["runs"]
        n_runs = len(runs) - 1
        entries = self._search.shared_entries if n_tiles * n_runs >= ENOUGH_BLOCKS else 0
        if entries * self._search.entry_bytes + self._tile_bytes > gpu_limits().shared_per_block:
            entries = 0
        grid = (min(n_tiles, max(1, ENOUGH_BLOCKS // n_runs)), n_runs)
        return "common/encode_rows", grid, (runs, np.int32(entries)), entries * self._search.entry_bytes

    def columns(self) -> NDArray[Any]:
        """Argument of kernels that encode: the members of Columns (native/common/columns.h) on the current GPU.

        The arrays that it names live as long as this object.
        """
        found: NDArray[Any] = self._tables()["argument"]
        return found

    def _tables(self) -> dict[str, Any]:
        cupy = import_cupy()
        gpu = cupy.cuda.runtime.getDevice()
        if gpu not in self._on_gpu:
            search, forest = self._search, self._forest
            sets = {name: getattr(forest, name) for name in ("set_offsets", "set_words", "set_others_left")}
            named = {"columns": search.columns.view(np.uint8), "thresholds": search.thresholds, "starts": search.starts}
            arrays = {name: cupy.asarray(array) for name, array in {**named, **sets}.items()}
            more = {"runs": search.runs, "groups": self._groups.view(np.uint8), "image": self._image}
            real = search.thresholds.dtype
            argument = np.zeros((), [(name, np.uint64) for name in arrays] + [(name, real) for name in NUMBERS])
            for name, array in arrays.items():
                argument[name] = array.data.ptr
            argument["zero_threshold"], argument["missing_value"] = forest.zero_threshold, forest.missing
            on_gpu = {name: cupy.asarray(array) for name, array in more.items()}
            cupy.cuda.get_current_stream().synchronize()
            self._on_gpu[gpu] = {**arrays, **on_gpu, "argument": argument}
        return self._on_gpu[gpu]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_gpu": {}}


NUMBERS = ("zero_threshold", "missing_value")
"""Members of Columns in the type of the thresholds."""


def row_strides(x: Any) -> tuple[Any, Any]:
    """Strides of rows and features, in elements."""
    item = x.dtype.itemsize
    return np.int64(x.strides[0] // item), np.int64(x.strides[1] // item)


def encode_variant(kernel: str, input_type: Any, codes: Codes, code_type: Any) -> Variant:
    """Name the kernel for rows of a type."""
    return variant(
        kernel,
        INPUT=C_TYPES[np.dtype(input_type).name],
        ROW=C_TYPES[codes.thresholds.dtype.name],
        CODE=C_TYPES[np.dtype(code_type).name],
    )
