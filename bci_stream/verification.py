"""Verification of a run log: its hash chain, its seal, the team's receipt, and the team's own messages.

A check that needs a key which is absent is listed as not made. docs/run-log.md defines the chain.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bci_stream.errors import LogError, WireError
from bci_stream.runlog import CHAIN_START, LOG_VERSION, chain_hash, encode, parse_line, split_hash
from bci_stream.wire.crypto import MAC_LENGTH, PublicKey, unseal_results, verified
from bci_stream.wire.messages import ReportMessage, ResultsMessage, read_results

DIAGNOSED = 10
"""For so many lines that break the chain, the line that they follow from is looked for."""

NO_PUBLIC_KEY = "no public key: give --public-key, --contest or --reveal"


IssuedTokens = Callable[[str], Sequence[bytes]]
"""Every token that a team was given; empty if unknown."""


def no_tokens(_team: str) -> Sequence[bytes]:
    return ()


@dataclass(frozen=True)
class VerificationKeys:
    """What signatures and seals are checked with; public_key: the contest's, None if unknown."""

    public_key: PublicKey | None = None
    tokens: IssuedTokens = no_tokens


@dataclass(frozen=True)
class Problem:
    """What is wrong; line: number from 1, or 0 if it concerns the whole log."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass
class LogCheck:
    """What was found in one log.

    lines: number of lines, without the seal. head: `h` of the last of these. held: the checks that were made
    and hold. unchecked: those that could not be made, and why. receipts: files that are of this run.
    amendments: the organiser's decisions that were added after the run.
    """

    log: str
    team: str = ""
    contest: str = ""
    run: str = ""
    lines: int = 0
    head: str = ""
    problems: list[Problem] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    amendments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def wrong(self, line: int, text: str) -> None:
        self.problems.append(Problem(line, text))


@dataclass(frozen=True)
class LogLine:
    """A line of a log. unhashed: its bytes without `h`; digest: `h`, or empty; event: empty if unreadable."""

    number: int
    unhashed: bytes
    digest: str
    event: dict[str, Any]

    @property
    def kind(self) -> object:
        return self.event.get("kind")


def verify_log(path: Path, keys: VerificationKeys, receipts: Sequence["Receipt"] = ()) -> LogCheck:
    """Check a log; receipts: of any runs, those of this one must agree with the log."""
    check = LogCheck(str(path))
    lines = _read_lines(path, check)
    if not lines:
        return check
    check.team = str(lines[0].event.get("team", ""))
    if not any(line.digest for line in lines):
        check.wrong(
            0,
            f"no hash chain: a log of version {lines[0].event.get('v', 1)!r:.20} can be scored, but "
            "whether it was changed can't be found out",
        )
        return check
    _check_chain(lines, check)
    _check_frame(lines, check)
    _check_seal(lines, check, keys.public_key)
    _check_reports(lines, check, keys.tokens(check.team))
    for receipt in receipts:
        of_run = receipt.run == check.run if check.run else receipt.run in path.name
        if of_run and receipt.team == check.team:
            check.receipts.append(receipt.name)
            _check_receipt(receipt, lines, check, keys.public_key)
    return check


# --- lines and chain --------------------------------------------------------------------------


def _read_lines(path: Path, check: LogCheck) -> list[LogLine]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"can't read the log {path}: {error}") from None
    *whole, rest = content.split(b"\n")
    if not content:
        check.wrong(0, "the log is empty")
    elif rest:
        check.wrong(len(whole) + 1, "cut off: it does not end with a newline")
        whole.append(rest)
    return [_line(path, number, raw, check) for number, raw in enumerate(whole, start=1)]


def _line(path: Path, number: int, raw: bytes, check: LogCheck) -> LogLine:
    try:
        event = parse_line(path, number, raw + b"\n")
    except LogError:
        check.wrong(number, "not a JSON object")
        event = {}
    return LogLine(number, *split_hash(raw), event)


def _check_chain(lines: list[LogLine], check: LogCheck) -> None:
    """Each line's `h` must be the hash of the line before and of its own bytes."""
    previous, broken = CHAIN_START, 0
    for line in lines:
        if not line.digest:
            check.wrong(line.number, "has no hash: it was added or changed")
        elif chain_hash(previous, line.unhashed) != line.digest:
            broken += 1
            check.wrong(line.number, _diagnosis(line, lines, exact=broken <= DIAGNOSED))
        previous = line.digest or previous
    if not check.problems:
        check.held.append(f"hash chain of {len(lines)} lines")


def _diagnosis(line: LogLine, lines: list[LogLine], *, exact: bool) -> str:
    """Why a line does not follow from the line before it."""
    before = line.number - 1
    changed = f"does not follow from line {before}: it was changed, or lines before it are missing"
    if before == 0:
        changed = "does not begin the chain: it was changed, or lines before it are missing"
    if not exact:
        return changed
    for other in lines[:before]:
        if other.digest == line.digest:
            return f"repeats line {other.number}"
    starts = [(0, CHAIN_START), *((other.number, other.digest) for other in lines)]
    for number, digest in starts:
        if chain_hash(digest, line.unhashed) == line.digest:
            if number > line.number:
                return f"stood behind line {number}: lines were moved"
            if number + 1 == before:
                return f"stood behind line {number}: line {before} was added or moved"
            return f"stood behind line {number}: lines {number + 1} to {before} were added or moved"
    return changed


def _check_frame(lines: list[LogLine], check: LogCheck) -> None:
    """A whole log: the run line, everything else, the end line, the seal."""
    if lines[0].kind != "run" or lines[0].event.get("v") != LOG_VERSION:
        check.wrong(1, f"must be a run line of version {LOG_VERSION}, as in every log with hashes")
    for line in lines[1:]:
        if line.kind == "run":
            check.wrong(line.number, "a second run line: a log holds one run")
    for part in _parts(lines)[1:]:
        for line in part:
            is_amending = line.kind == "void" or (
                line.kind == "end" and line.event.get("reason") == "disqualified"
            )
            if line.kind != "seal" and not is_amending:
                check.wrong(
                    line.number,
                    "stands behind the seal, where only an operator's decisions may (`void`, or an `end` "
                    "line that disqualifies)",
                )
    first = _parts(lines)[0]
    for line in first[:-2]:
        if line.kind == "end":
            check.wrong(line.number + 1, "stands behind the end line; only the seal may")


def _parts(lines: list[LogLine]) -> list[list[LogLine]]:
    """The lines up to and with the first seal, and then those of each amendment, each with its seal."""
    parts: list[list[LogLine]] = [[]]
    for line in lines:
        if parts[-1] and parts[-1][-1].kind == "seal":
            parts.append([])
        parts[-1].append(line)
    return parts


# --- seal and receipt -------------------------------------------------------------------------


def _check_seal(lines: list[LogLine], check: LogCheck, key: PublicKey | None) -> None:
    """Each part must end with a seal that holds the number and the hash of the line before it, signed."""
    parts = _parts(lines)
    for number, part in enumerate(parts):
        _check_part(part, check, key, is_amendment=number > 0)
    check.amendments = [line.event for part in parts[1:] for line in part if line.kind != "seal"]
    if check.amendments and not check.problems:
        count = len(check.amendments)
        check.held.append(
            f"{count} decision{'s' if count > 1 else ''} of the organiser, added after the run and sealed"
        )


def _check_part(
    part: list[LogLine], check: LogCheck, key: PublicKey | None, *, is_amendment: bool
) -> None:
    *before, seal = part
    if seal.kind != "seal" or not before:
        check.lines, check.head = seal.number, seal.digest
        ended = seal.kind == "end" or is_amendment
        check.wrong(0, f"no seal behind line {seal.number}: " + (
            "the judge that wrote it had no key, or the seal was removed"
            if ended
            else "the run has not ended, or lines at the end of the log are missing"
        ))  # fmt: skip
        return
    last = before[-1]
    check.lines, check.head = last.number, last.digest
    check.contest, check.run = (str(seal.event.get(name, "")) for name in ("contest", "run"))
    if last.kind != "end" and not is_amendment:
        check.wrong(seal.number, "a seal without an end line before it")
    if (seal.event.get("lines"), seal.event.get("head")) != (last.number, last.digest):
        check.wrong(seal.number, f"the seal is not that of the {last.number} lines before it")
    if seal.event.get("team") != check.team:
        check.wrong(seal.number, f"the seal is not that of a log of team {check.team!r:.60}")
    if key is None:
        check.unchecked.append(f"the signature of the seal ({NO_PUBLIC_KEY})")
    elif key.verified(seal.unhashed.decode("utf-8", "replace"), "log") is None:
        check.wrong(seal.number, f"the seal was not signed with the contest's key {short(key)}")
    elif not is_amendment:
        check.held.append(f"seal, signed with the contest's key {short(key)}")


def short(key: PublicKey) -> str:
    """The first digits of a key, for people to compare."""
    return f"{key.raw.hex()[:16]}..."


class Receipt(msgspec.Struct, frozen=True):
    """The judge's signed `closed` message, which each team keeps. text: as it was signed."""

    contest: str
    run: str
    team: str
    reason: str
    head: str
    lines: int
    text: str = ""
    name: str = ""


_MAC = re.compile(rf" [0-9a-f]{{{MAC_LENGTH}}}$")


def read_receipt(path: Path) -> Receipt:
    """Raises LogError for a file that is absent or is not a receipt."""
    try:
        text = _MAC.sub("", path.read_text("utf-8").strip())
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("kind") != "closed":
            raise ValueError('its `kind` is not "closed"')
        return msgspec.convert({**content, "text": text, "name": str(path)}, Receipt)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise LogError(
            f"{path} is not a receipt ({error}): give the file that bci-decode saved at the end of the run"
        ) from None


def _check_receipt(
    receipt: Receipt, lines: list[LogLine], check: LogCheck, key: PublicKey | None
) -> None:
    found = len(check.problems)
    about = f"receipt {receipt.name}"
    if key is None:
        check.unchecked.append(f"the signature of {about} ({NO_PUBLIC_KEY})")
    elif key.verified(receipt.text, "judge") is None:
        check.wrong(0, f"{about} was not signed with the contest's key {short(key)}")
    if receipt.contest != (check.contest or receipt.contest):
        check.wrong(0, f"{about} is of contest {receipt.contest!r:.60}")
    elif (receipt.lines, receipt.head) not in _sealed_heads(lines):
        check.wrong(
            0,
            f"{about} is of a log of {receipt.lines} lines with head {receipt.head:.16}...; this one has "
            f"{check.lines} lines and head {check.head:.16}...",
        )
    elif lines[receipt.lines - 1].event.get("reason") != receipt.reason:
        check.wrong(0, f"{about} has another reason for the end: {receipt.reason!r:.60}")
    if len(check.problems) == found:
        check.held.append(about)


def _sealed_heads(lines: list[LogLine]) -> set[tuple[int, str]]:
    """Number and hash of each line that ended the log at some time: a receipt is of the first."""
    ends = [
        part[-2] if part[-1].kind == "seal" and len(part) > 1 else part[-1]
        for part in _parts(lines)
    ]
    return {(line.number, line.digest) for line in ends}


# --- reports ----------------------------------------------------------------------------------


def _check_reports(lines: list[LogLine], check: LogCheck, tokens: Sequence[bytes]) -> None:
    """Each report must be what the team sent in this run, and no message may count twice."""
    reports = [line for line in lines if line.kind == "report"]
    found = len(check.problems)
    unread = 0  # sealed, and there is no token
    used: dict[object, int] = {}
    for line in reports:
        try:
            message = _message_of(line.event, check, tokens)
        except WireError as error:
            check.wrong(line.number, str(error))
            continue
        unread += message is None
        number = line.event["message"] if message is None else message.seq
        if number in used:
            check.wrong(line.number, f"the team's message is that of line {used[number]}")
        used[number] = line.number
    if reports and not tokens:
        sealed = f"; the results of {unread} of them, which are sealed" if unread else ""
        check.unchecked.append(
            f"who sent {_count(len(reports))}{sealed} (no token of team {check.team!r:.60}: give "
            "--contest, --reveal, or the team's file as --public-key)"
        )
    if len(check.problems) == found and len(reports) > unread:
        what = "as sent by the team" if tokens else "equal to the messages in the log"
        check.held.append(f"{_count(len(reports) - unread)}, {what}")


def _count(reports: int) -> str:
    return "1 report" if reports == 1 else f"{reports} reports"


def _message_of(
    event: dict[str, Any], check: LogCheck, tokens: Sequence[bytes]
) -> ReportMessage | None:
    """The team's message in a report line; None if it is sealed and there is no token.

    Raises WireError if the team did not send it in this run, or if the line differs from it.
    """
    signed = event.get("message")
    if not isinstance(signed, str) or not signed:
        raise WireError("a report without the team's message")
    message = _opened(signed, tokens, check.contest)
    if message is None:
        return None
    if not isinstance(message, ReportMessage):
        raise WireError("the team's message is not a report")
    ids = (message.contest, message.run, message.team)
    if ids != (check.contest or ids[0], check.run or ids[1], check.team):
        raise WireError(
            f"the team's message is of contest {ids[0]!r}, run {ids[1]!r}, team {ids[2]!r}"
        )
    if event.get("n", -1) != message.n:
        raise WireError(
            f"the team's message has number {message.n}, the line {event.get('n')!r:.20}"
        )
    if encode({"result": message.result}) != encode({"result": event.get("result")}):
        raise WireError("the result is not that of the team's message")
    return message


def _opened(signed: str, tokens: Sequence[bytes], contest: str) -> ResultsMessage | None:
    """The message, verified if there are tokens; None if it is sealed and there is none.

    Raises WireError if the team did not send it.
    """
    if signed.startswith("{"):
        if tokens and not any(verified(signed, token) for token in tokens):
            raise WireError("the team's message was not signed with its token")
        return read_results(signed[: -MAC_LENGTH - 1])
    for token in tokens:
        try:
            text, team, run, seq = unseal_results(signed, token, contest)
        except WireError:
            continue
        message = read_results(text)
        if (message.team, message.run, message.seq) != (team, run, seq):
            raise WireError("the team's message and its head differ in team, run or number")
        return message
    if tokens:
        raise WireError("the team's message was not sealed with its token for this contest and run")
    return None
