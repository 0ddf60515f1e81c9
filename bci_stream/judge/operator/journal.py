"""The operator's journal: every request and its answer, one JSON object a line, in the contest's folder.

Its suffix is not that of run logs, which `bci-judge report FOLDER` looks for.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bci_stream.contest.actions import LogIn, OperatorAnswer, OperatorRequest
from bci_stream.errors import LogError


def journal_path(folder: Path, contest: str) -> Path:
    return folder / f"operator-{contest}.journal"


class OperatorJournal:
    """Appends to the journal (mode 0600); each line is on disk before the action counts as done.

    A line has `at` (UTC), `by`, the request, `done` and `text`, the answer. A token is never written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise LogError(
                f"can't write the operator's journal {path}: {error.strerror}; without it no action is taken"
            ) from error

    def add(self, request: OperatorRequest, answer: OperatorAnswer) -> None:
        action = msgspec.to_builtins(request.do)
        if isinstance(request.do, LogIn):
            action["token"] = "..."
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": request.by,
            **action,
            "done": answer.done,
            "answer": answer.text,
        }
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
