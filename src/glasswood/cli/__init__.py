"""The command line: `glasswood grow | predict | explain | neighbors | report | compare | distill | bench | info`, demo.

This module imports nothing that Python has not imported already, so that an interrupt ends in a sentence from here on.
"""

from __future__ import annotations

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
    try:
        from glasswood.cli.command import run

        return run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while modules are imported, too
        print("glasswood: interrupted; no unfinished file is left", file=sys.stderr)
        return INTERRUPTED
