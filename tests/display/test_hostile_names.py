"""Names, categories and sources that attack what silva writes: code, markup and pictures."""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import math
import subprocess

import numpy as np
import pytest

import silva
from tests.display.hostile import CODE, COMMENT_ENDS, NAMES, SPLICES
from tests.native import COMPILER
from tests.strategies import Options, random_forest

C_FLAGS = [["-std=c99", "-trigraphs"], ["-std=gnu17"], ["-std=c99", "-pedantic-errors", "-Werror", "-Wall", "-Wextra"]]


def named(names, source="silva"):
    """A forest with these names; the same forest has no others."""
    options = Options(n_trees=3, n_features=len(names), row_type="float64")
    forest = dataclasses.replace(random_forest(1, options), link="identity", prediction="response", missing=math.nan)
    return dataclasses.replace(forest, feature_names=tuple(names), source=source)


def plain_names(n):
    return [f"x{i}" for i in range(n)]


def preprocess(source, flags):
    command = ["gcc", *flags, "-x", "c", "-E", "-P", "-"]
    return subprocess.run(command, input=source.encode(), check=True, capture_output=True).stdout


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize("flags", C_FLAGS, ids=" ".join)
def test_c_has_no_text_of_the_model_outside_comments(flags, tmp_path):
    """What the compiler sees is the same for all names; one library of them all has the function and nothing else."""
    forest = named(NAMES)
    expected = preprocess(silva.export_c(named(plain_names(len(NAMES)))), flags)
    sources = [silva.export_c(dataclasses.replace(forest, source=name)) for name in (*SPLICES, *COMMENT_ENDS, *CODE)]
    assert all(source.isascii() for source in sources)
    assert {preprocess(source, flags) for source in sources} == {expected}
    (tmp_path / "model.c").write_text(sources[-1])
    command = ["gcc", *flags, "-x", "c", "-Wno-unused-parameter", "-Wno-parentheses", "-ffp-contract=off", "-shared"]
    subprocess.run([*command, "-fPIC", "model.c", "-o", "model.so", "-lm"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-D", "--defined-only", "model.so"], cwd=tmp_path, capture_output=True, check=True)
    assert [line.split()[-1] for line in symbols.stdout.decode().splitlines()] == ["predict"]
    predict = ctypes.CDLL(str(tmp_path / "model.so")).predict
    predict.restype, predict.argtypes = ctypes.c_double, [ctypes.POINTER(ctypes.c_double)]
    rows = np.random.default_rng(0).normal(size=(20, len(NAMES)))
    found = [predict(row.ctypes.data_as(ctypes.POINTER(ctypes.c_double))) for row in rows]
    np.testing.assert_array_equal(found, forest.predict(rows))


def shape_of(source):
    """The syntax of a module, without its texts."""
    tree = ast.parse(source)
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for node in texts:
        node.value = ""
    return ast.dump(tree)


def test_python_reads_columns_of_any_name():
    forest = named(NAMES)
    rows = np.random.default_rng(0).normal(size=(20, len(NAMES)))
    expected = shape_of(silva.export_python(named(plain_names(len(NAMES)))))
    for name in ("silva", *NAMES):
        source = silva.export_python(dataclasses.replace(forest, source=name))
        assert source.isascii()
        assert shape_of(source) == expected
    space: dict = {}
    exec(compile(source, "model.py", "exec", dont_inherit=True), space)
    found = [space["predict"](dict(zip(NAMES, row, strict=True))) for row in rows.tolist()]
    np.testing.assert_array_equal(found, forest.predict(rows))
