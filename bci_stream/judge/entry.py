"""An entry of a contest in lockstep, and how its run ended."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One team on one track: how its decoder is started, and what is played to it."""

    team: str
    track: str
    recordings: tuple[str, ...]
    decoder_arguments: tuple[str, ...] = ()


@dataclass
class Outcome:
    """How an entry's run ended."""

    entry: Entry
    reason: str
    detail: str = ""
    score: float = 0.0
    log: Path | None = None
    sessions: list[dict[str, object]] = field(default_factory=list)
