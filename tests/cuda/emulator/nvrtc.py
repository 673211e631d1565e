"""The names of cuda-core by which glasswood compiles kernels; g++ compiles them."""

from __future__ import annotations

import contextlib
import re
import types

from tests.native import build_kernel

ARCHITECTURE = 90


class ProgramOptions:
    """A kernel's name and macros; the architecture is the host's."""

    def __init__(self, name, arch, std, define_macro):  # noqa: ARG002
        self.name = name
        self.flags = [f"-D{macro}={value}" for macro, value in define_macro or ()]


class Program:
    """A kernel; the machine code is the path of a library."""

    def __init__(self, source, language, options):
        assert language == "c++"
        self._source, self._options = source, options

    def compile(self, _target):
        shared = r"\1* const \2 = (\1*)emulator::shared;"
        source = re.sub(r"extern __shared__ ([\w ]+?) (\w+)\[\];", shared, self._source)
        text = f'#include "cuda.h"\n{source}\nEMULATE({self._options.name})\n'
        path = build_kernel(text, self._options.name, tuple(self._options.flags))
        return types.SimpleNamespace(code=str(path).encode())


class NoCache(contextlib.nullcontext):
    """The tests' own cache is another."""

    def __init__(self):
        super().__init__({})


def make_cuda():
    """Modules by name."""
    utils = module("cuda.core.utils", FileStreamProgramCache=NoCache, make_program_cache_key=lambda **_: None)
    core = module("cuda.core", Program=Program, ProgramOptions=ProgramOptions, utils=utils)
    nvrtc = module("cuda.bindings.nvrtc", nvrtcGetSupportedArchs=lambda: (0, [ARCHITECTURE]))
    bindings = module("cuda.bindings", nvrtc=nvrtc)
    found = (core, utils, bindings, nvrtc, module("cuda", core=core, bindings=bindings))
    return {each.__name__: each for each in found}


def module(name, **names):
    made = types.ModuleType(name)
    vars(made).update(names)
    return made
