"""The places where an explainer's calls run: the CPU, or GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from glasswood.base.device import DeviceError, array_gpu, count_rows, gpus_worthwhile, parse_device
from glasswood.base.escapes import shown
from glasswood.base.parallel import cached_property, n_threads
from glasswood.base.typing import Explained, Rows
from glasswood.explain.cpu import CpuExplainer
from glasswood.explain.responses.coalitions import CoalitionExplainer
from glasswood.explain.responses.labels import labels_of
from glasswood.explain.responses.rescaling import ResponseExplainer
from glasswood.inputs import as_rows
from glasswood.inputs.placed import PlacedRows

if TYPE_CHECKING:
    from glasswood.explain.cuda.explainer import CudaExplainer
    from glasswood.explain.game import Game, Settings

ROWS_TOGETHER, WORTHWHILE = 16, 4e4
"""Rows per block; number of visited nodes per thread above which a GPU is faster: 10 ns a node on a core beside 0.4 ms
of a call from host to host (benchmarks/results/cuda_h200.md)."""


class Engines:
    """What explains a game on the CPU and, from the first call there, on GPUs: both have the same methods.

    Parameters
    ----------
    game : Game
    settings : Settings

    Attributes
    ----------
    cpu : CpuExplainer, ResponseExplainer or CoalitionExplainer
    """

    game: Game
    settings: Settings

    def __init__(self, game: Game, settings: Settings) -> None:
        self.game, self.settings = game, settings
        self.cpu: CoalitionExplainer | CpuExplainer | ResponseExplainer = _kind_of(settings)(game, settings)

    @cached_property
    def cuda(self) -> CudaExplainer:
        """The explainer on GPUs."""
        from glasswood.explain.cuda.explainer import CudaExplainer

        return CudaExplainer(self.game, self.settings, self.cpu)

    @property
    def asked(self) -> CpuExplainer | ResponseExplainer | CoalitionExplainer | CudaExplainer:
        """The explainer for `device`; for "auto", the one on the CPU."""
        return self.cuda if self.settings.is_for_gpus else self.cpu

    def of(self, rows: PlacedRows) -> CpuExplainer | ResponseExplainer | CoalitionExplainer | CudaExplainer:
        """Return what explains these rows."""
        return self.cuda if rows.gpus else self.cpu

    @property
    def is_exact_response(self) -> bool:
        """Whether responses are explained by all coalitions."""
        return isinstance(self.cpu, CoalitionExplainer)

    def again(self, X: Rows, kind: Explained) -> Any:
        """Answer a call like an earlier one on GPU rows: checks take as long as a GPU needs for many rows."""
        cuda: CudaExplainer | None = self.__dict__.get("cuda")
        return None if cuda is None else cuda.again(X, kind, self.settings.algorithm, self.settings.device)

    def place(self, X: Rows, kind: Explained, y: ArrayLike | None, on_host: bool = False) -> PlacedRows:
        """Check rows and labels, and choose what takes them.

        Parameters
        ----------
        X, y : rows, labels
            As `Explainer.shap_values` takes them.
        kind : {"values", "pairs"}
        on_host : bool
            Whether the CPU must take them.

        Raises
        ------
        NotImplementedError
            If only the CPU does what is asked for, and rows or device say a GPU.
        DeviceError
            If a GPU is asked for and cannot be used.
        """
        gpus = () if on_host else self._gpus(X, kind)
        rows: Any = X if gpus and array_gpu(X) is not None else as_rows(X, self.game.forest)
        labels = labels_of(self.game.forest, self.settings.output, y, rows)
        return PlacedRows(rows, gpus, labels)

    def _gpus(self, X: Rows, kind: Explained) -> tuple[int, ...]:
        """GPUs that take these rows; none if the CPU does."""
        if reason := self._cpu_only:
            require_cpu(self.settings.device, X, reason)
            return ()
        forest, device = self.game.forest, self.settings.device
        n_blocks = -(-count_rows(X) // (ROWS_TOGETHER * n_threads(self.settings.n_jobs)))
        work = n_blocks * forest.n_nodes * (forest.n_features if kind == "pairs" else 1)
        if isinstance(self.cpu, CoalitionExplainer):
            gpus = gpus_worthwhile(device, X, work * len(self.cpu.background), WORTHWHILE)
            estimates = self.cpu.layout.n_used > self.cpu.most  # which GPUs do not
            return () if gpus and estimates and self._is_free(X) else gpus
        if self.settings.algorithm == "paths":
            return self._gpus_of_paths(X, work)
        gpus = gpus_worthwhile(device, X, work, WORTHWHILE)
        has_games = self.game.has_background or self.game.players.groups
        is_served = not (gpus and has_games and self._is_free(X)) or self.cuda.serves(kind)
        return gpus if is_served else ()

    def _is_free(self, X: Rows) -> bool:
        """Whether neither the device nor the rows say where they are explained."""
        return self.settings.device == "auto" and array_gpu(X) is None

    @property
    def _cpu_only(self) -> str:
        """Name what GPUs do not explain, if it is asked for."""
        if isinstance(self.cpu, CoalitionExplainer):
            return self.cpu.cpu_only
        has_groups, has_background = bool(self.game.players.groups), self.game.has_background
        if not self.game.forest.has_linear_leaves or not (has_background or has_groups):
            return ""
        return "explanations of linear leaves " + ("against a background" if has_background else "by groups")

    def _gpus_of_paths(self, X: Rows, work: int) -> tuple[int, ...]:
        only, device = "algorithm='paths' runs on NVIDIA GPUs only", self.settings.device
        try:
            gpus = gpus_worthwhile("cuda" if device == "auto" else device, X, work, WORTHWHILE)
        except DeviceError as error:
            if device != "auto":
                raise
            raise DeviceError(f"{only}; pass algorithm='quadrature' where there is none ({shown(error)})") from error
        if not gpus:
            raise DeviceError(f"{only}; pass device='cuda' or algorithm='quadrature'")
        return gpus


def _kind_of(settings: Settings) -> type[CpuExplainer | ResponseExplainer | CoalitionExplainer]:
    if settings.output == "margin":
        return CpuExplainer
    return CoalitionExplainer if settings.rule == "exact" else ResponseExplainer


def require_cpu(device: str, X: Rows | None, what: str) -> None:
    """Raise NotImplementedError where rows or device say a GPU."""
    if parse_device(device)[0] not in {"auto", "cpu"} or (X is not None and array_gpu(X) is not None):
        raise NotImplementedError(f"{what} run on the CPU only; pass host rows and device='cpu'")
