"""glasswood in shap's place: by `patch_shap`, and as the backend that shap looks up."""

import importlib.metadata
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import glasswood

shap = pytest.importorskip("shap")
ensemble = pytest.importorskip("sklearn.ensemble")


@pytest.fixture(scope="module")
def model_and_rows():
    X = np.random.default_rng(0).normal(size=(200, 4))
    return ensemble.GradientBoostingRegressor(n_estimators=5).fit(X, X[:, 0] * X[:, 1]), X


def test_shap_is_patched_within_the_block_alone(model_and_rows):
    model, X = model_and_rows
    theirs = shap.TreeExplainer
    expected = theirs(model).shap_values(X)
    with glasswood.patch_shap():
        assert shap.TreeExplainer is shap.explainers.Tree is shap.explainers.TreeExplainer is glasswood.TreeExplainer
        explainer = shap.TreeExplainer(model)
    assert shap.TreeExplainer is shap.explainers.Tree is shap.explainers.TreeExplainer is theirs
    np.testing.assert_allclose(explainer.shap_values(X), expected, atol=1e-5)


def names():
    return shap.TreeExplainer, shap.explainers.Tree, shap.explainers.TreeExplainer


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_blocks_that_overlap_leave_nothing_behind(order):
    """Of generators and threads, the first block to begin may be the first to end."""
    theirs, blocks = names(), [glasswood.patch_shap() for _ in order]
    for block in blocks:
        block.__enter__()
    for number in order:
        assert names() == (glasswood.TreeExplainer,) * 3
        blocks[number].__exit__(None, None, None)
    assert names() == theirs
    with glasswood.patch_shap():
        assert names() == (glasswood.TreeExplainer,) * 3
    assert names() == theirs


def test_blocks_of_threads_leave_nothing_behind():
    theirs, all_began = names(), threading.Barrier(4, timeout=60)

    def work(number):
        for turn in range(50):
            with glasswood.patch_shap():
                if turn == number:
                    all_began.wait()
                assert names() == (glasswood.TreeExplainer,) * 3

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [0] * 4))
    assert names() == theirs


def test_errors_in_the_block_end_it():
    theirs = shap.TreeExplainer
    with pytest.raises(KeyError), glasswood.patch_shap():
        raise KeyError
    assert shap.TreeExplainer is theirs


def test_without_shap_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"), glasswood.patch_shap():
        pass


def test_shap_finds_the_backend(model_and_rows):
    (found,) = [one for one in importlib.metadata.entry_points(group="shap.tree_backends") if one.name == "glasswood"]
    assert found.load() is glasswood.TreeExplainer
    if not hasattr(shap.explainers, "_load_tree_backend"):
        pytest.skip(f"shap {shap.__version__} looks no backend up")
    if {one.name for one in importlib.metadata.entry_points(group="shap.tree_backends")} == {"glasswood"}:
        model, X = model_and_rows
        assert shap.explainers.GPUTree is glasswood.TreeExplainer
        np.testing.assert_allclose(
            shap.explainers.GPUTree(model).shap_values(X), shap.TreeExplainer(model).shap_values(X), atol=1e-5
        )
