"""Rows to rank codes on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from silva.cuda.compiler import variant
from silva.cuda.runtime import Struct, launch, strided
from silva.device import import_cupy

if TYPE_CHECKING:
    from silva.cuda.codes import Codes
    from silva.cuda.compiler import Variant
    from silva.forest import Forest

C_TYPES = {"float32": "float", "float64": "double", "uint16": "unsigned short", "uint32": "unsigned"}
TILE = 32


class CodeTables:
    """The columns of a forest, uploaded to each GPU that uses them.

    Attributes
    ----------
    codes : Codes
    code_type : dtype
    row_bytes : int
        Bytes of the codes of one row.
    """

    def __init__(self, forest: Forest, codes: Codes) -> None:
        self.codes = codes
        self.code_type = np.dtype(codes.code_type)
        self.row_bytes = codes.n_columns * self.code_type.itemsize
        self._kernels = {name: encode_variant(name, codes) for name in ("float32", "float64")}
        self._forest = forest
        self._on_gpu: dict[int, Struct] = {}

    def encode(self, x: Any, stride: int) -> Any:
        """Codes of the rows of a CuPy array: (n_columns, stride), 0 beyond the rows; queued on the current stream."""
        cupy = import_cupy()
        n_columns = self.codes.n_columns
        result = cupy.empty((max(n_columns, 1), stride), self.code_type)
        if n_columns:
            grid = (-(-stride // TILE), min(-(-n_columns // TILE), 65535))
            args = (*strided(x), np.int64(stride), self.on_gpu().words, result)
            launch(self._kernels[x.dtype.name], grid, (TILE, 8), args)
        return result

    def on_gpu(self) -> Struct:
        """`Columns` of native/encode.h on the current GPU."""
        cupy = import_cupy()
        gpu = cupy.cuda.runtime.getDevice()
        if gpu not in self._on_gpu:
            codes, forest = self.codes, self._forest
            arrays = (codes.feature, codes.category_set, codes.missing, codes.offsets, codes.thresholds)
            sets = (forest.set_offsets, forest.set_words, forest.set_others_left)
            zeros = cupy.asarray(forest.zero_missing) if len(forest.zero_missing) else 0
            numbers = (float(forest.zero_threshold), float(forest.missing), codes.n_columns)
            on_gpu = (cupy.asarray(array) for array in (*arrays, *sets))
            self._on_gpu[gpu] = Struct(cupy, *on_gpu, zeros, *numbers)
        return self._on_gpu[gpu]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_on_gpu": {}}


def encode_variant(input_type: Any, codes: Codes) -> Variant:
    """Name the kernel for rows of a type."""
    return variant("encode_rows", **encode_macros(input_type, codes))


def encode_macros(input_type: Any, codes: Codes) -> dict[str, str]:
    """Macros of native/encode.h."""
    return {
        "INPUT": C_TYPES[np.dtype(input_type).name],
        "ROW": C_TYPES[codes.thresholds.dtype.name],
        "CODE": C_TYPES[np.dtype(codes.code_type).name],
    }
