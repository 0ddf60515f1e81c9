"""The operator's journal: every request and its answer, one JSON object a line, in the contest's folder.

Its suffix is not that of run logs, which `bci-judge report FOLDER` looks for. A judge that is started again
reads from it what was decided on a run that goes on.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bci_stream.contest.actions import (
    AnyAction,
    LogIn,
    OperatorAnswer,
    OperatorRequest,
    read_action,
)
from bci_stream.errors import ContestError, LogError

ABOUT = ("at", "by", "runs", "done", "answer")
"""Fields of a line beside those of the action."""


class JournalHead(msgspec.Struct):
    """What decides whether a line concerns a run; `runs` is absent in journals of earlier versions."""

    done: bool
    runs: list[str] = []


def journal_path(folder: Path, contest: str) -> Path:
    return folder / f"operator-{contest}.journal"


class OperatorJournal:
    """Appends to the journal (mode 0600); each line is on disk before the action counts as done.

    A line has `at` (UTC), `by`, the request, `runs`, `done` and `answer`. A token is never written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise LogError(
                f"can't write the operator's journal {path}: {error.strerror}; without it no action is taken"
            ) from error

    def add(
        self, request: OperatorRequest, answer: OperatorAnswer, runs: Sequence[str] = ()
    ) -> None:
        """runs: ids of the replays' runs that it concerned."""
        action = msgspec.to_builtins(request.do)
        if isinstance(request.do, LogIn):
            action["token"] = "..."
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "by": request.by,
            **action,
            "runs": list(runs),
            "done": answer.done,
            "answer": answer.text,
        }
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fsync(self._file)

    def decisions(self, run: str) -> Iterator[AnyAction]:
        """The actions that were done on a run, the first one first; lines that can't be read are left out."""
        for text in self.path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError, ContestError):
                head = msgspec.json.decode(text, type=JournalHead)
                if head.done and run in head.runs:
                    line = msgspec.json.decode(text, type=dict[str, object])
                    fields = {name: line[name] for name in line if name not in ABOUT}
                    yield read_action(msgspec.json.encode(fields))

    def close(self) -> None:
        os.close(self._file)
