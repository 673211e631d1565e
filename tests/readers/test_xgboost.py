"""XGBoost's models against XGBoost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import silva
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.xgboost_models import BOOSTERS, ESTIMATORS

xgboost = pytest.importorskip("xgboost")
VERSION = tuple(int(part) for part in xgboost.__version__.split(".")[:2])

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*booster=dart.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*XGBRF.* is deprecated:FutureWarning"),
]
DOCUMENTS = sorted(path for path in (Path(__file__).parent / "data").glob("xgboost-*") if path.suffix != ".npz")


def assert_booster_agrees(case, forest):
    # DMatrix refuses infinite values.
    X = adversarial_rows(forest, case.rows, allow_inf=False)
    matrix = xgboost.DMatrix(X, feature_types=case.feature_types, enable_categorical=True, nthread=1)
    assert_agrees(
        forest,
        X,
        leaves=case.model.predict(matrix, pred_leaf=True),
        margins=case.model.predict(matrix, output_margin=True),
        predictions=case.model.predict(matrix),
    )


@pytest.mark.parametrize("name", BOOSTERS)
def test_booster(name):
    case = BOOSTERS[name]()
    assert_booster_agrees(case, silva.load(case.model))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator(name):
    case = ESTIMATORS[name]()
    forest = silva.load(case.model)
    assert forest.is_estimator
    X = adversarial_rows(forest, case.rows, allow_inf=False)
    assert_agrees(forest, X, leaves=case.model.apply(X))
    # Leaf ids come by way of DMatrix, which refuses infinite values; predictions do not.
    X = adversarial_rows(forest, case.rows)
    probabilities = None
    if hasattr(case.model, "classes_") and case.model.objective not in {"binary:hinge", "binary:logitraw"}:
        probabilities = case.model.predict_proba(X)
    assert_agrees(
        forest,
        X,
        margins=case.model.predict(X, output_margin=True),
        predictions=case.model.predict(X),
        probabilities=probabilities,
    )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_of_each_version(path):
    known = np.load(f"{path}.npz")
    forest = silva.load(path)
    assert forest.source == "xgboost " + path.name.split("-")[1]
    assert_agrees(forest, **known)


def test_documents_cover_the_versions():
    versions = {path.name.split("-")[1].rpartition(".")[0] for path in DOCUMENTS}
    assert versions >= {"1.7", "2.1", "3.0", "3.1", "3.2", "3.4"}


def test_live_model_and_both_files_give_the_same_forest(tmp_path):
    model = BOOSTERS["partition"]().model
    forests = [silva.load(model)]
    for suffix in ("json", "ubj"):
        model.save_model(tmp_path / f"model.{suffix}")
        forests.append(silva.load(tmp_path / f"model.{suffix}"))
    for field in dataclasses.fields(silva.Forest):
        values = [getattr(forest, field.name) for forest in forests]
        for value in values[1:]:
            np.testing.assert_array_equal(value, values[0])


def test_booster_of_a_stopped_estimator_predicts_with_all_rounds():
    case = ESTIMATORS["classes, stopped"]()
    booster = case.model.get_booster()
    per_round = 3 * 2
    assert booster.num_boosted_rounds() > case.model.best_iteration + 1
    assert silva.load(case.model).n_trees == (case.model.best_iteration + 1) * per_round
    assert silva.load(booster).n_trees == booster.num_boosted_rounds() * per_round
    assert_booster_agrees(case._replace(model=booster), silva.load(booster))
