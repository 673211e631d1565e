import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

import silva

REPEATS_DIFFER = (
    "the search draws rows at random and counts rows, so a repeated row and a row of weight two take different paths"
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": REPEATS_DIFFER,
    "check_sample_weight_equivalence_on_sparse_data": REPEATS_DIFFER,
}


@parametrize_with_checks(
    [silva.ModelTreeRegressor(n_iter_no_change=5, n_jobs=1)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_estimator(estimator, check):
    check(estimator)
