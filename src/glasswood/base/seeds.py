"""Generators of random numbers from what people pass as `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasswood.base.escapes import quoted, retold


def generator_of(random_state: Any, *streams: int) -> np.random.Generator:
    """Make the generator of a seed, or of a stream of it; a sentence for what is no seed.

    Raises
    ------
    TypeError, ValueError
        If it is no whole number of at least 0, nor anything else that `numpy.random.default_rng` takes.
    """
    try:
        return np.random.default_rng([random_state, *streams] if streams else random_state)
    except (TypeError, ValueError) as error:
        wanted = f"random_state is {quoted(random_state)}, expected a whole number of at least 0"
        raise retold(error, wanted) from None
