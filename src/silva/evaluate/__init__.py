"""Predictions of forests: check, pick the runner, return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.evaluate import cpu, links
from silva.inputs import as_rows

if TYPE_CHECKING:
    from silva.forest import Forest

OUTPUTS = ("prediction", "margin", "probability", "leaf")
ALGORITHMS = ("auto", "serial", "by_sample", "by_node", "windowed")


def predict(forest: Forest, X: Any, *, output: str, algorithm: str, device: str, n_jobs: int | None) -> Any:
    """`Forest.predict`."""
    _check(output, algorithm, device)
    rows = as_rows(X, forest)
    if output == "leaf":
        ids = cpu.leaves(forest, rows, algorithm, n_jobs)
        return ids.reshape(len(ids), *forest.leaf_shape) if forest.leaf_shape else ids
    margin = cpu.margins(forest, rows, algorithm, n_jobs)
    if output == "margin":
        return links.squeeze(margin.astype(forest.result_dtype))
    if output == "probability":
        return links.probabilities(margin, forest)
    return links.predictions(margin, forest)


def _check(output: str, algorithm: str, device: str) -> None:
    if output not in OUTPUTS:
        raise ValueError(f"output is {output!r}, expected one of {', '.join(OUTPUTS)}")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")
    if algorithm not in {"auto", *cpu.ALGORITHMS}:
        raise NotImplementedError(f"algorithm={algorithm!r} is not supported yet; use 'serial' or 'by_sample'")
    check_device(device)


def check_device(device: str) -> None:
    """Accept what runs so far.

    Raises
    ------
    NotImplementedError
        For a GPU.
    ValueError
        For anything but "auto", "cpu", "cuda", "cuda:<number>" and "cuda:all".
    """
    if device in {"auto", "cpu"}:
        return
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        raise NotImplementedError(f"device={device!r} is not supported yet; use device='cpu'")
    raise ValueError(f"device is {device!r}, expected 'auto', 'cpu', 'cuda', 'cuda:1' or 'cuda:all'")
