"""What users see of the package, and that it is what type checkers and readers of the stubs see."""

from __future__ import annotations

import ast
import re
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


def stub_of_core() -> tuple[dict, dict]:
    """Functions of _core.pyi; and its classes as members by name, those of base classes included."""
    body = ast.parse((STUB.parent / "_core.pyi").read_text()).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    classes: dict = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            own = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            own |= {item.target.id: item for item in node.body if isinstance(item, ast.AnnAssign)}
            inherited = [classes[base.id] for base in node.bases]
            classes[node.name] = {name: item for members in (*inherited, own) for name, item in members.items()}
    return functions, {name: members for name, members in classes.items() if not name.startswith("_")}


def numbers_of_core() -> set[str]:
    """Constants of _core.pyi."""
    body = ast.parse((STUB.parent / "_core.pyi").read_text()).body
    return {
        node.target.id for node in body if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "int"
    }


def parameters(compiled) -> list[str]:
    """Parameters of a function of nanobind as its docstring has them, ``name: type = default``.

    Overloads differ in the dtypes of arrays alone, of which the stub then says Any.
    """
    overloads = [_parameters(signature) for signature, *_ in compiled.__nb_signature__]
    plain = [[re.sub(r"\[dtype=\w+", "[", parameter) for parameter in found] for found in overloads]
    assert all(found == plain[0] for found in plain)
    return overloads[0] if len(overloads) == 1 else plain[0]


def _parameters(signature: str) -> list[str]:
    inside, depth, found = signature[signature.index("(") + 1 : signature.rindex(") ->")], 0, [""]
    for letter in inside:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [parameter.strip() for parameter in found if parameter.strip() not in {"", "self"}]


def check_parameters(compiled, stub: ast.FunctionDef) -> None:
    """Names, order and defaults agree; so do types as far as nanobind tells plain ones and dtypes."""
    given = [argument for argument in stub.args.args if argument.arg != "self"]
    expected = parameters(compiled)
    assert [argument.arg for argument in given] == [parameter.partition(":")[0] for parameter in expected], stub.name
    assert len(stub.args.defaults) == sum(" = " in parameter for parameter in expected), stub.name
    for argument, parameter in zip(given, expected, strict=True):
        annotation, kind = ast.unparse(argument.annotation), parameter.partition(": ")[2]
        if kind in {"int", "float", "bool", "str"}:
            assert annotation == kind, parameter
        for dtype in re.findall(r"dtype=(\w+)", kind):
            assert f"np.{dtype}" in annotation.replace("np.bool_", "np.bool"), parameter


def is_attribute(member: ast.FunctionDef | ast.AnnAssign) -> bool:
    """A field that may be set, or a property."""
    return isinstance(member, ast.AnnAssign) or "property" in map(ast.unparse, member.decorator_list)


def test_the_stub_of_the_core_is_the_core():
    functions, classes = stub_of_core()
    compiled = {name: value for name, value in vars(_core).items() if not name.startswith("_")}
    only_on_linux = {"GpuCalls"}
    expected = {*functions, *classes} - (only_on_linux if sys.platform != "linux" else set())
    numbers = {name: value for name, value in compiled.items() if isinstance(value, int)}
    assert numbers.keys() == numbers_of_core()
    assert expected == compiled.keys() - numbers.keys()
    for name, value in compiled.items():
        if name in numbers:
            continue
        if name in functions:
            check_parameters(value, functions[name])
            continue
        members = {key: item for key, item in vars(value).items() if key in {"__init__", "__call__"} or key[0] != "_"}
        if not (value.__init__.__doc__ or "").startswith("__init__("):
            members.pop("__init__")  # nanobind's own, which refuses: objects come from functions alone
        assert classes[name].keys() == members.keys(), name
        for key, item in members.items():
            is_property = is_attribute(classes[name][key])
            assert is_property == isinstance(item, property), (name, key)
            if not is_property:
                check_parameters(item, classes[name][key])
