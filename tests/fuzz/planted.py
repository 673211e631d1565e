"""Faults for the fuzzer to find, in every hundredth file or so."""

from __future__ import annotations

import os
import time

from tests.fuzz.target import attack


def crash(path, original):
    """End the process."""
    if path.read_bytes()[-1] % 2:
        os.abort()
    return attack(path, original)


def hang(path, original):
    """Never return."""
    if path.read_bytes()[-1] % 2:
        time.sleep(1000)
    return attack(path, original)


def gorge(path, original):
    """Take more memory than there is."""
    if path.read_bytes()[-1] % 2:
        bytearray(2**40)
    return attack(path, original)


def raw_error(path, original):
    """Raise an error of Python's own."""
    if path.read_bytes()[-1] % 2:
        {}[path.suffix]
    return attack(path, original)
