"""What an Explainer is to plots and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from silva.device import on_host
from silva.explain.explanation import make_explanation, names_of
from silva.explain.responses import checked_labels
from silva.explain.shap_arguments import taking_one_row
from silva.explain.stored import StoredExplainer
from silva.facts import as_html, forest_facts, output_names
from silva.inputs import arranged
from silva.inputs.shown import own_values, source_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from silva.explain.players import Players
    from silva.typing import Array, Doubles, Rows


class CalledExplainer(StoredExplainer):
    """Calls for shap's plots, and what notebooks show."""

    algorithm: str
    output: str
    dtype: str
    expected_value: Any
    shap_values: Callable[..., Array]
    _on_cpu: Any
    _players: Players

    @taking_one_row
    def __call__(
        self,
        X: Rows,
        y: ArrayLike | None = None,
        interactions: bool = False,
        *,
        by_position: bool = False,
        check_additivity: bool = False,
        **shap_arguments: Any,
    ) -> Any:
        """Explain rows for shap's plots.

        Parameters
        ----------
        X : array-like or frame of shape (n, F), or one row (F,)
        y : array-like of shape (n,), optional
            Labels, for output="log_loss" alone: as in `shap_values`.
        interactions : bool
            Interaction values instead of values.
        by_position, check_additivity : bool
            As in `shap_values`.
        **shap_arguments
            As in `shap_values`.

        Returns
        -------
        shap.Explanation
            With values (n, F) or (n, F, k), base_values (n,) or (n, k), the rows as they were given (categories by
            value), names of the features, and of k > 1 outputs; a dataclass of the same fields where shap is not
            installed. Of one row without the axis of rows.
        """
        if interactions:
            values = cast("Any", self).shap_interaction_values(X, y, by_position=by_position, **shap_arguments)
        else:
            checks = {"by_position": by_position, "check_additivity": check_additivity}
            values = self.shap_values(X, y, **checks, **shap_arguments)
        source = source_values(X, self.forest.transform, by_position)
        X = arranged(X, self.forest, by_position)
        data = self._players.data(own_values(on_host(X), self.forest), self.forest, source)
        names = self._names or (self._players.groups and self._players.names) or names_of(X, self.forest)
        outputs = self._output_names or output_names(self.forest, self.forest.n_outputs)
        return make_explanation(on_host(values), self._base_values(len(data), y), data, names, outputs)

    def _base_values(self, n_rows: int, y: ArrayLike | None) -> Doubles:
        expected = np.asarray(self.expected_value, np.float64)
        if self.output == "log_loss":
            return expected[checked_labels(y, n_rows, self.forest).astype(np.intp)]
        return np.broadcast_to(expected, (n_rows, *expected.shape)).copy()

    def __repr__(self) -> str:
        n_bytes = self._on_cpu.table_bytes
        tables = f", {n_bytes / 1e6:.1f} MB of tables" if n_bytes else ""
        against = f", background={self._background!r}" if self._background else ""
        output = f", output={self.output!r}" if self.output != "margin" else ""
        kind = type(self).__name__
        return f"{kind}({self.forest!r}{against}{output}, algorithm={self.algorithm!r}, dtype={self.dtype!r}{tables})"

    def _repr_html_(self) -> str:
        """Forest and settings, for notebooks."""
        answers = "interventional, against " + repr(self._background) if self._background else "path-dependent"
        own = {"values": answers, "output": self.output, "algorithm": self.algorithm, "dtype": self.dtype}
        expected = ", ".join(f"{value:.6g}" for value in np.atleast_1d(self.expected_value)[:12])
        facts = {**forest_facts(self.forest), **own, "expected value": expected}
        return as_html(f"silva.{type(self).__name__}", facts)
