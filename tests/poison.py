"""Memory that glasswood asks for unwritten, filled with a byte, so that whatever reads it before it is written is seen.

All tests run with it: large numbers where there were mostly zeros, and indices that are none.
"""

from __future__ import annotations

import functools
import os
import sys

import numpy as np

BYTE = 0x7F
"""1.4e306 in float64, 3.4e38 in float32, 2,139,062,143 in int32, True."""

MOST_BYTES = 2**26
"""Larger arrays are left: tests of peak memory count pages that nobody touches."""

SEEN = os.environ.get("GLASSWOOD_EMPTY_SEEN")
"""File that is told the functions which ask for such memory, if any: a line each."""


def filled_with(byte, function):
    """A function that makes arrays, whose memory holds the same byte everywhere."""

    @functools.wraps(function)
    def make(*arguments, **options):
        return fill(function(*arguments, **options), byte)

    return make


def fill(array, byte):
    """Let all memory of an array hold a byte, if it is made of numbers."""
    if array.dtype.kind in "biufc" and array.flags.writeable:
        array.reshape(-1).view(np.uint8)[...] = byte
    return array


def poison():
    """Fill what modules of glasswood ask NumPy for; the emulator of GPUs fills its memory itself."""
    for name in ("empty", "empty_like"):
        setattr(np, name, _for_glasswood(getattr(np, name)))


def _for_glasswood(function):
    @functools.wraps(function)
    def make(*arguments, **options):
        frame = sys._getframe(1)
        module = frame.f_globals.get("__name__", "")
        array = function(*arguments, **options)
        if module.startswith("glasswood") and array.nbytes <= MOST_BYTES:
            if SEEN:
                note(frame)
            return fill(array, BYTE)
        return array

    return make


def note(frame):
    """Add the function of a frame to the file of those seen; of the emulator's arrays, who asked it for them."""
    while frame.f_back and not frame.f_globals.get("__name__", "").startswith("glasswood"):
        frame = frame.f_back
    code = frame.f_code
    with open(SEEN, "a", encoding="utf-8") as file:
        file.write(f"{frame.f_globals['__name__']}: {getattr(code, 'co_qualname', code.co_name)}\n")
