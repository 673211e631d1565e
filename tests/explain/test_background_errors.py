"""Standard errors of values by another background: the spread over background rows, by its definition."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

import glasswood
from glasswood.evaluate.links import expit
from tests.strategies import full_forest

rng = np.random.default_rng(0)
X, BACKGROUND = rng.normal(size=(7, 5)), rng.normal(size=(40, 5))


def forest_of(link="logistic"):
    forest = full_forest(3, n_trees=12, depth=4, n_features=5)
    return dataclasses.replace(forest, leaf_value=20 * forest.leaf_value, link=link)


def explainer_of(background=BACKGROUND, output="margin", **options):
    return glasswood.Explainer(forest_of(), background, output=output, dtype="float64", **options)


def errors_by_definition(output, weight=None, **options):
    """Spread of the values against one background row each, and one further row as far off as the farthest.

    Where that is most of the spread, few rows make it, and the further row is as far off as that of any feature.
    """
    values = np.array([explainer_of(row[None], output, **options).shap_values(X) for row in BACKGROUND])
    share = np.full(len(BACKGROUND), 1.0) if weight is None else np.asarray(weight, np.float64)
    share, n = share / share.sum(), len(BACKGROUND)
    apart = values - np.tensordot(share, values, axes=1)
    spread = np.tensordot(share**2, apart**2, axes=1)
    if output == "margin" or options.get("rule") == "rescale":
        farthest = (share[:, None, None] ** 2 * apart**2).max(axis=0)
    else:
        farthest = (apart**2).max(axis=0) * np.sum(share**2) / n
        farthest = np.where(spread < 4 * farthest, farthest.max(axis=1, keepdims=True), farthest)
    return np.sqrt(spread * n / (n - 1) + farthest)


@pytest.mark.parametrize("output", ["margin", "probability", "decision", "response"])
@pytest.mark.parametrize("rule", ["exact", "rescale"])
@pytest.mark.parametrize("weight", [None, np.arange(1.0, 41.0)])
def test_errors_are_the_spread_over_background_rows(output, rule, weight):
    if rule == "rescale" and output in {"decision", "response"}:
        pytest.skip("no such rule")
    explainer = explainer_of(output=output, rule=rule, background_weight=weight)
    values, errors = explainer.shap_values(X, standard_errors=True)
    np.testing.assert_allclose(values, explainer.shap_values(X), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(errors, errors_by_definition(output, weight, rule=rule), rtol=1e-6, atol=1e-9)


def test_functions_have_the_errors_of_the_compiled_response():
    compiled = explainer_of(output="probability").shap_values(X, standard_errors=True)
    called = explainer_of(output=lambda margins: expit(margins[:, 0])).shap_values(X, standard_errors=True)
    np.testing.assert_allclose(called, compiled, rtol=1e-9, atol=1e-12)


def test_rows_that_splits_cannot_tell_apart_count_one_by_one():
    """A background of copies is a larger sample of the same rows."""
    plain, copied = (
        explainer_of(np.repeat(BACKGROUND, n, axis=0), "probability").shap_values(X, standard_errors=True)[1]
        for n in (1, 4)
    )
    assert np.median(copied / plain) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("output", ["margin", "probability"])
@pytest.mark.parametrize("weight", [None, np.linspace(0.1, 3, 300)])
def test_neither_the_order_nor_a_file_changes_errors(output, weight, tmp_path):
    rows = np.random.default_rng(1).normal(size=(300, 5))
    order = np.random.default_rng(2).permutation(300)
    explainer = explainer_of(rows, output, background_weight=weight)
    other = explainer_of(rows[order], output, background_weight=None if weight is None else weight[order])
    explainer.save(tmp_path / "explainer.glasswood")
    loaded = glasswood.Explainer.load(tmp_path / "explainer.glasswood")
    errors = explainer.shap_values(X, standard_errors=True)[1]
    assert (errors > 0).all()
    for one in (other, loaded, pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_allclose(one.shap_values(X, standard_errors=True)[1], errors, rtol=1e-9)


def test_batches_say_what_pairs_say():
    """Of 2,000 rows, 50 batches know the error within their degrees of freedom."""
    rows = np.random.default_rng(3).normal(size=(2000, 5))
    linear = explainer_of(rows).shap_values(X, standard_errors=True)[1]
    pairs = explainer_of(rows, output=lambda margins: margins[:, 0]).shap_values(X, standard_errors=True)[1]
    ratio = linear / pairs
    assert abs(ratio.mean() - 1) < 0.06
    assert ((ratio > 0.7) & (ratio < 1.35)).all()


def test_without_independent_rows_there_are_no_errors():
    assert not glasswood.Explainer(forest_of()).shap_values(X, standard_errors=True)[1].any()
    for output in ("margin", "probability"):
        assert np.isnan(explainer_of(BACKGROUND[:1], output).shap_values(X, standard_errors=True)[1]).all()
    assert not explainer_of(output="probability").shap_values(X, standard_errors="estimates")[1].any()


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_explanations_and_sentences_have_errors(output):
    explainer = explainer_of(output=output)
    values, errors = explainer.shap_values(X, standard_errors=True)
    found = explainer(X, standard_errors=True)
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.error_std, errors)
    assert getattr(explainer(X), "error_std", None) is None
    said = explainer.sentences(X[0], standard_errors=True)
    strongest = int(np.argmax(np.abs(values[0])))
    number = re.search(r"\(± ([\d.]+)", said[1]).group(1)
    factor = np.exp(abs(values[0, strongest])) if output == "margin" else 100
    decimals = len(number.partition(".")[2])
    assert float(number) == pytest.approx(factor * errors[0, strongest], abs=0.51 * 10.0**-decimals)
    assert "±" not in " ".join(explainer.sentences(X[0]))
    with pytest.raises(ValueError, match="interactions have no standard errors"):
        explainer(X, interactions=True, standard_errors=True)


@pytest.mark.parametrize("output", ["margin", "probability"])
def test_importance_moves_with_the_background(output):
    explainer = explainer_of(output=output)
    found = explainer.importance(X, standard_errors=True)
    sign = np.sign(explainer.shap_values(X))
    of_rows = [(explainer_of(row[None], output).shap_values(X) * sign).mean(axis=0) for row in BACKGROUND]
    farthest = np.abs(of_rows - np.mean(of_rows, axis=0)).max(axis=0)
    expected = np.sqrt(np.var(of_rows, axis=0, ddof=1) / 40 + (farthest / 40) ** 2)
    by_name = dict(zip(found["feature"], found["background_error"], strict=True))
    np.testing.assert_allclose([by_name[f"x{i}"] for i in range(5)], expected, rtol=1e-6)
    assert "background_error" not in explainer.importance(X)
    assert not any(glasswood.Explainer(forest_of()).importance(X, standard_errors=True)["background_error"])


def test_what_few_background_rows_decide_has_an_error():
    """One row in 100 decides otherwise: most backgrounds of 100 rows see none or two of them."""
    forest = dataclasses.replace(full_forest(0, n_trees=1, depth=1, n_features=2), link="logistic")
    low, high = np.full(2, -9.0), np.full(2, 9.0)
    forest = dataclasses.replace(forest, leaf_value=np.where(forest.leaf_value > forest.leaf_value.min(), 1.0, -1.0))
    rows = np.repeat([low, high], [99, 1], axis=0)
    explainer = glasswood.Explainer(forest, rows, output="decision", dtype="float64")
    values, errors = explainer.shap_values(low[None], standard_errors=True)
    used = int(np.argmax(np.abs(values)))
    assert abs(values[0, used]) == pytest.approx(0.01)
    # Of the row that was seen and one further: sqrt(2) / 100 and a little for the mean that was estimated.
    assert errors[0, used] == pytest.approx(np.sqrt(2) / 100, rel=0.02)
