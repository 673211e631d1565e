"""Populations that come in batches, beside the frames that these make up."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

import glasswood
from glasswood.cli import main
from glasswood.populations import Comparison
from tests.strategies import Options, random_forest

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

EXACT = [field.name for field in dataclasses.fields(Comparison)]


@pytest.fixture(scope="module", name="populations")
def _populations():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = glasswood.datasets.california()
    forest = glasswood.load(ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X[:2000], y[:2000]))
    X = X.sample(frac=1, random_state=0, ignore_index=True)
    return X[:1100], X[1100:1900].assign(MedInc=X["MedInc"][1100:1900] + 0.5).reset_index(drop=True), forest


def generator(frame, size):
    return (frame[first : first + size] for first in range(0, len(frame), size))


def dataset(frame, folder):
    dataset = pytest.importorskip("pyarrow.dataset")
    folder.mkdir()
    for number, part in enumerate(generator(frame, 300)):
        part.to_parquet(folder / f"{number}.parquet", index=False)
    return dataset.dataset(str(folder))


def lazy(frame, _):
    return pytest.importorskip("polars").from_pandas(frame).lazy()


FORMS = {
    "generator": lambda frame, _: generator(frame, 170),
    "list": lambda frame, _: [*generator(frame, 400)],
    "arrays": lambda frame, _: iter([frame.to_numpy()[:333], frame.to_numpy()[333:333], frame.to_numpy()[333:]]),
    "reader": lambda frame, _: pyarrow.Table.from_pandas(frame).to_reader(250),
    "dataset": dataset,
    "LazyFrame": lazy,
}


def assert_same(found, expected, names=EXACT):
    for name in names:
        ours, theirs = getattr(found, name), getattr(expected, name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        else:
            assert ours == theirs, name


@pytest.mark.parametrize("form", FORMS)
def test_batches_give_the_bits_of_the_frame(populations, form, tmp_path):
    a, b, forest = populations
    made = FORMS[form](a, tmp_path / "a"), FORMS[form](b, tmp_path / "b")
    assert_same(glasswood.compare(*made, model=forest), glasswood.compare(a, b, model=forest))
    both = glasswood.compare(forest, forest, X=FORMS[form](a, tmp_path / "c"))
    assert_same(both, glasswood.compare(forest, forest, X=a))


@pytest.mark.parametrize("size", [7, 250, 5000])
def test_drawn_rows_do_not_depend_on_the_batches(populations, size):
    a, b, forest = populations
    settings = {"model": forest, "max_rows": 200}
    whole = glasswood.compare(a, b, **settings)
    found = glasswood.compare(generator(a, size), generator(b, size), **settings)
    assert_same(found, whole, ["change", "standard_error", "magnitude", "n_rows", "n_explained"])
    for name in ("before", "after", "offset"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    assert (np.abs(found.shift - whole.shift) < 4 * found.shift_error + 0.01).all()
    assert (found.n_shifted, whole.n_shifted) == ((200, 200), None)
    assert str(found).endswith("drawn at random; the shifts and standard errors are theirs.")
    mixed = glasswood.compare(a, generator(b, size), **settings)
    assert_same(mixed, whole, ["change", "standard_error", "magnitude"])


def test_rows_beyond_the_memory_are_drawn(populations, limits):
    a, b, forest = populations
    limits(comparison_kept=500 * 8 * a["MedInc"].dtype.itemsize)
    found = glasswood.compare(generator(a, 90), generator(b, 90), model=forest)
    assert found.n_rows == (1100, 800)
    assert found.n_explained == (500, 500)
    assert_same(found, glasswood.compare(a, b, model=forest, max_rows=500), ["change", "standard_error"])
    every = glasswood.compare(generator(a, 90), generator(b, 90), model=forest, max_rows=None)
    assert_same(every, glasswood.compare(a, b, model=forest))


def test_memory_does_not_grow_with_the_rows(limits):
    forest = random_forest(0, Options(n_trees=3, n_features=20))
    limits(comparison_kept=2000 * 20 * 4)

    def batches(n):
        rng = np.random.default_rng(0)
        return (rng.normal(size=(1000, 20)).astype(np.float32) for _ in range(n))

    def peak(n):
        tracemalloc.start()
        found = glasswood.compare(batches(n), batches(n), model=forest)
        assert found.n_rows == (1000 * n, 1000 * n)
        assert found.n_explained == (2000, 2000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(5)  # modules that are imported
    assert peak(80) < 1.2 * peak(10)
    assert peak(10) < 40 * 2000 * 20 * 4


def test_categories_that_the_model_lacks_keep_their_names(limits):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"c": pandas.Categorical(rng.choice(list("abc"), 300)), "x": rng.normal(size=300)})
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X, X["x"] + (X["c"] == "a"))
    a, b = X[:150], X[150:].copy()
    a = a.assign(c=pandas.Categorical(["a"] * 50 + ["e"] * 100))
    b["c"] = pandas.Categorical(["a"] * 75 + ["d"] * 70 + ["e"] * 5, categories=["a", "b", "c", "d", "e"])
    whole = glasswood.compare(a, b, model=model)
    assert abs(whole.shift[0] - (abs(1 / 3 - 1 / 2) + 70 / 150 + abs(2 / 3 - 5 / 150)) / 2) < 1e-12
    assert_same(glasswood.compare(generator(a, 40), generator(b, 40), model=model), whole)
    limits(comparison_kept=100 * 2 * 8)
    found = glasswood.compare(generator(a, 40), generator(b, 40), model=model)
    assert abs(found.shift[0] - whole.shift[0]) < 4 * found.shift_error[0]


def test_probabilities():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = ensemble.HistGradientBoostingClassifier(max_iter=5).fit(X, X[:, 0] + X[:, 1] > 0)
    a, b = X[:220], X[220:] + 0.5
    found = glasswood.compare(iter([a[:90], a[90:]]), iter([b]), model=model, output="probability", max_rows=60)
    expected = [model.predict_proba(rows)[:, 1].mean() for rows in (a, b)]
    np.testing.assert_allclose([found.before[0], found.after[0]], expected, rtol=1e-9)
    np.testing.assert_allclose(found.before + found.offset + found.change.sum(axis=0), found.after, rtol=1e-12)


def test_what_is_refused(populations):
    a, b, forest = populations
    with pytest.raises(ValueError, match="a has no rows"):
        glasswood.compare(iter([]), b, model=forest)
    once = generator(a, 100)
    with pytest.raises(ValueError, match="b has no rows"):
        glasswood.compare(once, once, model=forest)
    bad = [b[:100], b[100:200].drop(columns="MedInc")]
    with pytest.raises(ValueError, match="batch 1 of b: "):
        glasswood.compare(a, iter(bad), model=forest)
    with pytest.raises(TypeError, match="sample_weight of b is for rows in memory"):
        glasswood.compare(a, iter([b]), model=forest, sample_weight=(None, np.ones(len(b))))


def test_folders_of_the_command_line(populations, tmp_path, capsys, limits):
    a, b, forest = populations
    model = str(tmp_path / "model.glasswood")
    forest.save(model)
    folders = []
    for name, frame in (("a", a), ("b", b)):
        (tmp_path / name).mkdir()
        for number, part in enumerate(generator(frame, 250)):
            part.to_csv(tmp_path / name / f"{number}.csv", index=False)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        folders.append(str(tmp_path / name))
    assert main(["compare", model, *folders]) == 0
    told = capsys.readouterr().out
    assert main(["compare", model, *(f"{folder}.csv" for folder in folders)]) == 0
    assert told == capsys.readouterr().out
    limits(comparison_kept=100 * 8 * 4)  # as the forest compares
    assert main(["compare", model, *folders]) == 0
    assert "Explained by 100 of 1,100 and 100 of 800 rows" in capsys.readouterr().out
    (tmp_path / "b" / "2.csv").write_text("MedInc\nx\n")
    assert main(["compare", model, *folders]) == 1
    assert "2.csv" in capsys.readouterr().err
