"""One input of all doors, for drivers of fuzzers: libFuzzer's through Atheris, OSS-Fuzz's, or a plain loop.

python -m tests.fuzz.one_input corpus -max_total_time=600     with Atheris, guided by coverage of glasswood's Python
python -m tests.fuzz.one_input FILE ...                       without: each file once, as crashes are repeated

An input's first byte chooses the door, the others are the file. A folder without files is filled with the seeds first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

guided = contextlib.nullcontext()
with contextlib.suppress(ImportError):
    import atheris

    guided = atheris.instrument_imports(include=["glasswood"])
with guided:
    from tests.fuzz import stored
    from tests.fuzz.formats import SUFFIXES, find_seeds
    from tests.fuzz.target import WrongAnswerError, attack
    from tests.readers import spark_models

DOORS = [*(suffix for suffix in SUFFIXES if suffix != ".treelite"), *stored.KINDS, "csv"]
"""Suffixes of models and explainers, kinds of stored objects and tables. treelite itself trusts its checkpoints."""

CSV = (b"a,b,k\n1,2,u\n3,,v\n", b'"a";"b"\n1,5;"x\ny"\n', "\ufeffa\tb\n1e400\tNaN\n".encode())

FOLDER = Path(tempfile.gettempdir())


def TestOneInput(data: bytes) -> None:  # noqa: N802, the name that drivers expect
    """Hold what reads a file to its promises; whatever is raised is a finding."""
    if len(data) < 2:
        return
    door = DOORS[data[0] % len(DOORS)]
    suffix = door if door in SUFFIXES else {**stored.KINDS, "csv": ".csv"}[door]
    if door == ".spark" and not is_archive(data[1:]):
        return
    path = FOLDER / f"glasswood-{os.getpid()}{suffix}"
    path.write_bytes(data[1:])
    try:
        if door in SUFFIXES:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                attack(path, [])
        elif finding := stored.attack(door, path):
            raise WrongAnswerError(f"{door}: {finding}")
    finally:
        path.unlink()


def is_archive(data):
    """Whether a folder can be unpacked from a file, as Spark would have written it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            spark_models.unpack(data, folder)
        except Exception:
            return False
    return True


def corpus():
    """Whole files of every door, as inputs."""
    files = find_seeds()
    with tempfile.TemporaryDirectory() as folder:
        files |= stored.seeds(Path(folder)) | {"csv": CSV}
    return [bytes([number]) + data for number, door in enumerate(DOORS) for data in files[door]]


def main(arguments):
    """Let Atheris drive, or repeat the files that are named."""
    folders = [Path(one) for one in arguments[1:] if not one.startswith("-") and not Path(one).is_file()]
    if not folders:
        for name in arguments[1:]:
            TestOneInput(Path(name).read_bytes())
        return
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            for number, data in enumerate(corpus()):
                (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup(arguments, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
