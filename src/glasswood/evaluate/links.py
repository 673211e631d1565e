"""From margins to what the source library's predict returns: responses, probabilities, labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glasswood.base.escapes import quoted, shown
from glasswood.base.typing import Array
from glasswood.model.ensemble import TreeEnsemble

PROBABILITY_LINKS = {"logistic", "softmax", "one_vs_all", "exponential", "shares"}
"""Links whose responses are probabilities of classes."""

OF_SCORES = ("binary:hinge", "binary:logitraw")
"""Objectives of XGBoost whose classifiers have labels, and scores that are no probabilities."""

SURELY_FLOAT32 = 3e38
"""Magnitude up to which no sum is rounded to infinity: asking NumPy for silence takes as long as a row."""

SMALLEST_STEP = float(np.float32(1e-6))
"""XGBoost adds it to each step between expectiles."""


TINY = 1e-7
"""Magnitude up to which ONNX's SOFTMAX_ZERO takes a margin for 0."""

WINITZKI, WINITZKI_PI = 0.147, 3.14159
"""Constants of Winitzki's approximation of the inverse error function, with onnxruntime's digits."""


def expit(x: Array) -> Array:
    """Logistic function, without overflow."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    """ln(1 + e^x), without overflow."""
    return np.logaddexp(0, x)


def softmax(x: Array) -> Array:
    """Exponentials of a row's margins over their sum."""
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    result: Array = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result


def exp(x: Array) -> Array:
    """e^x; infinite where the source library's is."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(x))


def cumulative_softplus(x: Array) -> Array:
    """XGBoost's expectiles: the first as it is, every further one a positive step above the one before."""
    steps = softplus(x[:, 1:]) + SMALLEST_STEP
    return np.cumsum(np.concatenate([x[:, :1], steps], axis=1), axis=1)


def mean_and_variance(x: Array) -> Array:
    """CatBoost's regression with uncertainty: the mean as it is, the variance from the logarithm of its root."""
    return np.column_stack([x[:, 0], exp(2 * x[:, 1])])


def softmax_zero(x: Array) -> Array:
    """ONNX's SOFTMAX_ZERO: the softmax of the margins that are not 0, which stay 0."""
    is_zero = np.abs(x) <= TINY
    largest = x.max(axis=1, keepdims=True)
    terms = np.where(is_zero, x * np.exp(-largest), np.exp(x - largest))
    result: Array = terms / np.where(is_zero, 0, terms).sum(axis=1, keepdims=True)
    return result


def probit(x: Array) -> Array:
    """ONNX's PROBIT, by the approximation of the inverse error function that onnxruntime has."""
    u = 2 * x - 1
    logarithm = np.log((1 - u) * (1 + u))
    v = 2 / (WINITZKI_PI * WINITZKI) + 0.5 * logarithm
    result: Array = np.sqrt(2.0) * np.where(u < 0, -1.0, 1.0) * np.sqrt(np.sqrt(v * v - logarithm / WINITZKI) - v)
    return result


def shares(x: Array) -> Array:
    """Divide a row's margins by their sum, unless that is 0: H2O's forests, which have a tree for each class."""
    total = x.sum(axis=1, keepdims=True)
    return x / np.where(total > 0, total, 1)


def survival(x: Array) -> Array:
    """Probability to survive of the logarithm of a cumulative hazard."""
    return np.asarray(np.exp(-exp(x)))


LINKS: dict[str, Callable[[Array, float], Array]] = {
    "identity": lambda x, _: x,
    "logistic": lambda x, scale: expit(scale * x),
    "one_vs_all": lambda x, scale: expit(scale * x),
    "exponential": lambda x, _: expit(2 * x),
    "softmax": lambda x, scale: softmax(scale * x),
    "exp": lambda x, _: exp(x),
    "sign_square": lambda x, _: np.sign(x) * x * x,
    "log1p_exp": lambda x, _: softplus(x),
    "path_length": lambda x, _: -np.exp2(-x),
    "sorted": lambda x, _: np.sort(x, axis=1),
    "cumulative_softplus": lambda x, _: cumulative_softplus(x),
    "exp2": lambda x, scale: np.exp2(scale * x),
    "mean_and_variance": lambda x, _: mean_and_variance(x),
    "softmax_zero": lambda x, _: softmax_zero(x),
    "probit": lambda x, _: probit(x),
    "log_survival": lambda x, _: survival(x),
    "shares": lambda x, _: shares(x),
}
"""Response of margins (n, n_outputs) in float64, by `TreeEnsemble.link`."""


def responses(margin: Array, forest: TreeEnsemble) -> Array:
    """Margins through the forest's link, in the source library's dtype: (n, n_outputs)."""
    if forest.link == "identity":
        return _margins(margin, forest)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return LINKS[forest.link](margin, forest.link_scale).astype(forest.result_dtype)


def is_margin(forest: TreeEnsemble, output: str) -> bool:
    """Whether the output is the margin itself."""
    return output == "margin" or (
        output == "prediction" and forest.prediction == "response" and forest.link == "identity"
    )


def sums_as_margin(forest: TreeEnsemble, output: str) -> bool:
    """Whether the sum of the output over rows is that of their margins; rounding to its type aside."""
    if forest.largest_margin >= SURELY_FLOAT32:
        return False
    is_mean = output == "probability" and forest.link == "identity" and len(forest.classes) == 1
    return is_margin(forest, output) or (is_mean and forest.n_outputs == len(forest.classes[0]) > 1)


def respond(forest: TreeEnsemble, margin: Array, output: str) -> Array | list[Array]:
    """Margins (n, n_outputs) as `output`."""
    if output == "margin":
        return squeeze(_margins(margin, forest))
    if output == "probability":
        return probabilities(margin, forest)
    return predictions(margin, forest)


def predictions(margin: Array, forest: TreeEnsemble) -> Array:
    """Make what the source library's predict returns by default: responses, margins or labels."""
    if forest.prediction == "response":
        return squeeze(responses(margin, forest))
    if forest.prediction == "margin":
        return squeeze(_margins(margin, forest))
    named = labels(margin, forest)
    return named if forest.prediction == "argmax_column" else squeeze(named)


def has_probabilities(forest: TreeEnsemble) -> bool:
    """Whether responses are those of classes: of a forest that knows none, its link decides."""
    return forest.link in PROBABILITY_LINKS or (bool(forest.classes) and forest.objective not in OF_SCORES)


def probabilities(margin: Array, forest: TreeEnsemble) -> Array | list[Array]:
    """Class probabilities in the source library's shape.

    Raises
    ------
    ValueError
        If the forest is not a classifier, or one of scores.
    """
    check_probabilities(forest)
    response = responses(margin, forest)
    if len(forest.classes) > 1:
        return _split(response, forest)
    if is_of_two_classes(forest):
        return np.concatenate([1 - response, response], axis=1)
    return squeeze(response) if is_squeezed(forest) else response


def check_probabilities(forest: TreeEnsemble) -> None:
    """Raise ValueError if the forest is not a classifier, or one of scores."""
    if not has_probabilities(forest):
        raise ValueError(
            f"a forest trained for {shown(forest.objective or 'regression')} has no probabilities; "
            "use output='prediction' or 'margin'"
        )


def is_of_two_classes(forest: TreeEnsemble) -> bool:
    """Whether the probabilities of one classification are those of both classes, made of the second's."""
    return forest.is_estimator and forest.n_outputs == 1 and not _has_one_class(forest)


def is_squeezed(forest: TreeEnsemble) -> bool:
    """Whether the probabilities of one classification are those of one class, (n,)."""
    return forest.n_outputs == 1 and not is_of_two_classes(forest) and not _has_one_class(forest)


def labels(margin: Array, forest: TreeEnsemble) -> Array:
    """Class labels by the forest's rule, (n, number of classification outputs)."""
    if forest.prediction == "sign":
        return np.where(_is_second(margin, forest), 1, -1)
    if forest.prediction in {"argmax_margin", "argmax_column"}:  # rounding to probabilities makes ties
        return _named(_margins(margin, forest).argmax(axis=1), forest, 0)[:, None]
    if forest.prediction == "argmax" and (margin.shape[1] > 1 or _has_one_class(forest)):
        each = _split(responses(margin, forest), forest)
        return np.stack([_named(one.argmax(axis=1), forest, i) for i, one in enumerate(each)], axis=1)
    return _named(_is_second(margin, forest).astype(np.int64), forest, 0)


def _margins(margin: Array, forest: TreeEnsemble) -> Array:
    """Margins in the source library's dtype, infinite beyond its range."""
    if forest.largest_margin < SURELY_FLOAT32:
        return margin.astype(forest.result_dtype, copy=False)
    with np.errstate(over="ignore"):
        return margin.astype(forest.result_dtype, copy=False)


def squeeze(values: Array) -> Array:
    """(n, 1) as (n,)."""
    return values[:, 0] if values.shape[1] == 1 else values


def _is_second(margin: Array, forest: TreeEnsemble) -> Array:
    """Whether the second of two classes wins, by the rule of the source library."""
    if forest.prediction == "positive":
        return margin > forest.prediction_offset
    if forest.prediction == "second_positive":
        return margin[:, 1:] > forest.prediction_offset
    if forest.prediction == "nonnegative":
        return margin >= 0
    response = responses(margin, forest)
    if forest.prediction == "sign":
        return response - forest.prediction_offset >= 0
    if forest.prediction == "argmax":
        return response > 1 - response
    return response > 0.5


def _has_one_class(forest: TreeEnsemble) -> bool:
    """Say whether training saw a single class, of which scikit-learn's trees then have one probability."""
    return forest.prediction == "argmax" and [len(names) for names in forest.classes] == [1]


def _split(response: Array, forest: TreeEnsemble) -> list[Array]:
    """Responses of each classification output; ValueError if their numbers do not fit the labels."""
    if len(forest.classes) < 2:
        return [response]
    sizes = [len(names) for names in forest.classes]
    if not all(sizes) or sum(sizes) != response.shape[1]:
        raise ValueError(
            f"the forest has {sizes} class labels for {response.shape[1]} outputs; "
            "load it again from the model that it was saved from"
        )
    ends = np.cumsum(sizes)
    return list(np.split(response, ends[:-1], axis=1))


def _named(index: Array, forest: TreeEnsemble, output: int) -> Array:
    """Class labels by position; a Booster's labels are the positions, in its own dtype."""
    if not forest.classes:
        return index.astype(forest.result_dtype)
    names = forest.classes[output]
    if len(index) and index.max() >= len(names):
        raise ValueError(
            f"the forest predicts class {index.max()} and has {len(names)} class labels ({quoted(names.tolist())}); "
            "load it again from the model that it was saved from"
        )
    return names[index]
