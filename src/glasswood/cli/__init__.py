"""The command line: `glasswood grow | predict | explain | neighbors | report | compare | distill | bench | info`, demo.

This module imports nothing that Python has not imported already, so that an interrupt ends in a sentence from here on.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""128 and the number of SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        Exit code: 0, 1 after an error that was printed as one line, 130 after an interrupt. Wrong usage exits with 2.
    """
    _open_streams()
    if hasattr(sys.stdout, "reconfigure"):  # names of files that are no UTF-8, and terminals that know few characters
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from glasswood.cli.command import run

        return run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while modules are imported, too
        print("glasswood: interrupted; no unfinished file is left", file=sys.stderr)
        return INTERRUPTED


def _open_streams() -> None:
    """Open what a service has closed of the standard streams, for nobody: the next file would take its number."""
    if None not in {sys.stdin, sys.stdout, sys.stderr}:
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
