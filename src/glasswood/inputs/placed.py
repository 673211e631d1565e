"""Rows of a call, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from glasswood.base.typing import Int32s, Int64s


@dataclass(eq=False, slots=True)
class PlacedRows:
    """Rows of a call, and what takes them.

    Attributes
    ----------
    rows : (n, F)
        On the host what `as_rows` made; on a GPU an array of any library, as it was given.
    gpus : tuple of int
        That take them; none: the CPU.
    labels : (n,), optional
        Place of each row's class, for what needs them.
    """

    rows: Any
    gpus: tuple[int, ...] = ()
    labels: Int32s | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice | Int64s) -> PlacedRows:
        return replace(self, rows=self.rows[part], labels=None if self.labels is None else self.labels[part])
