"""Where the service keeps what outlives a process: state of daemons, default contest, run logs."""

import os
from pathlib import Path


def home() -> Path:
    """$BCI_HOME, or bci-stream in the user's state folder; made where it is absent."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(os.environ.get("BCI_HOME") or Path(base) / "bci-stream")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
