"""How a submission ends is in the run log, with the reason in words; the other teams go on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.decoders.host import twins
from tests.decoders.host.conftest import Write
from tests.decoders.host.wheels import make_wheel

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


def judged(root: Path, home: Path, *options: str, **environ: str) -> list[dict[str, Any]]:
    """The outcomes of a whole contest of one submission."""
    command = [sys.executable, "-m", "bci_stream.judge", "run", "--json", "--track", "mi"]
    command += ["--submission", str(root), *options]
    command += ["--recording", "synthetic:mi?subjects=1&blocks=1&trials=2"]
    done = subprocess.run(
        [*command, "--lsl-session", f"host-{os.getpid()}"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "BCI_HOME": str(home / "home"), **environ},
        cwd=twins.TEMPLATES.parents[1],
    )
    outcomes: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[\n  {") :])
    return outcomes


@pytest.mark.parametrize("reason", BODIES)
def test_the_log_shows_how_it_ended_and_why(reason: str, write: Write, tmp_path: Path) -> None:
    code = CODE.replace("BODY", BODIES[reason])
    root = write({"Algorithm/impl/AlgorithmImplement.py": code})
    (outcome,) = judged(root, tmp_path)
    log = [json.loads(line) for line in Path(outcome["log"]).read_text().splitlines()]
    assert outcome["reason"] == log[-2]["reason"] == reason, outcome["detail"]
    assert ("ValueError: mine" in log[-2]["detail"]) == (reason == "crashed")
    assert sum(event["kind"] == "packet" for event in log) == 100
    assert [event["result"] for event in log if event["kind"] == "report"][:1] == [1]


def test_a_registry_out_of_reach_is_stopped_and_tried_again_and_a_bad_pin_is_the_team_s(
    write: Write, tmp_path: Path
) -> None:
    files = {"Algorithm/impl/AlgorithmImplement.py": CODE, "requirements.txt": "good==99\n"}
    own = f"?python={sys.version_info.major}.{sys.version_info.minor}"
    root = Path(f"{write(files)}{own}")
    make_wheel(tmp_path / "index", "good")
    places = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    closed = registry("http://127.0.0.1:9/simple")
    (outcome,) = judged(root, tmp_path, UV_HTTP_RETRIES="0", PIP_RETRIES="0", **places, **closed)
    assert outcome["reason"] == "stopped"
    assert "the package registry can't be reached" in outcome["detail"]
    here = registry((tmp_path / "index").as_uri())
    (outcome,) = judged(root, tmp_path, "--resume", **places, **here)
    assert outcome["reason"] == "crashed"
    assert "good==99" in outcome["detail"]


def registry(address: str) -> dict[str, str]:
    return {
        "PIP_INDEX_URL": address,
        "UV_DEFAULT_INDEX": address,
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
        "PIP_FIND_LINKS": "",
    }
