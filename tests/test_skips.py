"""Every skip is shown in one line at the end of the tests, with what to do about it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from skips import skip_lines

TESTS = Path(__file__).parent
CALLS = ("skip", "skipif", "importorskip")


def reasons_in(path: Path) -> set[str]:
    """The reasons that a module gives as literals; x stands for the variable parts of a text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in CALLS:
            given = [each.value for each in node.keywords if each.arg == "reason"]
            texts = given or node.args[:1]
            found |= {_text(text) for text in texts}
    return found - {""}


def _text(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts]
    return "" if texts == ["x"] else "".join(texts)


def test_equal_reasons_are_one_line_with_a_remedy() -> None:
    lines = list(skip_lines(["Skipped: no chromium is installed"] * 2 + ["it rains"]))
    assert lines == [
        "2 skipped: no chromium is installed -> playwright install chromium",
        "1 skipped: it rains",
    ]


def test_every_reason_has_a_remedy() -> None:
    modules = [path for path in TESTS.rglob("*.py") if "skip" in path.read_text("utf-8")]
    reasons = {
        text for path in modules if path.name != "test_skips.py" for text in reasons_in(path)
    }
    assert len(reasons) > 20
    assert [line for line in skip_lines(reasons) if "->" not in line] == []


def test_the_lines_stand_at_the_end_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(3))\n"
        "def test_it(n):\n    pytest.skip('no chromium is installed')\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from skips import write_skips\n"
        "def pytest_terminal_summary(terminalreporter): write_skips(terminalreporter)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert "3 skipped: no chromium is installed -> playwright install chromium\n" in done.stdout
