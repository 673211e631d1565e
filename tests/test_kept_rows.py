"""No result changes because its caller changes rows, targets or weights in place afterwards."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import glasswood
from glasswood import Explainer, Neighbors

N_ROWS, N_FEATURES = 120, 4
PLAIN = {"generations": 3, "max_leaves": 4, "random_state": 0, "n_jobs": 1}
SMALL = {"n_estimators": 2, "time_limit": None, "random_state": 0, "n_jobs": 1}

STATELESS = {
    "__version__", "difference", "Forest", "load",  # models without rows
    "export_c", "export_excel", "export_python", "export_sql", "export_text", "report",  # texts
    "config_context", "get_config", "set_config",  # numbers and names
    "patch_shap", "plot_history", "plot_over_time", "plot_tree",  # no rows of the caller's later on
}  # fmt: skip
"""Public names whose results neither have rows nor read any later."""


def new_rows():
    return np.random.default_rng(5).normal(size=(7, N_FEATURES))


@functools.cache
def model(kind=RandomForestRegressor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    y = X[:, 0] * 2 + X[:, 1]
    return kind(8, max_depth=4, random_state=0).fit(X, y if kind is RandomForestRegressor else y > 0)


class Given:
    """Rows, targets and weights, as a caller has them, and changes to them in place."""

    def __init__(self, form):
        X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
        self.memory = X if form != "float32" else X.astype(np.float32)
        self.X = self.memory
        if form == "columns first":
            self.X = self.memory = np.asfortranarray(X)
        if form == "frame":
            pandas = pytest.importorskip("pandas")
            self.X = pandas.DataFrame(self.memory, columns=list("abcd"), copy=False)
        if form == "arrow":
            pyarrow = pytest.importorskip("pyarrow")
            self.memory = np.asfortranarray(X)
            self.X = pyarrow.table([pyarrow.array(column) for column in self.memory.T], names=list("abcd"))
        self.y = X[:, 0] * 2 + X[:, 1]
        self.classes = (self.y > 0).astype(np.int64)
        self.weight = np.random.default_rng(1).integers(1, 4, N_ROWS).astype(np.float64)
        self.grid = np.linspace(-1, 1, 5)

    def change(self):
        for array in (self.memory, self.y, self.classes, self.weight, self.grid):
            array[...] = array[::-1] * 100 + 7


def of_neighbors(given):
    neighbors = Neighbors(model(), given.X, given.y, sample_weight=given.weight, check=False)
    rows = new_rows()
    gaps = np.where(np.arange(N_FEATURES) == 1, np.nan, rows)
    return lambda: [
        neighbors.impute(gaps),
        neighbors.quantile(rows, [0.1, 0.9]),
        neighbors.outlier_score(),
        neighbors.predict_interval(rows, method="jackknife+") if neighbors._index.bags is not None else 0,
        neighbors.kneighbors(rows)[0],
    ]


def of_influence(given):
    neighbors = Neighbors(model(), given.X, given.y)
    return lambda: [neighbors.influence(new_rows(), 3)[0], neighbors.predict_interval(new_rows())]


def of_classes(given):
    neighbors = Neighbors(model(RandomForestClassifier), given.X, given.classes.astype(bool), check=False)
    neighbors.conformalize(given.X, given.classes.astype(bool))
    return lambda: [neighbors.predict_set(new_rows()), neighbors.prototypes(2), neighbors.outlier_score()]


def of_calibration(given):
    neighbors = Neighbors(model(), np.array(given.memory), np.array(given.y), check=False)
    neighbors.conformalize(given.X, given.y)
    return lambda: neighbors.predict_interval(new_rows())


def of_explainer(given, **settings):
    explainer = Explainer(model(), given.X, background_weight=given.weight, **settings)
    return lambda: [
        explainer.shap_values(new_rows()),
        explainer.expected_value,
        pickle.loads(pickle.dumps(explainer)).shap_values(new_rows()),
        explainer.row()(new_rows()[0]),
    ]


def of_explanation(given):
    explanation = Explainer(model())(given.X)
    return lambda: [explanation.values, explanation.base_values, np.asarray(explanation.data, np.float64)]


def of_plain_explanation(given):
    """As on a machine without shap."""
    from unittest import mock

    with mock.patch("importlib.util.find_spec", return_value=None):
        explanation = Explainer(model())(given.X)
    return lambda: [explanation.values, explanation.data]


def of_tree_explainer(given):
    explainer = glasswood.TreeExplainer(model(), given.X, feature_perturbation="interventional")
    return lambda: [explainer.shap_values(new_rows()), explainer.expected_value]


def of_summary(given):
    summary = Explainer(model()).summary(given.X)
    return lambda: [summary.mean, summary.quantiles()]


def of_explainer_mapper(given):
    pytest.importorskip("pyarrow")
    import pyarrow

    mapper = Explainer(model(), given.X).mapper()
    batch = pyarrow.RecordBatch.from_arrays(list(new_rows().T.copy()), names=["x0", "x1", "x2", "x3"])
    return lambda: [np.asarray(column) for column in mapper(batch).columns]


def of_effects(given):
    effects = glasswood.effects(model(), given.X, sample_weight=given.weight, custom_values={0: given.grid})
    return lambda: [
        effects.mean,
        effects.dependence(0).average,
        effects.dependence(0).grid_values[0],
        effects.dependence(1, 2).average,
        effects.ale(1)["average"],
        effects.ale(1, 2)["average"],
        effects.interactions(30).h,
    ]


def of_dependence(given):
    found = glasswood.partial_dependence(model(), given.X, [0], custom_values={0: given.grid}, kind="both")
    return lambda: [found["average"], found["individual"], found["grid_values"][0]]


def of_comparison(given):
    rows = np.random.default_rng(9).normal(size=(30, N_FEATURES))
    weights = (given.weight, None)
    found = glasswood.compare(given.X, rows, model=model(), sample_weight=weights)
    return lambda: [found.change, found.before, found.after, found.shift, str(found)]


def of_distillation(given):
    found = glasswood.distill(model().predict, given.X, sizes=[2], time_limit=None)
    return lambda: [found.model.predict(new_rows()), str(found)]


def of_additive(given):
    found = glasswood.additive(model(), given.X, interactions=1)
    return lambda: [found.forest_.predict(new_rows()), found.mean, found.kept, *found.curves_.values()]


def of_score(given):
    score = glasswood.score_values(
        model(), given.X, given.y, background=given.X, sample_weight=given.weight, per_row=True
    )
    return lambda: [score.values, score.standard_error, score.rows, score.baseline]


def of_importance(given):
    found = glasswood.permutation_importance(model(), given.X, given.y, n_repeats=2, random_state=0)
    return lambda: [found["importances"]]


def of_encoder(given):
    encoder = glasswood.LeafEncoder(model()).fit(given.X, given.y)
    return lambda: encoder.transform(new_rows()).toarray()


def of_estimator(kind, given, **settings):
    y = given.classes if "Classifier" in kind.__name__ else given.y
    if "Ensemble" in kind.__name__:
        base = getattr(glasswood, kind.__name__.replace("Ensemble", ""))(**PLAIN)
        settings = {"estimator": base, **SMALL, **settings}
    elif "Additive" in kind.__name__:
        settings = {"n_jobs": 1} | settings
    else:
        settings = PLAIN | settings
    grown = kind(**settings).fit(given.X, y, sample_weight=given.weight)
    return lambda: [
        grown.predict(new_rows()),
        grown.predict_interval(new_rows()) if settings.get("intervals") else 0,
        glasswood.export_text(grown.forest_),
        pickle.loads(pickle.dumps(grown)).predict(new_rows()),
    ]


MAKERS = {
    "Neighbors": of_neighbors,
    "Neighbors' influence": of_influence,
    "Neighbors of classes": of_classes,
    "Neighbors' calibration": of_calibration,
    "Explainer": of_explainer,
    "Explainer of responses": functools.partial(of_explainer, output="response"),
    "Explanation": of_explanation,
    "Explanation without shap": of_plain_explanation,
    "TreeExplainer": of_tree_explainer,
    "Summary": of_summary,
    "mapper": of_explainer_mapper,
    "effects": of_effects,
    "partial_dependence": of_dependence,
    "permutation_importance": of_importance,
    "score_values": of_score,
    "ScoreValues": of_score,
    "compare": of_comparison,
    "distill": of_distillation,
    "additive": of_additive,
    "LeafEncoder": of_encoder,
    "AdditiveRegressor": functools.partial(of_estimator, glasswood.AdditiveRegressor),
    "AdditiveClassifier": functools.partial(of_estimator, glasswood.AdditiveClassifier),
    "ModelTreeRegressor": functools.partial(of_estimator, glasswood.ModelTreeRegressor),
    "ModelTreeClassifier": functools.partial(of_estimator, glasswood.ModelTreeClassifier),
    "ModelTreeEnsembleRegressor": functools.partial(of_estimator, glasswood.ModelTreeEnsembleRegressor),
    "ModelTreeEnsembleClassifier": functools.partial(of_estimator, glasswood.ModelTreeEnsembleClassifier),
}
FORMS = ("array", "float32", "columns first", "frame", "arrow")
LAZY = {"Neighbors", "Neighbors of classes", "Explainer", "TreeExplainer", "Explanation without shap", "effects"}
"""Results that have been seen to read rows later: with every form of rows."""


def test_every_public_name_is_here():
    assert set(glasswood.__all__) == STATELESS | (set(MAKERS) & set(glasswood.__all__))


@pytest.mark.parametrize(
    ("name", "form"),
    [(name, form) for name in MAKERS for form in (FORMS if name in LAZY else ("array",))],
)
@pytest.mark.filterwarnings("ignore")
def test_changes_in_place_change_no_answer(name, form):
    untouched, changed = Given(form), Given(form)
    expected = MAKERS[name](untouched)
    found = MAKERS[name](changed)
    changed.change()
    assert_same(found(), expected())


def assert_same(found, expected):
    if isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_array_equal(found, expected)


def test_answers_are_of_the_rows():
    """The test above can fail: what keeps the caller's array changes with it."""
    given = Given("array")
    line = LinearRegression().fit(given.X, given.y)
    kept = given.X
    before = line.predict(kept)
    given.change()
    with pytest.raises(AssertionError):
        assert_same(line.predict(kept), before)
