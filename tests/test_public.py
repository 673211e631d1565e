"""What users see of the package, and that it is what type checkers and readers of the stubs see."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import glasswood
from glasswood import _core
from tests.strategies import full_forest

STUB = Path(glasswood.__file__).with_suffix(".pyi")


def test_the_package_lists_public_names_only():
    assert dir(glasswood) == sorted(glasswood.__all__)
    assert all(getattr(glasswood, name) is not None for name in glasswood.__all__)
    listed = [ast.literal_eval(node.value) for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.Assign)]
    assert [sorted(names) for names in listed] == [sorted(glasswood.__all__)]


def test_functions_for_dask_need_no_import_of_their_own():
    pytest.importorskip("dask")
    code = "import sys, glasswood; assert 'glasswood.dask' not in sys.modules; print(glasswood.dask.predict.__name__)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "predict\n"
    )


def test_what_a_forest_offers():
    """At most 24 names that users call; all others are those of its ensemble."""
    offered = {name for name in dir(full_forest(0, 1, 1, 1)) if not name.startswith("_")}
    sizes = {"n_trees", "n_nodes", "n_leaves", "n_features", "n_outputs", "depth"}
    about = {"source", "objective", "feature_names", "output_names", "classes", "choices", "checked", "ensemble"}
    methods = {
        "predict",
        "predictor",
        "encoder",
        "mapper",
        "tune",
        "with_means",
        "with_categories",
        "with_covers",
        "trees_to_dataframe",
        "save",
    }
    assert offered == sizes | about | methods


def test_what_functions_of_the_core_return_is_known_to_type_checkers(tmp_path):
    """tools/stub.py fails for a function that returns an object, tuple, list or dictionary that it does not know."""
    pytest.importorskip("nanobind")
    stub = tmp_path / "_core.pyi"
    tool = Path(__file__).parent.parent / "tools" / "stub.py"
    subprocess.run([sys.executable, tool, "glasswood._core", stub], check=True)
    body = ast.parse(stub.read_text()).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    assert names == {name for name in vars(_core) if not name.startswith("_")}
    returned = [ast.unparse(node.returns) for node in ast.walk(ast.parse(stub.read_text())) if hasattr(node, "returns")]
    assert not {"object", "tuple", "list", "dict", "NDArray"} & set(returned)


def test_returns_that_are_listed_are_returned():
    """No entry of tools/stub.py outlives its function."""
    listed = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "stub.py"))["RETURNS"]
    only_on_linux = {"GpuCalls.again"} if sys.platform != "linux" else set()
    for name in listed.keys() - only_on_linux:
        owner, _, member = name.rpartition(".")
        if not member.startswith("__"):
            assert hasattr(getattr(_core, owner) if owner else _core, member), name


@pytest.mark.parametrize(
    ("function", "of"), [("predict", glasswood.Forest.mapper), ("explain", glasswood.Explainer.mapper)]
)
def test_dask_lists_the_other_arguments_of_mappers(function, of):
    pytest.importorskip("dask")
    text = getattr(glasswood.dask, function).__doc__
    listed = re.findall(
        r"``(\w+)``", text.partition("Other arguments of")[2].partition(".\n")[0].partition("Threads")[0]
    )
    assert {*listed, "self", "output", "columns"} == {*inspect.signature(of).parameters}
