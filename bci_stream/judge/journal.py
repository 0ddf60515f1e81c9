"""The journal of a contest in lockstep: which entries have run, so that an interrupted one goes on."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bci_stream.judge.entry import Entry, Outcome


class Journal:
    """One JSON line for each run that came to its end by itself; what was stopped is run again."""

    def __init__(self, path: Path) -> None:
        self._path = path

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
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def done(self) -> dict[Entry, Outcome]:
        """What has run, as far as its log is still there."""
        outcomes = (_outcome(line) for line in self._lines())
        return {
            outcome.entry: outcome
            for outcome in outcomes
            if outcome.log is None or outcome.log.exists()
        }

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        whole = [
            line for line in self._path.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [json.loads(line) for line in whole]


def _outcome(line: dict[str, Any]) -> Outcome:
    made = line["entry"]
    entry = Entry(
        made["team"], made["track"], tuple(made["recordings"]), tuple(made["decoder_arguments"])
    )
    log = Path(line["log"]) if line["log"] else None
    return Outcome(entry, line["reason"], line["detail"], line["score"], log, line["sessions"])
