"""Workbooks: computed by LibreOffice, and what their sheets show."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.display import workbook
from tests.display.spreadsheet import results
from tests.display.test_code import FORESTS, check_digits, distinct, finite, grown, make_frame, rows_of, settled, stumps
from tests.display.test_sql import with_many

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: pip install openpyxl")

N_ROWS = 6


def test_libreoffice(tmp_path):
    """All forests, some rows each: a workbook a row."""
    books, cases = [], []
    for name, make in FORESTS.items():
        forest = settled(make())
        if forest.n_outputs > 1:
            continue
        rows = distinct(forest, finite(rows_of(forest)))[:: 400 // N_ROWS // 2][:N_ROWS]
        cases.append((forest, rows))
        for at, row in enumerate(rows.to_dict("records")):
            books.append(tmp_path / f"{name.replace(' ', '_').replace(',', '')}_{at}.xlsx")
            known = {key: value for key, value in row.items() if value is not None and value == value}
            assert glasswood.export_excel(forest, books[-1], row=known) is None
    found = iter(map(float, results(books, tmp_path)))
    assert len(cases) > 10
    for forest, rows in cases:
        check_digits([next(found) for _ in range(len(rows))], forest, rows)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("book") / "tree.xlsx"
    tree = glasswood.ModelTreeRegressor(random_state=0, generations=30)
    frame = make_frame()
    tree.fit(frame, np.where(frame["city"].eq("Bonn"), 3 * frame['quo"te'], frame["count"] / 3))
    glasswood.export_excel(tree, path, row={"count": 3.0, "city": "Bonn"})
    return tree, openpyxl.load_workbook(path)


def test_sheets_say_what_the_tree_is(book):
    tree, read = book
    assert read.sheetnames == ["Inputs", "Leaves", "Formula"]
    leaves = [list(row) for row in read["Leaves"].iter_rows(values_only=True)]
    assert leaves[0][: len(workbook.LEAVES)] == list(workbook.LEAVES)
    rules = tree.rules_["rule"].tolist()
    assert len(leaves) == 1 + len(rules)
    terms = pd.DataFrame(tree.leaves_)
    for number, line in enumerate(leaves[1:]):
        shown = dict(zip(leaves[0], line, strict=True))
        own = terms[terms["leaf"] == number].set_index("feature")
        assert shown["leaf"] == number
        assert shown["intercept"] == pytest.approx(own["coefficient"]["(intercept)"])
        for name in own.index.drop("(intercept)"):
            assert shown[f"coefficient: {name}"] == pytest.approx(own["coefficient"][name], rel=1e-15)
            assert shown[f"mean: {name}"] == pytest.approx(own["mean"][name], rel=1e-15)
    inputs = {row[0].value: row[1].value for row in read["Inputs"].iter_rows(min_row=workbook.FIRST + 1)}
    assert {key: value for key, value in inputs.items() if key} == {
        "a b": None,
        'quo"te': None,
        "city": "Bonn",
        "count": 3,
    }
    [choices] = read["Inputs"].data_validations.dataValidation
    assert str(choices.sqref) == f"B{workbook.FIRST + 3}"
    steps = [row[0] for row in read["Formula"].iter_rows(values_only=True)]
    assert steps[1] == "line of the leaf"
    assert steps[-1] == "prediction"


def test_texts_are_no_formulas(tmp_path):
    forest = dataclasses.replace(stumps(1), feature_names=("=1+1", "b\x07"), missing=math.nan)
    glasswood.export_excel(forest, tmp_path / "book.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "book.xlsx")["Inputs"]
    cell = sheet[f"A{workbook.FIRST + 1}"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")
    assert sheet[f"A{workbook.FIRST + 2}"].value == "b\\u0007"


def test_refusals(tmp_path, limits):
    forest = grown()
    with pytest.raises(ValueError, match=r"suffix '.xls', expected .xlsx"):
        glasswood.export_excel(forest, tmp_path / "a.xls")
    with pytest.raises(ValueError, match="row holds 'x', the model's features are"):
        glasswood.export_excel(forest, tmp_path / "a.xlsx", row={"x": 1})
    with pytest.raises(ValueError, match="a workbook has its own cells"):
        glasswood.export_excel(forest, tmp_path / "a.xlsx", cells=["A1"])
    with pytest.raises(ValueError, match="pass path="):
        glasswood.export_excel(forest, row={"count": 1})
    many = with_many([f"a category of some letters {i:04}" for i in range(900)])
    words = np.full(-(-900 // 32), 0x55555555, np.uint32)
    many = dataclasses.replace(many, set_words=words, set_offsets=np.array([0, len(words)]))
    with pytest.raises(NotImplementedError, match="characters, more than the 8192 of a cell"):
        glasswood.export_excel(many, tmp_path / "a.xlsx")
    limits(workbook_lines=1)
    with pytest.raises(NotImplementedError, match="leaves, a workbook shows up to 1"):
        glasswood.export_excel(forest, tmp_path / "a.xlsx")
    assert not list(tmp_path.iterdir())
