"""Plans of forests and explainers, for tests and benchmarks, which use nothing else that is private."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from glasswood.evaluate.evaluator import evaluator_of
from glasswood.forest import Forest

if TYPE_CHECKING:
    from glasswood.explain.explainer import Explainer


def plan_of(model: Forest | Explainer, device: Literal["cpu", "cuda"] = "cpu") -> Any:
    """Return what predicts or explains on a device.

    Parameters
    ----------
    model : Forest or Explainer
    device : {"cpu", "cuda"}

    Returns
    -------
    CpuEvaluator or CudaEvaluator
        For a forest.
    CpuExplainer, ResponseExplainer or CudaExplainer
        For an explainer.
    """
    if isinstance(model, Forest):
        evaluator = evaluator_of(model.ensemble)
        return evaluator.cpu if device == "cpu" else evaluator.cuda
    return model._engines.cpu if device == "cpu" else model._engines.cuda
