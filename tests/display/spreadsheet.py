"""Formulas computed by LibreOffice, or the reason why not."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import zipfile
from xml.sax.saxutils import escape

import pytest

OFFICE = shutil.which("soffice")
SECONDS = 300

PARTS = {
    "[Content_Types].xml": (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>'
    ),
    "_rels/.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        '<sheets><sheet name="rows" sheetId="1" r:id="r1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
        'Target="worksheets/sheet1.xml"/></Relationships>'
    ),
}


def compute(rows, folder, profile=None):
    """Texts of the cells of a sheet's rows: numbers, texts, None, and in the first column formulas.

    The file has no values of formulas, so that what comes back was computed.
    """
    if OFFICE is None:
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc-nogui")
    write_sheet(rows, folder / "rows.xlsx")
    command = [OFFICE, f"-env:UserInstallation=file://{profile or folder / 'profile'}", "--headless", "--convert-to"]
    # Commas, quotes, UTF-8, from line 1, cells as they are and not as shown: all digits.
    command += ["csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false", "--outdir", str(folder)]
    environment = {**os.environ, "HOME": str(folder)}
    subprocess.run(
        [*command, str(folder / "rows.xlsx")], check=True, capture_output=True, timeout=SECONDS, env=environment
    )
    with (folder / "rows.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def results(books, folder):
    """Texts of the cell beside "prediction" on the first sheet of each workbook."""
    if OFFICE is None:
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc-nogui")
    command = [OFFICE, f"-env:UserInstallation=file://{folder / 'profile'}", "--headless", "--convert-to"]
    command += ["csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false", "--outdir", str(folder)]
    environment = {**os.environ, "HOME": str(folder)}
    subprocess.run([*command, *map(str, books)], check=True, capture_output=True, timeout=SECONDS, env=environment)
    found = []
    for book in books:
        with (folder / f"{book.stem}.csv").open(newline="", encoding="utf-8") as file:
            found += [row[1] for row in csv.reader(file) if row[0] == "prediction"]
    return found


def write_sheet(rows, path):
    """Write a workbook of one sheet."""
    lines = []
    for at, row in enumerate(rows, 1):
        formula = f'<c r="A{at}"><f>{escape(row[0].removeprefix("="))}</f></c>'
        cells = "".join(cell(value, f"{letters(column)}{at}") for column, value in enumerate(row[1:], 1))
        lines.append(f'<row r="{at}">{formula}{cells}</row>')
    sheet = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in PARTS.items():
            file.writestr(name, text)
        file.writestr("xl/worksheets/sheet1.xml", f"{sheet}{''.join(lines)}</sheetData></worksheet>")


def cell(value, place):
    """One cell, nothing for an empty one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{float(value)!r}</v></c>'


def letters(column):
    """Name of a column from 0 to 701."""
    first, second = divmod(column, 26)
    return (chr(64 + first) if first else "") + chr(65 + second)
