"""A real PostgreSQL server for the tests of stores, started here where one is installed."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def find_tool(name: str) -> str | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ["PATH"]]))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_server_user() -> list[str]:
    """PostgreSQL refuses to run as root; a user `postgres` comes with its package."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a new server; skips where none can be started."""
    initdb, pg_ctl = find_tool("initdb"), find_tool("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("no PostgreSQL server is installed (initdb, pg_ctl)")
    prefix = as_server_user() if os.geteuid() == 0 else []
    if prefix and subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
        pytest.skip("running as root, and there is no user `postgres` to run the server as")
    with tempfile.TemporaryDirectory(prefix="bci-postgres-") as name:
        folder, port = Path(name), free_port()
        if prefix:
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        run([*prefix, initdb, "-D", data, "-U", "judge", "-A", "trust", "-N"], folder)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        server = [*prefix, pg_ctl, "-D", data, "-o", options, "-l", folder / "log", "-w"]
        run([*server, "start"], folder)
        yield f"postgresql://judge@127.0.0.1:{port}/postgres"
        run([*server, "-m", "immediate", "stop"], folder)


def run(command: list[str | Path], folder: Path) -> None:
    # No pipes: the server inherits pg_ctl's output and would keep them open.
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, cwd=folder, stdout=quiet, stderr=quiet)
