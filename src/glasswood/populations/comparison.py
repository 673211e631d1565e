"""The result of `glasswood.compare`: its rows, texts and picture."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from glasswood.base.escapes import PICTURE, short, shown
from glasswood.base.extras import import_extra
from glasswood.base.typing import Doubles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 20
"""Features of a picture."""

ROUNDING = 1e-14
"""Part of the mean up to which a change is the rounding of sums of float64."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `glasswood.compare`.

    Attributes
    ----------
    kind : {"populations", "models", "summaries"}
    names : tuple of str
        Features, or groups of features.
    output_names : list of str
    change : ndarray of shape (n_features, k)
        Contribution of each feature to the change of the mean prediction.
    standard_error : ndarray of shape (n_features, k)
        Standard errors of `change`, by a bootstrap over batches (for summaries, as of independent rows); NaN if a
        population has a single batch.
    magnitude : ndarray of shape (n_features, k)
        Mean |φ|: of the rows of b against population a, or of the difference of two models.
    before, after : ndarray of shape (k,)
        Mean predictions of a and of b.
    offset : ndarray of shape (k,)
        Change that no feature explains: between models the difference of the expected values, between populations 0 or,
        where rows were drawn, what their mean differs from that of all.
    shift, shift_error : ndarray of shape (n_features,), or None
        Between populations, how far the distribution of each feature has moved, from 0 to 1: for numbers the largest
        difference of the distribution functions (Kolmogorov and Smirnov), for categories half the sum of the
        differences of the shares. With standard errors.
    n_rows : pair of int
    explained : str
        What the means are of, in words: "prediction", "margin (log-odds)", "probability", ...
    n_explained : pair of int, or None
        Rows that were drawn at random and explained, if not all were.
    n_shifted : pair of int, or None
        Rows whose distributions `shift` compares, if not all: those that were kept of batches.

    Notes
    -----
    ``before + offset + change.sum(axis=0)`` is `after`.
    """

    kind: str
    names: tuple[str, ...]
    output_names: list[str]
    change: Doubles
    standard_error: Doubles
    magnitude: Doubles
    before: Doubles
    after: Doubles
    offset: Doubles
    shift: Doubles | None
    shift_error: Doubles | None
    n_rows: tuple[int, int]
    explained: str = "prediction"
    n_explained: tuple[int, int] | None = None
    n_shifted: tuple[int, int] | None = None

    def strongest(self, output: int = 0) -> list[str]:
        """Names by how far the change exceeds two standard errors, then by its ratio to the standard error."""
        return [self.names[place] for place in self._order(output)]

    def _order(self, output: int) -> list[int]:
        size, error = np.abs(self.change[:, output]), np.nan_to_num(self.standard_error[:, output])
        certain = np.maximum(size - 2 * error, 0)
        ratio = np.divide(size, error, out=size.copy(), where=error > 0)
        order: list[int] = np.lexsort([-ratio, -certain]).tolist()
        return order

    def rows(self, output: int = 0) -> list[dict[str, Any]]:
        """One dictionary for each feature, the largest change first; `is_certain` if it exceeds two standard errors."""
        found = []
        for place in np.argsort(-np.abs(self.change[:, output]), kind="stable").tolist():
            change, error = float(self.change[place, output]), float(self.standard_error[place, output])
            line = {
                "feature": self.names[place],
                "change": change,
                "standard_error": error,
                "is_certain": abs(change) > 2 * error,
                "magnitude": float(self.magnitude[place, output]),
            }
            if self.shift is not None and self.shift_error is not None:
                line |= {"shift": float(self.shift[place]), "shift_error": float(self.shift_error[place])}
            found.append(line)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, for JSON; None where a standard error is not known."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        lines, width = [], min(40, max(24, *map(len, map(shown, self.names))))
        for output, name in enumerate(self.output_names):
            prefix = f"{shown(name)}: " if len(self.output_names) > 1 else ""
            lines.append(f"{prefix}mean {self.explained} {self.before[output]:.6g} → {self.after[output]:.6g}")
            rows = self.rows(output)
            for row in rows:
                moved = f"   moved {row['shift']:.3f} ± {row['shift_error']:.3f}" if "shift" in row else ""
                change = self._change_text(row["change"], output)
                value, mark = (
                    f"{change} ± {row['standard_error']:.2g}",
                    " " if row["is_certain"] or change == "0" else "?",
                )
                lines.append(f"{mark} {short(row['feature'], width):{width}} {value:22}{moved}".rstrip())
            offset = "(drawn rows)" if self.n_explained else "(expected value)"
            if self.offset[output]:
                lines.append(f"  {offset:{width}} {self.offset[output]:+.4g}")
            total = float(self.after[output] - self.before[output])
            lines.append(f"  {'total':{width}} {self._change_text(total, output)}")
        if any(line.startswith("? ") for line in lines):
            lines.append("? The change does not exceed two standard errors.")
        if self.n_explained:
            pairs = zip(self.n_explained, self.n_rows, strict=True)
            drawn = " and ".join(f"{n:,} of {of:,}" for n, of in pairs)
            theirs = "shifts and standard errors" if self.n_shifted else "standard errors"
            lines.append(f"Explained by {drawn} rows, drawn at random; the {theirs} are theirs.")
        return "\n".join(lines)

    def _change_text(self, change: float, output: int) -> str:
        """Write a change; 0 where the mean's own rounding may have made it."""
        size = max(abs(self.before[output]), abs(self.after[output]), float(self.magnitude[:, output].max(initial=0)))
        return f"{change:+.4g}" if abs(change) > ROUNDING * size else "0"

    def plot(self, axes: Any = None, output: int = 0) -> Any:
        """Draw changes with two standard errors and, beside them, the shifts of the features.

        Parameters
        ----------
        axes : matplotlib Axes, or two of them, optional
        output : int
            Which of several outputs.

        Returns
        -------
        array of matplotlib Axes
        """
        pyplot = import_extra("matplotlib.pyplot", "plot", "pictures need matplotlib")
        rows = self.rows(output)[:MOST_BARS][::-1]
        n = 1 if self.shift is None else 2
        if axes is None:
            size = (5 * n, 1 + 0.3 * len(rows))
            axes = pyplot.subplots(1, n, layout="constrained", squeeze=False, sharey=True, figsize=size)[1][0]
        axes = np.atleast_1d(axes)
        with import_extra("matplotlib", "plot", "pictures need matplotlib").rc_context(PICTURE):
            _bars(axes[0], rows, "change", "standard_error", f"change of the mean {self.explained}")
            if n == 2 and len(axes) == 2:
                _bars(axes[1], rows, "shift", "shift_error", "shift of the feature's distribution")
        return axes


def _plain(value: Any) -> Any:
    """Make lists of arrays, with None for what is not a number."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _bars(ax: Axes, rows: list[dict[str, Any]], value: str, error: str, label: str) -> None:
    errors = np.nan_to_num([2 * row[error] for row in rows])
    ax.barh(range(len(rows)), [row[value] for row in rows], xerr=errors)
    ax.set_yticks(range(len(rows)), [short(row["feature"]) for row in rows])
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_xlabel(label)
