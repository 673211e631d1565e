"""One command, from its arguments to its exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NoReturn

from glasswood.base.config import config_context
from glasswood.base.device import DeviceError
from glasswood.base.escapes import shown
from glasswood.cli.arguments import make_parser
from glasswood.cli.checks import check_files, check_processor

FAILED, WRONG_USAGE = 1, 2
TERMINATING = ("SIGTERM", "SIGHUP")
KNOWN_ERRORS = (OSError, ValueError, TypeError, NotImplementedError, ImportError, MemoryError)


def run(given: Sequence[str]) -> int:
    """Run a command, and print its error as one line; returns the exit code."""
    parser = make_parser()
    if not given:
        parser.print_help(sys.stderr)
        raise SystemExit(WRONG_USAGE)
    options = parser.parse_args(given)
    try:
        with _cleaning_up_when_terminated():
            check_processor()
            check_files(options)
            chosen = {name: getattr(options, name, None) for name in ("n_jobs", "device")}
            with config_context(**chosen):
                options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (*KNOWN_ERRORS, DeviceError) as error:
        if options.traceback:
            print(*map(shown, traceback.format_exc().splitlines()), sep="\n", file=sys.stderr)
        _complain(_one_line(error))
        return FAILED
    return 0


@contextlib.contextmanager
def _cleaning_up_when_terminated() -> Iterator[None]:
    """SIGTERM, and SIGHUP where it is not ignored, leave through the blocks that remove unfinished files."""

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in TERMINATING if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            if previous[number] != signal.SIG_IGN:
                signal.signal(number, leave)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _complain(message: str) -> None:
    print(f"glasswood: {shown(message)}", file=sys.stderr)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory; try a smaller --batch-rows"
    return " ".join(str(error).split()) or type(error).__name__
