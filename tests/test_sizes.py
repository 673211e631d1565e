"""The choice of quick cases."""

from __future__ import annotations

import itertools

import pytest

from tests.sizes import quick


@pytest.mark.parametrize("sizes", [(3,), (5, 2), (3, 2, 2, 2), (2, 7, 4)])
@pytest.mark.parametrize("together", [1, 2])
def test_quick_cases_hold_all_values_and_no_more_cases_than_that_takes(sizes, together):
    cases = [tuple(enumerate(case)) for case in itertools.product(*map(range, sizes))]
    kept = [cases[at] for at in quick(cases, together)]
    width = min(together, len(sizes))
    assert {part for case in kept for part in itertools.combinations(case, width)} == {
        part for case in cases for part in itertools.combinations(case, width)
    }
    largest = sorted(sizes)[-width:]
    assert len(kept) <= 1.5 * largest[0] * largest[-1] ** (width - 1)


def test_values_alternate():
    cases = [tuple(enumerate(case)) for case in itertools.product(range(6), range(2))]
    kept = [cases[at] for at in quick(cases, 1)]
    assert sorted(second for _, (_, second) in kept) == [0, 0, 0, 1, 1, 1]
