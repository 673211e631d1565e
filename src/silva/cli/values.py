"""What values of options mean."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from silva.cli.tables import table_format
from silva.device import parse_device

MOST_DIGITS = 9
REPLACED = "; a file that is there already is replaced once the new one is complete, but never an input"


def names(text: str) -> list[str]:
    """Split names as a CSV header does: "a,b" in quotes is one name."""
    found = next(csv.reader([text]), [])
    if not found or not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} holds an empty name; expected names separated by commas")
    return found


def positive(text: str) -> int:
    """Check a whole number of at least 1."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1 and at most {MOST_DIGITS} digits")
    return int(text)


def device_string(text: str) -> str:
    """Check a device string."""
    try:
        parse_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_device(command: argparse.ArgumentParser, default: str = "default") -> None:
    """Say where to run; `default` is what the help says of "auto"."""
    chosen = f"auto ({default}), cpu, cuda, cuda:1 or cuda:all"
    command.add_argument("--device", type=device_string, default="auto", metavar="DEVICE", help=chosen)


def table(text: str) -> Path:
    """Check the suffix of a table."""
    try:
        table_format(Path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def forest_file(text: str) -> Path:
    """Check the suffix of a forest to write."""
    path = Path(text)
    if path.suffix.lower() != ".silva":
        raise argparse.ArgumentTypeError(f"{text} has the suffix {path.suffix!r}, expected .silva")
    return path
