"""The organiser's work in a season: actions from the console or the command line, and what the console shows.

All take the store that their caller owns. `now` is in seconds since 1970.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from bci_stream.contest.checks import check_title
from bci_stream.contest.contest import Contest
from bci_stream.contest.phases import Phase, check_phases
from bci_stream.contest.teams import add_team
from bci_stream.errors import ContestError
from bci_stream.season.standing import phases_of
from bci_stream.season.storage.records import Application
from bci_stream.season.storage.store import SeasonStore
from bci_stream.wire.names import checked_name
from tracks.common.reasons import Reason

LONGEST_LINE: Final = 500
LONGEST_CONTACT: Final = 200
FAILURES: Final = "season-failures"
"""Folder with the output of units that failed through the organiser's side."""
FAILURE_NAME: Final = re.compile(r"\d+-\d+-\d+")
FAILED: Final = frozenset({"stopped", "expired", "lost", "late"})
SHOWN: Final = 50

FormFields = Mapping[str, str]


def dated_phases(contest: Contest, dates: Mapping[str, tuple[str, str]]) -> Sequence[Phase]:
    """The phases with the dates that the organiser changed since the contest file was written."""
    return [
        structs.replace(
            phase, opens=_date(dates[phase.name][0]), closes=_date(dates[phase.name][1])
        )
        if phase.name in dates
        else phase
        for phase in phases_of(contest)
    ]


def _date(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ContestError(
            f"{text!r} is no date: give one such as 2026-03-01T18:00, in the phase's time zone, or with an "
            "offset such as +08:00; empty for none"
        ) from None


def perform(
    contest: Contest, store: SeasonStore, action: str, fields: FormFields, who: str, now: float
) -> Reason:
    """Do an action and record it; returns what was done. Raises ContestError or StoreError."""
    if action not in ACTIONS:
        raise ContestError(f"no action {action!r}; there are {', '.join(ACTIONS)}")
    return ACTIONS[action](contest, store, fields, who, now)


def _announce(_: Contest, store: SeasonStore, fields: FormFields, who: str, now: float) -> Reason:
    text = _line(fields, "text", "an announcement")
    store.announce(text, who, now)
    return Reason("did_announce", text=text)


def _remove(_: Contest, store: SeasonStore, fields: FormFields, who: str, now: float) -> Reason:
    number = number_in(fields)
    if not store.remove_announcement(number, who, now):
        raise ContestError(f"there is no announcement {number}")
    return Reason("did_remove")


def _dates(
    contest: Contest, store: SeasonStore, fields: FormFields, who: str, now: float
) -> Reason:
    name, opens, closes = (fields.get(each, "").strip() for each in ("phase", "opens", "closes"))
    known = [phase.name for phase in phases_of(contest)]
    if name not in known:
        raise ContestError(f"no phase {name!r}; there are {', '.join(known)}")
    changed = {**store.phase_dates(), name: (opens, closes)}
    phases = dated_phases(contest, changed)
    check_phases(phases, list(contest.tracks), "dates")
    store.set_phase_dates(name, opens, closes, who, now)
    phase = next(each for each in phases if each.name == name)
    shown = [phase.shown_time(each) or Reason("no_limit") for each in (phase.opens, phase.closes)]
    return Reason("did_dates", phase=name, opens=shown[0], closes=shown[1])


def _retry(_: Contest, store: SeasonStore, fields: FormFields, who: str, now: float) -> Reason:
    number = _submission(store, fields)
    store.retry(number, who, now)
    return Reason("did_retry", number=number)


def _disqualify(_: Contest, store: SeasonStore, fields: FormFields, who: str, now: float) -> Reason:
    number, reason = (
        _submission(store, fields),
        _line(fields, "reason", "the reason, which the team sees,"),
    )
    store.disqualify(number, who, reason, now)
    return Reason("did_disqualify", number=number)


def _approve(
    contest: Contest, store: SeasonStore, fields: FormFields, who: str, now: float
) -> Reason:
    number = number_in(fields)
    found = next((a for a in store.applications() if (a.id, a.state) == (number, "waiting")), None)
    if found is None:
        raise ContestError(f"no application {number} waits")
    if (
        found.team not in contest.team_list()
    ):  # or: approved by a server that was killed before it noted it
        add_team(contest, found.team, found.name)
    store.decide(number, "approved", who, now)
    return Reason("did_approve", team=found.team)


def _refuse(_: Contest, store: SeasonStore, fields: FormFields, who: str, now: float) -> Reason:
    refused = store.decide(number_in(fields), "refused", who, now)
    return Reason("did_refuse", team=refused.team)


def _line(fields: FormFields, name: str, what: str) -> str:
    text = " ".join(fields.get(name, "").split())
    if not text or len(text) > LONGEST_LINE or not text.isprintable():
        raise ContestError(f"{what} has 1 to {LONGEST_LINE} printable characters")
    return text


def number_in(fields: FormFields) -> int:
    """The number that a form gives. Raises ContestError."""
    text = fields.get("number", "")
    if not text.isdecimal() or len(text) > 9:
        raise ContestError(f"{text[:20]!r} is no number")
    return int(text)


def _submission(store: SeasonStore, fields: FormFields) -> int:
    number = number_in(fields)
    if store.submission(number) is None:
        raise ContestError(f"there is no submission {number}; `bci-judge season export` lists all")
    return number


ACTIONS: Final[dict[str, Callable[[Contest, SeasonStore, FormFields, str, float], Reason]]] = {
    "announce": _announce,
    "remove": _remove,
    "dates": _dates,
    "retry": _retry,
    "disqualify": _disqualify,
    "approve": _approve,
    "refuse": _refuse,
}


# --- registration -----------------------------------------------------------------------------


def apply_for(contest: Contest, store: SeasonStore, fields: FormFields, now: float) -> str:
    """Add an application; returns the code with which the team fetches its file. Raises ContestError."""
    if contest.registration != "open":
        raise ContestError(
            "this season has no open registration: ask the organiser for a team file"
        )
    team, contact = fields.get("team", "").strip(), fields.get("contact", "").strip()
    name = fields.get("name", "").strip()
    checked_name(team, "team")
    if name:
        check_title(name, "display name")
    if not contact or len(contact) > LONGEST_CONTACT or not contact.isprintable():
        raise ContestError(
            f"contact: 1 to {LONGEST_CONTACT} printable characters, such as an e-mail address"
        )
    if team.lower() in (each.lower() for each in contest.team_list()):
        raise ContestError(f"team {team!r} takes part already; choose another id")
    code = secrets.token_hex(16)
    store.apply(team, name, contact, code_hash(code), now)
    return code


def code_hash(code: str) -> str:
    return hashlib.sha256(code.strip().encode()).hexdigest()


def claimed(contest: Contest, store: SeasonStore, code: str) -> tuple[Application, bytes | None]:
    """The application of a code, and the team's file where it is approved and was not fetched yet.

    Raises ContestError for a code that is not known.
    """
    found = store.claim(code_hash(code))
    if found is None:
        raise ContestError("this code is of no application")
    if found.state != "approved":
        return found, None
    path = contest.keys.team_file(found.team, contest.name, contest.results, contest.peers)
    return found, path.read_bytes()


# --- what the console shows -------------------------------------------------------------------


def overview(contest: Contest, store: SeasonStore, now: float) -> dict[str, Any]:
    """Queue, running units, failures, applications, announcements, phases and past actions; the latest of
    each: a season has thousands of submissions.
    """
    failures = folder_names(contest.folder / FAILURES)
    return {
        "stages": store.stages(),
        "queues": sorted(store.queues(), key=lambda queue: -queue.waiting)[:SHOWN],
        "running": [{"attempt": each, "seconds": now - each.began} for each in store.running()],
        "held": list(reversed(store.latest(SHOWN, fault="organiser"))),
        "failures": [
            {"attempt": each, "log": name if name in failures else ""}
            for each in store.failed_attempts(FAILED, SHOWN)
            for name in [f"{each.submission}-{each.number}-{each.attempt}"]
        ],
        "latest": store.latest(SHOWN),
        "applications": [each for each in store.applications() if each.state == "waiting"],
        "announcements": store.announcements(),
        "phases": dated_phases(contest, store.phase_dates()),
        "actions": store.actions(SHOWN),
    }


def folder_names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.log")} if folder.is_dir() else set()
