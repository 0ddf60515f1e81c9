"""How a submission ends is in the run log, with the reason in words; the other teams go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.decoders.host import twins
from tests.decoders.host.conftest import Write

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hostable"), pytest.mark.lsl]

CODE = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            for _ in range(100):
                self.comm_proxy.get_data()
            self.comm_proxy.report(1)
            BODY
"""
BODIES = {
    "crashed": 'raise ValueError("mine")',
    "disqualified": "[self.comm_proxy.report(number) for number in range(10**6)]",
}


@pytest.mark.parametrize("reason", BODIES)
def test_the_log_shows_how_it_ended_and_why(reason: str, write: Write, tmp_path: Path) -> None:
    code = CODE.replace("BODY", BODIES[reason])
    root = write({"Algorithm/impl/AlgorithmImplement.py": code})
    command = [sys.executable, "-m", "bci_stream.judge", "run", "--json", "--track", "mi"]
    command += [
        "--submission",
        str(root),
        "--recording",
        "synthetic:mi?subjects=1&blocks=1&trials=2",
    ]
    done = subprocess.run(
        [*command, "--lsl-session", f"host-{os.getpid()}"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "BCI_HOME": str(tmp_path / "home")},
        cwd=twins.TEMPLATES.parents[1],
    )
    (outcome,) = json.loads(done.stdout[done.stdout.index("[\n  {") :])
    log = [json.loads(line) for line in Path(outcome["log"]).read_text().splitlines()]
    assert outcome["reason"] == log[-1]["reason"] == reason
    assert ("ValueError: mine" in log[-1]["detail"]) == (reason == "crashed")
    assert sum(event["kind"] == "packet" for event in log) == 100
    assert [event["result"] for event in log if event["kind"] == "report"][:1] == [1]
