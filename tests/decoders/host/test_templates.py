"""The templates run as they stand, and score like their own algorithms without a host."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from decoders.host.check import check_submission
from decoders.host.submission import SubmissionDecoder, open_submission
from decoders.offline import OfflineRun, run_offline
from replay.synthetic.registry import open_synthetic
from tests.decoders.host import twins
from tests.decoders.host.conftest import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hostable")]

TRACKS = {
    "g1": "erp",
    "g2": "turing",
    "g2_online": "turing",
    "g3": "erp",
    "g4": "mi",
    "g5": "mi",
    "my_algorithm": "emotion",
    "ecog": "ecog",
}
EXAMPLES = {
    "g2": (twins.G2Twin, {"subjects": "2", "blocks": "1", "rounds": "1", "trials": "2"}),
    "g3": (twins.G3Twin, {"subjects": "2", "trials": "2", "difficulty": "0"}),
    "g4": (twins.G4Twin, {"subjects": "2", "blocks": "2", "trials": "2"}),
    "my_algorithm": (twins.MyAlgorithmTwin, {"subjects": "2", "blocks": "2", "pace": "0.02"}),
}


@pytest.mark.parametrize("name", TRACKS)
def test_every_template_passes_its_own_check(name: str) -> None:
    report = check_submission(open_submission(twins.TEMPLATES / name, TRACKS[name]), TRACKS[name])
    assert report.ok, report.text
    assert "would not count" not in report.text


@cache
def native(name: str) -> OfflineRun:
    twin, params = EXAMPLES[name]
    sessions = list(open_synthetic(TRACKS[name], params).sessions())
    return run_offline(TRACKS[name], twin(), sessions)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_submission_reports_exactly_what_its_algorithm_does_as_a_native_decoder(
    name: str, tmp_path: Path
) -> None:
    own = native(name)
    decoder = SubmissionDecoder(
        twins.TEMPLATES / name, TRACKS[name], limits=SMALL, log=tmp_path / "log"
    )
    try:
        sessions = list(open_synthetic(TRACKS[name], EXAMPLES[name][1]).sessions())
        hosted = run_offline(TRACKS[name], decoder, sessions)
    finally:
        decoder.close()
    assert any(event["kind"] == "report" for event in own.events)
    assert hosted.events == own.events
    assert hosted.result == own.result


def observed(events: list[dict[str, Any]]) -> list[Any]:
    """What was received and reported, in order."""
    kept = {"packet": ("start", "n", "triggers"), "report": ("result",)}
    return [
        [event[key] for key in kept[event["kind"]] if key in event]
        for event in events
        if event["kind"] in kept
    ]


@pytest.mark.lsl
def test_over_lsl_in_lockstep_it_is_the_same_run_and_the_same_score(tmp_path: Path) -> None:
    """One template: what differs between them is behind the host, which the test before compares."""
    name = "g4"
    params = "&".join(f"{key}={value}" for key, value in EXAMPLES[name][1].items())
    command = [sys.executable, "-m", "bci_stream.judge", "run", "--json", "--track", TRACKS[name]]
    command += ["--submission", str(twins.TEMPLATES / name)]
    command += ["--recording", f"synthetic:{TRACKS[name]}?{params}"]
    done = subprocess.run(
        [*command, "--lsl-session", f"host-{os.getpid()}"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "BCI_HOME": str(tmp_path / "home")},
        cwd=twins.TEMPLATES.parents[1],
    )
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads(done.stdout[done.stdout.index("[\n  {") :])
    log = [json.loads(line) for line in Path(outcome["log"]).read_text().splitlines()]
    own = native(name)
    assert outcome["reason"] == "finished"
    assert observed(log) == observed(own.events)
    assert outcome["score"] == own.score


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = twins.TEMPLATES.parent / "try_submissions.py"
    spec = importlib.util.spec_from_file_location("tried", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["tried"] = script  # its dataclass looks there
    spec.loader.exec_module(script)
    return script


def test_the_table_of_packages_that_were_tried_is_current(
    script: ModuleType, tmp_path: Path
) -> None:
    """What is the same on every machine: the packages, in their order, and the interface of each."""
    docs = (twins.TEMPLATES.parents[1] / "docs/submissions.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)`: (.+?) \| (\S+) \| .+ \| .+ \|$", docs, re.MULTILINE)
    made = []
    for name, package in script.PACKAGES.items():
        folder = tmp_path / name
        written = script.write_package(package, folder)
        interface = script.interface_of(package, written, folder / "laid-out")
        made.append((name, package.about, interface))
    assert rows == made


def test_a_row_of_the_table_is_what_the_script_finds(script: ModuleType) -> None:
    found = script.outcome(script.PACKAGES["calibrate-2026"])
    docs = (twins.TEMPLATES.parents[1] / "docs/submissions.md").read_text()
    row = next(line for line in docs.splitlines() if line.startswith("| `calibrate-2026`"))
    assert [cell.strip() for cell in row.split("|")][2] == found[0] == "g5"
    assert [cell.strip() for cell in row.split("|")][4] == found[2]
