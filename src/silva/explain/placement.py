"""Where an explainer's calls run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from silva.device import DeviceError, array_gpu, count_rows, gpus_worthwhile, parse_device
from silva.parallel import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from silva.forest import Forest
    from silva.typing import Rows

ROWS_TOGETHER, WORTHWHILE = 16, 4e4
"""Rows that a thread explains together, and nodes that it visits for its share of the rows from which a GPU is the
faster: 10 ns a node on a core beside 0.4 ms of a call from host to host (benchmarks/results/cuda_h200.md)."""


class Placement(NamedTuple):
    """What decides where calls run: `Explainer`'s own arguments."""

    forest: Forest
    algorithm: str
    output: str
    device: str
    n_jobs: int | None
    has_background: bool
    has_groups: bool

    def gpus(self, X: Rows, of_pairs: bool, serves_by_tables: Callable[[], bool]) -> tuple[int, ...]:
        """GPUs that take these rows; none if the CPU does.

        Parameters
        ----------
        X : rows
        of_pairs : bool
            For interactions.
        serves_by_tables : callable
            Whether GPUs have tables of every tree, which backgrounds and groups need there.

        Raises
        ------
        NotImplementedError
            If only the CPU does what is asked for, and rows or device say a GPU.
        DeviceError
            If a GPU is asked for and cannot be used.
        """
        if reason := self._cpu_only():
            require_cpu(self.device, X, reason)
            return ()
        n_blocks = -(-count_rows(X) // (ROWS_TOGETHER * n_threads(self.n_jobs)))
        work = n_blocks * self.forest.n_nodes * (self.forest.n_features if of_pairs else 1)
        if self.algorithm == "paths":
            return self._gpus_of_paths(X, work)
        gpus = gpus_worthwhile(self.device, X, work, WORTHWHILE)
        is_free = self.device == "auto" and array_gpu(X) is None
        needs_tables = self.has_background or self.has_groups
        return () if gpus and is_free and needs_tables and not serves_by_tables() else gpus

    def _cpu_only(self) -> str:
        """Name what GPUs do not explain, if it is asked for."""
        if self.has_groups and self.algorithm == "quadrature":
            return "groups with algorithm='quadrature'"
        if not self.forest.has_linear_leaves or not (self.has_background or self.has_groups):
            return ""
        return "explanations of linear leaves " + ("against a background" if self.has_background else "by groups")

    def _gpus_of_paths(self, X: Rows, work: int) -> tuple[int, ...]:
        only = "algorithm='paths' runs on NVIDIA GPUs only"
        try:
            gpus = gpus_worthwhile("cuda" if self.device == "auto" else self.device, X, work, WORTHWHILE)
        except DeviceError as error:
            if self.device != "auto":
                raise
            raise DeviceError(f"{only}; pass algorithm='quadrature' where there is none ({error})") from error
        if not gpus:
            raise DeviceError(f"{only}; pass device='cuda' or algorithm='quadrature'")
        return gpus


def require_cpu(device: str, X: Rows | None, what: str) -> None:
    """Raise NotImplementedError where rows or device say a GPU."""
    if parse_device(device)[0] not in {"auto", "cpu"} or (X is not None and array_gpu(X) is not None):
        raise NotImplementedError(f"{what} run on the CPU only; pass host rows and device='cpu'")
