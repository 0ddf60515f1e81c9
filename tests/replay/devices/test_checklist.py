"""The checklist names files and tests that exist."""

import re
from pathlib import Path

import replay.devices.registry

HERE = Path(__file__).parent


def test_every_file_and_test_of_the_checklist_exists():
    text = (HERE / "checklist.md").read_text()
    written = {
        name
        for file in HERE.glob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", text))
    files = set(re.findall(r"`(\w+\.py)`", text)) - {"test_checklist.py"}
    modules = {path.name for path in Path(replay.devices.__file__).parent.rglob("*.py")}
    assert named - written == set()
    assert files - modules == set()
    assert len(named) > 60


def test_every_kind_of_fault_that_an_emulator_can_make_is_made_in_a_test():
    from replay.devices.emulator.amplifier import FAULTS

    tests = "".join(file.read_text() for file in HERE.glob("test_*.py"))
    missing = {kind for kind in FAULTS if not re.search(rf"[\"']{kind}[@:\"']", tests)}
    assert missing == set()
