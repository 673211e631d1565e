"""ONNX models of one tree ensemble, as onnxruntime runs them; files need neither onnx nor onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.model.ensemble import TreeEnsemble
from glasswood.readers.assemble import assemble
from glasswood.readers.onnx.graph import parse
from glasswood.readers.onnx.meaning import meaning
from glasswood.readers.onnx.nodes import TreeNodes, read_nodes
from glasswood.readers.onnx.outputs import output_values

if TYPE_CHECKING:
    from glasswood.readers.onnx.graph import Graph


def read(model: Any) -> TreeEnsemble:
    """Read an ``onnx.ModelProto``.

    Parameters
    ----------
    model : onnx.ModelProto
        With one ``TreeEnsembleRegressor``, ``TreeEnsembleClassifier`` (ai.onnx.ml 1 to 4) or ``TreeEnsemble`` (5),
        whose input is the graph's; behind it at most Cast, Identity, Exp, Sigmoid, Softmax, Reshape and ZipMap. Or
        what `Forest.save` wrote, except linear leaves.

    Raises
    ------
    TypeError
        If it is another object of onnx.
    ValueError
        If the model is corrupt.
    NotImplementedError
        If the graph holds other operators, or the ensemble what glasswood does not know; the message names it.
    """
    if not hasattr(model, "graph") or not hasattr(model, "SerializeToString"):
        raise TypeError(f"cannot read a {type(model).__name__} of onnx, expected an onnx.ModelProto")
    return _read(model.SerializeToString(), "the onnx.ModelProto")


def read_file(path: str | os.PathLike[str]) -> TreeEnsemble:
    """Read an ``.onnx`` file, as `read`."""
    return _read(Path(path).read_bytes(), str(path))


def predict(model: Any, X: Any) -> Any:
    """Predict with onnxruntime: labels of a classifier, the only output otherwise."""
    import onnxruntime

    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    dtype = np.float64 if given.type == "tensor(double)" else np.float32
    result = session.run(_wanted(parse(data), session), {given.name: np.asarray(X).astype(dtype)})[0]
    return result[:, 0] if result.ndim == 2 and result.shape[1] == 1 else result


def _wanted(graph: Graph, session: Any) -> list[str]:
    """Name the output that is the forest's prediction: the first, of glasswood's own models the last of its kind."""
    names = [one.name for one in session.get_outputs()]
    if graph.own is None:
        return names[:1]
    kinds = {"margin": ("margin",), "response": ("response", "margin")}
    return [next(name for name in kinds.get(graph.own["prediction"], ("label",)) if name in names)]


def _read(data: bytes, where: str) -> TreeEnsemble:
    try:
        return _forest(data)
    except NotImplementedError as error:
        raise NotImplementedError(f"{where}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{where} holds no valid ONNX model of trees: {error}; export it again") from error


def _forest(data: bytes) -> TreeEnsemble:
    graph = parse(data)
    trees = TreeNodes.from_graph(graph)
    outputs = output_values(graph, trees)
    nodes, fields = read_nodes(graph, trees, outputs.leaves)
    meant = {"base_score": outputs.base, **meaning(graph, outputs)} if graph.own is None else graph.own
    return assemble(
        nodes,
        n_features=graph.n_features(trees.feature),
        tree_output=outputs.tree_output,
        tree_weight=np.full(len(trees.counts), outputs.tree_weight),
        source="ONNX",
        **fields,
        **meant,
    )
