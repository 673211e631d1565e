"""The command line: `silva predict | explain | info | demo`."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from silva.cli.arguments import make_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, INTERRUPTED, TERMINATED = 1, 128 + signal.SIGINT, 128 + signal.SIGTERM
KNOWN_ERRORS = (OSError, ValueError, TypeError, NotImplementedError, ImportError, MemoryError)


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
    options = make_parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _complain("interrupted; no output was written")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KNOWN_ERRORS as error:
        if options.traceback:
            traceback.print_exc()
        _complain(_one_line(error))
        return FAILED
    return 0


def _terminate(_number: int, _frame: object) -> NoReturn:
    """Leave through the blocks that remove unfinished files."""
    raise SystemExit(TERMINATED)


def _complain(message: str) -> None:
    print(f"silva: {message}", file=sys.stderr)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory; try a smaller --batch-rows"
    return " ".join(str(error).split()) or type(error).__name__
