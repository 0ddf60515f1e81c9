"""Lines that are added to the log of a run that is over: an operator's decision on an appeal.

The log keeps its lines, its seal and so the team's receipt. The new lines continue the hash chain, and a new
seal stands behind them (docs/run-log.md).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bci_stream.errors import ContestError, LogError
from bci_stream.runlog import RunLog
from bci_stream.wire.crypto import SigningKey
from tracks.run import Run

Seal = Callable[[str, int], str]
"""Makes the seal line of a log from the head of its chain and its number of lines: signed JSON."""


def log_seal(key: SigningKey, contest: str, run: str, team: str) -> Seal:
    """Seals the log of this run of this team; contest: its name on the wire, with the room."""
    about = {"kind": "seal", "contest": contest, "run": run, "team": team}

    def seal(head: str, lines: int) -> str:
        text = msgspec.json.encode({**about, "head": head, "lines": lines}).decode()
        return key.sign(text, "log")

    return seal


def amend_log(path: Path, lines: Sequence[Mapping[str, Any]], seal: Seal | None) -> None:
    """Add lines and a new seal to a log that is closed; raises LogError if that fails.

    Two processes that amend one log at the same time take turns. seal: None for a log without a seal.
    """
    if path.suffix == ".gz":
        raise LogError(f"{path} is compressed: unpack it (gunzip), amend it, and compress it again")
    log = RunLog(path, append=True)
    try:
        with suppress(ImportError):  # Windows has none; there no judge runs
            import fcntl

            fcntl.flock(log.fileno(), fcntl.LOCK_EX)
        log.reread_end()
        for line in lines:
            log.write(line)
        if seal is not None and log.head:
            log.write_object(seal(log.head, log.lines).encode())
    finally:
        log.close()


def void_line(run: Run, session: int, block: int, trial: int | None, reason: str) -> dict[str, Any]:
    """A `void` line; session, block and trial are counted from 1.

    Raises ContestError if the run's truth has no such trial.
    """
    where = f"session {session}, block {block}" + ("" if trial is None else f", trial {trial}")
    if session > len(run.sessions):
        raise ContestError(f"there is no {where}: {len(run.sessions)} sessions have begun so far")
    trials = [(v.block + 1, v.trial + 1) for v in run.sessions[session - 1].verdicts()]
    of_block = [number for number_of_block, number in trials if number_of_block == block]
    if not of_block:
        blocks = sorted({number for number, _ in trials})
        raise ContestError(f"there is no {where}: the truth has the blocks {_listed(blocks)}")
    if trial is not None and trial not in of_block:
        raise ContestError(f"there is no {where}: the block has the trials {_listed(of_block)}")
    line: dict[str, Any] = {"kind": "void", "session": session - 1, "block": block - 1}
    if trial is not None:
        line["trial"] = trial - 1
    return {**line, "reason": reason}


def _listed(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none yet"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
