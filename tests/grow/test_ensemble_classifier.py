"""ModelTreeEnsembleClassifier: means of trees of classes, and boosted sequences, one forest of log-odds."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sklearn.metrics import log_loss

import glasswood
from glasswood.grow import boosting
from glasswood.grow.losses import LogLoss
from tests.grow.engines import interrupt_before
from tests.sizes import rest_slow

TREE = glasswood.ModelTreeClassifier(n_iter_no_change=5, max_leaves=8, rounds=1, n_jobs=1)
SMALL = glasswood.ModelTreeRegressor(max_leaves=4, generations=3, population_size=8, noise="uniform", clip="leaf")


def mean(X, y, weight=None, **parameters):
    defaults = {"n_estimators": 3, "n_jobs": 1}
    return glasswood.ModelTreeEnsembleClassifier(TREE, **{**defaults, **parameters}).fit(X, y, weight)


def boosted(X, y, weight=None, **parameters):
    defaults = {"method": "boosting", "n_estimators": 2, "max_trees": 12, "learning_rate": 0.3, "n_jobs": 1}
    return glasswood.ModelTreeEnsembleClassifier(SMALL, **{**defaults, **parameters}).fit(X, y, weight)


FITS = {"mean": mean, "boosting": boosted}


def two(n_rows, seed=0):
    """Two classes, whose log-odds are smooth; and their probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 3))
    p = 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0]) - X[:, 1]))
    return X, np.where(rng.random(n_rows) < p, "yes", "no"), p


def three(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 3))
    margins = np.column_stack([3 * np.sin(2 * X[:, 0]), 2 * X[:, 1], np.zeros(n_rows)])
    return X, np.array(["a", "b", "c"])[np.argmax(margins + rng.gumbel(size=margins.shape), axis=1)]


@pytest.fixture(scope="module", params=[(kind, classes) for kind in FITS for classes in (2, 3)], ids=str)
def fitted(request):
    kind, classes = request.param
    X, y = two(400)[:2] if classes == 2 else three(400)
    return FITS[kind](X, y), X, y


def test_margins_are_means_of_sums_of_the_trees(fitted):
    """Added up by hand, and turned into probabilities by the definitions; a constant a class is added to all rows."""
    model, X, y = fitted
    n_outputs = 1 if len(model.classes_) == 2 else 3
    n_sequences = model.n_estimators
    margins = np.zeros((len(X), n_outputs))
    for number in range(n_sequences):
        trees = [tree for tree, own in zip(model.estimators_, model.sequence_, strict=True) if own == number]
        if model.method == "mean":
            margins += trees[0].decision_function(X).reshape(len(X), -1) / n_sequences
            continue
        own = y[model.samples_[number]]
        shares = np.array([np.mean(own == name) for name in model.classes_])
        constant = np.log(shares) if n_outputs == 3 else np.log(shares[1:] / shares[:1])
        last = sum(one.forest_.n_trees for one in np.array(model.estimators_)[model.sequence_ <= number]) - 1
        flat = [tree for tree in trees if tree.leaf_model == "constant"]
        share = model.forest_.ensemble.tree_weight[last] * n_sequences / 0.45 if flat else 0.0
        assert 0 <= share <= 1 + 1e-12
        parts = [tree for tree in trees if tree.leaf_model == "linear"], flat
        for part, rate, weight in zip(parts, (0.3, 0.45), (1 - share, share), strict=True):
            whole = bool(part) and isinstance(part[0], glasswood.ModelTreeClassifier)
            start = part[0].decision_function(X).reshape(len(X), -1) if whole else constant
            steps = np.array([tree.predict(X) for tree in part[whole:]]).reshape(-1, n_outputs, len(X)).sum(axis=0).T
            margins += weight * (start + rate * steps) / n_sequences
    added = model.decision_function(X).reshape(len(X), -1) - margins
    np.testing.assert_allclose(added, np.broadcast_to(added[0], added.shape), rtol=1e-9, atol=1e-9)
    shares = [np.mean(y == name) for name in model.classes_]
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), shares, atol=1e-9)
    margins += added[0]
    both = np.column_stack([np.zeros(len(X)), margins]) if n_outputs == 1 else margins
    p = np.exp(both) / np.exp(both).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[np.argmax(model.predict_proba(X), axis=1)])


def test_explanations_add_up(fitted):
    model, X, _ = fitted
    explainer = glasswood.Explainer(model, dtype="float64")
    values = np.asarray(explainer.shap_values(X[:20]))
    total = explainer.expected_value + values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X[:20]), rtol=1e-9, atol=1e-9)
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_saved_and_written_like_other_forests(fitted, tmp_path):
    model, X, _ = fitted
    model.forest_.save(tmp_path / "forest.glasswood")
    np.testing.assert_array_equal(glasswood.load(tmp_path / "forest.glasswood").predict(X), model.predict(X))
    np.testing.assert_array_equal(glasswood.load(model).predict(X, "probability"), model.predict_proba(X))
    assert "leaf 0" in glasswood.export_text(model)


def test_a_mean_of_trees_has_less_log_loss_than_one():
    X, y, _ = two(250)
    new, labels, _ = two(3000, seed=1)
    several = mean(X, y, n_estimators=8).predict_proba(new)
    assert log_loss(labels, several) < log_loss(labels, TREE.fit(X, y).predict_proba(new)) - 0.02


def test_many_small_trees_follow_what_one_does_not():
    X, y, _ = two(1600)
    new, labels, p = two(3000, seed=1)
    one = glasswood.ModelTreeClassifier(max_leaves=2, n_iter_no_change=10, n_jobs=1).fit(X, y)
    several = log_loss(labels, boosted(X, y, n_estimators=4, max_trees=60).predict_proba(new))
    assert log_loss(labels, p) < several < log_loss(labels, one.predict_proba(new)) - 0.05


def test_probabilities_are_calibrated():
    """A tenth of the rows after the other has as many of the class as predicted, within four standard errors."""
    X, y, _ = two(1600)
    new, labels, _ = two(6000, seed=1)
    p = boosted(X, y, max_trees=60).predict_proba(new)[:, 1]
    for rows in np.array_split(np.argsort(p), 10):
        expected, seen = p[rows].mean(), np.mean(labels[rows] == "yes")
        assert abs(seen - expected) < 0.03 + 4 * np.sqrt(expected * (1 - expected) / len(rows))


def test_a_sequence_ends_where_the_log_loss_of_unseen_rows_is_least(limits):
    """Found again from the trees of a run that never stops."""
    X, y, _ = two(300)
    stopped = boosted(X, y, n_estimators=1, max_trees=40)
    limits(boosting_patience=10**6)
    kept = boosted(X, y, n_estimators=1, max_trees=40)
    unseen = np.setdiff1d(np.arange(300), kept.samples_[0])
    (first, *steps), stopped = ([one for one in m.estimators_ if one.leaf_model == "linear"] for m in (kept, stopped))
    assert isinstance(first, glasswood.ModelTreeClassifier)
    margin = first.decision_function(X[unseen])
    losses = [log_loss(y[unseen] == "yes", 1 / (1 + np.exp(-margin)))]
    for tree in steps:
        margin += 0.3 * tree.predict(X[unseen])
        losses.append(log_loss(y[unseen] == "yes", 1 / (1 + np.exp(-margin))))
    assert np.argmin(losses) == len(losses) - 1
    assert len(stopped) <= 1 + len(steps) < 41


@pytest.mark.parametrize("kind", FITS)
def test_rare_classes_are_in_every_sample(kind):
    X, y, _ = two(200)
    y = y.astype(object)
    y[[3, 77]] = "rare"
    model = FITS[kind](X, y, n_estimators=2, max_trees=5)
    assert all((y[rows] == "rare").any() for rows in model.samples_)
    assert model.predict_proba(X).shape == (200, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("kind", FITS)
def test_one_class(kind):
    X, _, _ = two(40)
    model = FITS[kind](X, np.full(40, "only"), max_trees=3)
    np.testing.assert_array_equal(model.predict(X), "only")
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((40, 1)))


@pytest.mark.parametrize("kind", FITS)
def test_a_class_without_weight_is_hardly_predicted(kind):
    X, y = three(150)
    model = FITS[kind](X, y, (y != "b").astype(float), max_trees=3)
    assert model.predict_proba(X)[:, 1].max() < 0.02


@pytest.mark.parametrize("kind", FITS)
def test_class_weights_are_weights_of_rows(kind):
    X, y, _ = two(200)
    by_class = FITS[kind](X, y, class_weight={"yes": 3.0, "no": 1.0}, max_trees=5)
    by_row = FITS[kind](X, y, np.where(y == "yes", 3.0, 1.0), max_trees=5)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))


def test_class_weights_of_one_tree():
    X, y, _ = two(200)
    y[:120] = "no"
    balanced = glasswood.ModelTreeClassifier(**{**TREE.get_params(), "class_weight": "balanced"}).fit(X, y)
    n_yes = (y == "yes").sum()
    by_row = TREE.fit(X, y, np.where(y == "yes", 100 / n_yes, 100 / (200 - n_yes)))
    np.testing.assert_array_equal(balanced.predict_proba(X), by_row.predict_proba(X))


@pytest.mark.parametrize("kind", FITS)
def test_the_same_trees_for_any_number_of_threads_and_order_of_rows(kind):
    X, y, _ = two(150)
    few = {"n_estimators": 2, "max_trees": 4}
    one = FITS[kind](X, y, **few).predict_proba(X)
    np.testing.assert_array_equal(FITS[kind](X, y, n_jobs=2, **few).predict_proba(X), one)
    np.testing.assert_array_equal(FITS[kind](X[::-1], y[::-1], **few).predict_proba(X), one)


@pytest.mark.parametrize("kind", FITS)
def test_categories_and_missing_values(kind):
    X, _, _ = two(300)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": X[:, 0], "kind": rng.choice(list("abcd"), 300), "z": X[:, 1]})
    y = (frame["kind"].isin(["a", "c"]).to_numpy()) ^ (rng.random(300) < 0.05)
    frame.loc[::7, "x"] = np.nan
    frame.loc[::11, "kind"] = None
    model = FITS[kind](frame, y, max_trees=10)
    assert np.mean(model.predict(frame) == y) > 0.85
    np.testing.assert_array_equal(glasswood.load(model).predict(frame), model.predict(frame))


def test_an_interrupt_keeps_the_trees_so_far(monkeypatch):
    X, y, _ = two(100)
    interrupt_before(monkeypatch, boosting, 3)
    model = boosted(X, y, max_samples=1.0)
    assert model.interrupted_
    assert np.bincount(model.sequence_).tolist() == [3]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"method": "stacking"}, ValueError, "method is 'stacking', expected one of mean, boosting"),
        ({"estimator": SMALL}, TypeError, "estimator is a ModelTreeRegressor, expected a ModelTreeClassifier or None"),
        (
            {"estimator": TREE, "method": "boosting"},
            TypeError,
            "estimator is a ModelTreeClassifier, expected a ModelTreeRegressor or None",
        ),
        ({"n_estimators": 0}, ValueError, "n_estimators is 0, expected at least 1"),
        ({"class_weight": "even"}, ValueError, "class_weight"),
    ],
)
def test_wrong_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        glasswood.ModelTreeEnsembleClassifier(**parameters).fit(*two(20)[:2])


def test_ensembles_show_themselves_in_notebooks(fitted):
    model, _, _ = fitted
    page = model._repr_html_()
    assert f"{model.forest_.n_trees} trees, {model.n_leaves_} leaves)" in page
    assert "The first of the trees" in page


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_share_of_a_mixture_leaves_least_log_loss(n_classes):
    """Beside a fine grid."""
    rng = np.random.default_rng(n_classes)
    outputs = 1 if n_classes == 2 else n_classes
    loss, target = LogLoss(n_classes), rng.integers(n_classes, size=300).astype(float)
    own = target[:, None] == (1 if n_classes == 2 else np.arange(n_classes))
    first, change, weight = (
        rng.normal(size=(300, outputs)),
        rng.normal(size=(300, outputs)) + own,
        rng.uniform(size=300),
    )
    share = boosting._best_share(loss, target, weight, first, change)
    grid = np.linspace(0, 1, 10_001)
    assert share == pytest.approx(min(grid, key=lambda s: loss.total(target, first + s * change, weight)), abs=5e-4)
    assert boosting._best_share(loss, target, weight, first + change, -change) == pytest.approx(1 - share, abs=1e-3)
    assert boosting._best_share(loss, target, weight, first, -change) < boosting.LEAST_SHARE


@pytest.mark.parametrize("n_classes", rest_slow(1, [2, 3]))
def test_jumps_of_many_features_have_trees_of_constants(n_classes):
    """What is no slope: scores by where each of six features lies among three steps."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 6))
    jumps = rng.normal(size=(6, 4, n_classes))
    scores = sum(jumps[k, (4 * X[:, k]).astype(int)] for k in range(6))
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    mixed = boosted(X[:600], y[:600], max_trees=40)
    assert "constant" in {one.leaf_model for one in mixed.estimators_ if hasattr(one, "leaf_model")}
    stages = list(mixed.staged_predict_proba(X[600:]))
    assert stages[-1] == pytest.approx(mixed.predict_proba(X[600:]))
    linear = glasswood.ModelTreeClassifier(max_leaves=1, n_jobs=1).fit(X[:600], y[:600])
    assert log_loss(y[600:], stages[-1]) < log_loss(y[600:], linear.predict_proba(X[600:]))
