"""Predictions of forests: check, pick the runner, return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.device import DeviceError, array_gpu, choose_gpus, import_cupy, parse_device
from silva.evaluate import cpu, linear, links
from silva.inputs import as_rows

if TYPE_CHECKING:
    from silva.forest import Forest

OUTPUTS = ("prediction", "margin", "probability", "leaf")
ALGORITHMS = ("auto", "serial", "by_sample", "by_node", "windowed")
CUDA_ALGORITHMS = ("auto", "by_sample")

WORTHWHILE = 2e8
"""Rows times trees from which host rows go to a GPU: a guess, the crossover of predictions is not measured yet."""


def predict(forest: Forest, X: Any, *, output: str, algorithm: str, device: str, n_jobs: int | None) -> Any:
    """`Forest.predict`."""
    _check(output, algorithm, device)
    gpus = _gpus(forest, X, algorithm, device)
    if array_gpu(X) is not None:
        return _predict_on_gpu(forest, X, output, gpus)
    rows = as_rows(X, forest)
    if output == "leaf":
        ids = forest.cuda_evaluator.leaves(rows, gpus) if gpus else cpu.leaves(forest, rows, algorithm, n_jobs)
        return ids.reshape(len(ids), *forest.leaf_shape) if forest.leaf_shape else ids
    if gpus:
        margin = forest.cuda_evaluator.margins(rows, gpus)
    else:
        margin = (linear if forest.has_linear_leaves else cpu).margins(forest, rows, algorithm, n_jobs)
    return _respond(forest, margin, output)


def _respond(forest: Forest, margin: Any, output: str) -> Any:
    if output == "margin":
        return links.squeeze(margin.astype(forest.result_dtype))
    if output == "probability":
        return links.probabilities(margin, forest)
    return links.predictions(margin, forest)


def _gpus(forest: Forest, X: Any, algorithm: str, device: str) -> tuple[int, ...]:
    """GPUs that take these rows; none if the CPU does."""
    asks = parse_device(device)[0] not in {"auto", "cpu"} or array_gpu(X) is not None
    if asks and forest.has_linear_leaves:
        raise NotImplementedError("forests with linear leaves are not evaluated on GPUs yet; pass device='cpu'")
    if algorithm not in CUDA_ALGORITHMS:
        if asks:
            raise DeviceError(f"algorithm={algorithm!r} runs on the CPU only; pass 'by_sample' or device='cpu'")
        return ()
    if forest.has_linear_leaves:
        return ()
    work = len(X) * forest.n_trees if hasattr(X, "__len__") else 0
    return choose_gpus(device, X, work, WORTHWHILE)


def _predict_on_gpu(forest: Forest, X: Any, output: str, gpus: tuple[int, ...]) -> Any:
    """GPU rows to a GPU result of the same library; labels that are no numbers come to the host."""
    from silva.cuda.rows import like

    cupy = import_cupy()
    if output == "leaf":
        ids = forest.cuda_evaluator.leaves(X, gpus)
        return like(X, ids.reshape(len(ids), *forest.leaf_shape) if forest.leaf_shape else ids)
    margin = forest.cuda_evaluator.margins(X, gpus)
    if output == "margin":
        return like(X, _respond(forest, margin, output))
    result = _respond(forest, cupy.asnumpy(margin), output)
    if isinstance(result, list) or result.dtype.kind not in "fiub":
        return result
    with cupy.cuda.Device(gpus[0]):
        return like(X, cupy.asarray(result))


def _check(output: str, algorithm: str, device: str) -> None:
    if output not in OUTPUTS:
        raise ValueError(f"output is {output!r}, expected one of {', '.join(OUTPUTS)}")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}, expected one of {', '.join(ALGORITHMS)}")
    if algorithm not in {"auto", *cpu.ALGORITHMS}:
        raise NotImplementedError(f"algorithm={algorithm!r} is not supported yet; use 'serial' or 'by_sample'")
    parse_device(device)
