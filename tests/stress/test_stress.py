"""`make stress`: briefly, and for the minute that it takes by default."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace

import pytest

from tests.stress import run
from tests.stress.leaving import ENDS, WORK, left

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals of POSIX")


def stress(*options):
    """In a process of its own, which has interrupts and threads that nobody else should see."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.stress", *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_results_are_those_of_one_thread():
    assert "predict" in stress("--seconds=1", "--threads=4", "--seed=1")


@pytest.mark.slow
def test_results_are_those_of_one_thread_for_a_minute():
    report = stress("--seconds=60", "--threads=8", "--seed=2")
    assert all(action.__name__ in report for action in run.ACTIONS)
    assert "interrupted" in report


def test_other_results_are_found():
    given = Namespace(seconds=60, threads=2, seed=0, no_forks=True)
    test = run.Stress(given)
    for model in test.models:
        model.margins = model.margins + 1
    for thread in range(2):
        test.work(thread)
    assert test.failures
    assert "predict" in test.failures[0] or "single_rows" in test.failures[0]


@pytest.mark.parametrize(("work", "end"), [("explain", "the end of the program"), ("neighbours", "an error")])
def test_a_process_may_end_while_its_threads_compute(work, end):
    assert left(work, end, 0.1) is None


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("work", WORK)
def test_a_process_may_end_at_any_moment(work, end):
    assert [found for moment in range(5) if (found := left(work, end, 0.013 * moment))] == []
