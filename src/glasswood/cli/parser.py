"""Wrong usage of the command line, in one sentence: what is wrong, the nearest match, and where the options are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from glasswood.base.escapes import shown
from glasswood.base.wording import nearest_text


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which names an unknown option before it misses others."""

    def error(self, message: str) -> NoReturn:
        """End with one line in place of the usage, which is as long as a command has options."""
        text = shown(message.removeprefix("argument "))
        self.exit(2, f"{self.prog}: {text}; see '{self.prog} --help'\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does; an argument that the command does not know is an error of the command."""
        assert args is not None
        self._check_options(args)
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unexpected {' '.join(left)!r}")
        return found, left

    def _check_options(self, args: Sequence[str]) -> None:
        """Refuse unknown options; the command's own parser checks what follows the command."""
        known = self._option_string_actions
        for arg in args:
            is_option = arg.startswith("--")
            if arg == "--" or (self._subparsers is not None and not is_option):
                return
            name = arg.partition("=")[0]
            if is_option and " " not in arg and not any(option.startswith(name) for option in known):
                self.error(f"unknown option {name}{nearest_text(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(action.choices)
            nearest = nearest_text(value, choices)
            if isinstance(action, argparse._SubParsersAction):
                self.error(f"unknown command {value}{nearest or ', expected ' + ', '.join(choices)}")
            raise argparse.ArgumentError(action, f"{value!r} is not one of {', '.join(choices)}{nearest}")
