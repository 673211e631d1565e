"""One row a call: the same numbers as predict, whatever the output, and errors instead of stray reads."""

from __future__ import annotations

import dataclasses
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given

from glasswood.evaluate.choice import runnable
from glasswood.evaluate.evaluator import Evaluator
from glasswood.evaluate.predictor import make_predictor
from tests.example_forests import with_linear_leaves
from tests.strategies import Options, forests_and_rows, full_forest, random_forest, random_rows

ALGORITHMS = ("serial", "by_sample", "by_node", "windowed", "auto")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("output", ["margin", "leaf", "prediction"])
@given(example=forests_and_rows(max_rows=7))
def test_a_row_is_predicted_as_in_a_batch(algorithm, output, example):
    forest, X = example
    if algorithm == "by_node" and "by_node" not in runnable(forest):
        return
    predictor = make_predictor(Evaluator(forest.ensemble), output, algorithm)
    expected = forest.predict(X, output=output, algorithm="serial")
    for row, wanted in zip(np.ascontiguousarray(X), expected, strict=True):
        np.testing.assert_array_equal(predictor(row), wanted)
        np.testing.assert_array_equal(predictor(row[None, :]), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_output_is_a_number(dtype):
    forest = dataclasses.replace(full_forest(0, 3, 2, 4), result_dtype=dtype)
    found = forest.predictor()(np.zeros(4))
    assert type(found) is float
    assert found == forest.predict(np.zeros((1, 4)))[0]


@pytest.mark.parametrize("link", ["logistic", "exp"])
def test_links(link):
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), link=link)
    X = np.random.default_rng(0).normal(size=(5, 4))
    predictor = forest.predictor()
    assert [predictor(row) for row in X] == forest.predict(X).tolist()


def test_classes_and_probabilities():
    meaning = {"link": "softmax", "prediction": "argmax", "classes": (np.array(["a", "b", "c"]),), "is_estimator": True}
    forest = random_forest(2, Options(n_trees=6, n_outputs=3, meaning=meaning))
    X = random_rows(1, forest, 9)
    labels, probabilities = forest.predictor(), forest.predictor("probability")
    assert [labels(row) for row in X] == forest.predict(X).tolist()
    np.testing.assert_array_equal([probabilities(row) for row in X], forest.predict(X, output="probability"))


def test_categories_are_translated_as_in_predict():
    categories = (np.array([5, 7]), None, None, None)
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source="scikit-learn 1.9")
    X = np.column_stack([[5, 7, 6], np.random.default_rng(0).normal(size=(3, 3))])
    predictor = forest.predictor("leaf")
    np.testing.assert_array_equal([predictor(row) for row in X], forest.predict(X, output="leaf"))


@pytest.mark.parametrize("output", ["margin", "prediction", "leaf"])
def test_pickles(output):
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), link="logistic")
    predictor = forest.predictor(output)
    row = np.ones(4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor))(row), predictor(row))


def test_threads_share_a_predictor():
    forest = full_forest(0, 50, 6, 10)
    X = np.random.default_rng(0).normal(size=(400, 10))
    predictor, expected = forest.predictor("margin"), forest.predict(X, output="margin")
    found = np.empty((4, len(X)))

    def work(thread):
        for row in range(len(X)):
            found[thread, row] = predictor(X[row])

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found, np.tile(expected, (4, 1)))


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (np.zeros(3), ValueError, "the row has 3 values, expected 4"),
        (np.zeros((2, 4)), ValueError, "the row has 8 values, expected 4"),
        (np.zeros(4, np.int64), TypeError, "the row holds int64, expected float32 or float64"),
        (np.zeros(4, np.int32), TypeError, "the row holds int32, expected float32 or float64"),
        (np.zeros(4, np.uint8), TypeError, "the row holds uint8, expected float32 or float64"),
        (np.zeros(4, np.float16), TypeError, "the row holds float16, expected float32 or float64"),
        (np.zeros(4, bool), TypeError, "the row holds bool, expected float32 or float64"),
        (np.zeros(4, ">f8"), TypeError, "expected float32 or float64"),
        (np.zeros(4, object), TypeError, "expected float32 or float64; cast it, or use names=True"),
        (np.zeros(6)[::2], ValueError, "the row has 3 values, expected 4"),
        ([0.0, 0.0, 0.0, 0.0], TypeError, "the row is a list.*names=True accepts rows by name"),
        (None, TypeError, "the row is a NoneType"),
    ],
)
@pytest.mark.parametrize("categories", [None, (np.array([5, 7]), None, None, None)])
def test_rows_that_do_not_fit_are_refused(row, error, message, categories):
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source="scikit-learn 1.9")
    with pytest.raises(error, match=message):
        forest.predictor()(row)


def test_arguments_are_checked_beforehand():
    forest = full_forest(0, 2, 9, 4)
    with pytest.raises(ValueError, match="windowed"):
        make_predictor(Evaluator(forest.ensemble), "margin", "by_node")
    with pytest.raises(ValueError, match="output"):
        forest.predictor("margins")


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("output", ["margin", "prediction", "leaf", "probability"])
def test_linear_leaves_have_the_bits_of_predict(n_outputs, output):
    link = {1: "logistic", 3: "softmax"}[n_outputs]
    meaning = {"link": link, "classes": (np.arange(max(n_outputs, 2)),), "is_estimator": True, "prediction": "argmax"}
    forest = with_linear_leaves(random_forest(5, Options(n_trees=6, n_outputs=n_outputs, meaning=meaning)))
    n_terms = len(forest.ensemble.linear_feature)
    kinds = np.random.default_rng(0).integers(-3, 2, n_terms).astype(np.int32)
    forest = dataclasses.replace(forest, linear_category=kinds)
    X = random_rows(1, forest, 40)
    predictor, expected = forest.predictor(output), forest.predict(X, output=output)
    for row, wanted in zip(np.ascontiguousarray(X), expected, strict=True):
        np.testing.assert_array_equal(predictor(row), wanted)
    again = pickle.loads(pickle.dumps(predictor))
    np.testing.assert_array_equal(again(np.ascontiguousarray(X[0])), expected[0])


def test_rows_keep_their_values_where_categories_are_translated():
    categories = (np.array([5, 7]), None, np.array([0.5, 2.0]), None)
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source="scikit-learn 1.9")
    predictor, row = forest.predictor(), np.array([7.0, 0.1, 9.0, np.nan])
    assert predictor(row) == forest.predict(row[None])[0]
    assert row[0] == 7
    with pytest.raises(ValueError, match="the row has 3 values, expected 4"):
        predictor(row[:3].copy())
    assert predictor(np.repeat(row, 2)[::2]) == predictor(row)


@pytest.mark.parametrize("kind", [str, object])
def test_labels_of_text(kind):
    """Those of pandas are objects, which NumPy's scalars are not."""
    classes = (np.array(["leaves", "stays"], kind),)
    meaning = {"link": "logistic", "classes": classes, "is_estimator": True, "prediction": "positive"}
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), **meaning)
    X = random_rows(0, forest, 20)
    predictor = forest.predictor()
    assert [predictor(row) for row in np.ascontiguousarray(X)] == forest.predict(X).tolist()


@pytest.mark.parametrize("output", ["margin", "leaf"])
def test_rows_with_texts_of_categories(output):
    categories = (np.array(["no", "yes"], object), None, np.array(["a", "b"], object), None)
    forest = dataclasses.replace(full_forest(0, 9, 3, 4), categories=categories, source="scikit-learn 1.9")
    predictor = forest.predictor(output)
    for row in (["yes", 0.1, "new", None], ["no", np.nan, "b", 2]):
        row = np.array(row, object)
        np.testing.assert_array_equal(predictor(row), forest.predict(row[None], output=output)[0])
    with pytest.raises(TypeError, match=r"expected float32 or float64 \(or object, for categories\)"):
        predictor(np.zeros(4, np.int32))
