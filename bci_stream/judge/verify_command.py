"""`bci-judge verify` and `bci-judge reveal`: checks run logs, and publishes the keys to check them with."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import Keys, read_key, read_team_file
from bci_stream.errors import ContestError, LogError
from bci_stream.files import atomic_write
from bci_stream.leaderboard.fold import find_logs
from bci_stream.runlog import read_log
from bci_stream.verification import (
    IssuedTokens,
    LogCheck,
    Receipt,
    VerificationKeys,
    no_tokens,
    read_receipt,
    short,
    verify_log,
)
from bci_stream.wire.crypto import PublicKey

# --- verify -----------------------------------------------------------------------------------


def verify_logs(
    logs: Sequence[Path],
    *,
    receipts: Sequence[Path] = (),
    public_key: Path | None = None,
    contest: Path | None = None,
    reveal: Path | None = None,
    as_json: bool = False,
) -> bool:
    """Print what holds, what does not and what could not be checked; returns whether all logs hold.

    logs: files, or folders of them. Raises LogError or ContestError for a file that can't be read.
    """
    keys = _keys(public_key, contest, reveal)
    found = [log for path in logs for log in (find_logs(path) if path.is_dir() else [path])]
    checks = _verify(found, keys, [read_receipt(path) for path in receipts])
    holds = all(check.holds for check in checks)
    if as_json:
        print(json.dumps({"holds": holds, "logs": [_plain(check) for check in checks]}))
    else:
        for check in checks:
            print("\n".join(_words(check)))
    return holds


def _verify(
    logs: Sequence[Path], keys: VerificationKeys, receipts: Sequence[Receipt]
) -> list[LogCheck]:
    """Check each log, and that there is a log for each receipt."""
    checks = [verify_log(log, keys, receipts) for log in logs]
    used = {name for check in checks for name in check.receipts}
    for receipt in receipts:
        if receipt.name not in used:
            about = f"run {receipt.run!r:.60} of team {receipt.team!r:.60}"
            check = LogCheck(receipt.name, receipt.team, receipt.contest, receipt.run)
            check.wrong(0, f"a receipt of {about}, of which no log with hashes was given")
            checks.append(check)
    return checks


def _words(check: LogCheck) -> Iterator[str]:
    of_team = f" of team {check.team!r:.60}" if check.team else ""
    if check.problems:
        yield f"{check.log}: DOES NOT HOLD: {len(check.problems)} problem(s) in the log{of_team}"
    else:
        yield f"{check.log}: holds: the log{of_team} is as the judge wrote it{_in_part(check)}"
    yield from (f"  wrong: {problem}" for problem in check.problems)
    yield from (f"  holds: {what}" for what in check.held)
    yield from (f"  not checked: {what}" for what in check.unchecked)
    yield from (f"  decided after the run: {_decision(line)}" for line in check.amendments)


def _decision(line: dict[str, Any]) -> str:
    """A line that was added to the log of a run that was over; sessions, blocks and trials from 1."""
    if line.get("kind") != "void":
        return f"disqualified ({line.get('detail', '')})"
    where = ", ".join(
        f"{name} {line[name] + 1}"
        for name in ("session", "block", "trial")
        if isinstance(line.get(name), int)
    )
    return f"{where} void ({line.get('reason', '')})"


def _in_part(check: LogCheck) -> str:
    return ", as far as that could be checked" if check.unchecked else ""


def _plain(check: LogCheck) -> dict[str, Any]:
    return {**asdict(check), "holds": check.holds}


# --- keys -------------------------------------------------------------------------------------


def _keys(public_key: Path | None, contest: Path | None, reveal: Path | None) -> VerificationKeys:
    """The keys of these files; raises ContestError if they are of different contests."""
    found: list[tuple[Path, PublicKey, IssuedTokens]] = []
    if public_key is not None:
        found.append((public_key, *_read_public_key(public_key)))
    if contest is not None:
        keys = _keys_of(load_contest(contest))
        found.append((contest, keys.public_key(), keys.issued_tokens))
    if reveal is not None:
        content = read_reveal(reveal)
        found.append((reveal, content.key, content.tokens_of))
    if not found:
        return VerificationKeys()
    first, key, _ = found[0]
    for path, other, _ in found[1:]:
        if other.raw != key.raw:
            raise ContestError(
                f"{first} has the public key {short(key)}, {path} has {short(other)}: they are of "
                "different contests; give the files of one"
            )
    return VerificationKeys(key, lambda team: [t for *_, tokens in found for t in tokens(team)])


def _read_public_key(path: Path) -> tuple[PublicKey, IssuedTokens]:
    """A file with 64 hexadecimal digits, or a team file, which also has the token of its team."""
    if path.is_file() and path.read_bytes().lstrip().startswith(b"{"):
        file = read_team_file(path)
        tokens = {file.team: [file.token_bytes]}
        return PublicKey(bytes.fromhex(file.public_key)), lambda team: tokens.get(team, [])
    return PublicKey(read_key(path)), no_tokens


def _keys_of(contest: Contest) -> Keys:
    """The contest's keys; raises ContestError if it has none (`Keys` would make new ones)."""
    read_key(contest.folder / "keys" / "contest.key")
    return contest.keys


# --- reveal -----------------------------------------------------------------------------------


class RevealFile(msgspec.Struct, frozen=True, tag_field="kind", tag="reveal"):
    """What anybody needs to check the logs of a contest that is over.

    Keys and tokens are in hexadecimal; tokens: all that a team was given, by team.
    """

    contest: str
    public_key: str
    truth_key: str
    tokens: dict[str, list[str]]

    @property
    def key(self) -> PublicKey:
        return PublicKey(bytes.fromhex(self.public_key))

    def tokens_of(self, team: str) -> list[bytes]:
        return [bytes.fromhex(token) for token in self.tokens.get(team, [])]


def reveal_keys(contest_path: Path, out: Path, *, force: bool = False) -> list[str]:
    """Write the reveal file, signed with the contest's key; returns the teams in it.

    force: also while a judge or a server of the contest is at work; otherwise that raises ContestError.
    """
    contest = load_contest(contest_path)
    keys = _keys_of(contest)
    if not force:
        check_no_judge(
            contest,
            "with the teams' tokens anybody could take part as one of them; wait until it has ended, or "
            "give --force",
        )
    teams = sorted({*contest.team_list(), *_logged_teams(contest)})
    tokens = {team: [token.hex() for token in keys.issued_tokens(team)] for team in teams}
    public_key, truth_key = keys.public_key().raw.hex(), keys.truth_key().hex()
    content = RevealFile(contest.name, public_key, truth_key, tokens)
    text = keys.signing_key().sign(msgspec.json.encode(content).decode(), "log") + "\n"
    atomic_write(out, lambda file: file.write(text.encode()))
    return teams


def check_no_judge(contest: Contest, why: str) -> None:
    """Raise ContestError, with `why`, if a judge or a season's server holds the contest, or a room of it."""
    for path in sorted([*contest.folder.glob("judge-*.lock"), *contest.folder.glob("season.lock")]):
        try:
            FileLock(path).acquire(timeout=0).lock.release()
        except Timeout:
            kind, _, room = path.stem.partition("-")
            who = f"a judge of contest {room!r}" if kind == "judge" else "the server of the season"
            raise ContestError(f"{who} is at work: {why}") from None


def _logged_teams(contest: Contest) -> Iterator[str]:
    """The teams of the contest's logs: an open contest has no list of them."""
    for path in contest.runs.glob("*.jsonl*"):
        try:
            _, event = next(read_log(path))
        except (LogError, StopIteration):
            continue  # `verify` names what is wrong with it
        if team := event.get("team"):
            yield str(team)


def read_reveal(path: Path) -> RevealFile:
    """Raises ContestError for a file that is absent, is not a reveal file or was changed."""
    try:
        text = path.read_text("utf-8").strip()
        content = msgspec.json.decode(text, type=RevealFile)
        if content.key.verified(text, "log") is None:
            raise ValueError("its signature does not verify: it was changed")
        for team in content.tokens:
            content.tokens_of(team)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise ContestError(
            f"{path} can't be used ({error}): give the file that the organiser wrote with `bci-judge reveal`"
        ) from None
    return content
