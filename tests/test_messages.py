"""Texts of a model enter a message only through what escapes them: `shown`, or a literal."""

from __future__ import annotations

import ast
import dataclasses
import re
import traceback

import numpy as np
import pytest

import glasswood
from tests.message_texts import Package, package
from tests.strategies import full_forest

LISTED = {
    "numbers": """
        display/code.py: forest.depth; levels; most; other | distillation/distillation.py: values[at]
        explain/background.py: weights[wrong]
        explain/checks.py: node - forest.tree_offsets[tree]; forest.cover[node]
        explain/responses/coalitions.py: number[is_finite.argmin()] | explain/stored.py: version
        explain/responses/pair_sums.py: responses[at].tolist(); rows.number[pairs[pair, 0]]
        explain/responses/permutations.py: of.rows.number[of.row] | explain/results/summary.py: n_rows
        grow/cuda/rows.py: found[2]; found[1]; self._gpu | grow/data/reading.py: signs[at]; wanted[at]; target[at]
        grow/losses.py: target[at] | inputs/arrays.py: row | inputs/categories.py: fewest
        inputs/dmatrix.py: forest.missing | inputs/matching.py: feature | model/storage.py: version
        neighbors/neighbors.py: row | neighbors/stored.py: version | populations/difference.py: a.missing; b.missing
    """,
    "shapes and types of arrays": """
        dask/mapping.py: data.chunksize | explain/cpu.py: dtype | explain/cuda/explainer.py: dtype
        explain/sparse.py: dtype | model/storage.py: np.dtype(dtypes[0]); shape; offset
        model/stored_fields.py: dtype
    """,
    "words of the library: options, fields, kinds, kernels": """
        cuda/compiler.py: name; Path(name).name; report | cuda/launches.py: kernel.kernel; ', '.join(types)
        cuda/launches.py: ', '.join(wrong) | dask/fitting.py: name | display/code.py: dialect; where
        display/expressions.py: what | explain/cuda/coalitions.py: self.plan.cheaper | explain/engines.py: what
        explain/results/explanation.py: axis; ', '.join(axes) | explain/mapper.py: option
        explain/walks.py: self._instead
        explain/responses/coalitions.py: self.cheaper; self._beyond_memory(result)
        explain/results/summary.py: ', '.join(sorted(expected)); name | grow/__init__.py: name | __init__.py: name
        grow/checks.py: name; _either(expected, words); _either(limits, words); ', '.join(choices)
        grow/data/reading.py: name; shown(error).replace('monotonic_cst', name) | loading.py: curve.kind
        model/storage.py: name | model/stored_fields.py: name | model/stored_statistics.py: one.kind
        checking/comparison.py: _message(forest, output, 0, f'shape {found.shape}', f'shape {theirs.shape}')
        checking/comparison.py: _message(forest, output, row, found[row], theirs[row])
    """,
    "names of responses, which escape the function's": """
        explain/responses/coalitions.py: self.response.name | explain/responses/pair_sums.py: self._response.name
        explain/responses/permutations.py: response.name
    """,
    "the filename of an OSError, whose text has it as a literal; the driver's name of a GPU": """
        base/files.py: str(path) | base/device.py: name
    """,
}
"""Values that the analysis cannot follow and that hold no text of a model: why, and where."""

ESCAPED_AT_THE_DOOR = ("readers/", "cli/")
"""`glasswood.load` escapes what readers raise, `glasswood.cli.command` what commands raise; both have tests."""


def listed_places():
    """Places of LISTED, each value by itself."""
    for text in LISTED.values():
        for part in re.split(r"\s+\|\s+|\n", text.strip()):
            name, _, values = part.strip().partition(": ")
            yield from (f"{name}: {value}" for value in values.split("; "))


def written(module, node):
    value = node.value if isinstance(node, ast.FormattedValue) else node
    return f"{module.name}: {ast.unparse(value)}"


def test_texts_of_models_are_escaped_in_all_messages():
    """In all of some 1,500 values that errors, warnings and lines of a terminal are put together from."""
    everything = package()
    found = [one for one in everything.messages() if not everything.harmless(*one)]
    in_raises = [one for one in found if one[0].name.startswith(ESCAPED_AT_THE_DOOR)]
    assert {written(*one) for one in found if one not in in_raises} == set(listed_places())
    assert all(everything.is_raised(*one) for one in in_raises)


RAW = {
    "raise ValueError(f'no {forest.objective}')": False,
    "raise ValueError('no ' + ', '.join(forest.feature_names))": False,
    "raise ValueError('no %s' % names[0])": False,
    "raise ValueError('no {}'.format(names[0]))": False,
    "warnings.warn(f'no {names[0]}', stacklevel=2)": False,
    "text = f'no {path}'\n raise ValueError(text)": False,
    "for name in names:\n  raise ValueError(f'no {name}')": False,
    "error = ValueError(f'no {path}')\n raise error": False,
    "raise helped(path)": False,
    "raise ValueError(made(path))": False,
    "raise ValueError(f'no {shown(path)}')": True,
    "raise ValueError(f'no {quoted(path)} of {len(names)}')": True,
    "raise ValueError(f'no {path!r}')": False,
    "for name in ('a', 'b'):\n  raise ValueError(f'no {name}')": True,
    "text = 'a' if names else f'{forest.n_nodes:,}'\n raise ValueError(text)": True,
    "raise ValueError(made(shown(path)))": True,
    "raise ValueError(constant(names))": True,
    "raise ValueError(f'no {count}')": True,
}


HELPERS = {
    "helped": 'def helped(what):\n  return ValueError(f"no {what}")\n',
    "made": 'def made(what):\n  return f"no {what}"\n',
    "constant": 'def constant(names):\n  return "no names" if names else "nothing"\n',
}


@pytest.mark.parametrize("code", RAW)
def test_raw_texts_are_found(code):
    helpers = "".join(text for name, text in HELPERS.items() if name in code)
    body = f"{helpers}def _one(forest, names, path, count: int):\n {code}\n"
    one = Package([("one.py", body)])
    assert all(one.harmless(*value) for value in one.messages()) is RAW[code]


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
    monkeypatch.setattr("glasswood.explain.results.summary._text_of", quoting)
    monkeypatch.setattr("glasswood.explain.scores.result._checked_state", quoting)
    with pytest.raises(ValueError, match=re.escape("holds \\u001b[31m\\u202e in its names")) as raised:
        LOADERS[name](path)
    assert "\x1b" not in "".join(traceback.format_exception(raised.value))
