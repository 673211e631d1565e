"""Every kernel and launch of evaluation against oracle and CPU: on an emulated GPU, and on a GPU where there is one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

import glasswood.cuda.launches
import glasswood.evaluate.cuda.evaluator
import glasswood.evaluate.cuda.few_rows
import glasswood.evaluate.cuda.packing
import glasswood.evaluate.cuda.tiles
import glasswood.evaluate.cuda.tiling
import glasswood.evaluate.evaluator
import glasswood.reference.speculative
from glasswood.base.typing import Choice
from glasswood.cuda.codes import encode_forest
from glasswood.cuda.per_gpu import gpu_limits
from glasswood.evaluate.cuda.packing import choose_format
from glasswood.evaluate.cuda.tiling import Tiling
from glasswood.plans import plan_of
from tests.conftest import examples
from tests.evaluate.test_categories import forest_of_sets, rows_of_sets
from tests.example_forests import empty_forest, with_linear_leaves
from tests.oracles import evaluate
from tests.strategies import Options, forests_and_rows, full_forest, random_forest, random_rows

pytestmark = pytest.mark.usefixtures("gpu")
ALGORITHMS = ("serial", "by_sample", "by_node", "windowed")
few = examples(15)


def check(forest, X, algorithm, output="leaf"):
    is_leaf = output == "leaf"
    expected = evaluate.leaf_ids(forest, X) if is_leaf else forest.predict(X, output=output, device="cpu")
    found = forest.predict(X, output=output, algorithm=algorithm, device="cuda")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("output", ["leaf", "margin"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(example=forests_and_rows(max_rows=20))
@few
def test_leaves_match_the_oracle_and_margins_the_cpu(algorithm, output, example):
    check(*example, algorithm, output)


@pytest.mark.parametrize("most_few", [0, 512])
@pytest.mark.parametrize("is_estimator", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("link", "n_outputs"),
    [("logistic", 1), ("exponential", 1), ("one_vs_all", 3), ("softmax", 1), ("softmax", 4), ("exp", 1), ("exp", 2)],
)
def test_responses_of_gpu_rows_stay_there(monkeypatch, limits, link, n_outputs, dtype, is_estimator, most_few):
    """The link in float64 on the GPU, rounded once: as NumPy's, and also where exponentials overflow."""
    import cupy

    forest = random_forest(5, Options(n_trees=6, n_features=3, n_outputs=n_outputs, row_type=dtype))
    values = forest.leaf_value.copy()
    values[:3] = [[1e4], [-1e4], [800.0]]
    names = {"link": link, "prediction": "positive" if n_outputs == 1 else "argmax", "objective": "classification"}
    forest = dataclasses.replace(
        forest, **names, link_scale=0.7, leaf_value=values, result_dtype=dtype, is_estimator=is_estimator
    )
    output = "probability" if link != "exp" and (is_estimator or link == "one_vs_all") else "prediction"
    if output == "prediction":
        forest = dataclasses.replace(forest, prediction="response")
    limits(most_few_rows=most_few)
    X = random_rows(6, forest, 300)
    expected = forest.predict(X, output=output, device="cpu")
    rows = cupy.asarray(X)
    if not (link == "softmax" and n_outputs == 1 and is_estimator):
        monkeypatch.setattr(glasswood.evaluate.evaluator, "respond", None)
    # The second call is kept and goes by all checks; in several parts no plan does it all.
    for is_in_parts in (False, False, most_few == 0):
        if is_in_parts:
            monkeypatch.setattr(type(plan_of(forest, "cuda").tiles), "most_rows", lambda _: 100)
            forest = dataclasses.replace(forest)
        found = cupy.asnumpy(forest.predict(rows, output=output, device="cuda"))
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        # Exponentials differ by two units of the last place at most, above and below the line; then come the divisions.
        # One class is what the other leaves, which may be little.
        tolerance = 5 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance if expected.shape[-1] == 2 else 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["two classes", "one_vs_all", "softmax", "linear leaves"])
def test_probabilities_of_host_rows_come_from_the_gpu(monkeypatch, limits, kind, dtype):
    """In chunks, on one GPU and on all, beside the links of the definitions; `auto` has the CPU's bits."""
    n_outputs = 3 if kind in {"one_vs_all", "softmax"} else 1
    link = kind if n_outputs > 1 else "logistic"
    classes = {"classes": (np.array(["no", "yes"]),), "is_estimator": True} if kind == "two classes" else {}
    forest = random_forest(5, Options(n_trees=6, n_features=3, n_outputs=n_outputs, row_type=dtype))
    forest = with_linear_leaves(forest) if kind == "linear leaves" else forest
    forest = dataclasses.replace(forest, link=link, link_scale=0.7, result_dtype=dtype, **classes)
    X = random_rows(6, forest, 300)
    margins = 0.7 * evaluate.margins(forest, X)
    terms = np.exp(margins - margins.max(axis=1, keepdims=True))
    expected = terms / terms.sum(axis=1, keepdims=True) if link == "softmax" else 1 / (1 + np.exp(-margins))
    if kind == "two classes":
        expected = np.concatenate([1 - expected, expected], axis=1)
    expected = expected[:, 0] if expected.shape[1] == 1 else expected
    on_cpu = forest.predict(X, output="probability", device="cpu")
    limits(fewest_chunk_rows=32, worthwhile_host_trees=0)
    moved, map_rows = [], glasswood.evaluate.cuda.evaluator.map_rows
    monkeypatch.setattr(
        glasswood.evaluate.cuda.evaluator, "map_rows", lambda *args, **kw: moved.append(args) or map_rows(*args, **kw)
    )
    np.testing.assert_array_equal(forest.predict(X, output="probability", device="auto"), on_cpu)
    assert [args[3] for args in moved] == ["float64"]
    with pytest.raises(ValueError, match="has no probabilities"):
        dataclasses.replace(forest, link="identity", classes=(), objective="regression").predict(
            X, output="probability", device="cuda"
        )
    monkeypatch.setattr(glasswood.evaluate.evaluator, "respond", None)
    moved.clear()
    for device in ("cuda", "cuda:0", "cuda:all"):
        found = forest.predict(X, output="probability", device=device)
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (on_cpu.dtype, on_cpu.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=(2e-7 if dtype == "float32" else 1e-14))
        assert np.ptp(found) > 0.1
    assert [args[3] for args in moved] == [dtype] * 3
    assert forest.predict(X[:0], output="probability", device="cuda").shape == (0, *on_cpu.shape[1:])


def test_rows_whose_sums_depend_on_the_order_of_the_trees(monkeypatch):
    """They are summed in order by themselves, wherever they lie in a tile, in blocks of teams and in several blocks."""
    forest = full_forest(3, n_trees=70, depth=4, n_features=5)
    large = forest.leaf_value.copy()
    large[:16], large[-16:] = 2.0**60, -(2.0**60)
    forest = dataclasses.replace(forest, leaf_value=large.astype(np.float32).astype(float), result_dtype="float32")
    monkeypatch.setattr(glasswood.evaluate.cuda.few_rows, "MOST_ROWS", 0)
    for tiling in (Tiling(32, 8, 8192, 1), Tiling(64, 4, 8192, 3), Tiling(64, 1, 4096, 2)):
        monkeypatch.setattr(glasswood.evaluate.cuda.tiles, "choose_tiling", lambda *_, tiling=tiling: tiling)
        check(dataclasses.replace(forest), random_rows(4, forest, 700), "by_sample", "margin")


def test_the_serial_algorithm_takes_rows_in_several_launches(limits):
    limits(serial_steps=20)
    forest = random_forest(3, Options(n_trees=4, n_features=3))
    check(forest, random_rows(4, forest, 17), "serial")


@given(example=forests_and_rows(max_rows=20))
@few
def test_margins_of_many_rows_match_the_cpu(example):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glasswood.evaluate.cuda.few_rows, "MOST_ROWS", 0)
        check(*example, "by_sample", "margin")


@pytest.mark.parametrize("row_type", ["float32", "float64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_sets_than_a_tile_of_codes_holds(row_type, dtype):
    forest = forest_of_sets(80, row_type, depth=6, n_trees=120)
    X = rows_of_sets(forest, 80, 150).astype(dtype)
    assert not plan_of(forest, "cuda").tiles.serves()
    for output in ("leaf", "margin"):
        check(forest, X, "by_sample", output)


FORMS = ("narrow_heap", "narrow", "wide_heap", "wide")


def forest_of(form, n_trees=9):
    """A forest that gets this format: of few thresholds, of complete trees or of trees of any shape."""
    if not form.endswith("heap"):
        forest = random_forest(3, Options(shape="mixed", n_trees=n_trees, n_features=4, weights="dart"))
    else:
        forest = full_forest(3, n_trees, 7 if form == "narrow_heap" else 5, 4)
    rng = np.random.default_rng(0)
    values = rng.normal(size=forest.n_nodes)  # more of a feature than 8 bits number
    if form.startswith("narrow"):
        values = rng.choice(values[:200], forest.n_nodes)
    threshold = np.where(forest.ensemble.feature >= 0, values, 0).astype(forest.ensemble.threshold.dtype)
    return dataclasses.replace(forest, threshold=threshold)


def in_single(forest):
    """The forest with leaves and results of float32, as XGBoost's."""
    value = forest.ensemble.leaf_value.astype(np.float32).astype(np.float64)
    return dataclasses.replace(forest, leaf_value=value, tree_weight=np.ones(forest.n_trees), result_dtype="float32")


def forget_cuts():
    glasswood.evaluate.cuda.tiling.choose_tiling.cache_clear()
    glasswood.evaluate.cuda.tiling._tilings.cache_clear()


@pytest.mark.parametrize(("n_rows", "stage"), [(1, 4096), (130, 256), (1100, 4096)])
@pytest.mark.parametrize("form", FORMS)
def test_formats(limits, form, n_rows, stage):
    """Trees that fit a stage and trees that do not; tiles that take all trees and tiles that take a part."""
    forest = forest_of(form)
    most = {"narrow": 256 if form.startswith("narrow") else 0, "wide": 2**16}
    limits(
        most_codes=most,
        deepest_heap=10 if form.endswith("heap") else 0,
        tile_stages=(stage,),
        most_few_rows=0,
    )
    forget_cuts()
    assert choose_format(forest, encode_forest(forest)) == form
    X = random_rows(5, forest, n_rows, "float32")
    check(forest, X, "by_sample")
    check(forest, X, "by_sample", "margin")
    check(in_single(forest), X, "by_sample", "margin")
    forget_cuts()


CUTS = [(32, 8, 1), (32, 12, 2), (64, 4, 3), (128, 6, 2), (192, 4, 1), (256, 3, 2), (64, 1, 3)]


@pytest.mark.parametrize("stage", [1024, 32768])
@pytest.mark.parametrize(("lanes", "teams", "parts"), CUTS)
@pytest.mark.parametrize("form", FORMS)
def test_teams(monkeypatch, limits, form, lanes, teams, parts, stage):
    """Teams that share rows, trees that fit their share of a stage and trees that do not, sums that need the order."""
    tiling = Tiling(lanes, teams, stage, parts)
    monkeypatch.setattr(glasswood.evaluate.cuda.tiles, "choose_tiling", lambda work, _: tiling if work.joins else plain)
    plain = Tiling(64, 1, 4096, 2)
    limits(most_few_rows=0)
    forest = in_single(forest_of(form, n_trees=29))
    X = random_rows(5, forest, 800 if lanes > 64 else 300, "float32")
    for base in (0.5, 0.1):
        check(dataclasses.replace(forest, base_score=np.array([base])), X, "by_sample", "margin")


@pytest.mark.parametrize("sharing", [1, 3, 5, 8])
@pytest.mark.parametrize("form", ["narrow_heap", "narrow"])
def test_blocks_divide_outputs(monkeypatch, limits, form, sharing):
    forest = forest_of(form, n_trees=14)
    output = np.sort(np.arange(14) % 5)[::-1].astype(np.int32)
    forest = dataclasses.replace(forest, tree_output=output, base_score=np.arange(5.0), tree_weight=np.ones(14))
    limits(most_few_rows=0)
    tiling = Tiling(64, 1, 4096, sharing)
    monkeypatch.setattr(glasswood.evaluate.cuda.tiles, "choose_tiling", lambda *_: tiling)
    monkeypatch.setattr(glasswood.evaluate.cuda.tiles, "values_time", lambda _: np.inf)
    check(forest, random_rows(5, forest, 300, "float32"), "by_sample", "margin")


def test_heaps_of_256_columns_and_255_thresholds(limits):
    """All that 8 bits tell apart."""
    forest = full_forest(3, n_trees=2, depth=8, n_features=256)
    is_split, order = forest.ensemble.feature >= 0, np.random.default_rng(0).permutation(255)
    feature, threshold = forest.ensemble.feature.copy(), forest.ensemble.threshold.copy()
    feature[is_split] = np.concatenate([np.full(255, 255), order])
    threshold[is_split] = np.concatenate([order - 127.0, np.zeros(255)])
    default_left = np.zeros(forest.n_nodes, bool)  # of one direction, or a feature has two columns
    forest = dataclasses.replace(forest, feature=feature, threshold=threshold, default_left=default_left)
    assert choose_format(forest, encode_forest(forest)) == "narrow_heap"
    X = random_rows(5, forest, 300, "float32")
    X[:, 255] = np.linspace(-140, 140, 300)
    for most in (0, 512):
        limits(most_few_rows=most)
        check(dataclasses.replace(forest), X, "by_sample", "margin")
        check(dataclasses.replace(forest), X, "by_sample")


def test_rows_of_which_few_fit_a_tile():
    """Teams make room for tiles of 32 lanes."""
    forest = in_single(full_forest(3, n_trees=26, depth=6, n_features=1600))
    feature = forest.ensemble.feature.copy()
    feature[feature >= 0] = np.arange((feature >= 0).sum()) % 1600
    forest = dataclasses.replace(forest, feature=feature)
    assert plan_of(forest, "cuda").tiles.serves()
    X = random_rows(5, forest, 600, "float32")
    for result in ("float32", "float64"):
        check(dataclasses.replace(forest, result_dtype=result), X, "by_sample", "margin")
    check(forest, X, "by_sample")


@pytest.mark.parametrize("n_rows", [1, 300])
def test_few_rows_on_gpus_of_little_shared_memory(monkeypatch, n_rows):
    """Nodes come to shared memory where it has room for them: 48 KB are the least of all GPUs."""
    forest = in_single(full_forest(3, n_trees=100, depth=8, n_features=5))
    forest = dataclasses.replace(forest, threshold=np.round(forest.ensemble.threshold))
    found = gpu_limits()
    for n_bytes in (48 * 1024, 99 * 1024):
        little = found._replace(shared_per_block=n_bytes)
        monkeypatch.setattr(glasswood.evaluate.cuda.few_rows, "gpu_limits", lambda little=little: little)
        each = dataclasses.replace(forest)
        blocks = plan_of(each, "cuda").few._blocks(n_rows)
        assert blocks.shared <= n_bytes
        check(each, random_rows(5, each, n_rows, "float32"), "by_sample", "margin")
    assert blocks.is_staged


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_linear_leaves(algorithm):
    forest = with_linear_leaves(random_forest(3, Options(n_trees=5, n_features=4, n_outputs=3, weights="dart")))
    X = random_rows(1, forest, 60)
    X[np.abs(X) > 1e30] = 5
    for leaf_missing in (np.zeros(0), np.arange(forest.n_leaves) - 0.5):
        forest = dataclasses.replace(forest, leaf_missing=leaf_missing)
        expected = forest.predict(X, output="margin", device="cpu")
        found = forest.predict(X, output="margin", algorithm=algorithm, device="cuda")
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())


def test_linear_leaves_are_tuned():
    forest = with_linear_leaves(full_forest(0, n_trees=2, depth=3, n_features=4))
    with glasswood.config_context(device="cuda"):
        tuned = forest.tune(random_rows(0, forest, 20), seconds=0.02)
    assert {choice.device for choice in tuned.choices} == {"cuda"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_trees_and_no_rows(algorithm):
    empty = empty_forest()
    np.testing.assert_array_equal(empty.predict(np.ones((20, 3)), "margin", algorithm, "cuda"), np.full(20, 0.5))
    assert empty.predict(np.ones((20, 3)), "leaf", algorithm, "cuda").shape == (20, 0)
    forest = full_forest(0, n_trees=3, depth=2, n_features=4)
    assert forest.predict(np.zeros((0, 4)), "leaf", algorithm, "cuda").shape == (0, 3)
    assert forest.predict(np.zeros((0, 4)), "margin", algorithm, "cuda").shape == (0,)


@pytest.mark.parametrize("setting", range(1, 6))
@pytest.mark.parametrize("algorithm", ["by_node", "windowed"])
def test_settings(algorithm, setting):
    for options in (Options(shape="deep chain"), Options(n_trees=3), Options(shape="mixed", n_trees=4)):
        forest = random_forest(1, options)
        X = random_rows(2, forest, 33)
        found = plan_of(forest, "cuda").leaves(X, (0,), Choice(33, "cuda", algorithm, setting))
        np.testing.assert_array_equal(found, evaluate.leaf_ids(forest, X))


def test_by_node_of_255_splits_and_beyond():
    forest = full_forest(0, n_trees=2, depth=8, n_features=4)
    X = random_rows(2, forest, 40)
    check(forest, X, "by_node")
    with pytest.raises(ValueError, match=r"at most 255.*use algorithm='windowed'"):
        full_forest(0, n_trees=1, depth=9, n_features=4).predict(X, algorithm="by_node", device="cuda")


def one_by_one(forest, rows):
    """Margins of rows that are calls of their own."""
    return [forest.predict(row[None], output="margin", device="cuda")[0] for row in rows]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_single_rows(n_outputs):
    options = Options(n_trees=7, n_outputs=n_outputs, weights="dart", meaning={"result_dtype": "float32"})
    forest = random_forest(5, options)
    X = random_rows(1, forest, 10)
    for rows in (X, random_rows(2, forest, 10, "float32")):
        expected = forest.predict(rows, output="margin", device="cpu")
        np.testing.assert_array_equal(one_by_one(forest, rows), expected)


def test_columns_beyond_shared_memory():
    """Too many columns for a tile: the plain kernel takes them; too many thresholds for a run stay where they are."""
    forest = full_forest(0, n_trees=4, depth=9, n_features=1500)
    X = np.random.default_rng(0).normal(size=(20, 1500)).astype(np.float32)
    check(forest, X, "by_sample")
    check(forest, X, "by_sample", "margin")
    narrow = full_forest(0, n_trees=40, depth=9, n_features=2)
    check(narrow, X[:, :2].copy(), "by_sample")


@pytest.mark.parametrize("result_dtype", ["float32", "float64"])
def test_many_calls_of_a_row(gpu, result_dtype):
    """Blocks that wait for each other, sums that need the order of the trees, and a host that looks on."""
    n_calls = 3000 if gpu is None else 20
    forest = random_forest(5, Options(n_trees=300, meaning={"result_dtype": result_dtype}))
    forest = dataclasses.replace(forest, base_score=np.array([0.1]))
    X = random_rows(1, forest, n_calls, "float32")
    expected = forest.predict(X, output="margin", device="cpu")
    np.testing.assert_array_equal(one_by_one(forest, X), expected)


def test_rows_beyond_the_arguments():
    forest = full_forest(0, n_trees=4, depth=9, n_features=1500)
    X = np.random.default_rng(0).normal(size=(3, 1500))
    np.testing.assert_array_equal(one_by_one(forest, X), forest.predict(X, output="margin", device="cpu"))


def test_host_rows_of_changing_numbers():
    """Buffers between host and GPU are kept, grow and are given up."""
    forest = full_forest(0, n_trees=3, depth=3, n_features=40)
    X = np.random.default_rng(0).normal(size=(40_000, 40))
    for n_rows in (5, 700, 40_000, 7, 700):
        check(forest, X[:n_rows], "by_sample", "margin")
        check(forest, X[:n_rows].astype(np.float32), "by_sample")


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "float32"])
def test_one_host_row_of_any_type_and_layout(dtype):
    forest = random_forest(5, Options(n_trees=7, n_features=3))
    rows = np.random.default_rng(0).normal(scale=3, size=(4, 6)).astype(dtype)
    for i in range(4):
        check(forest, rows[i : i + 1, ::2], "by_sample", "margin")
    assert one_by_one(forest, np.arange(6.0)[None, ::2]) == one_by_one(forest, np.array([[0.0, 2.0, 4.0]]))


@pytest.mark.parametrize(("smallest", "most_rows"), [(0.0, 0), (1e-3, 512), (1e-12, 0), (1e-40, 512)])
@pytest.mark.parametrize("largest", [1.0, 1e30, 3e38])
def test_sums_that_round_keep_the_order_of_the_trees(limits, smallest, largest, most_rows):
    """Values of many magnitudes: whether the parallel sum may be used is decided row by row."""
    limits(most_few_rows=most_rows)
    forest = full_forest(3, n_trees=700, depth=2, n_features=4)
    rng = np.random.default_rng(0)
    pool = [smallest, -smallest, 1 / 3, largest, -largest]
    value = rng.choice(pool, forest.ensemble.leaf_value.shape, p=[0.2, 0.2, 0.596, 0.002, 0.002]).astype(np.float32)
    for base in (0.5, 0.1):
        changed = dataclasses.replace(forest, leaf_value=value.astype(float), base_score=np.array([base]))
        with np.errstate(over="ignore"):
            check(changed, random_rows(1, forest, 9), "by_sample", "margin")
            check(in_single(changed), random_rows(1, forest, 300), "by_sample", "margin")
