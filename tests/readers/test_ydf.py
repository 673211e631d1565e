"""Random forests and boosted trees of YDF, against YDF."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.oracles import coalitions
from tests.readers.adversarial import near
from tests.readers.forests import BACKGROUND, EXPLAINED, MODELS, make_rows, signal

import glasswood

ydf = pytest.importorskip("ydf")
pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = list("abcd")
SINGLE = 3e-6
"""YDF adds up in float32."""


@pytest.fixture(autouse=True)
def silent():
    ydf.verbose(0)


def frame_of(X):
    """Numbers, a boolean and texts."""
    frame = pd.DataFrame(X, columns=NAMES)
    return frame.assign(
        c=np.array(["red", "green", "blue", "grey", "pink", "teal"], object)[np.round(X[:, 2] / 0.1).astype(int)],
        d=X[:, 3] > 0,
    )


def train(seed, kind, task):
    rng, X = np.random.default_rng(seed), make_rows(seed)
    y = signal(X)
    labels = {
        "regression": y,
        "two": np.where(y > 1, "yes", "no"),
        "three": np.array(["l", "m", "h"])[np.digitize(y, [0, 1.5])],
        "counts": np.round(np.exp(y / 2)),
    }
    options = {"num_trees": int(rng.integers(1, 6)), "max_depth": int(rng.integers(2, 6)), "random_seed": seed}
    options |= {"task": ydf.Task.REGRESSION} if task in {"regression", "counts"} else {}
    options |= {"loss": "POISSON"} if task == "counts" else {}
    if kind == "boosted":
        options |= {"shrinkage": 0.3, "discretize_numerical_columns": bool(seed % 2)}
        learner = ydf.GradientBoostedTreesLearner(label="y", features=NAMES, **options)
    else:
        options |= {"winner_take_all": bool(seed % 2)} if task != "regression" else {}
        learner = ydf.RandomForestLearner(label="y", features=NAMES, **options)
    frame = frame_of(X)
    return learner.train(frame.assign(y=labels[task])), X, frame


def hostile(forest, frame, seed):
    """Rows on and beside thresholds, without some values, and with texts that nobody knows."""
    rng, trees = np.random.default_rng(seed), forest.ensemble
    rows = pd.concat([frame] * 6, ignore_index=True)
    for feature in (0, 1):
        at = trees.threshold[trees.feature == feature].astype(np.float64)
        beside = np.array([number for threshold in at for number in near(float(threshold))] or [0.0])
        rows[NAMES[feature]] = np.where(
            rng.random(len(rows)) < 0.5, rng.choice(beside, len(rows)), rows[NAMES[feature]]
        )
        rows.loc[rng.random(len(rows)) < 0.1, NAMES[feature]] = np.nan
    rows.loc[rng.random(len(rows)) < 0.1, "c"] = None
    rows.loc[rng.random(len(rows)) < 0.1, "c"] = "beige"
    return rows


KINDS = [("forest", "regression"), ("forest", "two"), ("forest", "three")]
KINDS += [("boosted", task) for task in ("regression", "two", "three", "counts")]


@pytest.mark.parametrize(("kind", "task"), KINDS)
def test_random_models(kind, task):
    for seed in MODELS:
        model, X, frame = train(seed, kind, task)
        forest = glasswood.load(model, check=frame)
        assert forest.source.startswith("ydf")
        rows = hostile(forest, frame, seed)
        np.testing.assert_allclose(forest.predict(rows[NAMES]), model.predict(rows), rtol=SINGLE, atol=SINGLE)
        if seed < 3:
            check_values(forest, model, X)


def check_values(forest, model, X):
    """Values against sums over all coalitions of what YDF predicts."""

    def respond(hybrids, _):
        return model.predict(frame_of(hybrids))

    output = "margin" if forest.ensemble.link == "identity" else "response"
    played = coalitions.game(respond, X[EXPLAINED], X[BACKGROUND], np.arange(X.shape[1]))
    explainer = glasswood.Explainer(forest, frame_of(X[BACKGROUND]), dtype="float64", output=output)
    found = explainer.shap_values(frame_of(X[EXPLAINED]))
    expected = coalitions.values(played)
    np.testing.assert_allclose(
        found.reshape(expected.shape), expected, atol=10 * SINGLE * max(1, np.abs(expected).max())
    )


def test_values_by_covers_add_up():
    model, _, frame = train(0, "boosted", "regression")
    explainer = glasswood.Explainer(model, dtype="float64")
    total = explainer.shap_values(frame).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(frame), rtol=SINGLE, atol=SINGLE)


def test_carts_and_logits():
    _, X, frame = train(0, "forest", "two")
    data = frame.assign(y=np.where(signal(X) > 1, "yes", "no"))
    model = ydf.CartLearner(label="y", features=NAMES).train(data)
    np.testing.assert_allclose(glasswood.load(model).predict(frame), model.predict(frame), atol=1e-6)
    model = ydf.GradientBoostedTreesLearner(label="y", features=NAMES, num_trees=3).train(data)
    model.set_output_logits(True)
    np.testing.assert_allclose(glasswood.load(model).predict(frame), model.predict(frame), rtol=SINGLE, atol=SINGLE)


def test_bad_input():
    X = make_rows(0)
    frame = frame_of(X).assign(y=signal(X))
    options = {"label": "y", "task": ydf.Task.REGRESSION, "num_trees": 3}
    with pytest.raises(TypeError, match=r"got GradientBoostedTreesLearner of YDF, expected a RandomForestModel"):
        glasswood.load(ydf.GradientBoostedTreesLearner(**options))
    oblique = ydf.GradientBoostedTreesLearner(split_axis="SPARSE_OBLIQUE", **options).train(frame)
    with pytest.raises(
        NotImplementedError, match=r"a NumericalSparseObliqueCondition on .* is not supported; glasswood re"
    ):
        glasswood.load(oblique)
    isolation = ydf.IsolationForestLearner(features=NAMES, num_trees=2).train(frame)
    with pytest.raises(TypeError, match="got IsolationForestModel of YDF"):
        glasswood.load(isolation)
    sets = {"a": [["x", "y"] if value > 0 else ["x", "z"] for value in X[:, 0]], "y": X[:, 0]}
    of_sets = ydf.GradientBoostedTreesLearner(features=[("a", ydf.Semantic.CATEGORICAL_SET)], **options).train(sets)
    with pytest.raises(NotImplementedError, match=r"a CategoricalSetContainsCondition on 'a' is not supported"):
        glasswood.load(of_sets)
    trial = frame.assign(treatment=np.where(X[:, 0] > 0, "drug", "none"))
    options = {"label": "y", "features": ["a", "b"], "num_trees": 2, "uplift_treatment": "treatment"}
    uplift = ydf.RandomForestLearner(task=ydf.Task.NUMERICAL_UPLIFT, **options).train(trial)
    with pytest.raises(
        NotImplementedError, match="uplift models of YDF are not supported; glasswood reads those of cau"
    ):
        glasswood.load(uplift)


def test_unknown_categories_that_are_not_as_missing_ones():
    model, _, _ = train(0, "boosted", "regression")
    trees = list(model.iter_trees())
    waiting = [tree.root for tree in trees]
    conditions = []
    while waiting:
        node = waiting.pop()
        if not node.is_leaf:
            conditions.append(node.condition)
            waiting += [node.pos_child, node.neg_child]
    of_text = next(one for one in conditions if type(one).__name__ == "CategoricalIsInCondition")
    of_text.missing = not of_text.missing
    with pytest.raises(NotImplementedError, match="a split on 'c' sends categories that training did not keep to one"):
        glasswood.load(Changed(model, trees))


def test_a_layout_of_another_version():
    model, _, _ = train(0, "boosted", "regression")
    changed = Changed(model, list(model.iter_trees()))
    changed.initial_predictions = lambda: np.zeros(2)
    with pytest.raises(NotImplementedError, match=r"this layout of ydf .* is not read; upgrade glasswood"):
        glasswood.load(changed)


class Changed(ydf.GradientBoostedTreesModel):
    """A model with other trees."""

    def __init__(self, model, trees):
        super().__init__(model._model)
        self.trees = trees

    def iter_trees(self):
        return iter(self.trees)
