"""Predictions of forests: check, choose device and algorithm, run, return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.choice import Choice, check_algorithm, tuned
from silva.device import array_gpu, choose_gpus, count_rows, find_gpus, import_cupy, is_cuda_usable, parse_device
from silva.evaluate import cpu, linear, links
from silva.inputs import as_rows

if TYPE_CHECKING:
    from silva.forest import Forest

OUTPUTS = ("prediction", "margin", "probability", "leaf")

WORTHWHILE = 3e6
"""Rows times trees from which host rows go to a GPU: the crossover beside 16 CPU cores (benchmarks/results/)."""


def predict(forest: Forest, X: Any, *, output: str, algorithm: str, device: str, n_jobs: int | None) -> Any:
    """`Forest.predict`."""
    check_arguments(forest, output, algorithm, device)
    gpus = _gpus(forest, X, device)
    if gpus and array_gpu(X) is not None:
        return _predict_on_gpu(forest, X, (output, algorithm, device), gpus, choose(forest, algorithm, len(X), "cuda"))
    rows = as_rows(X, forest)
    choice = choose(forest, algorithm, len(rows), "cuda" if gpus else "cpu")
    if output == "leaf":
        ids = forest.cuda_evaluator.leaves(rows, gpus, choice) if gpus else cpu.leaves(forest, rows, choice, n_jobs)
        return ids.reshape(len(ids), *forest.leaf_shape) if forest.leaf_shape else ids
    if gpus:
        is_final = output == "margin" or (output == "prediction" and links.predicts_margins(forest))
        margin = forest.cuda_evaluator.margins(rows, gpus, choice, forest.result_dtype if is_final else "float64")
    else:
        margin = (linear if forest.has_linear_leaves else cpu).margins(forest, rows, choice, n_jobs)
    return respond(forest, margin, output)


def respond(forest: Forest, margin: Any, output: str) -> Any:
    """Margins (n, n_outputs) as `output`."""
    if output == "margin":
        return links.squeeze(margin.astype(forest.result_dtype, copy=False))
    if output == "probability":
        return links.probabilities(margin, forest)
    return links.predictions(margin, forest)


def choose(forest: Forest, algorithm: str, n_rows: int, kind: str) -> Choice:
    """Pick what runs on the device: the algorithm asked for, the tuned one, or that of the model of costs."""
    if algorithm != "auto":
        return Choice(n_rows, kind, algorithm)
    choice = tuned(forest.choices, n_rows, (kind,))
    if choice is not None:
        return choice
    if kind == "cpu":
        return cpu.default_choice(forest, n_rows)
    from silva.evaluate.cuda import evaluator as cuda

    return cuda.default_choice(forest, n_rows)


def check_arguments(forest: Forest, output: str, algorithm: str, device: str) -> None:
    """Raise ValueError unless the arguments are known and the algorithm can run the forest."""
    if output not in OUTPUTS:
        raise ValueError(f"output is {output!r}, expected one of {', '.join(OUTPUTS)}")
    check_algorithm(forest, algorithm)
    parse_device(device)


def _gpus(forest: Forest, X: Any, device: str) -> tuple[int, ...]:
    """GPUs that take these rows; none if the CPU does."""
    kind, home = parse_device(device)[0], array_gpu(X)
    n_rows = count_rows(X)
    if kind == "auto" and home is None and (choice := tuned(forest.choices, n_rows)):
        return find_gpus("cuda") if choice.device == "cuda" and is_cuda_usable() else ()
    return choose_gpus(device, X, n_rows * forest.n_trees, WORTHWHILE)


def _predict_on_gpu(
    forest: Forest, X: Any, question: tuple[str, str, str], gpus: tuple[int, ...], choice: Choice
) -> Any:
    """GPU rows to a GPU result of the same library; labels that are no numbers come to the host."""
    from silva.cuda.rows import like

    cupy, output = import_cupy(), question[0]
    if output == "leaf":
        ids = forest.cuda_evaluator.leaves(X, gpus, choice)
        return like(X, ids.reshape(len(ids), *forest.leaf_shape) if forest.leaf_shape else ids)
    if output == "margin" or (output == "prediction" and links.predicts_margins(forest)):
        if (margin := forest.cuda_evaluator.first(X, question, choice)) is not None:
            return margin
        margin = forest.cuda_evaluator.margins(X, gpus, choice, forest.result_dtype)
        return like(X, links.squeeze(margin))
    margin = forest.cuda_evaluator.margins(X, gpus, choice)
    result = respond(forest, cupy.asnumpy(margin), output)
    if isinstance(result, list) or result.dtype.kind not in "fiub":
        return result
    with cupy.cuda.Device(gpus[0]):
        return like(X, cupy.asarray(result))
