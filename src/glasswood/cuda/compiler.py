"""Kernels from source by NVRTC, for any architecture and without a GPU; binaries are kept on disk."""

from __future__ import annotations

import functools
import io
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasswood.base.device import INSTALL, DeviceError
from glasswood.base.escapes import shown
from glasswood.base.progress import announcing

SOURCES = Path(__file__).parent.parent / "native"
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""Compute capabilities, times ten, that every kernel must compile for."""

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}

ARGUMENT_TYPES = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "double": np.float64}
"""Types of kernels' arguments that are numbers."""

_importing = threading.Lock()


@dataclass(frozen=True, eq=False)
class Variant:
    """A kernel: a source file of glasswood/native and the macros that complete it; made by `variant`, one object each.

    Attributes
    ----------
    source : str
        Path within glasswood.native without ``.cu``; the kernel of ``…/sum_rows`` is called ``sum_rows_kernel``.
    macros : tuple of (name, value)
    """

    source: str
    macros: tuple[tuple[str, str], ...] = ()

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return f"{Path(self.source).name}_kernel"

    def __reduce__(self) -> tuple[object, ...]:
        return _make_variant, (self.source, self.macros)


@dataclass(frozen=True)
class Resources:
    """The assembler's report of a kernel: registers per thread, bytes of stack, bytes spilled."""

    registers: int
    stack: int
    spilled: int


def variant(source: str, **macros: Any) -> Variant:
    """Make a `Variant`; the macros' order does not matter, and types of NumPy become those of C."""
    named = (
        (name, C_TYPES[value.name] if isinstance(value, np.dtype) else str(value)) for name, value in macros.items()
    )
    return _make_variant(source, tuple(sorted(named)))


@functools.cache
def _make_variant(source: str, macros: tuple[tuple[str, str], ...]) -> Variant:
    """Keep one object a kernel: its identity serves as the key of what is loaded for it, at each launch."""
    return Variant(source, macros)


def compile_kernel(kernel: Variant, architecture: int) -> bytes:
    """Machine code of a kernel, from the cache on disk if it was compiled before.

    Parameters
    ----------
    kernel : Variant
    architecture : int
        Compute capability times ten.

    Raises
    ------
    DeviceError
        If the compiler is not installed or does not know the architecture.
    """
    cuda_core = _import_cuda_core()
    from cuda.core.utils import FileStreamProgramCache, make_program_cache_key

    options, source = _options(cuda_core, kernel, architecture), read_source(kernel.source)
    with FileStreamProgramCache() as cache:
        key = make_program_cache_key(code=source, code_type="c++", options=options, target_type="cubin")
        code = cache.get(key)
        if code is None:
            with announcing(f"compiling CUDA kernels for sm_{architecture}: once per GPU model, kept on disk"):
                code = bytes(cuda_core.Program(source, "c++", options=options).compile("cubin").code)
            cache[key] = code
    return bytes(code)


def measure_kernel(kernel: Variant, architecture: int) -> Resources:
    """Compile a kernel, past the cache, and read the assembler's report."""
    cuda_core = _import_cuda_core()
    log = io.StringIO()
    options = _options(cuda_core, kernel, architecture, ptxas_options=["-v"])
    cuda_core.Program(read_source(kernel.source), "c++", options=options).compile("cubin", logs=log)
    report = log.getvalue()
    registers = re.search(r"Used (\d+) registers", report)
    stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    if registers is None or stack is None:
        raise RuntimeError(f"the assembler's report names no registers or stack:\n{report}")
    return Resources(int(registers[1]), int(stack[1]), int(stack[2]) + int(stack[3]))


@functools.cache
def read_source(name: str) -> str:
    """Source text of a kernel with the project's own headers in place of their includes."""
    return "".join(_inline(SOURCES / f"{name}.cu", set()))


@functools.cache
def parameters(name: str) -> dict[str, np.dtype[Any] | None]:
    """Arguments of a kernel by name and in their order, as its source has them: uint64 of addresses, None of structs.

    Parameters
    ----------
    name : str
        As `Variant.source`.
    """
    source = re.sub(r"//.*", "", read_source(name)).replace("\\\n", " ")
    found = re.search(rf"\b{Path(name).name}_kernel\s*\(([^()]*)\)", source)
    if found is None:
        raise RuntimeError(f"{name}.cu defines no {Path(name).name}_kernel")
    return dict(_parameter(one) for declared in found[1].split(",") for one in _expand(source, declared.strip()))


def _expand(source: str, declared: str) -> list[str]:
    """Split what a macro stands for, which is a name alone."""
    if not declared.isidentifier():
        return [declared]
    (meaning,) = re.findall(rf"^#define {declared}\b(.*)$", source, re.MULTILINE)
    return str(meaning).split(",")


def _parameter(declaration: str) -> tuple[str, np.dtype[Any] | None]:
    kind, name = re.fullmatch(r"(.*\W)(\w+)", declaration.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    if "*" in kind:
        return name, np.dtype(np.uint64)
    number = ARGUMENT_TYPES.get(kind.strip())
    return name, None if number is None else np.dtype(number)


def compiler_architecture(capability: tuple[int, int]) -> int:
    """Choose the architecture to compile for: the GPU's own, or the newest of its generation that NVRTC knows.

    Raises
    ------
    DeviceError
        If the compiler knows none.
    """
    wanted = capability[0] * 10 + capability[1]
    known = [number for number in _known_architectures() if number // 10 == capability[0] and number <= wanted]
    if not known:
        newest = max(_known_architectures())
        raise DeviceError(
            f"the GPU has compute capability {capability[0]}.{capability[1]}, the installed NVRTC compiles up to "
            f"{newest // 10}.{newest % 10}; upgrade it: {INSTALL}"
        )
    return max(known)


def _known_architectures() -> list[int]:
    _import_cuda_core()
    from cuda.bindings import nvrtc

    return [int(number) for number in nvrtc.nvrtcGetSupportedArchs()[1]]


def _inline(path: Path, seen: set[Path]) -> Iterator[str]:
    if path in seen:
        return
    seen.add(path)
    for line in path.read_text().splitlines(keepends=True):
        include = re.match(r'#include "([\w./]+)"', line)
        if include:
            yield from _inline(SOURCES / include[1], seen)
        elif not line.startswith("#pragma once"):
            yield line


def _options(cuda_core: Any, kernel: Variant, architecture: int, **more: Any) -> Any:
    return cuda_core.ProgramOptions(
        name=kernel.kernel, arch=f"sm_{architecture}", std="c++17", define_macro=list(kernel.macros) or None, **more
    )


def _import_cuda_core() -> Any:
    try:
        # Threads that import it side by side may see it half made.
        with _importing:
            import cuda.core
            import cuda.core.utils
    except ImportError as error:
        raise DeviceError(f"compiling kernels needs cuda-core 1.0 or newer ({shown(error)}); {INSTALL}") from error
    return cuda.core
