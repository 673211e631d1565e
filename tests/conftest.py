"""Deterministic Hypothesis runs, and a fixture that runs a test on every device."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.limits import LIMITS
from tests.poison import poison
from tests.sizes import grade

# Read when a library with OpenMP is loaded: threads that spin while they wait take other workers' cores, and made
# tests of scikit-learn's boosting ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# OpenBLAS has no such policy; its threads took a fifth of the processor time of tests that grow or emulate a GPU.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a shell starts in the background, CI perhaps, ignores interrupts, and so do its children: their tests would fail.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

poison()

settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    max_examples=30,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=1000)
settings.load_profile(os.environ.get("GLASSWOOD_HYPOTHESIS_PROFILE", "quick"))


MOST_REPEATS = int(os.environ.get("GLASSWOOD_MOST_REPEATS", "1000000"))
"""Fewer examples and repeats for tools that make each launch hundreds of times slower (benchmarks/gpu.sh memcheck)."""


def examples(count: int) -> settings:
    """Settings of a test that draws so many examples."""
    return settings(max_examples=repeats(count))


def repeats(count: int) -> int:
    """How often a test does the same again."""
    return min(count, MOST_REPEATS)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected, nor later among what was there by then.

    Modules and tests are half a million objects that stay: a quarter of the time of collecting went to them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    grade(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each reason of skipped tests once."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED [{count}] {reason}")


def _why_no_gpu() -> str | None:
    """Reason why tests on CUDA cannot run here, None if they can."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed: pip install glasswood[cuda13]"
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no usable GPU: {error}"
    return None if n_devices else "no GPU"


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The test runs once on each device; on "cuda" it is skipped where there is none."""
    if request.param == "cuda" and (reason := _why_no_gpu()):
        pytest.skip(reason)
    return request.param


@pytest.fixture
def without_shap(monkeypatch):
    """No shap to be found, so that calls of explainers return glasswood's own Explanation."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name == "shap" else find(name, *of))


@pytest.fixture
def limits(monkeypatch):
    """Set constants for one test: ``limits(tiny_splits=0)``, in each module that has them."""

    def set_limits(**values):
        for name, value in values.items():
            constant, *modules = LIMITS[name]
            for module in modules:
                monkeypatch.setattr(importlib.import_module(f"glasswood.{module}"), constant, value)

    return set_limits
