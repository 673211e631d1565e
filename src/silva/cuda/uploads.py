"""Objects that are made once on each GPU that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from silva.device import import_cupy

if TYPE_CHECKING:
    from collections.abc import Callable

Made = TypeVar("Made")


class PerGpu:
    """Objects in the memory of GPUs, made at the first use there; a copy of what holds them makes its own."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, object], Any] = {}

    def get(self, make: Callable[[], Made], key: object = None) -> Made:
        """Return what `make()` has made for the key on the current GPU."""
        cuda = import_cupy().cuda
        at = cuda.runtime.getDevice(), key
        if at not in self._made:
            self._made[at] = make()
            cuda.get_current_stream().synchronize()
        made: Made = self._made[at]
        return made

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()
