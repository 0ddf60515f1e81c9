"""Comparison of two run logs: in lockstep they are equal but for measured times and what names the run."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from bci_stream.runlog import encode, read_log

MEASURED: Final = frozenset({"t", "elapsed_s", "compute_s"})
OF_ONE_RUN: Final = frozenset({"h", "message", "contest", "run"})
"""The hash covers measured times; the team's message names the run."""
PASSED_OVER: Final = frozenset({"seal", "status"})


def comparable_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, the line without what may differ between two runs of one decoder)."""
    for number, event in read_log(path):
        if event.get("kind") not in PASSED_OVER:
            yield number, encode(_comparable(event))


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in event.items() if key not in MEASURED and key not in OF_ONE_RUN
    }


def first_difference(one: Path, other: Path) -> str | None:
    """Where two logs differ first, with both lines; None if they agree. Raises LogError."""
    pairs = zip_longest(
        comparable_lines(one), comparable_lines(other), fillvalue=(0, b"(no line)\n")
    )
    for (number, line), (other_number, other_line) in pairs:
        if line != other_line:
            shown = [text.decode(errors="replace").strip()[:200] for text in (line, other_line)]
            return f"line {number or other_number}: {shown[0]} against {shown[1]}"
    return None
