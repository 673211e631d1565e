"""Summaries of SHAP values, beside the values themselves."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

import glasswood
from tests.strategies import Options, full_forest, random_forest, random_rows


@pytest.fixture(scope="module", name="explained")
def _explained():
    forest = random_forest(0, Options(n_trees=9, n_features=5, n_outputs=2))
    rows = random_rows(0, forest, 3000)
    explainer = glasswood.Explainer(forest)
    return explainer, rows, np.asarray(explainer.shap_values(rows), np.float64)


def check(found, values):
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.mean_abs, np.abs(values).mean(axis=0), rtol=1e-6)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-5, atol=1e-9)
    error = np.abs(values).std(axis=0, ddof=1) / np.sqrt(len(values))
    np.testing.assert_allclose(found.mean_abs_error, error, rtol=1e-4, atol=1e-9)
    first = np.abs(values).argmax(axis=1)
    share = [(first == feature).mean(axis=0) for feature in range(values.shape[1])]
    np.testing.assert_allclose(found.share_first, share)
    for q in (0, 0.05, 0.5, 0.93, 1):
        expected = np.quantile(values, q, axis=0, method="inverted_cdf")
        close = 1.6e-2 * np.abs(expected) + found.scale * 2.0**-29
        assert (np.abs(found.quantiles([q])[0] - expected) <= close).all()


def test_figures_are_those_of_the_values(explained):
    explainer, rows, values = explained
    check(explainer.summary(rows), values)
    check(explainer.summary(rows[first : first + 700] for first in range(0, 3000, 700)), values)


def test_sums_are_summaries_of_all_rows(explained, tmp_path):
    explainer, rows, values = explained
    whole = explainer.summary(rows, pair_rows=50)
    parts = [pickle.loads(pickle.dumps(explainer.summary(part, pair_rows=50))) for part in np.array_split(rows, 3)]
    for found in (sum(parts), parts[2] + (parts[1] + parts[0])):
        check(found, values)
        np.testing.assert_array_equal(found.sketch, whole.sketch)
        np.testing.assert_array_equal(found.leads, whole.leads)
        assert found.n_rows == 3000
        assert found.n_pair_rows == 150
    for suffix in (".json", ".parquet"):
        if suffix == ".parquet":
            pytest.importorskip("pyarrow")
        found.save(tmp_path / f"summary{suffix}")
        read = glasswood.Summary.load(tmp_path / f"summary{suffix}")
        for name in ("mean", "mean_abs", "share_first", "standard_error"):
            np.testing.assert_array_equal(getattr(read, name), getattr(found, name))
        np.testing.assert_array_equal(read.quantiles(), found.quantiles())
        assert read.strongest_pairs() == found.strongest_pairs()
        assert (read + whole).n_rows == 6000
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "summary.parquet")
    assert table.num_rows == 10
    assert {"feature", "mean_abs", "q50", "share_first"} <= set(table.column_names)
    assert (tmp_path / "summary.json").stat().st_size < 200_000


def test_pairs_are_the_strongest_interactions(explained):
    explainer, rows, _ = explained
    found = explainer.summary(rows[:100], pair_rows=100)
    values = np.abs(explainer.shap_interaction_values(rows[:100])).mean(axis=0)
    pairs = found.strongest_pairs(3, output=1)
    for a, b, strength in pairs:
        i, j = found.names.index(a), found.names.index(b)
        np.testing.assert_allclose(strength, 2 * values[i, j, 1], rtol=1e-5)
    largest = max(2 * values[i, j, 1] for i in range(5) for j in range(i))
    np.testing.assert_allclose(pairs[0][2], largest, rtol=1e-5)
    assert explainer.summary(rows[:10]).strongest_pairs() == []


def test_tables_of_any_library(explained):
    pandas, pyarrow, polars = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    explainer, rows, _ = explained
    frame = pandas.DataFrame(rows, columns=[f"x{i}" for i in range(5)])
    expected = explainer.summary(rows)
    for table in (frame, pyarrow.Table.from_pandas(frame), polars.from_pandas(frame)):
        np.testing.assert_array_equal(explainer.summary(table).sketch, expected.sketch)
    batches = pyarrow.Table.from_pandas(frame).to_batches(max_chunksize=500)
    np.testing.assert_array_equal(explainer.summary(iter(batches)).sketch, expected.sketch)


def test_frames_that_are_not_computed_are_read_in_batches(explained, tmp_path):
    explainer, X, _ = explained
    polars, dataset = pytest.importorskip("polars"), pytest.importorskip("pyarrow.dataset")
    expected = explainer.summary(X)
    frame = polars.DataFrame(np.asarray(X), schema=list(explainer.players))
    frame.write_parquet(tmp_path / "rows.parquet")
    for batches in (frame.lazy(), dataset.dataset(str(tmp_path)), polars.scan_parquet(tmp_path)):
        found = explainer.summary(batches)
        assert found.n_rows == expected.n_rows
        np.testing.assert_array_equal(found.mean_abs, expected.mean_abs)


def test_other_columns_are_ignored_if_told():
    pandas = pytest.importorskip("pandas")
    forest = random_forest(0, Options(n_trees=3, n_features=3))
    named = glasswood.Explainer(dataclasses.replace(forest, feature_names=("a", "b", "c")))
    frame = pandas.DataFrame(random_rows(0, forest, 50), columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="columns='subset'"):
        named.summary(frame.assign(id=1))
    chosen = glasswood.Explainer(glasswood.load(named.forest, columns="subset"))
    found, expected = chosen.summary(frame.assign(id=1), pair_rows=9), named.summary(frame, pair_rows=9)
    np.testing.assert_array_equal(found.sketch, expected.sketch)
    assert found.strongest_pairs() == expected.strongest_pairs()


@pytest.mark.slow  # a cluster of processes; tests/mapping has one
def test_workers_of_dask_give_the_same(explained):
    distributed = pytest.importorskip("distributed")
    explainer, rows, values = explained
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = client.gather(client.map(explainer.summary, np.array_split(rows, 4)))
    found = sum(parts)
    check(found, values)
    np.testing.assert_array_equal(found.sketch, explainer.summary(rows).sketch)


def test_two_summaries_compared(explained):
    explainer, rows, values = explained
    a, b = explainer.summary(rows[:1000]), explainer.summary(rows[1000:])
    found = glasswood.compare(a, b)
    np.testing.assert_allclose(found.change, values[1000:].mean(axis=0) - values[:1000].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.before + found.change.sum(axis=0), found.after, rtol=1e-9)
    assert found.kind == "summaries"
    with pytest.raises(ValueError, match="different explainers"):
        glasswood.compare(a, glasswood.Explainer(random_forest(1, Options(n_features=5))).summary(rows[:10]))


def test_what_is_refused(explained, tmp_path):
    explainer, rows, _ = explained
    empty = explainer.summary(rows[:0])
    assert (empty + explainer.summary(rows[:5])).n_rows == 5
    for call, message in (
        (lambda: empty.mean, "has no rows"),
        (lambda: empty.quantiles(), "has no rows"),
        (lambda: explainer.summary(rows[:5]).quantiles([2]), "expected numbers from 0 to 1"),
        (lambda: explainer.summary(rows, pair_rows=-1), "pair_rows is -1"),
        (lambda: empty.save(tmp_path / "a.csv"), "expected .json or .parquet"),
        (lambda: empty + glasswood.Explainer(random_forest(1, Options())).summary([]), "different explainers"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    empty.save(tmp_path / "empty.json")
    assert glasswood.Summary.load(tmp_path / "empty.json").n_rows == 0
    (tmp_path / "other.json").write_text(json.dumps({"names": []}))
    with pytest.raises(ValueError, match="holds no summary"):
        glasswood.Summary.load(tmp_path / "other.json")


@pytest.fixture
def state(tmp_path):
    """What a summary's file says."""
    path = tmp_path / "right.json"
    X = np.random.default_rng(0).normal(size=(50, 4))
    glasswood.Explainer(full_forest(0, 5, 3, 4)).summary(X, pair_rows=10).save(path)
    glasswood.Summary.load(path)
    return json.loads(path.read_text())


def all_but(values, at, value):
    return [*values[:at], value, *values[at + 1 :]]


WRONG = {
    "negative rows": lambda s: {"n_rows": -s["n_rows"]},
    "rows as text": lambda _: {"n_rows": "50"},
    "rows as a truth value": lambda _: {"n_rows": True},
    "fewer rows than counts": lambda s: {"n_rows": s["n_rows"] - 1},
    "more pairs than rows": lambda s: {"n_pair_rows": s["n_rows"] + 1},
    "a negative count": lambda s: {"counts": all_but(s["counts"], 0, -s["counts"][0])},
    "a count that is no number": lambda s: {"counts": all_but(s["counts"], 0, None)},
    "a place beyond the bins": lambda s: {"places": [*s["places"][:-1], 10**9]},
    "a place twice": lambda s: {"places": all_but(s["places"], 1, s["places"][0])},
    "a huge place": lambda s: {"places": all_but(s["places"], 0, 10**400)},
    "not a number": lambda s: {"total": all_but(s["total"], 0, math.nan)},
    "an infinite scale": lambda _: {"scale": math.inf},
    "a scale between powers": lambda s: {"scale": s["scale"] * 1.5},
    "no scale": lambda _: {"scale": None},
    "negative squares": lambda s: {"squares": [-1.0 for _ in s["squares"]]},
    "fewer sums": lambda s: {"total": s["total"][1:]},
    "sums in a text": lambda _: {"total": "0"},
    "leads of more rows": lambda s: {"leads": all_but(s["leads"], 0, 10**6)},
    "names that are no texts": lambda s: {"names": [1, *s["names"][1:]]},
    "names in one text": lambda _: {"names": "abcd"},
    "another entry": lambda _: {"more": 1},
    "nested lists": lambda s: {"total": [[value] for value in s["total"]]},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_what_no_summary_says_is_refused(state, name, suffix, tmp_path):
    path, text = tmp_path / f"wrong{suffix}", json.dumps(state | WRONG[name](state))
    if suffix == ".json":
        path.write_text(text)
    else:
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        parquet.write_table(arrow.table({"a": [1]}).replace_schema_metadata({"glasswood_summary": text}), path)
    with pytest.raises(ValueError, match=rf"wrong\{suffix} holds no summary that Summary.save wrote"):
        glasswood.Summary.load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"[" * 10**5, b"\xff\xfe", b'{"names": 1}', b"PAR1" * 50])
@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_other_files_are_no_summaries(content, suffix, tmp_path):
    path = tmp_path / f"other{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"other\{suffix} holds no summary that Summary.save wrote"):
        glasswood.Summary.load(path)


def test_a_small_file_makes_no_large_summary(tmp_path):
    """10 KB of names once asked for 14 GiB of bins."""
    path, n = tmp_path / "large.json", 1000
    empty = {key: [] for key in ("total", "squares", "magnitudes", "leads", "pair_magnitudes", "places", "counts")}
    names = {"names": ["a"] * n, "output_names": ["b"] * n, "expected_value": [0.0] * n}
    path.write_text(json.dumps(empty | names | {"scale": 1.0, "n_rows": 0, "n_pair_rows": 0}))
    with pytest.raises(ValueError, match="more bins than the file speaks of"):
        glasswood.Summary.load(path)
