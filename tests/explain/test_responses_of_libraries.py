"""Exact values of responses of every library's models, beside sums over all coalitions by `Forest.predict`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glasswood
from tests.explain.library_models import MODELS, classifier
from tests.oracles import coalitions as oracle

N_ROWS, N_BACKGROUND = 3, 5
OUTPUTS = ("probability", "log_loss", "response", "decision")


def tanh(margins):
    return np.tanh(margins).sum(axis=1)


def in_float64(forest):
    """The same forest, whose predictions are not rounded to the library's float32."""
    return glasswood.Forest(dataclasses.replace(forest.ensemble, result_dtype="float64"))


def probabilities(forest, X):
    """Of each class (N, k), or of the second of two (N, 1); ValueError if the forest has none."""
    found = forest.predict(X, output="probability")
    if isinstance(found, list):
        return np.concatenate(found, axis=1)
    found = found[:, None] if found.ndim == 1 else found
    return found[:, 1:] if forest.n_outputs == 1 and found.shape[1] == 2 else found


def responses(forest, X):
    plain = dataclasses.replace(forest.ensemble, prediction="response", classes=(), is_estimator=False)
    return glasswood.Forest(plain).predict(X)


def losses(forest, X, place):
    p = probabilities(forest, X)
    p = np.column_stack([1 - p, p]) if p.shape[1] == 1 else p
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.log(p[:, place])


def has_several_labels(forest):
    trees = forest.ensemble
    return len(trees.classes) > 1 or (
        forest.n_outputs > 1 and (trees.prediction == "positive" or (trees.link == "logistic" and not trees.classes))
    )


def decisions(forest, X):
    """Whether `predict` names the second class, each of k classes, or each label."""
    if forest.ensemble.prediction in {"response", "margin"}:  # of a Booster these are no classes
        p = probabilities(forest, X)
        if has_several_labels(forest) or p.shape[1] == 1:
            return p > 0.5
        return p.argmax(axis=1)[:, None] == np.arange(p.shape[1])
    named = forest.predict(X)
    classes = forest.classes[0] if len(forest.classes) else np.arange(max(2, forest.n_outputs))
    if has_several_labels(forest) or forest.n_outputs == 1 or forest.ensemble.prediction == "second_positive":
        return named == classes[1]
    return named.reshape(-1, 1) == classes[None]


def of_rows(forest, output, X, place):
    """The output, by what users call."""
    if output == "log_loss":
        return losses(forest, X, place)
    if output is tanh:
        return tanh(forest.predict(X, output="margin").reshape(len(X), -1))
    return {"probability": probabilities, "response": responses, "decision": decisions}[output](forest, X)


def outputs_of(forest, X):
    """Outputs that a forest has, by its predictions."""
    result = ["response", tanh]
    try:
        forest.predict(X[:1], output="probability")
        result.append("probability")
    except ValueError:
        pass
    is_classifier = "probability" in result or forest.ensemble.prediction in {"positive", "sign"}
    result += ["decision"] if is_classifier and len(forest.classes) < 2 else []
    return result + (["log_loss"] if "probability" in result and not has_several_labels(forest) else [])


def check(model, X):
    forest = in_float64(glasswood.load(model))
    has = outputs_of(forest, X)
    for output in (*OUTPUTS, tanh):
        if output in has:
            check_output(forest, X[:N_ROWS], X[N_ROWS : N_ROWS + N_BACKGROUND], output)
        else:
            with pytest.raises(NotImplementedError, match=f"output='{output}'"):
                glasswood.Explainer(forest, X, output=output)


def check_output(forest, X, background, output):
    """Values to 1e-12 of the response's range, additivity, and the same bits by row and by thread."""
    weight = 1.0 + np.arange(len(background))
    settings = {"background": background, "background_weight": weight, "output": output}
    places = np.arange(len(X)) % max(2, forest.n_outputs)
    y = forest.classes[0][places] if output == "log_loss" and len(forest.classes) else places
    labels = {"y": y} if output == "log_loss" else {}
    seen = []

    def respond(rows, at):
        seen.append(np.asarray(of_rows(forest, output, rows, places[at]), np.float64))
        return seen[-1]

    game = oracle.game(respond, X, background, np.arange(forest.n_features), weight)
    explainer = glasswood.Explainer(forest, **settings, dtype="float64", n_jobs=2)
    if not np.isfinite(game).all():
        with pytest.raises(ValueError, match=r"output log_loss is .* where row \d has its own .* and the other"):
            explainer.shap_values(X, **labels)
        return
    found = explainer.shap_values(X, **labels)
    values = found.reshape(len(X), forest.n_features, -1)
    size = 1e-12 * np.ptp(np.concatenate(seen)) + 1e-15  # by which the oracle itself rounds
    np.testing.assert_allclose(values, oracle.values(game), rtol=0, atol=size)
    expected = np.atleast_1d(explainer.expected_value)
    expected = expected[places][:, None] if labels else expected
    np.testing.assert_allclose(values.sum(axis=1) + expected, game[:, -1], rtol=1e-12, atol=size)
    one_thread = glasswood.Explainer(forest, **settings, dtype="float64", n_jobs=1)
    one_by_one = [
        one_thread.shap_values(X[i : i + 1], **{name: of_all[i : i + 1] for name, of_all in labels.items()})
        for i in range(len(X))
    ]
    np.testing.assert_array_equal(np.concatenate(one_by_one), found)
    rounded = glasswood.Explainer(forest, **settings, dtype="float32").shap_values(X, **labels)
    np.testing.assert_allclose(rounded, found, rtol=0, atol=1e6 * size)


@pytest.mark.parametrize("name", MODELS)
def test_every_library_and_output(name):
    check(*MODELS[name]())


@pytest.mark.sizes("each")
@pytest.mark.parametrize("n_classes", range(2, 8))
@pytest.mark.parametrize("library", ["XGBoost", "LightGBM", "CatBoost", "scikit-learn", "forest of scikit-learn"])
def test_two_to_seven_classes(library, n_classes):
    check(*classifier(library, n_classes))
