"""The record of benchmarks on the pool of data sets."""

import json

import pytest
from benchmarks.pool import kinds, results, sets

ABOUT = {"kind": "regression", "rows": 400, "most_rows": 4500}


def fit_of(method, case, split, error, **more):
    return {**ABOUT, "case": case, "split": split, "method": method, "error": error, **more}


@pytest.fixture
def record(tmp_path, monkeypatch):
    """The page and the files of a record, in a folder of their own."""
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    page = folder / "grow.md"
    page.write_text("<!-- pool -->\n<!-- end of pool -->\n")
    monkeypatch.setattr(results, "RECORD", folder / "pool.json")
    monkeypatch.setattr(results, "FITS", folder / "pool-fits.json")
    return page


FITS = [
    *(fit_of("tree", case, split, 2.0, seconds=1.0) for case in ("boston", "ames") for split in (0, 1)),
    *(fit_of("linear", case, split, 3.0 + split / 3, seconds=0.1) for case in ("boston", "ames") for split in (0, 1)),
    fit_of("tree at 1234abcd", "ames", 1, 2.5, held=1 / 3),
    fit_of("linear", "ames", 2, 3.0) | {"most_rows": 100},
    {**ABOUT, "case": "ames", "split": 3, "method": "linear", "failure": "ValueError"},
]


def written(methods, commit, kept=()):
    found = results.parts(FITS, ["boston", "ames"], methods, 5)
    results.record(found, FITS, {"rows": 4500, "commit": commit, "methods": methods}, list(kept))
    return json.loads(results.RECORD.read_text())["parts"]


@pytest.mark.usefixtures("record")
def test_fits_of_other_methods_come_back():
    written(["tree", "linear"], "a")
    found = {results.key(one): one for one in results.recorded()}
    wanted = [one for one in FITS if one["method"] != "tree" and "error" in one and one["most_rows"] == 4500]
    assert found.keys() == {results.key(one) for one in wanted}
    for one in wanted:
        again = found[results.key(one)]
        assert again.keys() == one.keys()
        assert all(
            again[name] == (pytest.approx(x, rel=1e-5) if isinstance(x, float) else x) for name, x in one.items()
        )
    about = json.loads(results.FITS.read_text())["methods"]
    assert about["linear"]["version"].startswith("scikit-learn ")
    assert about["tree at 1234abcd"]["version"] == "glasswood 1234abcd"


@pytest.mark.usefixtures("record")
def test_a_folder_comes_before_the_record(tmp_path):
    written(["tree", "linear"], "a")
    (tmp_path / "own.json").write_text(json.dumps([fit_of("linear", "ames", 0, 9.0)]))
    found = {results.key(one): one["error"] for one in results.read(tmp_path)}
    assert found["ames", 0, "linear", 4500] == 9.0
    assert found["ames", 1, "linear", 4500] == pytest.approx(10 / 3, rel=1e-5)


def test_rows_that_are_kept_stay_with_their_commit(record):
    before = [row for row in written(["tree", "linear"], "a") if row["method"] == "linear"]
    after = [row for row in written(["tree"], "b", kept=["linear"]) if row["method"] == "linear"]
    again = [row for row in written(["tree"], "c", kept=["linear"]) if row["method"] == "linear"]
    assert [{**row, "commit": "a"} for row in before] == after == again
    assert record.read_text().count("| linear |") == len(before) == 2


def test_the_page_has_every_method_first_on_all_sets(record):
    written(["tree", "linear"], "a")
    cells = [line.split(" | ") for line in record.read_text().splitlines() if line.startswith("| 2")]
    assert [cell[0] for cell in cells] == ["| 2"] * 2 + ["| 2 of 300 rows and more"] * 2
    assert [cell[1] for cell in cells] == ["tree", "linear"] * 2


def test_sets_of_other_kinds_have_names_and_halves_of_their_own():
    others = {**sets.REGRESSION, **sets.CLASSES, **sets.BUNDLED}
    assert len(set(kinds.NAMES)) == 40
    assert not others.keys() & set(kinds.NAMES)
    assert set(kinds.NAMES) >= kinds.CLASSES
    assert {kinds.kind_of(name) for name in kinds.NAMES} == {"spectra", "counts", "series", "wide", "tiny"}
    for half in (True, False):
        own = {kinds.kind_of(name) for name in kinds.NAMES if sets.is_tuning(name) == half}
        assert own == {"spectra", "counts", "series", "wide", "tiny"}


def test_a_series_stands_beside_the_values_before(monkeypatch):
    pd = pytest.importorskip("pandas")
    values = [float(k) for k in range(20)]
    monkeypatch.setattr(kinds, "_item", lambda *_: pd.DataFrame({"time": values, "value": [k**2 for k in values]}))
    table = kinds._lagged("package", "item", 15)
    assert list(table) == [*(f"before_{k}" for k in range(1, 13)), "before_15", "target"]
    assert table["target"].tolist() == [225.0, 256.0, 289.0, 324.0, 361.0]
    assert table["before_1"].tolist() == [196.0, 225.0, 256.0, 289.0, 324.0]
    assert table["before_15"].tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]


def test_cases_of_files_are_rows(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    for part, text in (("TRAIN", "# note\n@data\n1.0,2.0:0\n"), ("TEST", "@data\n3.0,-4.5:1\n\n")):
        (tmp_path / f"Some_{part}.ts").write_text(text)
    monkeypatch.setattr(kinds, "_folder", lambda *_: tmp_path)
    table = kinds._cases("Some")
    assert table.to_numpy().tolist() == [[1.0, 2.0, 0.0], [3.0, -4.5, 1.0]]
