"""The public API: these names and no others, imported on first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bci_stream

ROOT = Path(__file__).parents[1]
NAMES = [
    "BciError",
    "Contest",
    "Decoder",
    "Evaluation",
    "Lead",
    "LslTransport",
    "MemoryTransport",
    "Online",
    "Packet",
    "SignalInfo",
    "TRACKS",
    "TeamClient",
    "evaluate",
    "load_contest",
    "load_decoder",
    "masked_packets",
    "open",
    "open_source",
    "read_log",
    "replay",
    "run_offline",
    "score",
    "score_run",
]


def test_the_public_names_are_these() -> None:
    assert sorted(bci_stream.__all__) == sorted(dir(bci_stream)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_name_can_be_imported(name: str) -> None:
    value = getattr(bci_stream, name)
    assert callable(value) or name == "TRACKS"
    assert getattr(bci_stream, name) is value


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Hearing'"):
        bci_stream.Hearing  # noqa: B018


def test_the_import_itself_loads_nothing() -> None:
    code = (
        "import sys, bci_stream; print([m for m in ('numpy', 'click', 'mne') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_none_of_our_modules_imports_from_it() -> None:
    for package in ("tracks", "bci_stream", "replay", "decoders"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "from bci_stream import" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module == "bci_stream":
                    assert not {alias.name for alias in node.names} & set(NAMES), path


def test_the_example_of_the_docstring_runs() -> None:
    sessions = list(
        bci_stream.open_source("synthetic:mi?set=test&subjects=1&blocks=1&trials=2").sessions()
    )
    run = bci_stream.run_offline("mi", bci_stream.load_decoder("mi-chance", "mi"), sessions).run
    assert run.result()["sessions"][0]["trials"] > 0
