"""Puts this folder's helpers on the path, whatever import mode pytest runs in."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path, monkeypatch):
    """Manual triggers of these tests reach no other process."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
