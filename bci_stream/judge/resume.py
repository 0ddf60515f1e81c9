"""Finds the logs that a judge left when it died, so that a new one goes on with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bci_stream.errors import LogError
from bci_stream.judge.log import read_log


def earlier_logs(runs: Path, run_id: str) -> Iterator[tuple[str, Path, list[dict[str, Any]]]]:
    """(team, log, events) of each log of this run; one that has ended has an end line."""
    for path in sorted(runs.glob(f"*-{run_id}.jsonl")):
        drop_cut_line(path)
        try:
            events = [event for _, event in read_log(path)]
        except LogError:
            continue  # not ours to mend; `bci-judge score` says what is wrong with it
        if events:
            yield str(events[0]["team"]), path, events


def drop_cut_line(path: Path) -> None:
    """A line without its end was being written when the judge died: nothing was shown of it."""
    with path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
