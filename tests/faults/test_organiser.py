"""docs/organiser.md, line by line, in network namespaces on two subnets: from an empty folder to results."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bci_stream.contest.actions import ReadState
from bci_stream.contest.control_socket import ask_judge, socket_path
from scripts.fault_rig import wait_for
from tests.faults.test_routers import ADDRESSES, RoutedNetwork, network
from tests.processes import Processes, end_daemons

__all__ = ["network"]  # a fixture

pytestmark = [pytest.mark.lsl, pytest.mark.slow, pytest.mark.timeout(400)]

DOC = Path(__file__).parents[2] / "docs" / "organiser.md"
LINE = re.compile(r"^    (\w+)\$ (.*)$", re.MULTILINE)
DOCTOR_READY = "other hosts' doctors can see this one"
CLOCKS = "clocks, compared with this host's: judge"


class Machine:
    """One host: its folder, its environment, and the commands that keep running there."""

    def __init__(self, name: str, folder: Path, network: RoutedNetwork) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self._prefix = ["ip", "netns", "exec", network.namespace(name)]
        self._processes = Processes(self.folder)
        self.env = self._processes.env
        self.env["BCI_LSL_SESSION"] = f"organiser-{os.getpid()}"
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.env['PATH']}"
        self.running: list[tuple[str, subprocess.Popen[str], Path]] = []

    def run(self, command: str) -> str:
        """The output of a command that ends, with exit code 0."""
        process = self._processes.start_program([*self._prefix, "sh", "-c", command])
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"{command}: {out}"
        return out

    def start(self, command: str) -> None:
        path = self.folder / f"{len(self.running)}.out"
        with path.open("w") as out:
            process = self._processes.start_program(
                [*self._prefix, "sh", "-c", f"exec {command}"], stdout=out
            )
        self.running.append((command, process, path))

    def end(self) -> None:
        self._processes.end()
        end_daemons(self.folder / "home")


@pytest.fixture
def machines(network: RoutedNetwork, tmp_path: Path) -> Iterator[dict[str, Machine]]:
    made = {name: Machine(name, tmp_path, network) for name in ADDRESSES}
    yield made
    for machine in made.values():
        machine.end()


def copy(machines: dict[str, Machine], here: Machine, words: list[str]) -> None:
    """`scp [-r] SOURCE HOST.lab:` between the machines' folders."""
    source = here.folder / words[-2]
    there = machines[words[-1].removesuffix(".lab:")].folder / source.name
    shutil.copytree(source, there) if source.is_dir() else shutil.copy(source, there)


def wait_for_doctors(machines: dict[str, Machine]) -> None:
    paths = [path for machine in machines.values() for _, _, path in machine.running]
    wait_for("the doctors", lambda: all(DOCTOR_READY in path.read_text() for path in paths))


def end_doctors(machines: dict[str, Machine]) -> None:
    """Ctrl-C, as the page says."""
    for machine in machines.values():
        for command, process, _ in machine.running:
            if "doctor" in command and process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(30)
                assert process.returncode in (0, 1), command  # the first one saw no other
        machine.running = []


def wait_until_ready(judge: Machine, teams: list[str]) -> None:
    """An organiser looks at `status` until all are there; this asks the judge in the same way."""

    def ready() -> list[str]:
        state = ask_judge(socket_path(judge.folder / "cup", "cup"), ReadState()).state
        return sorted(entry["team"] for entry in state["teams"] if entry["state"] == "ready")

    wait_for("both teams", lambda: ready() == teams, 60.0)


def look_at_status(machine: Machine, line: str) -> str:
    """An organiser looks again until the judge's clock has been measured, which takes some seconds."""
    shown = ""

    def has_clocks() -> bool:
        nonlocal shown
        shown = machine.run(line)
        return CLOCKS in shown

    wait_for("the judge's clock", has_clocks)
    return shown


def wait_until_over(machines: dict[str, Machine]) -> None:
    for machine in machines.values():
        for command, process, path in machine.running:
            process.wait(120)
            assert process.returncode == 0, f"{command}: {path.read_text()}"


def test_the_rehearsal_works_line_by_line(machines: dict[str, Machine]) -> None:
    outputs: dict[str, str] = {}
    lines = [(found[1], found[2]) for found in LINE.finditer(DOC.read_text("utf-8"))]
    assert len(lines) > 20
    for name, line in lines:
        machine = machines[name]
        for host, address in ADDRESSES.items():
            line = line if line.startswith("scp") else line.replace(f"{host}.lab", address)
        if line.startswith("export "):
            machine.env |= dict(word.split("=") for word in line.split()[1:])
        elif line.startswith("scp "):
            copy(machines, machine, line.split())
        elif line.endswith(" &"):
            machine.start(line.removesuffix(" &"))
        elif "doctor" in line:
            wait_for_doctors(machines)
            outputs[line] = machine.run(line)
            end_doctors(machines)
        else:
            if line.startswith("bci-judge go"):
                wait_until_ready(machine, ["alice", "bob"])
            if line.startswith("bci-judge leaderboard"):
                wait_until_over(machines)
            outputs[line] = (
                look_at_status(machine, line)
                if line.startswith("bci-replay status")
                else machine.run(line)
            )
    check(machines["judge"].folder, outputs)


def check(folder: Path, outputs: dict[str, str]) -> None:
    def of(words: str) -> str:
        (found,) = [out for line, out in outputs.items() if words in line]
        return found

    doctor = of("bci-judge doctor")
    assert doctor.rstrip().endswith("a contest can be held here")
    for host in ("replay", "alice", "bob"):
        assert re.search(rf"{re.escape(ADDRESSES[host])}, .*seen and opened, clock offset", doctor)
    assert all(team in of("bci-judge leaderboard") for team in ("alice", "Alpha Waves"))
    assert "Traceback" not in "".join(outputs.values())
    logs = sorted((folder / "cup" / "runs").glob("*.jsonl"))
    assert [log.name.split("-")[1] for log in logs] == ["alice", "bob"]
    for log in logs:
        last = [json.loads(line) for line in log.read_text().splitlines()]
        assert "finished" in [event.get("reason") for event in last if event["kind"] == "end"]
    listed = of("bci-judge team list")
    assert re.search(r"carol.*revoked", listed)
    assert re.search(r"bob.*Alpha Waves", listed)
    assert of("bci-judge go").strip() == "erp: begins with alice, bob"
    published = json.loads((folder / "public" / "results.json").read_text("utf-8"))
    assert sorted(row["team"] for row in published["rows"]) == ["alice", "bob"]
    for words in ("--public-key public", "--reveal cup"):
        assert of(words).count("as the judge wrote it") == 2
    assert "Rehearsal" in (folder / "report.html").read_text("utf-8")
    assert "finished" in of("bci-judge score")
