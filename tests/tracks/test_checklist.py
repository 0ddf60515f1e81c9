"""The checklist names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_of_the_checklist_exists():
    named = re.findall(r"`(test_\w+)`", (TESTS / "tracks" / "checklist.md").read_text())
    others = ("test_runlog.py", "end_to_end/test_label_leaks.py")
    files = [*(TESTS / "tracks").glob("test_*.py"), *(TESTS / name for name in others)]
    written = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert set(named) - written == set()
    assert len(set(named)) > 90
