"""Rows through one or several GPUs, in chunks, with transfers beside computation."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from glasswood.base.config import carried
from glasswood.base.device import DeviceError, array_gpu, explaining_memory, import_cupy
from glasswood.base.escapes import shown
from glasswood.base.typing import Array, GpuArray
from glasswood.inputs.categories import arrays_hold_values
from glasswood.model.ensemble import TreeEnsemble

HOST_CHUNK_BYTES, MOST_CHUNK_BYTES = 2**25, 2**29
"""Rows and results of a chunk between host and GPU: enough to hide launches; more where few long rows fit."""

FULL_CHUNK, FEWEST_CHUNK_ROWS, OVERLAPPING = 128, 2**15, 8
"""Rows that the longest rows' chunks have if the bytes allow it, rows that are not divided further, and chunks that
overlap transfers and computation well."""


KEPT_BYTES = 2**23
"""Buffers up to this size are kept for the next call."""


class _Shard(NamedTuple):
    """Rows of one GPU, and where their results go."""

    gpu: int
    X: Array
    result: Array


def map_rows(
    X: object,
    gpus: tuple[int, ...],
    row_shape: tuple[int, ...],
    dtype: DTypeLike,
    compute: Callable[[GpuArray, GpuArray], None],
    *,
    input_type: DTypeLike,
    out: GpuArray | Array | None = None,
) -> Any:
    """Fill one result of shape `row_shape` for each row.

    Parameters
    ----------
    X : (n, F) array on the host or on one GPU
    gpus : tuple of int
        GPUs to use; rows are split evenly over them.
    row_shape, dtype
        Shape and type of the result of one row.
    compute : callable
        ``compute(x, out)`` queues the work for CuPy arrays `x` and `out` on the current device and stream.
    input_type : dtype
        Type that rows of other than float32 and float64 are cast to.
    out : array, optional
        Where the result goes; on the GPU for GPU rows.

    Returns
    -------
    array (n, *row_shape)
        NumPy for host rows, CuPy for GPU rows.
    """
    if array_gpu(X) is not None:
        return _map_on_gpu(X, gpus[0], row_shape, dtype, compute, input_type, out)
    X = np.asarray(X)
    result: Any = np.empty((len(X), *row_shape), dtype) if out is None else out
    bounds = np.linspace(0, len(X), len(gpus) + 1).astype(int)
    shards = [_Shard(gpu, X[a:b], result[a:b]) for gpu, a, b in zip(gpus, bounds, bounds[1:], strict=False) if b > a]
    stream = functools.partial(_stream_shard, compute=compute, input_type=input_type)
    if len(shards) == 1:
        stream(shards[0])
    elif shards:
        with ThreadPoolExecutor(len(shards)) as pool:
            list(pool.map(carried(stream), shards))
    return result


def check_gpu_rows(X: object, forest: TreeEnsemble, gpu: int) -> Any:
    """Rows of any GPU library as a CuPy array that fits the forest.

    Raises
    ------
    DeviceError
        If the current stream is captured into a graph.
    TypeError, ValueError
        If they are not numbers, not two-dimensional, of another width, or NaN where the source library refuses it.
    NotImplementedError
        If the forest translates categories by value, which needs a frame on the host.
    """
    if arrays_hold_values(forest):
        raise NotImplementedError(
            f"X is on a GPU, and {shown(forest.source)} translates categories by value, which needs rows on the host"
        )
    cupy = import_cupy()
    with cupy.cuda.Device(gpu):
        refuse_capture(cupy.cuda.get_current_stream())
        x = as_cupy(X)
        if x.ndim != 2 or x.shape[1] != forest.n_features:
            raise ValueError(f"X has shape {x.shape}, expected (rows, {forest.n_features}), the features of the forest")
        if x.dtype.kind not in "fiub":
            raise TypeError(f"X holds {x.dtype}, expected real numbers")
        refusing = x if not len(forest.nan_allowed_in) else x[:, cupy.asarray(~forest.nan_allowed_in)]
        if not forest.nan_allowed and x.dtype.kind == "f" and bool(cupy.isnan(refusing).any()):
            raise ValueError(f"X holds NaN, which {shown(forest.source or 'the source library')} refuses in this model")
    return x


def refuse_capture(stream: Any) -> None:
    """Raise a DeviceError if a stream is being captured into a graph; the null stream never is."""
    if stream.ptr and stream.is_capturing():
        raise DeviceError(
            "the current stream is being captured into a CUDA graph, but later calls reuse glasswood's buffers before "
            "the graph is launched; call glasswood outside of the capture"
        )


def _map_on_gpu(
    X: object,
    gpu: int,
    row_shape: tuple[int, ...],
    dtype: DTypeLike,
    compute: Callable[..., None],
    input_type: DTypeLike,
    out: GpuArray | Array | None,
) -> Any:
    cupy = import_cupy()
    with cupy.cuda.Device(gpu), explaining_memory(cupy, gpu):
        x = as_floats(as_cupy(X), input_type)
        target = cupy.empty((len(x), *row_shape), dtype) if out is None else as_cupy(out)
        if len(x):
            compute(x, target)
    return out if out is not None else target


def _stream_shard(shard: _Shard, compute: Callable[..., None], input_type: DTypeLike) -> None:
    """Copy a chunk in while the one before is computed and the one before that is copied out."""
    cupy, (gpu, X, result) = import_cupy(), shard
    row_type = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(input_type)
    row_bytes = X.shape[1] * row_type.itemsize + result[:1].nbytes
    n_chunk = chunk_rows(len(X), row_bytes)
    n_staged = min(2, -(-len(X) // n_chunk))
    n_streams = n_staged + (n_staged > 1)
    with cupy.cuda.Device(gpu), explaining_memory(cupy, gpu), _borrowed_buffers(cupy, gpu, n_streams) as staging:
        computing = staging[-1].stream
        for buffers in staging[:n_staged]:
            buffers.fit((n_chunk, X.shape[1]), row_type, (n_chunk, *result.shape[1:]), result.dtype)
        for index, start in enumerate(range(0, len(X), n_chunk)):
            buffers = staging[index % n_staged]
            buffers.collect()
            buffers.send(X[start : start + n_chunk], result[start : start + n_chunk], compute, computing)
        for buffers in staging[:n_staged]:
            buffers.collect()


@contextlib.contextmanager
def _borrowed_buffers(cupy: ModuleType, gpu: int, n: int) -> Iterator[list[_StagingBuffers]]:
    """Staging buffers of the current GPU, kept afterwards.

    Making a stream and page-locked memory takes as long as thousands of rows, and CuPy keeps freed memory by stream: a
    new stream would allocate anew what earlier ones have given back.
    """
    idle, staging = _idle_buffers(gpu), []
    for _ in range(n):
        try:
            staging.append(idle.pop())
        except IndexError:
            staging.append(_StagingBuffers(cupy))
    try:
        yield staging
    finally:
        for buffers in staging:
            buffers.release()
        idle.extend(reversed(staging))


@functools.cache
def _idle_buffers(gpu: int) -> list[_StagingBuffers]:  # noqa: ARG001
    """Staging buffers of a GPU that no call uses."""
    return []


def chunk_rows(n_rows: int, row_bytes: int) -> int:
    """Rows of a chunk between host and GPU."""
    row_bytes = max(row_bytes, 1)
    fitting = max(HOST_CHUNK_BYTES // row_bytes, min(FULL_CHUNK, MOST_CHUNK_BYTES // row_bytes), 1)
    return min(n_rows, fitting, max(-(-n_rows // OVERLAPPING), FEWEST_CHUNK_ROWS))


class _StagingBuffers:
    """Pinned and device buffers for one chunk at a time, and a stream for its copies.

    Chunks are computed one after the other on a stream that all buffers share: side by side, the last small kernels of
    one would wait behind all blocks of the next, and both would end at once and leave the GPU without work.
    """

    def __init__(self, cupy: ModuleType) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._memory = _Memory(cupy), _Memory(cupy)
        self._target: Array | None = None

    def fit(
        self, in_shape: tuple[int, ...], in_type: DTypeLike, out_shape: tuple[int, ...], out_type: DTypeLike
    ) -> None:
        """Make room for chunks of these shapes."""
        with self.stream:
            self._host_in, self._gpu_in = self._memory[0].fit(in_shape, in_type)
            self._host_out, self._gpu_out = self._memory[1].fit(out_shape, out_type)

    def release(self) -> None:
        """Wait for what is queued, and give large buffers up."""
        self.stream.synchronize()
        self._target = self._host_in = self._gpu_in = self._host_out = self._gpu_out = None
        if sum(memory.n_bytes for memory in self._memory) > KEPT_BYTES:
            for memory in self._memory:
                memory.clear()

    def send(self, X: Array, target: Array, compute: Callable[..., None], computing: Any) -> None:
        n = len(X)
        np.copyto(self._host_in[:n], X, casting="unsafe")
        self._target = target
        with self.stream:
            self._gpu_in[:n].set(self._host_in[:n], stream=self.stream)
        _queue_after(self.stream, computing)
        with computing:
            compute(self._gpu_in[:n], self._gpu_out[:n])
        _queue_after(computing, self.stream)
        with self.stream:
            self._gpu_out[:n].get(stream=self.stream, out=self._host_out[:n], blocking=False)

    def collect(self) -> None:
        if self._target is not None:
            self.stream.synchronize()
            np.copyto(self._target, self._host_out[: len(self._target)])
            self._target = None


def _queue_after(earlier: Any, stream: Any) -> None:
    """Let what is queued next on `stream` wait for what is queued on `earlier`."""
    if stream is not earlier:
        stream.wait_event(earlier.record())


class _Memory:
    """Page-locked memory and as much on the GPU, which grow."""

    def __init__(self, cupy: ModuleType) -> None:
        self._cupy = cupy
        self.clear()

    def clear(self) -> None:
        """Give the memory up."""
        self._host: Any = None
        self._gpu: Any = None
        self.n_bytes = 0

    def fit(self, shape: tuple[int, ...], dtype: DTypeLike) -> tuple[Any, Any]:
        """Return arrays of this shape on the host and on the GPU."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes > self.n_bytes:
            self._host, self._gpu = pinned(self._cupy, (n_bytes,), np.uint8), self._cupy.empty((n_bytes,), np.uint8)
            self.n_bytes = n_bytes
        if not n_bytes:
            return np.empty(shape, dtype), self._cupy.empty(shape, dtype)
        host, on_gpu = (memory[:n_bytes].view(dtype).reshape(shape) for memory in (self._host, self._gpu))
        return host, on_gpu


def pinned(cupy: ModuleType, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Array in page-locked memory of the host, which GPUs can address."""
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = cupy.cuda.alloc_pinned_memory(max(n_bytes, 1))
    return np.frombuffer(memory, dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)


def as_cupy(X: object) -> Any:
    """Take an array of any GPU library as CuPy's, without a copy."""
    cupy = import_cupy()
    if isinstance(X, cupy.ndarray):
        return X
    return cupy.asarray(X) if hasattr(X, "__cuda_array_interface__") else cupy.from_dlpack(X)


def as_floats(x: Any, input_type: DTypeLike) -> Any:
    """Cast rows of other types than float32 and float64."""
    return x if x.dtype in (np.float32, np.float64) else x.astype(input_type)


def like(X: object, result: GpuArray | Array) -> Any:
    """Return the result in the library of `X`, without a copy."""
    library = sys.modules.get(type(X).__module__.split(".")[0])
    if library is None or library.__name__ == "cupy":
        return result
    if library.__name__ in {"jaxlib", "jax"}:
        import jax

        return jax.dlpack.from_dlpack(result)
    return library.from_dlpack(result) if hasattr(library, "from_dlpack") else result
