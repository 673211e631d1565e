"""shap's TreeExplainer, computed by silva."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from silva.explain.explainer import Explainer
from silva.explain.shap_arguments import has_other_names, warn_of_names
from silva.explain.shap_model import ShapModel
from silva.explain.stored import refuse_explainer
from silva.forest import Forest
from silva.inputs import name_by_position
from silva.loading import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silva.typing import Doubles

LARGEST_DIFFERENCE = 1e-2
"""Between sums of values and outputs, relative to the largest output, as in shap."""


class TreeExplainer(Explainer):
    """`Explainer` with the arguments of ``shap.TreeExplainer``, in its order.

    Parameters
    ----------
    model : object or path
        A Forest, or any model that `silva.load` reads.
    data : array-like or frame of shape (m, F), optional
        Background rows; their number does not affect the cost of a row. Frames here and in calls that have none of the
        features' names are taken by position, with a warning.
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

    takes_other_names = True

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
        refuse_explainer(model)
        forest = _in_units_of_shap(_loaded(model))
        if has_other_names(data, forest.ensemble):
            warn_of_names(data, forest.ensemble, "data", 2)
            data = name_by_position(data, forest.ensemble)
        super().__init__(
            forest,
            data=data,
            model_output=model_output,
            feature_perturbation=feature_perturbation,
            feature_names=feature_names,
            approximate=approximate,
            link=link,
            linearize_link=linearize_link,
            **{"rule": "rescale"} | settings,
        )

    @property
    def model(self) -> ShapModel:
        """What scripts read of shap's model: num_outputs, tree_limit, objective, predict, arrays of nodes."""
        return ShapModel(self.forest)

    @property
    def feature_perturbation(self) -> str:
        """What "auto" has become: "interventional" or "tree_path_dependent"."""
        return "interventional" if self.game.has_background else "tree_path_dependent"

    def assert_additivity(self, phi: Any, model_output: Any) -> None:
        """Check that values and the expected value add up to outputs, as shap does.

        Parameters
        ----------
        phi : ndarray of shape (n, F) or (n, F, k), or list of k ndarrays of shape (n, F)
            Values.
        model_output : ndarray of shape (n,) or (n, k)

        Raises
        ------
        ArithmeticError
            If they differ by more than a hundredth of the largest output.
        """
        sums = np.stack([part.sum(axis=1) for part in phi], axis=1) if isinstance(phi, list) else phi.sum(axis=1)
        found: Doubles = sums + np.asarray(self.expected_value)
        output = np.asarray(model_output, np.float64).reshape(found.shape)
        worst = float(np.abs(found - output).max(initial=0.0))
        if worst > LARGEST_DIFFERENCE * max(float(np.abs(output).max(initial=0.0)), 1.0):
            raise ArithmeticError(
                f"values and expected_value add up to the model's outputs within {worst:.3g} only; pass the rows, and "
                "the unit of outputs, that the values are of"
            )


def _in_units_of_shap(forest: Forest) -> Forest:
    """Let the margin of an isolation forest be the mean path length; silva divides it by that of a failed search."""
    ensemble = forest.ensemble
    if ensemble.link != "path_length" or not ensemble.tree_weight.any():
        return forest
    weight = ensemble.tree_weight / ensemble.tree_weight.sum()
    about: Any = {"link": "identity", "prediction": "response", "prediction_offset": 0.0}
    return Forest(dataclasses.replace(ensemble, tree_weight=weight, **about))


def _loaded(model: Any) -> Forest:
    """Load a model; where shap is imported, what silva does not read is also an error of shap's kind."""
    try:
        return load(model)
    except (TypeError, NotImplementedError) as error:
        shap = sys.modules.get("shap.utils._exceptions")
        if shap is None:
            raise
        kind = type("InvalidModelError", (type(error), shap.InvalidModelError), {})
        raise kind(f"Model type not yet supported by TreeExplainer: {error}") from error
