"""Arrays of a GPU, played by arrays of the host: which GPU they grow on, and that nothing else changes."""

from __future__ import annotations

import types

import numpy as np
import pytest

import glasswood.base.device
import glasswood.grow.cuda.qr_rows
import glasswood.grow.cuda.rows
import glasswood.grow.search.engine
from glasswood import ModelTreeEnsembleRegressor, ModelTreeRegressor
from glasswood.base.device import DeviceError
from tests.grow.engines import piecewise

X, Y = piecewise(200, 2)
WEIGHT = np.random.default_rng(0).uniform(0.5, 2, len(Y))


class Array:
    """As CuPy's: nothing of the host reads it by itself."""

    def __init__(self, values, gpu=1):
        self.values, self.device = values, types.SimpleNamespace(id=gpu)

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed")


Array.__module__ = "cupy"


@pytest.fixture
def asked(monkeypatch):
    """GPUs that searches asked for; none of them takes the rows."""
    devices = []

    def refuse(_, gpus, *__):
        raise DeviceError(f"{gpus} refused")

    cupy = types.SimpleNamespace(asnumpy=lambda array: array.values, from_dlpack=lambda array: array)
    monkeypatch.setattr(glasswood.base.device, "import_cupy", lambda: cupy)
    monkeypatch.setattr(glasswood.grow.search.engine, "find_gpus", lambda device: devices.append(device) or (1,))
    monkeypatch.setattr(glasswood.grow.cuda.rows, "RowsOnGpus", refuse)
    return devices


def grown(device, *arrays):
    return ModelTreeRegressor(generations=3, device=device).fit(*arrays)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_arrays_of_a_gpu_grow_the_tree_of_host_arrays(asked, device, dtype):
    arrays = [array.astype(dtype) for array in (X, Y, WEIGHT)]
    if device == "auto":
        with pytest.warns(RuntimeWarning, match=r"growing on the CPU: \(1,\) refused"):
            found = grown(device, *(Array(array) for array in arrays))
    else:
        found = grown(device, *(Array(array) for array in arrays))
    assert asked == (["cuda:1"] if device == "auto" else [])
    expected = grown("cpu", *arrays)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_array_equal(found.apply(X), expected.apply(X))


@pytest.mark.parametrize(("device", "expected"), [("cuda", "cuda:1"), ("cuda:0", "cuda:0"), ("cuda:all", "cuda:all")])
def test_rows_of_a_gpu_are_summed_there_unless_another_one_is_named(asked, device, expected):
    with pytest.raises(DeviceError, match="refused"):
        grown(device, Array(X), Y)
    assert asked == [expected]


def test_the_rows_decide_and_not_the_target(asked):
    grown("auto", X, Array(Y))
    assert asked == []


def watched(monkeypatch):
    """Rows and devices that forests are asked to predict from now on."""
    calls = []

    def predict(_, rows, output="prediction", device="auto", **__):
        calls.append((type(rows), output, device))
        return np.zeros((3, 1))

    monkeypatch.setattr(glasswood.Forest, "predict", predict)
    return calls


@pytest.mark.parametrize(
    ("device", "rows", "given"),
    [
        ("auto", Array(X), Array),
        ("cuda:1", Array(X), Array),
        ("cpu", Array(X), np.ndarray),
        ("cuda:all", X, np.ndarray),
    ],
)
@pytest.mark.usefixtures("asked")
def test_predictions_follow_the_device(monkeypatch, device, rows, given):
    tree = grown("cpu", X, Y).set_params(device=device)
    predicted = watched(monkeypatch)
    tree.predict(rows)
    tree.apply(rows)
    assert predicted == [(given, "prediction", device), (given, "leaf", device)]


class Results(Array):
    """Of rows of a GPU."""

    def __getitem__(self, key):
        return Results(self.values[key])


Results.__module__ = "cupy"


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("kind", ["tree", "ensemble"])
def test_intervals_of_rows_of_a_gpu_are_on_the_host(monkeypatch, kind):
    one = ModelTreeRegressor(generations=3, device="cpu")
    model = one if kind == "tree" else ModelTreeEnsembleRegressor(one, n_estimators=2)
    model.fit(X, Y)
    expected = model.predict_interval(X)
    on_cpu = glasswood.Forest.predict

    def predict(forest, rows, *arguments, **__):
        found = on_cpu(forest, glasswood.base.device.on_host(rows), *arguments, device="cpu")
        return Results(found) if isinstance(rows, Array) else found

    monkeypatch.setattr(glasswood.Forest, "predict", predict)
    one.set_params(device="auto")
    np.testing.assert_array_equal(model.predict_interval(Array(X)), expected)


@pytest.mark.usefixtures("asked")
def test_values_of_categories_are_looked_up_on_the_host(monkeypatch):
    categories = np.column_stack([X, np.arange(len(X)) % 3])
    tree = ModelTreeRegressor(generations=3, device="cpu", categorical_features=[X.shape[1]]).fit(categories, Y)
    predicted = watched(monkeypatch)
    tree.set_params(device="auto").predict(Array(categories))
    assert predicted == [(np.ndarray, "prediction", "auto")]
