"""A PostgreSQL server of this process's own, or the reason why there is none."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

USER = "postgres"
SECONDS = 60


def programs():
    """Folder of the server's programs, which Debian keeps off the path; None where there are none."""
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A running server; queries are answered by psql as rows of texts."""

    def __init__(self, folder, socket) -> None:
        self.folder, self.socket = folder, socket

    def run(self, script, check=True):
        """Answer the last queries of a script, one line a row; the first error ends it."""
        command = [self.folder / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.socket, "-U", USER, USER]
        done = subprocess.run(command, input=script.encode(), capture_output=True, check=False)
        if check and done.returncode:
            raise RuntimeError(done.stderr.decode()[:2000])
        return done.stdout.decode().splitlines() if check else done.stderr.decode()


@contextlib.contextmanager
def serve():
    """Start a server in a folder of its own; skip where none is installed."""
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    root = os.getuid() == 0  # as whom no server starts
    if root and USER not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip(f"no user {USER}, as whom PostgreSQL runs where the tests run as root")
    place = Path(tempfile.mkdtemp(prefix="glasswood-pg-"))
    try:
        if root:
            shutil.chown(place, USER)
        rights = {"user": USER, "cwd": place} if root else {"cwd": place}
        make = [folder / "initdb", "-N", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D", place / "data"]
        subprocess.run(make, check=True, capture_output=True, **rights)
        options = ["-k", place, "-h", "", "-F", "-c", "max_stack_depth=6MB"]
        with (place / "log").open("w") as log:
            running = subprocess.Popen([folder / "postgres", "-D", place / "data", *options], stderr=log, **rights)
        try:
            wait(folder, place, running)
            yield Server(folder, place)
        finally:
            running.terminate()
            running.wait(SECONDS)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def wait(folder, place, running):
    """Wait until the server answers."""
    end = time.monotonic() + SECONDS
    while subprocess.run([folder / "pg_isready", "-q", "-h", place], check=False).returncode:
        if running.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL did not start: {(place / 'log').read_text()}")
        time.sleep(0.1)
