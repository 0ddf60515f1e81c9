"""A cluster's worker that is cut off from the scheduler, in a network namespace of its own.

Only root can make the namespaces.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from processes import Processes
from season.serving import make_contest, wait_for

from bci_stream.season.storage.store import SeasonStore, open_season_store
from scripts.season_rig import package
from tests.namespaces import Namespaces, made_or_skipped

pytest.importorskip("distributed", reason="distributed is not installed (extra `cluster`)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCHEDULER = "tcp://10.78.0.1:8786"
ADDRESSES = {"server": "10.78.0.1", "first": "10.78.0.2", "second": "10.78.0.3"}
LOST = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s",
}
"""When Dask gives up a machine that does not answer; its defaults are 30 s and 5 min."""


class Network(Namespaces):
    """The server's machine and two workers' on one bridge."""

    def make(self) -> None:
        super().make()
        self.ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.hub, "link", "set", "bridge", "up")
        for machine, address in ADDRESSES.items():
            self.connect(machine, "bridge", f"{address}/24")

    def cut(self, machine: str) -> None:
        self.ip("-n", self.hub, "link", "set", machine, "down")

    def heal(self, machine: str) -> None:
        self.ip("-n", self.hub, "link", "set", machine, "up")


class Machines:
    """A season's server and the processes of a Dask cluster, each on its machine."""

    def __init__(self, network: Network, folder: Path) -> None:
        self._network = network
        self._processes = Processes(folder)
        self._processes.env |= LOST
        self._log = folder / "machines.log"
        self.contest = make_contest(folder / "cup", '[[phases]]\nname = "open"\nquota = 2\n')

    def start(self, machine: str, *command: str) -> psutil.Process:
        """Start `python -m command` on a machine."""
        inside = ["ip", "netns", "exec", self._network.namespace(machine), sys.executable, "-m"]
        with self._log.open("a") as out:
            started = self._processes.start_program(
                [*inside, *command], stdout=out, stderr=subprocess.STDOUT
            )
        return psutil.Process(started.pid)

    def start_worker(self, machine: str) -> psutil.Process:
        return self.start(
            machine, "distributed.cli.dask_worker", SCHEDULER, "--host", ADDRESSES[machine],
            "--no-nanny", "--no-dashboard", "--nthreads", "1", "--resources", "unit=1",
        )  # fmt: skip

    def start_server(self) -> None:
        """Start it again until the scheduler has a worker, which it needs."""
        port = self.contest.folder / "port"
        server: psutil.Process | None = None

        def listens() -> bool:
            nonlocal server
            if server is None or not server.is_running() or server.status() == psutil.STATUS_ZOMBIE:
                place = (str(self.contest.folder), str(self.contest.folder / "season.sqlite"))
                server = self.start("server", "scripts.season_rig", "serve", *place, "1", SCHEDULER)
            return port.exists() and bool(port.read_text())

        wait_for(listens)

    def submit(self, content: bytes, *options: str) -> tuple[int, str]:
        """(exit code, output) of `bci-decode submit` of team alice, on the server's machine."""
        path = self.contest.folder.parent / "alice.zip"
        path.write_bytes(content)
        place = f"http://127.0.0.1:{(self.contest.folder / 'port').read_text()}"
        key = self.contest.folder / "keys" / "alice.bci"
        words = ["--track", "erp", "--server", place, "--team-file", str(key), *options]
        inside = ["ip", "netns", "exec", self._network.namespace("server"), sys.executable]
        done = self._processes.start_program(
            [*inside, "-m", "decoders", "submit", str(path), *words]
        )
        out, _ = done.communicate(timeout=120)
        return done.returncode, out

    def end(self) -> None:
        self._processes.end()


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network("cut")
    with made_or_skipped(network):
        yield network


@pytest.fixture
def machines(network: Network, tmp_path: Path) -> Iterator[Machines]:
    made = Machines(network, tmp_path)
    try:
        yield made
    finally:
        made.end()


def _units(worker: psutil.Process) -> list[psutil.Process]:
    return [each for each in worker.children() if "scripts.season_rig" in each.cmdline()]


def _is_over(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _stage(store: SeasonStore, number: int) -> str:
    found = store.submission(number)
    assert found is not None
    return found.stage


def test_a_unit_whose_machine_is_cut_off_is_run_again_and_counts_once(
    network: Network, machines: Machines
) -> None:
    machines.start("server", "distributed.cli.dask_scheduler", "--host", ADDRESSES["server"],
                   "--port", "8786", "--no-show", "--no-dashboard")  # fmt: skip
    first = machines.start_worker("first")
    machines.start_server()
    assert machines.submit(package("hang"), "--no-wait")[0] == 0
    folder = machines.contest.folder
    with closing(open_season_store(str(folder / "season.sqlite"))) as store:
        wait_for(lambda: _stage(store, 1) == "running" and _units(first))
        unit = wait_for(lambda: _units(first))[0]
        (folder / "uploads" / "1").write_bytes(package())  # what it does when it is run again
        machines.start_worker("second")
        network.cut("first")
        wait_for(lambda: _stage(store, 1) == "judged")
        network.heal("first")
        wait_for(lambda: _is_over(unit))  # nothing of the attempt that does not count goes on
        outcomes = [each.outcome for each in store.attempts(1) if each.number == 1]
    assert outcomes[-1] == "finished"
    assert outcomes.count("finished") == 1
    assert len(outcomes) >= 2
    assert len(list((folder / "runs" / "open").glob("*.jsonl"))) == 1
    assert machines.submit(package(seed=2))[0] == 0
    code, out = machines.submit(package(seed=4))
    assert code == 1
    assert "used up" in out
