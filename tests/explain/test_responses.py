"""Values of probabilities and losses against a background: against pairs of rows, one by one."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import types

import numpy as np
import pytest
import scipy.sparse

import glasswood
import glasswood.base.device
from glasswood.explain.responses import rescaling
from glasswood.plans import plan_of
from tests.example_forests import with_models
from tests.oracles import evaluate, interventional, linear_shapley
from tests.strategies import Options, full_forest, random_forest

Explainer = functools.partial(glasswood.Explainer, rule="rescale")


def classifier(seed=0, spread=30.0, **link):
    """Margins of some units."""
    forest = full_forest(seed, n_trees=12, depth=5, n_features=6)
    return dataclasses.replace(forest, leaf_value=forest.ensemble.leaf_value * spread, **{"link": "logistic"} | link)


@functools.cache
def values_of_pairs():
    """Values of each of 12 rows against each of 70, of leaves that `spread` multiplies: (70, 12, 6)."""
    forest = classifier(spread=1.0)
    X, background, _ = rows_of(forest, n_background=70)
    return interventional.values_of_pairs(forest, X, background)[..., 0].swapaxes(0, 1)


def by_pairs(forest, X, background, weight, response, spread=30.0, slope=1.0):
    """Mean over background rows of the values against one row, times the ratio of the differences."""
    weight = np.ones(len(background)) if weight is None else weight
    a, c = (slope * evaluate.margins(forest, rows)[:, 0] for rows in (X, background))
    values = slope * spread * values_of_pairs()[: len(background)]
    with np.errstate(invalid="ignore"):
        ratio = np.where(a == c[:, None], 0, (response(a) - response(c[:, None])) / (a - c[:, None]))
    return np.tensordot(weight / weight.sum(), ratio[..., None] * values, 1)


def margins_by_pairs(background, weight, spread):
    """The same of the margin itself."""
    return np.tensordot(weight / weight.sum(), spread * values_of_pairs()[: len(background)], 1)


def rows_of(forest, n_rows=12, n_background=40):
    X = np.random.default_rng(1).normal(size=(n_rows + n_background, forest.n_features))
    return X[:n_rows], X[n_rows:], np.random.default_rng(2).random(n_background)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("table_bytes", [2**28, 0])
@pytest.mark.parametrize(("spread", "slope"), [(3.0, 1.0), (30.0, 0.5), (300.0, 1.0)])
def test_probabilities_are_the_mean_over_pairs(dtype, table_bytes, spread, slope):
    forest = classifier(spread=spread, link_scale=slope)
    X, background, weight = rows_of(forest)
    explainer = Explainer(
        forest, background, output="probability", background_weight=weight, dtype=dtype, table_bytes=table_bytes
    )
    found = explainer.shap_values(X)
    assert found.dtype == dtype
    exact = by_pairs(forest, X, background, weight, interventional.sigmoid, spread, slope)
    np.testing.assert_allclose(found, exact, atol=1e-6)
    margins = slope * evaluate.margins(forest, X)[:, 0]
    np.testing.assert_allclose(found.sum(axis=1) + explainer.expected_value, interventional.sigmoid(margins), atol=1e-6)


@pytest.mark.parametrize("spread", [3.0, 30.0, 100.0])
def test_losses_are_the_mean_over_pairs(spread):
    forest = classifier(spread=spread)
    X, background, weight = rows_of(forest)
    y = np.arange(len(X)) % 2
    explainer = Explainer(forest, background, output="log_loss", background_weight=weight, dtype="float64")
    found = explainer.shap_values(X, y=y)
    exact = by_pairs(forest, X, background, weight, lambda m: np.logaddexp(0, m), spread)
    exact -= y[:, None] * margins_by_pairs(background, weight, spread)
    np.testing.assert_allclose(found, exact, atol=1e-6)
    loss = interventional.log_loss(evaluate.margins(forest, X), y)[:, 0]
    np.testing.assert_allclose(found.sum(axis=1) + explainer.expected_value[y], loss, atol=1e-6)


@pytest.mark.parametrize(("output", "n_background"), [("probability", 70), ("log_loss", 30)])
def test_margins_too_far_apart_for_one_factorisation(output, n_background):
    """In pieces of the background; of few margins the sum over pairs."""
    forest = classifier(spread=5000.0)
    X, background, weight = rows_of(forest, n_background=n_background)
    y = np.arange(len(X)) % 2
    explainer = Explainer(forest, background, output=output, background_weight=weight, dtype="float64")
    assert len(plan_of(explainer).weighted) > 20
    if output == "probability":
        found, response = explainer.shap_values(X), interventional.sigmoid
        expected = explainer.expected_value
        margins = evaluate.margins(forest, X)[:, 0]
        np.testing.assert_allclose(found.sum(axis=1) + expected, response(margins), atol=1e-6)
        np.testing.assert_allclose(found, by_pairs(forest, X, background, weight, response, 5000.0), atol=1e-6)
        return
    found = explainer.shap_values(X, y=y)
    exact = by_pairs(forest, X, background, weight, lambda m: np.logaddexp(0, m), 5000.0)
    exact -= y[:, None] * margins_by_pairs(background, weight, 5000.0)
    np.testing.assert_allclose(found, exact, atol=1e-6 * np.abs(exact).max())


def test_parts_that_are_filled_one_after_the_other_have_the_same_bits(limits):
    forest = classifier()
    X, background, _ = rows_of(forest, n_rows=30)
    kept = Explainer(forest, background, output="probability")
    limits(rescaled_kept=1)
    filled = Explainer(forest, background, output="probability", table_bytes=2**24)
    assert not plan_of(filled).kept
    assert filled.algorithm_ == "tables"
    np.testing.assert_array_equal(filled.shap_values(X), kept.shap_values(X))
    np.testing.assert_array_equal(filled.shap_values(X), kept.shap_values(X))
    pairs = kept.shap_interaction_values(X)
    np.testing.assert_array_equal(filled.shap_interaction_values(X), pairs)
    np.testing.assert_array_equal(filled.row()(X[3]), kept.shap_values(X)[3])
    np.testing.assert_array_equal(filled.interaction_index(X, [(1, 2)]), kept.interaction_index(X, [(1, 2)]))


def test_sums_of_some_rows_at_a_time(limits):
    forest = classifier()
    X, background, _ = rows_of(forest, n_rows=30)
    explainer = Explainer(forest, background, output="log_loss")
    y = np.arange(30) % 2
    expected, pairs = explainer.shap_values(X, y=y), explainer.shap_interaction_values(X, y=y)
    limits(rescaled_sum_bytes=7 * 8 * 6)
    out = np.empty((30, 6), np.float32)
    assert explainer.shap_values(X, y=y, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(explainer.shap_values(X, y=y[:, None]), expected)
    pytest.importorskip("shap")
    np.testing.assert_array_equal(explainer(X, y[:, None]).base_values, explainer.expected_value[y])
    np.testing.assert_array_equal(explainer.shap_interaction_values(X, y=y), pairs)


def test_linear_leaves_have_probabilities_where_they_are_bounded():
    forest = dataclasses.replace(
        with_models(full_forest(0, n_trees=2, depth=2, n_features=4), 1, -2, 2), link="logistic"
    )
    X = np.random.default_rng(1).normal(size=(30, 4))
    explainer = Explainer(forest, X[10:], output="probability", dtype="float64")
    probability = interventional.sigmoid(linear_shapley.margins(forest, X)[:, 0])
    np.testing.assert_allclose(explainer.expected_value, probability[10:].mean(), atol=1e-9)
    total = explainer.shap_values(X).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, probability, atol=1e-7)
    unbounded = dataclasses.replace(forest, leaf_range=np.tile([-np.inf, np.inf], (len(forest.ensemble.leaf_value), 1)))
    with pytest.raises(
        NotImplementedError, match=r"margins with bounds.*extrapolate without end; explain output='margin'$"
    ):
        Explainer(unbounded, X, output="probability")


def test_one_background_row():
    forest = classifier()
    X, background, _ = rows_of(forest)
    found = Explainer(forest, background[:1], output="probability", dtype="float64").shap_values(X)
    np.testing.assert_allclose(found, by_pairs(forest, X, background[:1], None, interventional.sigmoid), atol=1e-6)


def test_interactions_of_probabilities_add_up_to_values():
    forest = classifier()
    X, background, _ = rows_of(forest)
    explainer = Explainer(forest, background, output="probability", dtype="float64")
    pairs = explainer.shap_interaction_values(X)
    np.testing.assert_allclose(pairs.sum(axis=2), explainer.shap_values(X), atol=1e-12)
    np.testing.assert_array_equal(explainer.shap_interaction_values(X, features=[4]), pairs[:, [4]])


def test_same_bits_for_any_order_and_share(tmp_path):
    forest = classifier()
    X, background, weight = rows_of(forest, n_rows=300)
    first = Explainer(forest, background, output="probability", background_weight=weight)
    expected = first.shap_values(X)
    order = np.random.default_rng(3).permutation(len(background))
    again = Explainer(forest, background[order], output="probability", background_weight=weight[order], n_jobs=2)
    np.testing.assert_array_equal(np.concatenate([again.shap_values(X[:7]), again.shap_values(X[7:])]), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).shap_values(X), expected)
    np.testing.assert_array_equal(first.row()(X[5]), expected[5])
    first.save(tmp_path / "explainer.glasswood")
    np.testing.assert_allclose(
        glasswood.Explainer.load(tmp_path / "explainer.glasswood").shap_values(X), expected, atol=1e-9
    )


@pytest.mark.parametrize("ratio", [rescaling.ratio_of_logistic, rescaling.ratio_of_softplus])
def test_ratios_of_near_and_far_margins(ratio):
    response = interventional.sigmoid if ratio is rescaling.ratio_of_logistic else lambda m: np.logaddexp(0, m)
    a = np.array([0.3, -4.0, 30.0, 2.0])[:, None]
    c = a + np.array([-7.0, -0.5, 1e-2, 3.0])
    np.testing.assert_allclose(ratio(a, c), (response(a) - response(c)) / (a - c), rtol=1e-9, atol=1e-13)
    near = a + np.array([0, 1e-9, 2e-4, 2.1e-4, 9.9e-4, 1.1e-3])
    slopes = np.diff(np.stack([response(near - 1e-5), response(near + 1e-5)]), axis=0)[0] / 2e-5
    np.testing.assert_allclose(ratio(a, near), slopes, rtol=2e-3, atol=1e-9)


def test_what_has_no_probability_is_refused():
    forest, background = classifier(), np.zeros((3, 6))
    several = random_forest(0, Options(n_trees=3, n_features=6, n_outputs=3))
    classes = (np.arange(3),)
    for changes, message in [
        (
            {"link": "softmax", "classes": classes},
            "this forest has 3 with the link 'softmax'; pass rule='exact' or explain the margin",
        ),
        ({"classes": classes, "prediction": "argmax"}, "are probabilities already: explain output='margin'"),
        ({}, "this forest has 3 with the link 'identity'; pass rule='exact' or explain the margin"),
    ]:
        for output in ("probability", "log_loss"):
            with pytest.raises(NotImplementedError, match=message):
                Explainer(dataclasses.replace(several, **changes), background, output=output)
    with pytest.raises(ValueError, match="output='probability' needs background rows"):
        Explainer(forest, output="probability")
    explainer = Explainer(forest, background, output="log_loss")
    for y, message in [
        (None, "pass y, each row's class, or 0 or 1"),
        ([0, 1], r"y has shape \(2,\), expected \(3,\)"),
        ([0, 1, 2], r"y holds \[0, 1, 2\], expected 0 and 1"),
        (["a", "b", "c"], "expected 0 and 1"),
        ([[0], [0, 1], [1]], "y holds lists of different lengths"),
    ]:
        with pytest.raises(ValueError, match=message):
            explainer.shap_values(background, y=y)
    with pytest.raises(ValueError, match="y is for output='log_loss'"):
        Explainer(forest).shap_values(background, y=[0, 1, 1])
    with pytest.raises(ValueError, match="pass y, each row's class, or 0 or 1"):
        explainer(background)
    with pytest.raises(NotImplementedError, match=r"use shap_values\(X, y=y\)"):
        explainer.row()


class Labels:
    """As CuPy's arrays: nothing of the host reads them by itself."""

    def __init__(self, values):
        self.values, self.ndim, self.device = values, np.ndim(values), types.SimpleNamespace(id=0)

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed")


Labels.__module__ = "cupy"


@pytest.mark.usefixtures("without_shap")
def test_labels_may_be_on_a_gpu(monkeypatch):
    cupy = types.SimpleNamespace(asnumpy=lambda array: array.values)
    monkeypatch.setattr(glasswood.base.device, "import_cupy", lambda: cupy)
    forest = classifier()
    X, background, _ = rows_of(forest)
    y = np.arange(len(X)) % 2
    explainer = Explainer(forest, background, output="log_loss", device="cpu")
    expected = explainer(X, y)
    found = explainer(X, Labels(y))
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.base_values, expected.base_values)
    np.testing.assert_array_equal(explainer(X[1], Labels(y[1])).base_values, expected.base_values[1])
    rows = scipy.sparse.csr_array(X)
    np.testing.assert_array_equal(explainer.shap_values(rows, Labels(y)), explainer.shap_values(rows, y))


NAMES = np.array(["leaves", "stays"])


def losses_explained(explainer, y):
    X, _, _ = rows_of(classifier(), 3, 20)
    return (
        explainer.shap_values(X, y),
        explainer.shap_values(scipy.sparse.csr_array(X), y),
        explainer.shap_interaction_values(X, y),
        explainer.shap_interaction_values(X, y, top=2)[1],
        explainer.interaction_index(X, [(0, 1)], y=y),
        explainer(X, y).base_values,
    )


@functools.cache
def losses_of_places():
    forest = classifier()
    _, background, _ = rows_of(forest, 3, 20)
    return losses_explained(Explainer(forest, background, output="log_loss", device="cpu"), [1, 1, 0])


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (NAMES, NAMES[[1, 1, 0]]),
        (NAMES.astype(object), NAMES[[1, 1, 0]].tolist()),
        (NAMES, [1, 1, 0]),
        (np.array([False, True]), [1, 1, 0]),
        (np.array([1, 2]), [[2], [2], [1]]),
        (np.array([-1, 1]), [1.0, 1.0, -1.0]),
        (np.array([0, 1]), [True, True, False]),
    ],
)
def test_labels_of_losses_are_the_classes(classes, labels):
    forest = classifier()
    _, background, _ = rows_of(forest, 3, 20)
    named = Explainer(dataclasses.replace(forest, classes=(classes,)), background, output="log_loss", device="cpu")
    for found, expected in zip(losses_explained(named, labels), losses_of_places(), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"y holds 3, expected one of the model's classes|expected 0 and 1"):
        named.shap_values(background[:3], [3, 3, 3])
