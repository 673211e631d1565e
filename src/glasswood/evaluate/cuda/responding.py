"""Margins through the forest's link on a GPU (evaluate/cuda/respond.cu)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from glasswood.cuda.compiler import variant
from glasswood.cuda.launches import NOWHERE, PreparedLaunch
from glasswood.evaluate.links import is_of_two_classes, is_squeezed
from glasswood.model.ensemble import TreeEnsemble

if TYPE_CHECKING:
    from glasswood.cuda.compiler import Variant

THREADS = 128
"""Threads of a block."""

LINKS: dict[str, tuple[str, float]] = {
    "logistic": ("LOGISTIC", 0.0),
    "one_vs_all": ("LOGISTIC", 0.0),
    "exponential": ("LOGISTIC", 2.0),
    "softmax": ("SOFTMAX", 0.0),
    "exp": ("EXP", 1.0),
}
"""Links that respond.cu computes, and the factor of their margins; 0: the forest's own."""


@dataclass(frozen=True, eq=False)
class GpuResponse:
    """What a forest responds, and what computes it.

    Attributes
    ----------
    forest : TreeEnsemble
    link : str
        Macro of the kernel.
    shape : tuple of int
        Of the response of one row, in the source library's shape.
    """

    forest: TreeEnsemble
    link: str
    shape: tuple[int, ...]

    def launch(self, n_rows: int) -> PreparedLaunch:
        """Launch that takes `margin`, (n_rows, n_outputs) in float64, to `result` in the source library's dtype."""
        forest = self.forest
        scale = LINKS[forest.link][1] or forest.link_scale
        sizes = {"n_rows": n_rows, "n_outputs": forest.n_outputs, "scale": scale}
        args = {"margin": NOWHERE, **sizes, "result": NOWHERE}
        kernel = respond_variant(self.link, forest.result_dtype)
        return PreparedLaunch(kernel, (-(-n_rows // THREADS), 1), THREADS, args)


def response_of(forest: TreeEnsemble, output: str) -> GpuResponse | None:
    """Return how a GPU computes an output that is neither margin nor leaf; None for what NumPy does."""
    if forest.link not in LINKS:
        return None
    name = LINKS[forest.link][0]
    if output == "prediction" and forest.prediction == "response":
        return GpuResponse(forest, name, () if forest.n_outputs == 1 else (forest.n_outputs,))
    if output != "probability" or len(forest.classes) > 1:
        return None
    if is_of_two_classes(forest):
        return GpuResponse(forest, "BOTH", (2,)) if name == "LOGISTIC" else None
    return GpuResponse(forest, name, () if is_squeezed(forest) else (forest.n_outputs,))


def respond_variant(link: str, result_type: DTypeLike) -> Variant:
    """Name the kernel that takes margins through a link."""
    return variant("evaluate/cuda/respond", LINK=link, RESULT=np.dtype(result_type))
