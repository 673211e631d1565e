"""Device strings and what stands in the way of a GPU, with CuPy played by a stub."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import glasswood.cuda.compiler
from glasswood.base.device import (
    DeviceError,
    explaining_memory,
    find_gpus,
    gpus_worthwhile,
    is_cuda_usable,
    parse_device,
)
from glasswood.cuda.compiler import compiler_architecture
from glasswood.explain import engines
from glasswood.explain.game import Settings, game_of_features
from tests.strategies import full_forest


class CudaError(Exception):
    pass


def stub(n_gpus=1, driver=13000, needed=13000, capability="90", count_error=None):
    def count():
        if count_error:
            raise CudaError(count_error)
        return n_gpus

    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: needed,
        getDeviceCount=count,
        getDevice=lambda: 0,
        getDeviceProperties=lambda _: {"name": b"Old GPU"},
    )
    device = lambda _: SimpleNamespace(compute_capability=capability)  # noqa: E731
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=device))


@pytest.fixture
def install(monkeypatch):
    import glasswood.base.device

    def put(module):
        glasswood.base.device._check_capability.cache_clear()
        glasswood.base.device.is_cuda_usable.cache_clear()
        glasswood.base.device.count_gpus.cache_clear()
        monkeypatch.setitem(sys.modules, "cupy", module)

    yield put
    glasswood.base.device._check_capability.cache_clear()
    glasswood.base.device.is_cuda_usable.cache_clear()
    glasswood.base.device.count_gpus.cache_clear()


def on_gpu(index):
    return SimpleNamespace(__dlpack_device__=lambda: (2, index), __dlpack__=None)


@pytest.mark.parametrize(
    ("device", "expected"),
    [("auto", ("auto", None)), ("cpu", ("cpu", None)), ("cuda", ("cuda", None)), ("cuda:12", ("cuda", 12)),
     ("cuda:all", ("all", None)), ("gpu", ("cuda", None)), ("gpu:3", ("cuda", 3)), ("cuda:0", ("cuda", 0))],
)  # fmt: skip
def test_device_strings(device, expected):
    assert parse_device(device) == expected


@pytest.mark.parametrize("device", ["tpu", "cuda:", "gpu:x", "cuda:-1", "cuda:1.5", "CUDA", "", None, 0, ["cpu"]])
def test_other_device_strings_are_refused(device):
    with pytest.raises(ValueError, match=r"device is .*, expected 'auto', 'cpu', 'cuda'"):
        parse_device(device)


def test_no_cupy(install):
    install(None)
    with pytest.raises(DeviceError, match=r"CUDA needs CuPy.*pip install 'glasswood\[cuda13\]'"):
        find_gpus("cuda")
    assert not is_cuda_usable()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (stub(driver=12080), r"the NVIDIA driver supports CUDA 12.8, the installed CuPy needs CUDA 13.0; update"),
        (stub(count_error="cudaErrorNoDevice"), r"no usable NVIDIA GPU or driver \(cudaErrorNoDevice\)"),
        (stub(n_gpus=0), "this machine has no NVIDIA GPU; use device='cpu'"),
        (stub(capability="61"), r"cuda:0 \(Old GPU\) has compute capability 6.1, glasswood needs 7.5 or newer"),
    ],
)
def test_what_stands_in_the_way(install, module, message):
    install(module)
    with pytest.raises(DeviceError, match=message):
        find_gpus("cuda")


def test_choice_of_gpus(install):
    install(stub(n_gpus=3))
    X = np.zeros((2, 2))
    assert find_gpus("cuda", X) == (0,)
    assert find_gpus("cuda:2", X) == (2,)
    assert find_gpus("cuda:all", X) == (0, 1, 2)
    assert find_gpus("cuda", on_gpu(1)) == (1,)
    with pytest.raises(DeviceError, match=r"this machine has cuda:0 to cuda:2; choose one"):
        find_gpus("cuda:3", X)
    with pytest.raises(DeviceError, match=r"X is on cuda:1, but device='cuda:0'; pass device='cuda:1'"):
        find_gpus("cuda:0", on_gpu(1))


@pytest.mark.parametrize(
    ("n_rows", "n_jobs", "is_cuda"), [(16, 1, False), (17, 1, True), (64, 4, False), (65, 4, True)]
)
def test_auto_explains_on_a_gpu_what_takes_a_thread_longer(install, n_rows, n_jobs, is_cuda, limits):
    install(stub())
    forest = full_forest(0, n_trees=10, depth=5, n_features=3)
    limits(worthwhile_nodes=forest.n_nodes + 1)
    X = np.zeros((n_rows, 3), np.float32)
    placed = engines.Engines(game_of_features(forest), Settings(n_jobs=n_jobs)).place(X, "values", None)
    assert placed.gpus == ((0,) if is_cuda else ())


def test_auto_follows_rows_and_work(install):
    install(stub())
    X = np.zeros((2, 2))
    assert gpus_worthwhile("auto", X, work=10, worthwhile=100) == ()
    assert gpus_worthwhile("auto", X, work=100, worthwhile=100) == (0,)
    assert gpus_worthwhile("auto", on_gpu(0), work=0, worthwhile=100) == (0,)
    assert gpus_worthwhile("cpu", X, work=1000, worthwhile=100) == ()
    with pytest.raises(DeviceError, match="X is on cuda:0, but device='cpu'"):
        gpus_worthwhile("cpu", on_gpu(0), work=0, worthwhile=100)
    install(None)
    assert gpus_worthwhile("auto", X, work=1000, worthwhile=100) == ()


def test_memory_that_is_not_there():
    class OutOfMemoryError(Exception):
        pass

    freed = []
    cuda = SimpleNamespace(
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=SimpleNamespace(memGetInfo=lambda: (1_234_567, 2**30)),
    )
    pool = SimpleNamespace(free_all_blocks=lambda: freed.append(True))
    cupy = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)
    message = (
        r"cuda:1 is out of memory: Out of memory allocating 42 bytes, 1,234,567 bytes are free now; pass fewer rows at "
        r"a time, or NumPy arrays, which are processed in chunks"
    )
    with pytest.raises(DeviceError, match=message), explaining_memory(cupy, 1):
        raise OutOfMemoryError("Out of memory allocating 42 bytes")
    assert freed == [True]


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), 75), ((9, 0), 90), ((8, 7), 86), ((12, 1), 120)])
def test_the_newest_architecture_of_the_generation(monkeypatch, capability, expected):
    monkeypatch.setattr(glasswood.cuda.compiler, "_known_architectures", lambda: [75, 80, 86, 90, 100, 120])
    assert compiler_architecture(capability) == expected


@pytest.mark.parametrize("capability", [(6, 1), (13, 0)])
def test_architectures_that_the_compiler_does_not_know(monkeypatch, capability):
    monkeypatch.setattr(glasswood.cuda.compiler, "_known_architectures", lambda: [75, 80, 86, 90, 100, 120])
    with pytest.raises(DeviceError, match=r"compute capability .*, the installed NVRTC compiles up to 12\.0; upgrade"):
        compiler_architecture(capability)
