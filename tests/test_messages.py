"""Texts of a model enter a message only through what escapes them: `shown`, or a literal."""

from __future__ import annotations

import ast
import dataclasses
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import glasswood
from tests.strategies import full_forest

SOURCE = Path(glasswood.__file__).parent
OF_MODELS = re.compile(
    r"\b(objective|source|feature_names?|output_names?|classes|class_names?|categor(y|ies)|labels?)\b"
)
"""What may hold a text of a model, by the words of an expression."""

ESCAPING = {"shown", "short", "listed", "repr", "ascii", "len", "type", "type_name", "sorted_text", "counted", "bool"}
HARMLESS = {
    "base/files.py: source",
    "cli/commands.py: source",
    "explain/summary.py: source",
    "explain/responses/labels.py: np.unique(labels)[:5].tolist()",
    "inputs/targets.py: classes[:5]",
    "model/events.py: labels",
    "readers/catboost/model.py: category.column",
    "readers/onnx/outputs.py: classes.tolist()",
    "readers/sklearn/trees.py: source",
    "readers/treelite.py: label",
    "readers/treelite.py: labels[0]",
    "readers/treelite.py: categories.max()",
    "readers/xgboost/categories.py: categories.min()",
    "readers/xgboost/categories.py: categories.max()",
}
"""Paths, names of libraries that glasswood gives, numbers, and lists, which show their texts as literals."""


def unescaped(expression):
    """Whether the text of an expression comes into a message as it is."""
    if isinstance(expression, ast.Call):
        name = (
            expression.func.attr if isinstance(expression.func, ast.Attribute) else getattr(expression.func, "id", "")
        )
        return name not in ESCAPING and any(map(unescaped, [expression.func, *expression.args]))
    if isinstance(expression, ast.Attribute) and expression.attr in {"shape", "dtype", "ndim", "size"}:
        return False
    if isinstance(expression, ast.Attribute | ast.Name):
        return bool(OF_MODELS.search(ast.unparse(expression)))
    return any(map(unescaped, ast.iter_child_nodes(expression)))


def messages():
    """Every formatted value of every raise and warning: (place, expression)."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            is_warning = isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
            if isinstance(node, ast.Raise) or is_warning:
                for value in ast.walk(node):
                    if isinstance(value, ast.FormattedValue) and value.conversion != ord("r"):
                        yield f"{path.relative_to(SOURCE)}: {ast.unparse(value.value)}", value.value


def test_texts_of_models_are_escaped_in_all_messages():
    assert [place for place, value in messages() if unescaped(value) and place not in HARMLESS] == []


def test_raw_texts_are_found():
    for text in ("forest.objective", "forest.source.lower()", "', '.join(feature_names)", "names[0] + forest.source"):
        assert unescaped(ast.parse(text, mode="eval").body)
    for text in ("shown(forest.objective)", "len(forest.classes)", "listed(feature_names)", "labels.dtype"):
        assert not unescaped(ast.parse(text, mode="eval").body)


def test_a_folder_of_mlflow_without_a_model_is_named(tmp_path):
    from glasswood.mlflow import _load_pyfunc

    with pytest.raises(ValueError, match=rf"{re.escape(str(tmp_path))} holds neither explainer.glasswood nor forest"):
        _load_pyfunc(str(tmp_path))


def test_errors_hold_no_escapes_of_terminals():
    evil = "\x1b]0;title\x07\x1b[31m"
    ensemble = full_forest(0, 2, 2, 2).ensemble
    forest = glasswood.Forest(
        dataclasses.replace(ensemble, feature_names=(evil + "a", "b"), objective=evil, source=evil)
    )
    X = np.zeros((5, 2))
    for call in (
        lambda: glasswood.partial_dependence(forest, X, ["z"]),
        lambda: glasswood.Explainer(forest, groups={"g": ["z"]}),
        lambda: glasswood.load(forest, class_names=["a", "b"]),
        lambda: glasswood.Explainer(forest, X, output="probability"),
        lambda: glasswood.ModelTreeRegressor(categorical_features=["z"]).fit(X, X[:, 0]),
    ):
        with pytest.raises((ValueError, TypeError, NotImplementedError)) as raised:
            call()
        assert "\x1b" not in str(raised.value)


LOADERS = {
    "load": glasswood.load,
    "Explainer.load": glasswood.Explainer.load,
    "TreeExplainer.load": glasswood.TreeExplainer.load,
    "Neighbors.load": glasswood.Neighbors.load,
    "Summary.load": glasswood.Summary.load,
    "ScoreValues.load": glasswood.ScoreValues.load,
}


def test_every_public_loader_is_attacked_here():
    classes = [getattr(glasswood, name) for name in glasswood.__all__ if isinstance(getattr(glasswood, name), type)]
    assert {f"{one.__name__}.load" for one in classes if hasattr(one, "load")} | {"load"} == set(LOADERS)


@pytest.mark.parametrize("name", LOADERS)
def test_refusals_of_files_hold_nothing_that_terminals_obey(tmp_path, name, monkeypatch):
    """Whatever a reader, or a library that parses for it, quotes; nor do the error's causes, which tracebacks show."""

    def quoting(*_, **__):
        try:
            raise OSError("a parser says \x1b]0;t\x07\n")
        except OSError as error:
            raise ValueError(f"{path} holds \x1b[31m\u202e in its names") from error

    path = tmp_path / "model.json"
    path.write_text("{}")
    for module in ("glasswood.loading.read_file", "glasswood.explain.explainer.load_explainer"):
        monkeypatch.setattr(module, quoting)
    monkeypatch.setattr("glasswood.neighbors.leaf_rows.load_neighbors", quoting)
    monkeypatch.setattr("glasswood.explain.summary._text_of", quoting)
    monkeypatch.setattr("glasswood.explain.score_result._checked_state", quoting)
    with pytest.raises(ValueError, match=re.escape("holds \\u001b[31m\\u202e in its names")) as raised:
        LOADERS[name](path)
    assert "\x1b" not in "".join(traceback.format_exception(raised.value))
