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


POLICIES = ["GLOBAL_IMPUTATION", "LOCAL_IMPUTATION", "RANDOM_LOCAL_IMPUTATION"]
TEXTS = ["a", "c", "b"]


def rare(seed, **options):
    """A model of a column with so many rare categories that training does not keep all of them, and its rows."""
    rng = np.random.default_rng(seed)
    n, n_texts = int(rng.integers(100, 500)), int(rng.integers(3, 40))
    codes = rng.zipf(1.3, n) % n_texts
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": np.array([f"t{i}" for i in range(n_texts)], object)[codes]})
    frame["b"] = rng.random(n) < 0.5
    y = frame["a"] + 2 * rng.normal(size=n_texts)[codes] + frame["b"]
    frame.loc[rng.random(n) < 0.1, "c"] = None
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    learner = ydf.GradientBoostedTreesLearner if seed % 2 else ydf.RandomForestLearner
    options = {"num_trees": 4, "max_depth": 4, "min_vocab_frequency": int(rng.integers(2, 12))} | options
    model = learner(label="y", task=ydf.Task.REGRESSION, features=TEXTS, **options).train(frame.assign(y=y))
    rows = pd.concat([frame] * 2, ignore_index=True)
    for text in ("beige", None, "", "<OOD>"):
        rows.loc[rng.random(len(rows)) < 0.08, "c"] = text
    return model, rows[TEXTS]


def conditions(model):
    waiting, found = [tree.root for tree in model.iter_trees()], []
    while waiting:
        node = waiting.pop()
        if not node.is_leaf:
            found.append(node.condition)
            waiting += [node.pos_child, node.neg_child]
    return found


def is_apart(model):
    """Whether a split sends categories that training did not keep elsewhere than missing ones."""
    sets = [one for one in conditions(model) if type(one).__name__ == "CategoricalIsInCondition"]
    return any((0 in one.mask) != bool(one.missing) for one in sets)


def test_categories_that_training_did_not_keep():
    n_apart = n_missing = 0
    for seed in range(36):
        na = seed % 4 > 1
        policy = POLICIES[0 if seed % 2 else 2 if seed % 12 == 0 else 1]
        model, rows = rare(seed, missing_value_policy=policy, allow_na_conditions=na)
        forest = glasswood.load(model)
        assert forest.checked.rows
        assert not forest.checked.unchecked
        expected = model.predict(rows, use_slow_engine=True)
        np.testing.assert_allclose(forest.predict(rows), expected, rtol=SINGLE, atol=SINGLE)
        n_apart += is_apart(model)
        n_missing += any(type(one).__name__ == "IsMissingInCondition" for one in conditions(model))
    assert n_apart > 5
    assert n_missing > 2


def test_categories_that_training_did_not_keep_in_code_and_single_rows(tmp_path):
    seed = next(seed for seed in range(0, 60, 2) if is_apart(rare(seed, missing_value_policy="LOCAL_IMPUTATION")[0]))
    model, rows = rare(seed, missing_value_policy="LOCAL_IMPUTATION")
    rows, forest = rows[::5], glasswood.load(model)
    expected = model.predict(rows, use_slow_engine=True)
    near = {"rtol": SINGLE, "atol": SINGLE}
    predictor = forest.predictor(names=True)
    records = rows.astype(object).where(rows.notna(), None).to_dict("records")
    np.testing.assert_allclose([predictor(row) for row in records], expected, **near)
    space = {}
    exec(glasswood.export_python(forest), space)
    np.testing.assert_allclose([space["predict"](row) for row in records], expected, **near)
    duckdb = pytest.importorskip("duckdb")
    table = rows.assign(id=range(len(rows)), b=rows["b"].astype(int))  # noqa: F841
    for query in (glasswood.export_sql(forest, table="table", keep=["id"], dialect="duckdb"), None):
        query = query or f'SELECT id, {glasswood.export_sql(forest, dialect="duckdb")} AS prediction FROM "table"'
        found = duckdb.sql(query).df().sort_values("id")
        np.testing.assert_allclose(found["prediction"], expected, **near)
    forest.save(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(rows), forest.predict(rows))
    explainer = glasswood.Explainer(forest, rows, dtype="float64")
    total = explainer.shap_values(rows).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, expected, **near)
    assert "c not in" in glasswood.export_text(forest)


def test_folders(tmp_path):
    model, rows = rare(0)
    model.save(str(tmp_path / "folder"))
    with pytest.raises(IsADirectoryError, match=r"a folder of YDF; load it by ydf\.load_model"):
        glasswood.load(tmp_path / "folder")
    loaded = glasswood.load(ydf.load_model(str(tmp_path / "folder")))
    np.testing.assert_allclose(loaded.predict(rows), model.predict(rows), rtol=SINGLE, atol=SINGLE)


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
