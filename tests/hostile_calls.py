"""Every public call with hostile texts: each argument in turn is one that has control characters, and names have them.

What a call raises, warns of or prints must hold none of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import glasswood
from glasswood.base.escapes import NOT_SHOWN
from tests.strategies import full_forest

EVIL = "\x1b]0;t\x07\x1b[31m\u202e\u2028\x00\x85=cmd|'/C calc'!A0\r\n\tglasswood: all is well"
"""A title and a colour of terminals, a right-to-left override, ends of lines, NUL, a formula and a sentence."""

LONG = "x" * 10_000
IN_PATHS = EVIL.replace("\x00", "").replace("/", "")
NAMES = [EVIL + letter for letter in "abc"]

RAW = re.compile(NOT_SHOWN.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))
"""What no message holds; lines may end in it, but none begins as a line of EVIL would."""


def finding(text):
    """What a message holds that it must not, None if nothing."""
    if found := RAW.search(text):
        return f"holds {found[0]!r}: {text!r}"
    return f"has a line of its own: {text!r}" if "\n\tglasswood" in text or "\nglasswood: all" in text else None


def hostile_forest():
    ensemble = full_forest(0, 2, 2, 3).ensemble
    return glasswood.Forest(dataclasses.replace(ensemble, feature_names=tuple(NAMES), objective=EVIL, source=EVIL))


def hostile_classifier():
    """A forest whose classes are hostile, of a tree that scikit-learn has grown."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = rows(), np.array(NAMES, object)[np.arange(60) % 3]
    return DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)


def rows():
    X = np.random.default_rng(0).normal(size=(60, 3))
    return pd.DataFrame(X, columns=NAMES)


def targets():
    return np.random.default_rng(1).normal(size=60)


def values():
    """Hostile values of an argument."""
    wrong = pd.DataFrame(np.zeros((60, 2)), columns=[EVIL + "y", EVIL + "z"])
    texts = rows().astype(object)
    texts.iloc[3, 1] = EVIL
    return {
        "text": EVIL,
        "long text": LONG,
        "list": [EVIL],
        "tuple": (EVIL, EVIL + "2"),
        "dict": {EVIL: EVIL},
        "dict of lists": {EVIL + "a": [EVIL]},
        "array": np.array([EVIL, "b"], object),
        "frame": wrong,
        "frame of texts": texts,
        "path": Path("no folder" + EVIL.replace("\x00", "").replace("/", ""))
        / ("file" + EVIL.replace("\x00", "").replace("/", "")),
        "labels": np.array([EVIL] * 60, object),
        "number": -1,
    }


ARGUMENTS = {
    "X": rows, "y": targets, "X1": rows, "X2": rows, "a": rows, "b": rows, "data": rows, "rows": rows,
    "background": rows,
    "model": hostile_forest, "forest": hostile_forest, "predict": lambda: hostile_forest().predict,
    "features": lambda: [NAMES[0]], "feature": lambda: NAMES[0], "estimator": hostile_forest,
    "time_limit": lambda: 0.2, "n_repeats": lambda: 1,
}  # fmt: skip
"""Arguments that are good, by the name of the parameter."""

QUICK = {"generations": 2, "max_leaves": 4, "random_state": 0}


def subjects():
    """Public functions and methods with the hostile model: name, function."""
    forest, X, y = hostile_forest(), rows(), targets()
    labels = np.array(NAMES, object)[np.arange(60) % 3]
    made = {
        "Forest": forest,
        "classes": glasswood.load(hostile_classifier()),
        "Explainer": glasswood.Explainer(forest),
        "Explainer of rows": glasswood.Explainer(forest, X),
        "Neighbors": glasswood.Neighbors(forest, X, y, check=False),
        "Neighbors of classes": glasswood.Neighbors(glasswood.load(hostile_classifier()), X, labels, check=False),
        "Summary": glasswood.Explainer(forest).summary(X),
        "effects": glasswood.effects(forest, X),
        "ScoreValues": glasswood.score_values(forest, X, y, background=X),
        "comparison": glasswood.compare(X, X[:30], model=forest),
        "additive": glasswood.additive(forest, X),
        "tree": glasswood.ModelTreeRegressor(**QUICK).fit(X, y),
        "tree of classes": glasswood.ModelTreeClassifier(**QUICK).fit(X, labels),
        "curves": glasswood.AdditiveRegressor().fit(X, y),
        "LeafEncoder": glasswood.LeafEncoder(forest).fit(X, y),
        "mapper": glasswood.Explainer(forest).mapper(),
        "TreeExplainer": glasswood.TreeExplainer(forest, X),
    }
    for name in glasswood.__all__:
        if callable(function := getattr(glasswood, name)) and name != "patch_shap":
            yield name, function
    for owner, one in made.items():
        for name in dir(one):
            if not name.startswith("_") or name in {"__call__", "__getitem__", "__repr__"}:
                with contextlib.suppress(Exception):
                    if callable(function := getattr(one, name)):
                        yield f"{owner}.{name}", function


def calls(function):
    """Arguments of calls, each with one hostile value: (parameter, kind of value, arguments)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    base = {}
    for one in named:
        if one.default is one.empty or one.name == "time_limit":
            base[one.name] = ARGUMENTS.get(one.name, lambda: EVIL)()
    yield "", "", base
    for one, (kind, value) in itertools.product(named, values().items()):
        yield one.name, kind, base | {one.name: value}


def call(function, arguments):
    """What a call shows people: texts of its error, its warnings, and what it printed."""
    parameters = inspect.signature(function).parameters
    by_place = {name for name, one in parameters.items() if one.kind is one.POSITIONAL_ONLY}
    first = [arguments[name] for name in parameters if name in by_place and name in arguments]
    rest = {name: value for name, value in arguments.items() if name not in by_place}
    texts, printed = [], io.StringIO()
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        for redirected in (contextlib.redirect_stderr, contextlib.redirect_stdout):
            stack.enter_context(redirected(printed))
        warnings.simplefilter("always")
        try:
            function(*first, **rest)
        except Exception as error:
            texts.append(str(error))
    return [*texts, *(str(one.message) for one in caught), printed.getvalue()]
