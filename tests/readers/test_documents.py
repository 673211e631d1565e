"""Numbers of documents, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from glasswood.readers.documents import to_float32


def nearest_float32(text):
    """The float32 nearest to a decimal number, by exact fractions; ties to even."""
    guess = np.float32(float(text))
    sides = np.float32([-np.inf, np.inf])
    candidates = [guess, *np.nextafter(guess, sides)]
    return min(candidates, key=lambda x: (abs(Fraction(float(x)) - Fraction(text)), int(x.view(np.uint32)) % 2))


def test_decimal_text_is_rounded_once():
    # As a double the first lies exactly between two float32, so that rounding it again would go to the wrong one.
    rng = np.random.default_rng(5)
    random = [f"{rng.integers(1, 10**9)}e{rng.integers(-53, 29)}" for _ in range(2000)]
    between = [repr(x) for x in (1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 3 * 2.0**-150, 1 + 2.0**-23)]
    texts = ["7.038531e-26", "-7.038531e-26", "16777217", "-16777219", *between, *random]
    doubles = np.array([float(text) for text in texts])
    expected = np.array([nearest_float32(text) for text in texts])
    assert doubles[0].astype(np.float32) != expected[0]
    np.testing.assert_array_equal(to_float32(doubles), expected)


def test_special_numbers_stay_what_they_are():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300])
    single = to_float32(special)
    np.testing.assert_array_equal(single, [0, 0, np.inf, -np.inf, np.nan, np.inf, -np.inf])
    assert np.signbit(single[1])
