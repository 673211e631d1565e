"""The benchmark of searches on GPUs calls the library as it is now."""

from benchmarks.grow.gpu import Run, measure, measure_fit, prepared

from tests.grow.engines import piecewise


def test_searches_end_after_their_generations_or_seconds():
    rows, facts = prepared(*piecewise(300, 3))
    assert (facts["rows"], facts["attributes"]) == (300, 3)
    record = measure(rows, Run("gram cpu", "cpu", "gram", 4, 60.0), 60.0)
    assert record["generations"] == 4
    assert record["rmse"] > 0
    record = measure(rows, Run("gram cpu", "cpu", "gram", 10**6, 0.2), 60.0)
    assert 0 < record["generations"] < 10**6


def test_calls_of_fit_are_timed_in_parts():
    run = Run("fit cpu", "cpu", "gram", 4, 60.0, polish=True)
    first, second = (measure_fit(*piecewise(300, 3), run, 60.0) for _ in range(2))
    assert first["generations"] == 4
    assert first["tree"] == second["tree"]
    assert 0 < first["before"] < first["before"] + first["after"] <= first["seconds"] + 0.002
