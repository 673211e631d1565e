"""What onnxruntime makes of an ensemble's sums: post-transforms, operators behind the trees, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glasswood.readers.onnx.graph import ENSEMBLE

if TYPE_CHECKING:
    from glasswood.readers.onnx.graph import Graph
    from glasswood.readers.onnx.outputs import Outputs

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
LINKS = {"SOFTMAX": "softmax", "LOGISTIC": "one_vs_all", "SOFTMAX_ZERO": "softmax_zero", "PROBIT": "probit"}
BEHIND = {"Exp": "exp", "Sigmoid": "one_vs_all", "Softmax": "softmax"}


def meaning(graph: Graph, outputs: Outputs) -> dict[str, Any]:
    """Return the fields of TreeEnsemble that say what a margin means.

    Raises
    ------
    NotImplementedError
        If onnxruntime and the standard differ on it, or operators follow each other that glasswood does not combine.
    """
    transform = _transform(graph)
    fields: dict[str, Any] = {
        "result_dtype": "float64" if graph.operator == ENSEMBLE and graph.row_type == "float64" else "float32",
        "objective": graph.operator,
        "nan_allowed": True,
        "link": _link(graph, transform, outputs),
    }
    if outputs.classes is None:
        return fields
    n_outputs = len(outputs.base)
    fields |= {"classes": (outputs.classes,), "is_estimator": True}
    if len(outputs.classes) > 2:
        return {**fields, "prediction": "argmax_margin"}
    if n_outputs == 1 and transform == "NONE" and not outputs.all_positive:
        fields["is_estimator"] = False  # scores of both signs, which are not probabilities
    offset = 0.5 if outputs.all_positive else 0.0
    rule = "positive" if n_outputs == 1 else "second_positive"
    return {**fields, "prediction": rule, "prediction_offset": offset}


def _transform(graph: Graph) -> str:
    if graph.operator != ENSEMBLE:
        name = graph.text("post_transform", "NONE")
    else:
        number = graph.integer("post_transform", 0)
        name = TRANSFORMS[number] if 0 <= number < len(TRANSFORMS) else str(number)
    if graph.operator == ENSEMBLE and name in {"SOFTMAX", "LOGISTIC"}:
        raise NotImplementedError(
            f"the post_transform {name} of a TreeEnsemble is not supported: onnxruntime takes SOFTMAX for LOGISTIC and "
            "LOGISTIC for SOFTMAX; export without it"
        )
    if name not in TRANSFORMS:
        raise NotImplementedError(f"the post_transform {name!r} is not read, expected one of {', '.join(TRANSFORMS)}")
    return name


def _link(graph: Graph, transform: str, outputs: Outputs) -> str:
    is_one = len(outputs.base) == 1
    if transform != "NONE" and graph.behind:
        raise NotImplementedError(
            f"the graph has both a post_transform and {graph.behind[0]} after the trees, which glasswood does not "
            "support; export the model without one of them"
        )
    if len(graph.behind) > 1:
        raise NotImplementedError(
            f"the graph has {' and '.join(graph.behind)} after the trees, of which glasswood supports one; export the "
            "model without the others"
        )
    if graph.behind:
        link = BEHIND[graph.behind[0]]
    elif transform == "NONE":
        return "identity"
    elif is_one and transform == "PROBIT" and outputs.classes is not None:
        raise NotImplementedError(
            "the post_transform PROBIT of two classes with one score is not read: onnxruntime leaves the other one out"
        )
    elif is_one and transform != "PROBIT" and (outputs.classes is None or transform != "LOGISTIC"):
        raise NotImplementedError(
            f"the post_transform {transform} of a single output is not read: onnxruntime leaves it out, the standard "
            "does not"
        )
    else:
        link = LINKS[transform]
    return "logistic" if is_one and link == "one_vs_all" else link
