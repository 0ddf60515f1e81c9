"""Units on a real Dask cluster on this machine: a scheduler and a worker in processes of their own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from processes import Processes
from season.serving import make_contest, serving, wait_for
from season.test_serve import submit

from bci_stream.errors import ContestError
from bci_stream.season.units.engines import parse_engine
from scripts.season_rig import package

pytestmark = pytest.mark.slow

distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed (extra `cluster`)"
)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A scheduler; the workers are started by the test."""
    processes = Processes(tmp_path)
    file = tmp_path / "scheduler.json"
    try:
        processes.start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
            "--no-dashboard", "--no-show", "--scheduler-file", str(file), stdout=None, stderr=None,
        )  # fmt: skip
        yield wait_for(lambda: _address_in(file))
    finally:
        processes.end()


def _address_in(file: Path) -> str:
    """Empty while the scheduler has not written it yet."""
    text = file.read_text() if file.exists() else ""
    return str(json.loads(text)["address"]) if text.rstrip().endswith("}") else ""


def start_worker(processes: Processes, address: str) -> psutil.Process:
    started = processes.start(
        "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard", "--nthreads", "2",
        "--resources", "unit=2", stdout=None, stderr=None,
    )  # fmt: skip
    return psutil.Process(started.pid)


def test_units_run_on_the_cluster_and_survive_the_death_of_a_worker(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bci_stream.season.storage.store.retry_delay_s", lambda failures: 0.0)
    from bci_stream.season.units.engines import ClusterEngine

    workers = Processes(tmp_path)
    workers.env |= {"TMPDIR": str(tmp_path)}
    first = start_worker(workers, address)
    engine = wait_for(lambda: _engine(ClusterEngine, address))
    assert engine.slots == 2
    try:
        with serving(make_contest(tmp_path / "cup"), engine, units_a_team=2) as served:
            alice = served.client("alice")
            hanging = submit(alice, tmp_path, package("hang"))
            served.until(alice, hanging, "running")
            wait_for(lambda: [p for p in first.children() if "scripts.season_rig" in p.cmdline()])
            wait_for(lambda: "40 %" in alice.submission(hanging)["words"])
            (unit,) = first.children()
            (tmp_path / "cup" / "uploads" / str(hanging)).write_bytes(package())
            bob = served.client("bob")
            other = submit(bob, tmp_path, package(seed=1))
            (left,) = tmp_path.glob("bci-unit-*")
            assert (left.stat().st_mode & 0o077, left.owner()) == (0, tmp_path.owner())
            first.kill()
            wait_for(lambda: not unit.is_running() or unit.status() == psutil.STATUS_ZOMBIE)
            start_worker(workers, address)
            judged = served.until(alice, hanging, "judged")
            assert judged["attempts"] >= 2
            assert judged["score"] > 0
            assert served.until(bob, other, "judged")["report"].endswith("printed 1")
            with served.store() as store:
                outcomes = [a.outcome for a in store.attempts(hanging)]
            assert outcomes.count("finished") == 1
            assert not left.exists(), "it had the contest's key"
    finally:
        engine.close()
        workers.end()


def _engine(make, address: str):
    try:
        return make(address, module="scripts.season_rig")
    except ContestError:
        return None  # the worker has not registered yet


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bci_stream.season.units.engines.CONNECT_S", 0.5)
    with pytest.raises(ContestError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        parse_engine("tcp://127.0.0.1:9")


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ContestError, match=r"bci-stream\[cluster\]"):
        parse_engine("tcp://127.0.0.1:9")
