"""XGBoost's models against XGBoost."""

from __future__ import annotations

import numpy as np
import pytest

import silva
from tests.readers.adversarial import adversarial_rows
from tests.readers.agreement import assert_agrees
from tests.readers.xgboost_models import BOOSTERS

xgboost = pytest.importorskip("xgboost")
VERSION = tuple(int(part) for part in xgboost.__version__.split(".")[:2])

pytestmark = pytest.mark.filterwarnings("ignore:.*booster=dart.*:UserWarning")


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
