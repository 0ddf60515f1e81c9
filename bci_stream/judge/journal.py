"""The journal of a contest in lockstep: which entries have run, so that an interrupted one goes on."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bci_stream.judge.entry import Entry, Outcome


class Journal:
    """One JSON line for each run that came to its end by itself; what was stopped is run again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, outcome: Outcome) -> None:
        if outcome.reason == "stopped":
            return
        line = {
            "entry": asdict(outcome.entry),
            "reason": outcome.reason,
            "detail": outcome.detail,
            "score": outcome.score,
            "log": str(outcome.log) if outcome.log else None,
            "sessions": outcome.sessions,
        }
        with self.path.open("a") as file:
            # First ends the line that was being written when an earlier judge was killed.
            file.write("\n" + json.dumps(line) + "\n")

    def done(self) -> dict[Entry, Outcome]:
        """What has run, as far as its log is still there."""
        outcomes = (_outcome(line) for line in self._lines())
        return {
            outcome.entry: outcome
            for outcome in outcomes
            if outcome.log is None or outcome.log.exists()
        }

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(errors="replace").splitlines():
            with suppress(json.JSONDecodeError):  # it was cut off: that run is run again
                yield json.loads(line)


def _outcome(line: dict[str, Any]) -> Outcome:
    made = line["entry"]
    entry = Entry(
        made["team"], made["track"], tuple(made["recordings"]), tuple(made["decoder_arguments"])
    )
    log = Path(line["log"]) if line["log"] else None
    return Outcome(entry, line["reason"], line["detail"], line["score"], log, line["sessions"])
