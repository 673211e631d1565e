"""What only a GPU has: arrays that live there, streams, several devices, the paths algorithm, errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import glasswood
import glasswood.cuda.rows
import glasswood.explain.cuda.quadrature
from glasswood import Explainer
from glasswood.base.device import DeviceError
from tests.conftest import _why_no_gpu, examples, repeats
from tests.oracles import shapley
from tests.strategies import Options, forests_and_rows, full_forest, random_forest

reason = _why_no_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(reason is not None, reason=str(reason))]


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def forest():
    return full_forest(1, n_trees=20, depth=6, n_features=8)


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).normal(size=(777, 8)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(example=forests_and_rows(max_rows=12))
@examples(25)
def test_paths_match_the_oracle(dtype, example):
    """EXTEND and UNWIND divide by z, so float32 loses digits with the length of a path; float64 keeps ten."""
    forest, X = example
    expected = shapley.values(forest, shapley.sides(forest, X))
    found = Explainer(forest, algorithm="paths", device="cuda", dtype=dtype).shap_values(X).reshape(expected.shape)
    allowed = (1e-10 if dtype == "float64" else 2e-4) * shapley.leaf_spread(forest)
    assert (np.abs(found - expected).max(axis=(0, 1), initial=0) <= allowed).all()


@pytest.mark.parametrize("method", ["shap_values", "shap_interaction_values"])
def test_paths_agree_with_quadrature_bit_for_bit_on_every_run(forest, X, method):
    paths = getattr(Explainer(forest, algorithm="paths", device="cuda"), method)
    found = paths(X)
    assert np.abs(found - getattr(Explainer(forest), method)(X)).max() <= 1e-5 * shapley.leaf_spread(forest).max()
    for _ in range(repeats(20)):
        np.testing.assert_array_equal(paths(X), found)


def test_paths_of_32_features_are_refused():
    chain = random_forest(0, Options(shape="deep chain", n_features=40))
    with pytest.raises(ValueError, match=r"at most 31; use algorithm='quadrature'"):
        Explainer(chain, algorithm="paths", device="cuda").shap_values(np.zeros((1, 40)))


@pytest.mark.parametrize("algorithm", ["quadrature", "paths"])
def test_gpu_arrays_stay_on_the_gpu(cupy, forest, X, algorithm):
    explainer = Explainer(forest, algorithm=algorithm)
    found = explainer.shap_values(cupy.asarray(X))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(found.get(), Explainer(forest, algorithm=algorithm, device="cuda").shap_values(X))
    margin = forest.predict(cupy.asarray(X), output="margin")
    np.testing.assert_array_equal(margin.get(), forest.predict(X, output="margin", device="cpu"))


def test_any_layout_and_type_of_gpu_rows(cupy, forest, X):
    explainer = Explainer(forest)
    expected = explainer.shap_values(cupy.asarray(X)).get()
    wide = cupy.zeros((len(X), 20), np.float32)
    wide[:, ::2][:, :8] = cupy.asarray(X)
    for rows in (cupy.asarray(np.asfortranarray(X)), wide[:, ::2][:, :8], cupy.asarray(X).astype(np.float64)):
        np.testing.assert_array_equal(explainer.shap_values(rows).get(), expected)
    whole = cupy.asarray(X).astype(np.int32)
    np.testing.assert_array_equal(
        explainer.shap_values(whole).get(), explainer.shap_values(whole.astype(np.float32)).get()
    )


def test_torch_in_torch_out(forest, X):
    torch = pytest.importorskip("torch")
    found = Explainer(forest).shap_values(torch.from_numpy(X).cuda())
    assert isinstance(found, torch.Tensor)
    assert found.is_cuda
    np.testing.assert_array_equal(found.cpu().numpy(), Explainer(forest, device="cuda").shap_values(X))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predictions_pass_between_torch_and_cupy(cupy, forest, X, dtype):
    """Tensors in and out, and by DLPack on to CuPy and back, without a copy."""
    torch = pytest.importorskip("torch")
    rows, expected = torch.from_numpy(X.astype(dtype)).cuda(), forest.predict(X, output="margin", device="cpu")
    found = forest.predict(rows, output="margin")
    assert isinstance(found, torch.Tensor)
    assert found.is_cuda
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
    shared = cupy.from_dlpack(found)
    assert shared.data.ptr == found.data_ptr()
    np.testing.assert_array_equal(forest.predict(cupy.from_dlpack(rows), output="margin").get(), expected)
    again = forest.predict(torch.from_dlpack(cupy.asarray(X.astype(dtype))), output="margin")
    np.testing.assert_array_equal(again.cpu().numpy(), expected)


@pytest.mark.parametrize("keeps", [False, True])
def test_streams_of_torch_are_respected(forest, X, keeps):
    """The rows are written late, on a stream that CuPy knows nothing of; what reads the result is queued at once."""
    torch = pytest.importorskip("torch")
    explainer = Explainer(forest)
    expected = explainer.shap_values(torch.from_numpy(X).cuda()).cpu().numpy()
    margins = forest.predict(X, output="margin", device="cpu")
    given = torch.from_numpy(X).cuda()
    for _ in range(3):
        rows, out = torch.zeros_like(given), torch.zeros(expected.shape, device="cuda") if keeps else None
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(20_000_000)
            rows.copy_(given)
            values = explainer.shap_values(rows, out=out).clone()
            predicted = forest.predict(rows, output="margin").clone()
        torch.cuda.synchronize()
        np.testing.assert_array_equal(values.cpu().numpy(), expected)
        np.testing.assert_array_equal(predicted.cpu().numpy(), margins)


def test_a_bound_of_cupys_pool_is_kept(cupy, X):
    forest = full_forest(0, 100, 8, 8)
    expected = Explainer(forest, device="cuda").shap_values(X)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(pool.total_bytes() + 2**30)
    try:
        explainer = Explainer(forest, device="cuda")
        np.testing.assert_array_equal(explainer.shap_values(np.tile(X, (100, 1)))[: len(X)], expected)
        tree = glasswood.ModelTreeRegressor(generations=2, device="cuda", random_state=0)
        tree.fit(np.tile(X, (200, 1)), np.tile(X[:, 0], 200))
    finally:
        pool.set_limit(0)


def test_work_is_queued_on_the_current_stream(cupy, forest, X):
    explainer = Explainer(forest)
    expected = explainer.shap_values(cupy.asarray(X)).get()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        rows = cupy.asarray(X)
        for _ in range(20):
            rows = rows * 1
        found = explainer.shap_values(rows)
    stream.synchronize()
    np.testing.assert_array_equal(found.get(), expected)


def test_rows_in_chunks_give_the_same_bits(limits, forest, X):
    expected = Explainer(forest, device="cuda").shap_values(X)
    pairs = Explainer(forest, device="cuda").shap_interaction_values(X)
    limits(host_chunk_bytes=64 * 50, walk_partial_bytes=1)
    np.testing.assert_array_equal(Explainer(forest, device="cuda").shap_values(X), expected)
    np.testing.assert_array_equal(Explainer(forest, device="cuda").shap_interaction_values(X), pairs)


def test_out_of_memory_names_bytes_and_leaves_the_gpu_usable(cupy, forest, X):
    explainer = Explainer(forest)
    rows = cupy.asarray(X)
    expected = explainer.shap_values(rows)
    huge = cupy.broadcast_to(rows[:1], (2**36, 8))
    with pytest.raises(
        DeviceError, match=r"of memory: Out of memory allocating [0-9,]+ bytes.* [0-9,]+ bytes are free"
    ):
        explainer.shap_values(huge)
    np.testing.assert_array_equal(explainer.shap_values(rows).get(), expected.get())


def test_a_gpu_that_is_not_there(forest, X):
    with pytest.raises(DeviceError, match=r"device='cuda:99' is not available, this machine has cuda:0"):
        Explainer(forest, device="cuda:99").shap_values(X)


def test_rows_on_another_gpu(cupy, forest, X):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    with cupy.cuda.Device(1):
        rows = cupy.asarray(X)
    found = Explainer(forest, device="cuda").shap_values(rows)
    assert found.device.id == 1
    np.testing.assert_array_equal(found.get(), Explainer(forest, device="cuda").shap_values(X))
    with pytest.raises(DeviceError, match=r"X is on cuda:1, but device='cuda:0'; pass device='cuda:1'"):
        Explainer(forest, device="cuda:0").shap_values(rows)


def test_margins_of_rows_on_another_gpu(cupy, forest, X):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU")
    expected = forest.predict(X, output="margin", device="cpu")
    with cupy.cuda.Device(1):
        rows = cupy.asarray(X)
    for current in (0, 1, 0, 1):
        with cupy.cuda.Device(current):
            found = forest.predict(rows, output="margin")
            assert found.device.id == 1
            np.testing.assert_array_equal(found.get(), expected)
            np.testing.assert_array_equal(forest.predict(X[:1], output="margin", device="cuda:1"), expected[:1])
            assert cupy.cuda.runtime.getDevice() == current


def test_gpu_rows_on_the_cpu_are_refused(cupy, forest, X):
    with pytest.raises(DeviceError, match="X is on cuda:0, but device='cpu'"):
        Explainer(forest, device="cpu").shap_values(cupy.asarray(X))


def test_rows_of_another_width(cupy, forest):
    with pytest.raises(ValueError, match=r"X has shape \(3, 5\), expected \(rows, 8\)"):
        Explainer(forest).shap_values(cupy.zeros((3, 5), np.float32))
