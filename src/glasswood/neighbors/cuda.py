"""The most similar rows on a GPU (native/neighbors/cuda)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glasswood.base.device import explaining_memory, import_cupy, on_host
from glasswood.base.typing import Array, GpuArray, Int32s
from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import launch

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant
    from glasswood.neighbors.index import LeafIndex

TILE, THREADS = 64, 256
"""As in native/neighbors/cuda/find_nearest.cu."""

MOST_NEAREST = 64
"""Neighbours whose lists shared memory holds."""

BLOCKS_PER_PROCESSOR = 8
"""Blocks that keep a processor busy; beyond them, training rows are not divided."""

WORTHWHILE = 3e11
"""Rows times training rows times trees from which a GPU is worth its transfers: half a second of two CPU cores."""


class CudaShares:
    """Leaves of the training rows on one GPU."""

    def __init__(self, index: LeafIndex, gpu: int) -> None:
        cupy = import_cupy()
        self._gpu, self._n_rows = gpu, len(index)
        with explaining_memory(cupy, gpu), cupy.cuda.Device(gpu):
            self._rows: GpuArray = cupy.asarray(np.ascontiguousarray(index.positions))
            self._weight: GpuArray = cupy.asarray(index.weights.astype(np.int32))

    def nearest(self, positions: Int32s, k: int, first_own: int) -> tuple[Int32s, Int32s]:
        """Find what `LeafIndex.nearest` finds."""
        cupy = import_cupy()
        with explaining_memory(cupy, self._gpu), cupy.cuda.Device(self._gpu):
            keys = self._keys(cupy.asarray(np.ascontiguousarray(positions)), k, first_own)
        rows = np.where(keys == 0, -1, (0xFFFFFFFF - (keys & 0xFFFFFFFF)).astype(np.int64))
        return rows.astype(np.int32), (keys >> np.uint64(32)).astype(np.int32)

    def _keys(self, queries: GpuArray, k: int, first_own: int) -> Array:
        """Largest keys of each query, falling, (n, k)."""
        cupy = import_cupy()
        n_blocks, n_tiles = -(-len(queries) // TILE), -(-self._n_rows // TILE)
        if not n_blocks:
            return np.zeros((0, k), np.uint64)
        wanted = BLOCKS_PER_PROCESSOR * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        part_tiles = -(-n_tiles // max(1, min(n_tiles, wanted // n_blocks)))
        n_parts = -(-n_tiles // part_tiles)
        nearest = cupy.empty((n_parts, len(queries), k), np.uint64)
        args = {
            "queries": queries,
            "n_queries": len(queries),
            "rows": self._rows,
            "n_rows": self._n_rows,
            "n_trees": queries.shape[1],
            "weight": self._weight,
            "first_own": first_own,
            "part_tiles": part_tiles,
            "n_nearest": k,
            "nearest": nearest,
        }
        launch(nearest_variant(), (n_blocks, n_parts), (THREADS, 1), args, shared=TILE * k * 8)
        keys: Array = on_host(nearest).transpose(1, 0, 2).reshape(len(queries), -1)
        return keys if n_parts == 1 else np.sort(keys, axis=1)[:, : -k - 1 : -1]


def nearest_variant() -> Variant:
    """Kernel that finds the most similar rows."""
    return variant("neighbors/cuda/find_nearest")
