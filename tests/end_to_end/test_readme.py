"""The README's command lines are run in an empty folder, in their order."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, Processes
from tests.test_documented_commands import code_lines

pytestmark = pytest.mark.lsl

README = ROOT / "README.md"
ELSEWHERE = {
    "make demo": "tests/end_to_end/test_demo.py",
    "make test": ".ci/run",
    "bci-replay start ": "tests/end_to_end/test_processes.py",
    "bci-decode --track ": "tests/end_to_end/test_processes.py",
    "bci-judge live": "tests/end_to_end/test_processes.py",
    "bci-decode train --track mi": "tests/end_to_end/test_demo.py",
    "bci-judge run --track mi": "tests/end_to_end/test_demo.py",
    "bci-decode check --track mi --submission": "tests/decoders/host/test_templates.py",
    "bci-judge report": "tests/end_to_end/test_demo.py",
    "bci-judge verify cup": "tests/faults/test_organiser.py",
    "bci-judge publish public": "tests/faults/test_organiser.py",
    "bci-judge serve": "tests/season/test_serve.py",
    "bci-replay emulate": "tests/end_to_end/test_live_amplifier.py",
    "bci-replay inspect": "tests/replay/tools/test_inspect.py",
    "bci-replay look": "tests/replay/tools/test_look.py",
    "bci-replay measure": "tests/replay/tools/test_measure.py",
    "bci-replay record": "tests/replay/tools/test_commands.py",
}
"""How a line begins that waits (for other processes, hardware, a browser) or computes for long -> where a
line of this kind is run."""

COMMAND = re.compile(r"^    ((?:make|bci-\w+) .*)$")


def is_run_elsewhere(line: str) -> bool:
    return any(line.startswith(begin) for begin in ELSEWHERE)


def command_lines() -> list[str]:
    return [found[1] for line in code_lines(README) if (found := COMMAND.match(line))]


def run(processes: Processes, command: list[str]) -> str:
    process = processes.start_program(command)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0, f"{command[-1]}: {out}"
    return out


def test_the_command_lines_work_in_their_order(processes: Processes) -> None:
    path = processes.env["PATH"]
    processes.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    for line in command_lines():
        if is_run_elsewhere(line):
            continue
        runs = processes.folder / "home" / "contests" / "default" / "runs"
        log = next(runs.glob("*.jsonl"), Path("there-is-none"))
        line = line.replace(" LOG", f" {log}")
        run(processes, ["sh", "-c", line.replace("erp?subjects=1", "erp?subjects=1&trials=2")])
    keys = {file.stem for file in (processes.folder / "cup" / "keys").glob("*.bci")}
    assert keys == {"alice", "bob", "carol"}


def test_what_is_not_run_here_is_in_the_readme_and_has_its_test() -> None:
    for begin, where in ELSEWHERE.items():
        assert any(line.startswith(begin) for line in command_lines()), begin
        assert (ROOT / where).exists(), where
