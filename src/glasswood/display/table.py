"""Tables of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from glasswood.base.escapes import shown

BAR = 40
"""Characters of the longest bar."""


def ranked_table(names: Sequence[str], importance: ArrayLike, title: str = "mean |phi|") -> str:
    """List features by importance, largest first, each with a bar.

    Parameters
    ----------
    names : sequence of str
    importance : (len(names),)
        At least 0.
    title : str
        Head of the column of importances.

    Returns
    -------
    str
        One line a feature, below a head line.
    """
    values = np.asarray(importance, np.float64)
    names = [shown(name) for name in names]
    width = max(len(name) for name in ("feature", *names))
    largest = values.max(initial=0.0) or 1.0
    lines = [f"{'feature':<{width}}  {title:>10}"]
    for i in np.argsort(-values, kind="stable"):
        bar = "█" * round(BAR * float(values[i]) / largest)
        lines.append(f"{names[i]:<{width}}  {values[i]:>10.4f}  {bar}".rstrip())
    return "\n".join(lines)
