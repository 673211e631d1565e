"""Names, categories and sources that attack what glasswood writes: code, markup and pictures."""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import json
import math
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import glasswood
from glasswood.base.escapes import shown
from glasswood.display.table import ranked_table
from glasswood.model.facts import forest_facts
from tests.display.browser import Page
from tests.display.hostile import C_CODE, CODE, COMMENT_ENDS, CONTROLS, LINE_ENDS, MATHS, NAMES, SPLICES
from tests.native import COMPILER
from tests.strategies import Node, Options, flatten, random_forest

SPLICES_BEFORE_CODE = [name for name in CODE if C_CODE in name]
C_FLAGS = [["-std=c99", "-trigraphs"], ["-std=gnu17"], ["-std=c99", "-pedantic-errors", "-Werror", "-Wall", "-Wextra"]]


def named(names, source="glasswood"):
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
    expected = preprocess(glasswood.export_c(named(plain_names(len(NAMES)))), flags)
    sources = [
        glasswood.export_c(dataclasses.replace(forest, source=name)) for name in (*SPLICES, *COMMENT_ENDS, *CODE)
    ]
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


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize("flags", C_FLAGS, ids=" ".join)
def test_c_has_categories_and_classes_in_comments_only(flags):
    """Categories of texts stand in the comment by their codes; code has the codes alone."""

    def made(texts):
        tables = [np.array(texts[start : start + 20], object) for start in range(0, len(texts), 20)]
        options = Options(n_trees=3, n_features=len(tables), row_type="float64")
        forest = dataclasses.replace(random_forest(1, options), link="logistic", prediction="argmax", missing=math.nan)
        classes = (np.array([texts[0], texts[-1]], object),)
        return dataclasses.replace(forest, categories=tuple(tables), classes=classes, source="glasswood")

    hostile = sorted({*NAMES, *("x" * 200 + name for name in CODE)})
    found, plain = (glasswood.export_c(made(texts)) for texts in (hostile, plain_names(len(hostile))))
    assert found.isascii()
    assert preprocess(found, flags) == preprocess(plain, flags)
    assert shape_of(glasswood.export_python(made(hostile))).count("Pass") == 0
    assert max(map(len, plain.splitlines()[:20])) <= 120


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
def test_c_of_explainers_has_no_text_of_the_model_outside_comments(tmp_path):
    forest, flags = named(NAMES), C_FLAGS[0]
    expected = preprocess(glasswood.export_c(glasswood.Explainer(named(plain_names(len(NAMES)))), "explain"), flags)
    for name in (*SPLICES, *COMMENT_ENDS, *CODE):
        source = glasswood.export_c(glasswood.Explainer(dataclasses.replace(forest, source=name)), "explain")
        assert source.isascii()
        assert preprocess(source, flags) == expected
    (tmp_path / "model.c").write_text(source)
    subprocess.run(["gcc", *flags, "-x", "c", "-shared", "-fPIC", "model.c", "-o", "m.so"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-D", "--defined-only", "m.so"], cwd=tmp_path, capture_output=True, check=True)
    assert [line.split()[-1] for line in symbols.stdout.decode().splitlines()] == ["explain"]


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize("name", SPLICES_BEFORE_CODE)
def test_c_of_a_file_of_xgboost(name, tmp_path):
    """As an attacker would do it: names in a model file that somebody loads and exports."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost")
    X = np.random.default_rng(0).normal(size=(50, 2))
    xgboost.XGBRegressor(n_estimators=2, max_depth=2).fit(X, X[:, 0]).save_model(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["learner"]["feature_names"] = [name, "b"]
    (tmp_path / "model.json").write_text(json.dumps(document))
    forest = glasswood.load(tmp_path / "model.json")
    assert forest.feature_names == (name, "b")
    found, plain = (
        glasswood.export_c(forest),
        glasswood.export_c(glasswood.Forest(dataclasses.replace(forest.ensemble, feature_names=("a", "b")))),
    )
    assert preprocess(found, C_FLAGS[0]) == preprocess(plain, C_FLAGS[0])


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
    expected = shape_of(glasswood.export_python(named(plain_names(len(NAMES)))))
    for name in ("glasswood", *NAMES):
        source = glasswood.export_python(dataclasses.replace(forest, source=name))
        assert source.isascii()
        assert shape_of(source) == expected
    space: dict = {}
    exec(compile(source, "model.py", "exec", dont_inherit=True), space)
    found = [space["predict"](dict(zip(NAMES, row, strict=True))) for row in rows.tolist()]
    np.testing.assert_array_equal(found, forest.predict(rows))


def with_texts(names):
    """A forest whose features, classes, categories, source and objective have hostile texts."""
    sides = (Node(value=1.0, cover=2.0), Node(value=2.0, cover=2.0))
    trees = [Node(children=sides, feature=i, cover=4.0, category_set=0) for i in range(len(names))]
    sets = [(np.array([0x55555555], np.uint32), False)]
    labels = np.array(names[:20], object)
    meaning = {"feature_names": tuple(names), "categories": (labels,) * len(names), "classes": (labels[:2],)}
    meaning |= {"missing": math.nan, "link": "logistic", "prediction": "argmax"}
    meaning |= {"source": "".join(names[:30]), "objective": "".join(names[30:])}
    return flatten(trees, len(names), "float64", sets, **meaning)


UNICODE = [name for name in NAMES if not re.search("[\ud800-\udfff]", name)]
TOLD = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def test_texts_obey_no_control_characters():
    forest = with_texts(list(NAMES))
    told = [glasswood.export_text(forest, tree) for tree in range(forest.n_trees)]
    assert {text.count("\n") for text in told} == {glasswood.export_text(with_texts(["a", "b"])).count("\n")}
    told += [repr(forest), *forest_facts(forest).values(), ranked_table(NAMES, np.ones(len(NAMES)))]
    told += [repr(glasswood.Explainer(forest)), glasswood.Explainer(forest)._repr_html_(), forest._repr_html_()]
    for text in told:
        assert not TOLD.search(text), text
        text.encode()


def test_errors_obey_no_control_characters():
    forest = dataclasses.replace(with_texts(list(NAMES)), classes=(), link="identity", prediction="response")
    rows = np.full((1, len(NAMES)), np.nan)
    calls = [
        lambda: forest.predict(rows, output="probability"),
        lambda: dataclasses.replace(forest, categories=None, nan_allowed=False).predict(rows),
        lambda: glasswood.Explainer(dataclasses.replace(forest, cover=np.full(forest.n_nodes, np.nan))),
        lambda: glasswood.export_sql(forest),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r".") as raised:
            call()
        assert not TOLD.search(str(raised.value))


def test_command_line_obeys_no_control_characters(tmp_path):
    with_texts(UNICODE).save(tmp_path / "model.glasswood")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for command in (["info", "model.glasswood"], ["predict", "model.glasswood", "rows.csv", "-o", "out.csv"]):
        done = subprocess.run(
            [sys.executable, "-m", "glasswood", *command], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == (command[0] != "info")
        assert not TOLD.search((done.stdout + done.stderr).decode())


class Markup(HTMLParser):
    """The elements of a document and the names of their attributes."""

    def __init__(self, text) -> None:
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))


def test_html_has_no_elements_of_the_model():
    forest, plain = with_texts(list(NAMES)), with_texts(plain_names(len(NAMES)))
    for one in (lambda forest: forest, glasswood.Explainer):
        found, expected = Markup(one(forest)._repr_html_()), Markup(one(plain)._repr_html_())
        assert found.elements == expected.elements


def write_report(names, path):
    """A report of a forest of hostile texts on rows of hostile categories; its elements."""
    forest = dataclasses.replace(with_texts(names), classes=(), prediction="response")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({name: rng.choice(forest.ensemble.categories[0], 60) for name in names})
    glasswood.report(forest, rows, path=path, title="".join(names[40:]))
    return Markup(path.read_text(encoding="utf-8")).elements


def test_reports_have_no_elements_of_the_model(tmp_path, browser):
    """The same elements as with plain names of these lengths, in the file and in a browser, which runs nothing."""
    hostile, plain = tmp_path / "hostile.html", tmp_path / "plain.html"
    padded = [f"{place}{'x' * len(name)}" for place, name in enumerate(UNICODE)]
    assert write_report(UNICODE, hostile) == write_report(padded, plain)
    # Only labels that are cut have a title of their own, and names of one length are not equally wide.
    tags = "[...new Set([...document.querySelectorAll(':not(svg title)')].map(one => one.tagName))].sort().join()"
    found = []
    for path in (hostile, plain):
        page = Page(browser, path)
        assert page.page.evaluate("window.intruder === undefined")
        found.append(page.page.evaluate(tags))
        page.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [*MATHS, *LINE_ENDS, *CONTROLS, "\ud800", "a" * 300, "<b>&amp;"])
def test_pictures_show_names_as_they_are(name, tmp_path):
    """No formula of matplotlib's or TeX's, whatever the user's settings; SVG files stay XML."""
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    with matplotlib.rc_context({"text.usetex": True}):
        ax = glasswood.plot_tree(with_texts([name]))
    with matplotlib.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of glyphs that the font lacks
        ax.figure.savefig(tmp_path / "tree.svg")
    matplotlib.pyplot.close(ax.figure)
    elements = ElementTree.parse(tmp_path / "tree.svg").iter()
    texts = ["".join(element.itertext()) for element in elements if element.tag.endswith("text")]
    assert any(shown(name)[:20] in text for text in texts)
