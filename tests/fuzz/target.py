"""What is done with a mutated file: load it, and hold what loads to its promises."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings

import numpy as np
import treelite

import glasswood
from glasswood.base.escapes import NOT_SHOWN
from tests.oracles import evaluate
from tests.readers import spark_models
from tests.strategies import random_rows

REFUSALS = (ValueError, NotImplementedError)
MOST_FEATURES, MOST_NODES, MOST_OUTPUTS = 10_000, 100_000, 10_000
"""Beyond these a forest is loaded only: rows or the oracle would take the time."""


HUGE = 1e100
"""Leaves and weights of this size have infinite sums."""

RESPONSE = 1e-6
"""Largest error of a sum of values of a probability or loss, in float32."""


class WrongAnswerError(Exception):
    """What loaded does not do what it says."""


def attack(path, original):
    """Return "refused" or "loaded"; anything wrong is raised.

    Parameters
    ----------
    path : Path
        The mutated file.
    original : list of bytes
        Files of its format that are whole.
    """
    attacks = {".explainer": attack_explainer, ".treelite": attack_treelite}
    return attacks.get(path.suffix, attack_forest)(path, original)


def attack_forest(path, original):
    """Attack a file of trees, or the folder that an archive holds."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the file is of XGBoost 1.3.0", UserWarning)
            warnings.filterwarnings("ignore", "the leaves of this random forest are read as responses", UserWarning)
            forest = glasswood.load(path) if path.suffix != ".spark" else load_archive(path)
    except REFUSALS as error:
        check_refusal(error, str(path))
        return "refused"
    refuse_pieces(path.read_bytes(), original)
    return hold_to_promises(forest)


def attack_treelite(path, _):
    """Attack a checkpoint that treelite itself takes."""
    try:
        model = treelite.Model.deserialize_bytes(path.read_bytes())
    except treelite.TreeliteError:
        return "refused"
    try:
        forest = glasswood.load(model)
    except REFUSALS as error:
        if not (overflows(model) and "nan" in str(error).partition(" instead of ")[2]):
            check_refusal(error, "the treelite.Model")
        return "refused"
    return hold_to_promises(forest)


def overflows(model):
    """Whether treelite's softmax, which finds the largest margin in float32, may meet infinity there and return NaN."""
    header, trees = model.get_header_accessor(), [model.get_tree_accessor(tree) for tree in range(model.num_tree)]
    parts = [tree.get_field(name) for tree in trees for name in ("leaf_value", "leaf_vector")]
    largest = sum(float(np.abs(part).max(initial=0.0)) for part in [*parts, header.get_field("base_scores")])
    return header.get_field("postprocessor") == "softmax" and largest > float(np.finfo(np.float32).max)


def hold_to_promises(forest):
    """Compare what loads with the oracle, and explain it."""
    if forest.n_features > MOST_FEATURES or forest.n_nodes > MOST_NODES or forest.n_outputs > MOST_OUTPUTS:
        return "loaded"
    if forest.ensemble.transform is not None:
        look_up(forest)
        forest = glasswood.Forest(dataclasses.replace(forest.ensemble, transform=None))
    if forest.source.startswith(("ONNX", "Spark", "H2O")):  # whose arrays hold values, the oracle's codes
        forest = glasswood.Forest(dataclasses.replace(forest.ensemble, categories=None))
    X = rows_for(forest)
    evaluate_all(forest, X)
    explain_all(forest, X)
    return "loaded"


def load_archive(path):
    """Load the folder that a file holds, whose name starts with the file's."""
    with tempfile.TemporaryDirectory(prefix=path.name, dir=path.parent) as folder:
        return glasswood.load(spark_models.unpack(path.read_bytes(), folder))


def attack_explainer(path, original):
    """Attack a file of an explainer."""
    unless_refused(lambda: glasswood.load(path))
    try:
        explainer = glasswood.Explainer.load(path)
    except ValueError as error:
        check_refusal(error, str(path))
        return "refused"
    refuse_pieces(path.read_bytes(), original)
    forest = explainer.forest
    X = finite(forest, rows_for(forest))
    if explainer.settings.output == "margin":
        explainer.shap_values(X, check_additivity=True)
        return "loaded"
    y = np.arange(len(X)) % 2
    labels = {"y": y} if explainer.settings.output == "log_loss" else {}
    margin = forest.predict(X, "margin")
    response = np.logaddexp(0, margin) - y * margin if labels else 1 / (1 + np.exp(-margin))
    expected = explainer.expected_value[y] if labels else explainer.expected_value
    if not np.allclose(explainer.shap_values(X, **labels).sum(axis=1) + expected, response, rtol=0, atol=RESPONSE):
        raise WrongAnswerError(f"values of the {explainer.settings.output} do not add up")
    return "loaded"


def rows_for(forest):
    """Rows that can go wrong, as the forest takes them."""
    trees = forest.ensemble
    X = random_rows(forest.n_nodes, forest, 9)
    if not trees.nan_allowed:
        X[np.isnan(X)] = 0
        X[trees.missing == X] = 1.5 if trees.missing != 1.5 else 2.5
    return X


def finite(forest, X):
    """Numbers of a size that linear leaves can be held to."""
    trees = forest.ensemble
    return X if not trees.has_linear_leaves else np.where(np.isfinite(X), X, 0).clip(-1e6, 1e6)


def check_refusal(error, path):
    """Errors are glasswood's own: a sentence that names the file."""
    if type(error) not in REFUSALS or path not in str(error) or len(str(error)) < len(path) + 10:
        raise WrongAnswerError(f"no sentence of glasswood's: {type(error).__name__}: {error}") from error
    if NOT_SHOWN.search(str(error)):
        raise WrongAnswerError(f"a message holds what terminals obey: {error}") from error


def complete(whole):
    """Bytes of a file that hold all of it: of a LightGBM text without categories what is before its last lines."""
    end = whole.find(b"\nend of trees")
    infos = whole[: max(end, 0)].partition(b"feature_infos=")[2].partition(b"\n")[0].split()
    has_categories = b"\npandas_categorical:null" not in whole and any(
        not info.startswith((b"[", b"none")) for info in infos
    )
    return len(whole.rstrip()) if end < 0 or has_categories else end - 1


def refuse_pieces(data, original):
    """Nothing loads that is a whole file less its end, spaces and line ends aside."""
    for whole in original:
        if len(data) < complete(whole) and whole.startswith(data):
            raise WrongAnswerError(f"{len(data)} of {len(whole)} bytes load")


def look_up(forest):
    """Predict rows of categories that the model's tables have, or not."""
    trees = forest.ensemble
    rng = np.random.default_rng(forest.n_nodes)
    columns = [
        rng.normal(size=7).astype(object) if tested is None else rng.choice(["city 1", "a", "yes", "-3", ""], 7)
        for tested in trees.transform.hashes
    ]
    forest.predict(np.column_stack([np.asarray(column, object) for column in columns]), "margin")


def evaluate_all(forest, X):
    """Every algorithm reaches the oracle's leaves, margins are the same bits, other outputs exist."""
    expected = evaluate.leaf_ids(forest, X)
    margins = []
    for algorithm in ("serial", "by_sample", "by_node", "windowed"):
        try:
            found = forest.predict(X, "leaf", algorithm)
        except ValueError:
            if algorithm != "by_node":
                raise
            continue
        if not np.array_equal(found.reshape(expected.shape), expected):
            raise WrongAnswerError(f"{algorithm} reaches other leaves")
        margins.append(forest.predict(X, "margin", algorithm))
        if not np.array_equal(margins[0], margins[-1], equal_nan=True):
            raise WrongAnswerError(f"{algorithm} has other margins than serial")
    for output in ("prediction", "probability"):
        unless_refused(lambda output=output: forest.predict(X, output))
    row = np.ascontiguousarray(X[0])
    if not np.array_equal(forest.predictor("margin")(row), margins[0][0], equal_nan=True):
        raise WrongAnswerError("the predictor has another margin")


def explain_all(forest, X):
    """Values add up, where covers do, in both types and by both algorithms; interactions exist or are refused."""
    trees = forest.ensemble
    largest = max(np.abs(part).max(initial=0) for part in (trees.leaf_value, trees.tree_weight, trees.linear_mean))
    check = covers_add_up(forest) and max(largest, np.abs(trees.linear_coefficient).max(initial=0)) < HUGE
    for dtype in ("float64", "float32"):
        for algorithm in ("quadrature", "tables"):
            explainer = unless_refused(lambda d=dtype, a=algorithm: glasswood.Explainer(forest, algorithm=a, dtype=d))
            if explainer is not None:
                explainer.shap_values(finite(forest, X), check_additivity=check)
    if explainer is not None and forest.n_features <= 50:
        unless_refused(lambda: explainer.shap_interaction_values(X[:2]))


def covers_add_up(forest):
    """Whether sides have shares between 0 and 1: only then is a value within what its tree's leaves span."""
    trees = forest.ensemble
    splits = np.flatnonzero(trees.feature >= 0)
    left = (trees.left + np.repeat(trees.tree_offsets[:-1], np.diff(trees.tree_offsets)))[splits]
    cover = trees.cover[splits]
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((np.abs(trees.cover[left] + trees.cover[left + 1] - cover) <= 1e-3 * np.abs(cover)).all())


def unless_refused(call):
    """Result of a call, None where glasswood refuses it in a sentence."""
    try:
        return call()
    except (*REFUSALS, TypeError) as error:
        if type(error) not in (*REFUSALS, TypeError) or len(str(error)) < 20:
            raise
        return None
