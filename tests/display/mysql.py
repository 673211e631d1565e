"""A MariaDB or MySQL server of this process's own, or the reason why there is none."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.display.runners import objects

SECONDS = 60
TYPES = {"f": "DOUBLE", "i": "BIGINT"}


class Server:
    """A running server, asked by its client."""

    def __init__(self, client, socket) -> None:
        self.client, self.socket = client, socket

    def run(self, script):
        """Answer the queries of a script, one line a row."""
        command = [
            self.client,
            "--no-defaults",
            "--socket",
            self.socket,
            "-u",
            "root",
            "--batch",
            "--skip-column-names",
        ]
        done = subprocess.run(
            [*command, "--default-character-set=utf8mb4"], input=script.encode(), capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[:2000])
        return done.stdout.decode().splitlines()


@contextlib.contextmanager
def serve():
    """Start a server in a folder of its own; skip where none is installed."""
    names = ("mariadbd", "mariadb-install-db", "mariadb")
    server, install, client = (shutil.which(name) or shutil.which(name, path="/usr/sbin") for name in names)
    if not (server and install and client):
        pytest.skip("MariaDB is not installed: apt-get install mariadb-server")
    place = Path(tempfile.mkdtemp(prefix="glasswood-my-"))
    try:
        user = ["--user=root"] if os.getuid() == 0 else []
        options = ["--no-defaults", f"--datadir={place / 'data'}", *user]
        subprocess.run(
            [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True,
            capture_output=True,
        )
        socket = str(place / "socket")
        more = [f"--socket={socket}", "--skip-networking", f"--pid-file={place / 'pid'}"]
        with (place / "log").open("w") as log:
            running = subprocess.Popen([server, *options, *more], stderr=log, stdout=log)
        try:
            found = Server(client, socket)
            end = time.monotonic() + SECONDS
            while True:
                with contextlib.suppress(RuntimeError):
                    found.run("SELECT 1")
                    break
                if running.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"MariaDB did not start: {(place / 'log').read_text()[-2000:]}")
                time.sleep(0.2)
            yield found
        finally:
            running.terminate()
            running.wait(SECONDS)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run_mysql(server, query, rows):
    """One value a row; the texts of the table are compared regardless of their case."""

    def literal(value):
        if value is None:
            return "NULL"
        return f"X'{value.encode().hex()}'" if isinstance(value, str) else repr(value)

    quoted = ["`" + name.replace("`", "``") + "`" for name in rows.columns]
    kinds = [TYPES.get(rows[name].dtype.kind, "VARCHAR(200) COLLATE utf8mb4_general_ci") for name in rows.columns]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(quoted, kinds, strict=True))
    values = ",\n".join(f"({', '.join(map(literal, row))})" for row in objects(rows))
    table = f"CREATE OR REPLACE DATABASE d CHARACTER SET utf8mb4; USE d; CREATE TABLE t ({columns});\n"
    found = server.run(f"{table}INSERT INTO t VALUES {values};\n{query};")
    return np.array([line.split("\t")[-1] for line in found], float)
