"""The folder of one attempt at a unit: all that a worker needs, and what it leaves.

Written by the server: contest.toml with the rules of the phase, keys/, unit.json and the package. Written by
the worker's process (`bci_stream.season.units.unit`): progress.json, runs/ and, last, outcome.json.
"""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from bci_stream.contest.contest import Contest, TrackPlan
from bci_stream.errors import ContestError, LogError
from bci_stream.files import atomic_write
from bci_stream.season.queue import CHECK

KEY_FILES: Final = ("contest.key", "teams.json")
BLOCK: Final = 1 << 20


class UnitJob(msgspec.Struct, frozen=True):
    """A unit of a submission.

    number: CHECK, or that of a run. recordings: what is played. runs: of the submission in all. arguments: of
    `bci-decode`, beside the package.
    """

    submission: int
    number: int
    attempt: int
    team: str
    track: str
    recordings: list[str]
    runs: int = 1
    arguments: list[str] = []

    @property
    def is_check(self) -> bool:
        return self.number == CHECK

    @property
    def name(self) -> str:
        return f"{self.submission}-{self.number}-{self.attempt}"


class UnitOutcome(msgspec.Struct, frozen=True):
    """How an attempt ended.

    ending: "passed" or "rejected" (check); a run's end reason; "stopped" for a failure on this side. detail:
    why, in words. report: text for the team. log: name of the run log in runs/; empty if there is none.
    """

    ending: str
    detail: str = ""
    report: str = ""
    log: str = ""
    log_sha256: str = ""


class UnitProgress(msgspec.Struct, frozen=True):
    """Samples played so far, and of the whole run; the subject that is played, from 1."""

    done: int = 0
    total: int = 0
    subject: int = 0


def write_job(
    folder: Path, contest: Contest, plan: TrackPlan, job: UnitJob, package: Path | None
) -> None:
    """Make the folder, readable by its owner alone. Raises OSError.

    package: a file, or a folder, which is packed; None for a decoder of this project.
    """
    if folder.exists():
        shutil.rmtree(folder)
    keys = folder / "keys"
    keys.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    for name in KEY_FILES:
        with suppress(FileNotFoundError):
            _write_private(keys / name, (contest.folder / "keys" / name).read_bytes())
    (folder / "contest.toml").write_text(_contest_text(contest, plan, job))
    (folder / "unit.json").write_bytes(msgspec.json.encode(job))
    if package is None:
        return
    if package.is_dir():
        with tarfile.open(folder / "package", "w:gz") as archive:
            archive.add(package, ".")
        return
    try:
        os.link(package, folder / "package")
    except OSError:
        shutil.copyfile(package, folder / "package")


def _write_private(path: Path, content: bytes) -> None:
    atomic_write(path, lambda file: file.write(content), secret=True)


def _contest_text(contest: Contest, plan: TrackPlan, job: UnitJob) -> str:
    """The contest file of one unit."""
    tables: dict[str, dict[str, Any]] = {
        "": {"name": contest.name, "teams": [job.team], "results": contest.results},
        f"tracks.{job.track}": {"recordings": job.recordings, "calibration": plan.calibration},
        f"tracks.{job.track}.rules": plan.rules,
        "limits": msgspec.to_builtins(contest.limits),
    }
    return toml_text(tables)


def toml_text(tables: dict[str, dict[str, Any]]) -> str:
    """TOML of tables by name, "" for the top level. JSON's strings, numbers and lists are TOML's, too."""
    lines = []
    for table, settings in tables.items():
        lines += [f"[{table}]"] if table else []
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()
        ]
    return "\n".join(lines) + "\n"


def read_job(folder: Path) -> UnitJob:
    try:
        return msgspec.json.decode((folder / "unit.json").read_bytes(), type=UnitJob)
    except (OSError, msgspec.DecodeError) as error:
        raise ContestError(f"{folder} is not the folder of a season's unit: {error}") from error


def write_outcome(folder: Path, outcome: UnitOutcome) -> None:
    text = msgspec.json.encode(outcome)
    atomic_write(folder / "outcome.json", lambda file: file.write(text))


def read_outcome(folder: Path) -> UnitOutcome | None:
    """None if the worker's process ended without one."""
    try:
        found = msgspec.json.decode((folder / "outcome.json").read_bytes(), type=UnitOutcome)
    except (OSError, msgspec.DecodeError):
        return None
    return structs.replace(found, detail=storable(found.detail), report=storable(found.report))


def storable(text: str) -> str:
    """Text that every database takes: a submission may print a NUL, which PostgreSQL refuses."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def write_progress(folder: Path, progress: UnitProgress) -> None:
    text = msgspec.json.encode(progress)
    with suppress(OSError):  # it is shown only
        atomic_write(folder / "progress.json", lambda file: file.write(text))


def read_progress(folder: Path) -> UnitProgress:
    try:
        return msgspec.json.decode((folder / "progress.json").read_bytes(), type=UnitProgress)
    except (OSError, msgspec.DecodeError):
        return UnitProgress()


def log_of(folder: Path, outcome: UnitOutcome) -> Path:
    """The run log of an outcome, if it is the one that the worker wrote. Raises LogError."""
    path = folder / "runs" / Path(outcome.log).name
    try:
        found = file_sha256(path)
    except OSError as error:
        raise LogError(f"the run log {path.name} can't be read: {error.strerror}") from error
    if found != outcome.log_sha256:
        raise LogError(f"the run log {path.name} is not the one that was written: its hash differs")
    return path


def file_sha256(path: Path) -> str:
    """In hexadecimal."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
