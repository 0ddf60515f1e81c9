"""`bci-judge bundle`: a track of a contest as a Codabench competition bundle (competition.yaml, version 2).

Codabench runs the ingestion program with the participant's submission, then the scoring program on what it
wrote, in a container of the bundle's image, which has bci-stream installed:

    python -m bci_stream.season.bundle ingest /app/program /app/ingested_program /app/output
    python -m bci_stream.season.bundle score /app/program /app/input/res /app/output

Ingestion is our lockstep judge with the submission in its sandbox; scoring verifies and scores the run log.

Codabench copies a submission's own files to the output of ingestion, and runs a submission that has a
metadata file with a command in a container of its own, beside ingestion, with the task's input data and this
output.
Therefore labels and keys are in the folder of the ingestion program, which that container does not have, and
what ingestion writes is sealed under a key that only the two programs have.
"""

import base64
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from bci_stream.contest.checks import hashed_url
from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import Keys
from bci_stream.contest.phases import Phase
from bci_stream.errors import BciError, ContestError
from bci_stream.leaderboard.fold import fold_log
from bci_stream.season.standing import phases_of, plan_of
from bci_stream.season.units.jobs import toml_text
from bci_stream.verification import VerificationKeys, verify_log
from bci_stream.wire.crypto import PublicKey, seal, unseal

RULES: Final = {"best": "Force_Best", "last": "Force_Last", "chosen": "Add_And_Delete"}
"""What counts, and Codabench's name of it."""
COLUMNS: Final = (
    {"title": "Score", "key": "score", "index": 0, "sorting": "desc", "precision": 2},
    {"title": "Accuracy", "key": "accuracy", "index": 1, "sorting": "desc", "precision": 4},
    {"title": "Trials", "key": "trials", "index": 2, "sorting": "desc", "precision": 0},
)
COMMAND: Final = "python -m bci_stream.season.bundle"
CONTEST: Final = "contest"
"""In the ingestion program: the contest's folder."""
KEYS: Final = "results.json"
"""In both programs: what the run's result is sealed and verified with."""
RESULT: Final = "run.sealed"
BOUND: Final = "codabench result"
METADATA: Final = ("metadata.yaml", "metadata")
"""What makes Codabench run a submission by itself."""

DOCKERFILE: Final = """\
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir "bci-stream[remote]=={version}"
"""

OVERVIEW: Final = """\
# {title}

Track `{track}`. A submission is a .zip of the folder that holds `Algorithm/`, as for `bci-decode submit`;
check it first with `bci-decode check --submission FOLDER --track {track}`.
"""
EVALUATION: Final = """\
# Evaluation

Each submission runs in lockstep: it receives the next packet of samples when it has answered the last one.
The score ({unit}) is the mean over all subjects, made from the run log alone.

{phases}
"""
PAGES: Final = {"Overview": OVERVIEW, "Evaluation": EVALUATION}
TERMS: Final = """\
# Terms

The organiser of {title} states the terms of participation here before the upload.
"""


def write_bundle(contest: Contest, folder: Path, track: str, image: str) -> Iterator[str]:
    """Write the bundle's folder; yields lines on what it holds. Raises ContestError or OSError."""
    track = _track(contest, track)
    if folder.exists() and any(folder.iterdir()):
        raise ContestError(f"{folder} is not empty: give another folder")
    phases = [phase for phase in phases_of(contest) if phase.has_track(track)]
    _check_sequence(phases)
    (folder / "pages").mkdir(parents=True)
    for index, phase in enumerate(phases):
        _write_programs(contest, phase, track, folder, index)
        yield (
            f"ingestion_program_{index}: labelled recordings of phase {phase.name}, and the bundle's own keys"
        )
    _write_text(folder / "Dockerfile", DOCKERFILE.format(version=version("bci-stream")))
    _write_pages(contest, track, phases, folder)
    _write_logo(folder / "logo.png")
    text = competition(contest, track, phases, image)
    _write_text(folder / "competition.yaml", _yaml(text))
    yield f"competition.yaml: {len(phases)} phases; build {image} from Dockerfile, zip the folder's contents"
    yield from (line for phase in phases for line in _not_carried_over(phase))
    yield from _not_shared(phases)


def _track(contest: Contest, wanted: str) -> str:
    if wanted and wanted not in contest.tracks:
        raise ContestError(
            f"the contest has no track {wanted!r}; it has {', '.join(contest.tracks)}"
        )
    if not wanted and len(contest.tracks) != 1:
        raise ContestError(
            f"give --track: Codabench runs a submission on all tasks of a phase, so that a bundle has one "
            f"track; the contest has {', '.join(contest.tracks) or 'none'}"
        )
    return wanted or next(iter(contest.tracks))


def _check_sequence(phases: Sequence[Phase]) -> None:
    """Codabench's phases follow one another; only the last may have no end."""
    for before, after in pairwise(phases):
        if before.closes is None:
            raise ContestError(
                f"phase {before.name!r} needs `closes`: in Codabench only the last phase is open-ended"
            )
        opens = after.opens
        if opens is None or after.in_zone(opens) < before.in_zone(before.closes):
            raise ContestError(
                f"phase {after.name!r} opens before {before.name!r} closes: Codabench's phases follow one "
                "another"
            )


def competition(
    contest: Contest, track: str, phases: Sequence[Phase], image: str
) -> dict[str, Any]:
    """The content of competition.yaml."""
    title = contest.title or contest.name
    return {
        "version": 2,
        "title": f"{title}: {track}",
        "description": f"Track {track} of {title}, judged in lockstep by bci-stream.",
        "image": "logo.png",
        "terms": "pages/terms.md",
        "docker_image": image,
        "registration_auto_approve": False,
        "make_programs_available": False,
        "make_input_data_available": False,
        "pages": [{"title": name, "file": f"pages/{name.lower()}.md"} for name in PAGES],
        "phases": [_phase(contest, phase, index) for index, phase in enumerate(phases)],
        "tasks": [
            {
                "index": index,
                "name": f"{phase.name}, {track}",
                "description": f"Recordings and rules of phase {phase.name}.",
                "ingestion_program": f"ingestion_program_{index}",
                "scoring_program": f"scoring_program_{index}",
            }
            for index, phase in enumerate(phases)
        ],
        "leaderboards": [
            {
                "title": "Results",
                "key": "main",
                "submission_rule": RULES[phases[0].counts],
                "hidden": any(phase.shows == "nothing" for phase in phases),
                "columns": [dict(column) for column in COLUMNS],
            }
        ],
    }


def _phase(contest: Contest, phase: Phase, index: int) -> dict[str, Any]:
    opens = phase.in_zone(phase.opens) if phase.opens is not None else datetime.now(UTC)
    end = {"end": _utc(phase.in_zone(phase.closes))} if phase.closes is not None else {}
    return {
        "index": index,
        "name": phase.name,
        "description": f"What counts: the {phase.counts} submission.",
        "start": _utc(opens),
        **end,
        "tasks": [index],
        # Without these Codabench takes 5 and 100; null is no limit.
        "max_submissions_per_day": phase.quota_a_day,
        "max_submissions": phase.quota,
        "execution_time_limit": int(contest.limits.cpu_s),
        "hide_output": True,  # a submission has seen the recordings: what it prints may hold them
        "hide_prediction_output": True,  # the run log holds the labels
        "hide_score_output": phase.shows == "nothing",
    }


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _not_carried_over(phase: Phase) -> Iterator[str]:
    """What Codabench has no setting for."""
    if phase.after:
        yield f"phase {phase.name}: `after` is not carried over; approve the teams that go on by hand"
    if phase.shows == "subjects":
        yield f"phase {phase.name}: scores of single subjects are not shown"


def _not_shared(phases: Sequence[Phase]) -> Iterator[str]:
    """Where phases differ in what a bundle has one setting for."""
    if len({phase.shows == "nothing" for phase in phases}) > 1:
        yield "the leaderboard is hidden in all phases, because one of them shows nothing"
    if len({phase.counts for phase in phases}) > 1:
        yield f"in all phases the {phases[0].counts} submission counts: Codabench has one rule for all"


def _write_programs(contest: Contest, phase: Phase, track: str, folder: Path, index: int) -> None:
    """The programs of a phase, with a new key that seals what one leaves to the other."""
    ingestion = folder / f"ingestion_program_{index}"
    scoring = folder / f"scoring_program_{index}"
    for program in (ingestion, scoring):
        program.mkdir(mode=0o700)
    public_key = _write_contest(contest, phase, track, ingestion / CONTEST)
    keys = json.dumps({"seal": secrets.token_hex(32), "public_key": public_key}) + "\n"
    commands = {
        ingestion: f"{COMMAND} ingest /app/program /app/ingested_program /app/output",
        scoring: f"{COMMAND} score /app/program /app/input/res /app/output",
    }
    for program, command in commands.items():
        _write_text(program / KEYS, keys)
        _write_text(program / "metadata.yaml", f"command: {command}\n")


def _write_contest(contest: Contest, phase: Phase, track: str, folder: Path) -> str:
    """contest.toml with the rules of the phase, its recordings and a new key; returns the public one."""
    plan = plan_of(contest, phase, track)
    folder.mkdir(mode=0o700)
    played = [
        _copied(contest, text, folder, f"recordings/{n}") for n, text in enumerate(plan.recordings)
    ]
    calibration = [
        _copied(contest, text, folder, f"calibration/{n}")
        for n, text in enumerate(plan.calibration)
    ]
    limits = msgspec.to_builtins(contest.limits)
    if limits["strength"] == "auto":
        limits["strength"] = "bubblewrap"  # the labels are in the same container
    tables: dict[str, dict[str, Any]] = {
        "": {"name": contest.name},
        f"tracks.{track}": {"recordings": played, "calibration": calibration},
        f"tracks.{track}.rules": plan.rules,
        "limits": limits,
    }
    _write_text(folder / "contest.toml", toml_text(tables))
    load_contest(folder)
    return Keys(folder / "keys").public_key().raw.hex()


def _copied(contest: Contest, text: str, folder: Path, name: str) -> str:
    """A recording as the bundle's contest file names it; a path is copied."""
    path, mark, options = text.partition("?")
    source = contest.folder / path
    if hashed_url(text) is not None or not source.exists():
        return text
    target = folder / name / source.name
    target.parent.mkdir(parents=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
    return f"{name}/{source.name}{mark}{options}"


def _write_pages(contest: Contest, track: str, phases: Sequence[Phase], folder: Path) -> None:
    from tracks.registry import TRACKS

    shown = "\n".join(
        f"- {phase.name}: {phase.shown_time(phase.opens) or 'open'} to "
        f"{phase.shown_time(phase.closes) or 'no end'}; the {phase.counts} submission counts"
        for phase in phases
    )
    words = {"title": contest.title or contest.name, "track": track, "unit": TRACKS[track].unit}
    for name, text in PAGES.items():
        _write_text(folder / "pages" / f"{name.lower()}.md", text.format(phases=shown, **words))
    _write_text(folder / "pages" / "terms.md", TERMS.format(**words))


def _write_logo(path: Path) -> None:
    """Two sine waves."""
    import numpy as np
    from matplotlib.image import imsave

    x, y = np.meshgrid(np.linspace(0, 4 * np.pi, 256), np.linspace(-2, 2, 256))
    near = np.minimum(np.abs(y - np.sin(x)), np.abs(y - np.sin(2 * x) / 2))
    imsave(path, np.clip(near * 4, 0, 1), cmap="gray", format="png")


def _yaml(content: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return text


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# --- in Codabench's container -----------------------------------------------------------------


def ingest(program: Path, submission: Path, output: Path) -> None:
    """Run a submission in lockstep; writes how it ended and its run log, sealed.

    Raises ContestError if we failed, or if Codabench runs the submission outside our sandbox, too.
    """
    if found := [name for name in METADATA if (submission / name).exists()]:
        raise ContestError(
            f"the submission has a file {found[0]}, by which Codabench runs it outside the sandbox: remove it"
        )
    with tempfile.TemporaryDirectory(prefix="bci-contest-") as work:
        contest = Path(work) / CONTEST
        shutil.copytree(program / CONTEST, contest)
        _make_private(contest)
        outcome = _run(contest, submission)
        if outcome["reason"] == "stopped":
            raise ContestError(
                f"the run did not end, by no fault of the submission: {outcome['detail']}"
            )
        log = Path(outcome["log"]).read_bytes() if outcome["log"] else b""
    result = {
        "reason": outcome["reason"],
        "detail": outcome["detail"],
        "log": base64.b64encode(zlib.compress(log)).decode(),
    }
    output.mkdir(parents=True, exist_ok=True)
    key = bytes.fromhex(_keys(program)["seal"])
    _write_text(output / RESULT, seal(json.dumps(result), key, BOUND))


def _run(contest: Path, submission: Path) -> dict[str, Any]:
    """The outcome of `bci-judge run`."""
    (track,) = load_contest(contest).tracks
    words = ["run", "--track", track, "--submission", str(submission), "--contest", str(contest)]
    command = [
        sys.executable,
        "-P",
        "-m",
        "bci_stream.judge",
        *words,
        "--engine",
        "local:1",
        "--json",
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        (outcome,) = json.loads(done.stdout)
    except ValueError:
        return {"reason": "stopped", "detail": done.stderr.strip()[-500:], "log": None}
    return dict(outcome)


def _make_private(folder: Path) -> None:
    """Codabench's archives do not keep the modes of files, and keys that others may read are refused."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _keys(program: Path) -> dict[str, str]:
    return dict(json.loads((program / KEYS).read_text()))


def score(program: Path, results: Path, output: Path) -> None:
    """Verify and score the run log that ingestion left, and write scores.json. Raises BciError."""
    keys = _keys(program)
    result = json.loads(unseal((results / RESULT).read_text(), bytes.fromhex(keys["seal"]), BOUND))
    scores: dict[str, float] = {"score": 0.0, "accuracy": 0.0, "trials": 0}
    if content := zlib.decompress(base64.b64decode(result["log"])):
        with tempfile.TemporaryDirectory(prefix="bci-log-") as folder:
            log = Path(folder) / "run.jsonl"
            log.write_bytes(content)
            check = verify_log(log, VerificationKeys(PublicKey(bytes.fromhex(keys["public_key"]))))
            if not check.holds:
                raise ContestError(f"the run log does not verify: {check.problems[0]}")
            row = fold_log(log).row
        scores = {"score": row.score, "accuracy": row.accuracy or 0.0, "trials": row.trials}
    output.mkdir(parents=True, exist_ok=True)
    _write_text(output / "scores.json", json.dumps(scores) + "\n")
    print(f"{result['reason']}: {result['detail']}".rstrip(": "))


def main(words: Sequence[str]) -> int:
    """`ingest PROGRAM SUBMISSION OUTPUT` or `score PROGRAM RESULTS OUTPUT`."""
    places = [Path(word) for word in words[1:]]
    try:
        match words[:1]:
            case ["ingest"] if len(places) == 3:
                ingest(*places)
            case ["score"] if len(places) == 3:
                score(*places)
            case _:
                print(
                    "usage: ingest PROGRAM SUBMISSION OUTPUT | score PROGRAM RESULTS OUTPUT",
                    file=sys.stderr,
                )
                return 2
    except (BciError, OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
