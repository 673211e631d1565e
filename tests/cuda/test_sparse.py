"""CuPy's sparse rows, dense on the GPU chunk by chunk."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import scipy.sparse

from glasswood import Explainer
from tests.strategies import Options, full_forest, random_forest


class EmulatedCsr:
    """What glasswood reads of cupyx.scipy.sparse.csr_matrix."""

    def __init__(self, matrix):
        import cupy

        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype
        self.has_canonical_format = matrix.has_canonical_format
        self.indptr, self.indices, self.data = map(cupy.asarray, (matrix.indptr, matrix.indices, matrix.data))

    def tocsr(self):
        return self

    def copy(self):
        return EmulatedCsr(self.matrix.copy())

    def sum_duplicates(self):
        self.matrix.sum_duplicates()
        self.__init__(self.matrix)


@pytest.fixture
def to_gpu(gpu, monkeypatch):
    """Make a sparse matrix of the host one of CuPy."""
    if gpu is None:
        import cupyx.scipy.sparse

        return cupyx.scipy.sparse.csr_matrix
    emulated = types.SimpleNamespace(issparse=lambda X: isinstance(X, EmulatedCsr))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", emulated)
    return EmulatedCsr


@pytest.fixture(autouse=True)
def _small_chunks(limits):
    limits(sparse_chunk_bytes=4 * 5 * 40)


def rows_of(n_features, dtype="float32", n_rows=150):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((n_rows, n_features)) < 0.3, rng.normal(size=(n_rows, n_features)), 0)
    return scipy.sparse.csr_matrix(dense.astype(dtype))


@pytest.mark.parametrize("source", ["xgboost 3.2.0", "LightGBM (format v4)"])
@pytest.mark.parametrize("output", ["margin", "leaf"])
def test_predictions_are_those_of_the_host(source, output, to_gpu):
    import dataclasses

    import cupy

    forest = dataclasses.replace(full_forest(0, 12, 4, 9), source=source)
    rows = rows_of(9)
    found = forest.predict(to_gpu(rows), output=output)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(found), forest.predict(rows, output=output, device="cpu"))


def test_entries_that_are_stored_twice_are_added_up(to_gpu):
    import cupy

    forest, rows = full_forest(0, 12, 4, 9), rows_of(9)
    twice = scipy.sparse.csr_matrix(
        (np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=rows.shape
    )
    assert not twice.has_canonical_format
    found = forest.predict(to_gpu(twice), output="margin")
    np.testing.assert_array_equal(cupy.asnumpy(found), forest.predict(rows, output="margin", device="cpu"))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_values_stay_on_the_gpu(n_outputs, to_gpu):
    import cupy

    forest = random_forest(2, Options(n_trees=6, n_features=7, n_outputs=n_outputs))
    rows, explainer = rows_of(7), Explainer(forest, dtype="float64")
    expected = Explainer(forest, dtype="float64", device="cpu").shap_values(rows)
    found = explainer.shap_values(to_gpu(rows))
    assert isinstance(found, cupy.ndarray)
    size = np.abs(forest.ensemble.leaf_value).sum()
    np.testing.assert_allclose(cupy.asnumpy(found), expected, atol=1e-12 * size)
    out = cupy.empty(expected.shape, "float64")
    assert explainer.shap_values(to_gpu(rows), out=out) is out
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(found))
    parts = explainer.shap_values(to_gpu(rows), sparse_output=True)
    wanted_parts = np.atleast_3d(expected).transpose(2, 0, 1)
    for part, wanted in zip(parts if n_outputs > 1 else [parts], wanted_parts, strict=True):
        np.testing.assert_allclose(part.toarray(), wanted, atol=1e-12 * size)
    with pytest.raises(ValueError, match="out is not a CuPy array of float64"):
        explainer.shap_values(to_gpu(rows), out=np.empty(expected.shape))


def test_widths_that_do_not_fit(to_gpu):
    with pytest.raises(ValueError, match="X has 8 columns"):
        full_forest(0, 3, 3, 9).predict(to_gpu(rows_of(8)))
