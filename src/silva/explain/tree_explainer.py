"""shap's TreeExplainer, computed by silva."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.explain.explainer import Explainer

if TYPE_CHECKING:
    from collections.abc import Sequence


class TreeExplainer(Explainer):
    """`Explainer` with the arguments of ``shap.TreeExplainer``, in its order.

    Parameters
    ----------
    model : object or path
        A Forest, or any model that `silva.load` reads.
    data : array-like or frame of shape (m, F), optional
        Background rows; their number does not affect the cost of a row.
    model_output : {"raw", "probability", "log_loss"}
        "raw" is the margin.
    feature_perturbation : {"auto", "interventional", "tree_path_dependent"}
        "auto" is interventional with `data`, otherwise path-dependent. "tree_path_dependent" with `data` computes the
        covers of the nodes from these rows, as `Forest.with_covers` does.
    feature_names : sequence of str, optional
        Names of the features in explanations; default the model's names.
    approximate : bool
        False; True is refused.
    link, linearize_link
        As in shap, which does not use them; a link other than the identity is refused.
    **settings
        Other arguments of `Explainer`: algorithm, device, dtype, n_jobs, table_bytes, background_weight, rule. The
        default rule is shap's, "rescale".

    Raises
    ------
    NotImplementedError
        If an argument asks for something that silva does not compute.
    ValueError, TypeError
        As for `Explainer`.

    See Also
    --------
    Explainer : the methods, which are the same.

    Examples
    --------
    >>> explainer = silva.TreeExplainer(model)  # doctest: +SKIP
    >>> shap.plots.waterfall(explainer(X)[0])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Sequence[str] | None = None,
        approximate: bool = False,
        link: Any = None,
        linearize_link: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            model,
            data=data,
            model_output=model_output,
            feature_perturbation=feature_perturbation,
            feature_names=feature_names,
            approximate=approximate,
            link=link,
            linearize_link=linearize_link,
            **{"rule": "rescale"} | settings,
        )
