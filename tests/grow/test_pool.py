"""The record of benchmarks on the pool of data sets."""

import json

import pytest
from benchmarks.pool import results

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
