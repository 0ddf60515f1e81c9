"""The Codabench bundle, against the fields that Codabench's documentation of competition.yaml lists."""

import json
import shutil
import subprocess
import threading
import zipfile
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from season.serving import make_contest

from bci_stream.contest.contest import TrackPlan, load_contest
from bci_stream.judge.cli import main
from bci_stream.season import bundle
from bci_stream.season.units.jobs import UnitJob, read_outcome, write_job
from bci_stream.wire.crypto import SigningKey
from scripts.season_rig import do_unit, package

REQUIRED = {
    "": {"version", "title", "image", "terms", "pages", "phases", "tasks", "leaderboards"},
    "pages": {"title", "file"},
    "phases": {"name", "start", "tasks"},
    "tasks": {"index", "name", "scoring_program"},
    "leaderboards": {"title", "key", "columns"},
    "columns": {"title", "key", "index"},
}
OPTIONAL = {
    "": {"description", "registration_auto_approve", "docker_image", "make_programs_available",
         "make_input_data_available", "enable_detailed_results"},
    "pages": set(),
    "phases": {"index", "description", "end", "max_submissions", "max_submissions_per_day",
               "auto_migrate_to_this_phase", "execution_time_limit", "hide_output",
               "hide_prediction_output", "hide_score_output", "starting_kit", "public_data"},
    "tasks": {"description", "input_data", "reference_data", "ingestion_program",
              "ingestion_only_during_scoring"},
    "leaderboards": {"submission_rule", "hidden"},
    "columns": {"sorting", "computation", "computation_indexes", "precision", "hidden"},
}  # fmt: skip
"""documentation/docs/Organizers/Benchmark_Creation/Yaml-Structure.md of codalab/codabench."""
RULES = {"Add", "Add_And_Delete", "Add_And_Delete_Multiple", "Force_Last", "Force_Latest_Multiple",
         "Force_Best"}  # fmt: skip

PHASES = """recordings = ["data/S01.npz"]
[[phases]]
name = "preliminary"
opens = 2026-03-01T00:00:00
closes = 2026-04-01T00:00:00
time_zone = "Asia/Shanghai"
quota_a_day = 3
quota = 30
top = 10
[[phases]]
name = "final"
opens = 2026-05-01T00:00:00+08:00
after = "preliminary"
shows = "nothing"
[phases.tracks.erp]
recordings = ["synthetic:erp?set=test"]
rules = {sequence_s = 2.0}
"""


def written(tmp_path: Path, phases: str = PHASES):
    (tmp_path / "cup" / "data").mkdir(parents=True)
    (tmp_path / "cup" / "data" / "S01.npz").write_bytes(b"labelled")
    make_contest(tmp_path / "cup", phases)
    out = tmp_path / "out"
    return out, CliRunner().invoke(main, ["bundle", str(out), "--contest", str(tmp_path / "cup")])


def check_fields(entry: dict[str, object], kind: str) -> None:
    assert entry.keys() >= REQUIRED[kind], kind
    assert entry.keys() <= REQUIRED[kind] | OPTIONAL[kind], kind


def test_the_bundle_has_the_documented_fields_and_all_its_files(tmp_path: Path) -> None:
    out, done = written(tmp_path)
    assert done.exit_code == 0, done.output
    made = yaml.safe_load((out / "competition.yaml").read_text())
    check_fields(made, "")
    for kind in ("pages", "phases", "tasks", "leaderboards"):
        for entry in made[kind]:
            check_fields(entry, kind)
    for column in made["leaderboards"][0]["columns"]:
        check_fields(column, "columns")
    assert made["version"] == 2
    files = [made["image"], made["terms"], *(page["file"] for page in made["pages"])]
    assert all((out / file).stat().st_size > 0 for file in files)
    assert (out / "logo.png").read_bytes().startswith(b"\x89PNG")
    for index, task in enumerate(made["tasks"]):
        for program in ("ingestion_program", "scoring_program"):
            metadata = yaml.safe_load((out / task[program] / "metadata.yaml").read_text())
            assert metadata["command"].startswith("python -m bci_stream.season.bundle ")
        assert (task["index"], task["ingestion_program"]) == (index, f"ingestion_program_{index}")
        assert "input_data" not in task, "a submission with a metadata file would be given it"
    labelled = {path.relative_to(out).parts[0] for path in out.rglob("*.npz")}
    secret = {path.relative_to(out).parts[0] for path in out.rglob("contest.key")}
    assert labelled == {"ingestion_program_0"}
    assert secret == {"ingestion_program_0", "ingestion_program_1"}
    assert made["leaderboards"][0]["submission_rule"] in RULES
    assert made["leaderboards"][0]["hidden"], "one phase shows nothing"
    first, final = made["phases"]
    assert (first["start"], first["end"]) == ("2026-02-28 16:00:00", "2026-03-31 16:00:00")
    assert (first["max_submissions_per_day"], first["max_submissions"]) == (3, 30)
    unlimited = (final["max_submissions_per_day"], final["max_submissions"])
    assert unlimited == (None, None), "Codabench has defaults of 5 and 100 where they are absent"
    assert datetime.fromisoformat(final["start"]) > datetime.fromisoformat(first["end"])
    assert [phase["tasks"] for phase in made["phases"]] == [[0], [1]]
    assert (first["hide_score_output"], final["hide_score_output"]) == (False, True)
    assert not made["make_programs_available"], "they hold labels and keys"
    for phase in made["phases"]:
        assert set(phase["tasks"]) <= {task["index"] for task in made["tasks"]}
        assert phase["hide_output"]
        assert phase["hide_prediction_output"]
        assert datetime.strptime(phase["start"], "%Y-%m-%d %H:%M:%S")
        assert isinstance(phase["execution_time_limit"], int), "in seconds"
    assert "`after` is not carried over" in done.output
    one, two = (load_contest(out / f"ingestion_program_{n}" / "contest") for n in (0, 1))
    assert one.recordings("erp") == [str(one.folder / "recordings" / "0" / "S01.npz")]
    assert (two.rules("erp"), two.limits.strength) == ({"sequence_s": 2.0}, "bubblewrap")
    assert one.keys.public_key().raw != load_contest(tmp_path / "cup").keys.public_key().raw
    again = CliRunner().invoke(main, ["bundle", str(out), "--contest", str(tmp_path / "cup")])
    assert (again.exit_code, "is not empty" in again.output) == (1, True)


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ('[[phases]]\nname = "a"\n[[phases]]\nname = "b"\n', "needs `closes`"),
        (
            '[[phases]]\nname = "a"\ncloses = 2026-03-01T00:00:00\n'
            '[[phases]]\nname = "b"\nopens = 2026-02-01T00:00:00\n',
            "follow one another",
        ),
        ("[tracks.mi]\n", "give --track"),
    ],
)
def test_what_codabench_cannot_hold_is_named(tmp_path: Path, phases: str, words: str) -> None:
    _, done = written(tmp_path, phases)
    assert done.exit_code == 1
    assert words in " ".join(done.output.split())


def test_ingestion_leaves_a_log_that_scoring_verifies_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = written(tmp_path, "")
    submission = tmp_path / "ingested_program"
    submission.mkdir()

    def judge(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        """Instead of replay, decoder and judge in processes: the same judge in this one."""
        contest = load_contest(Path(command[command.index("--contest") + 1]))
        contest.keys.public_key()
        job = UnitJob(1, 1, 1, "ingested_program", "erp", ["synthetic:erp"])
        (tmp_path / "p").write_bytes(package())
        write_job(contest.folder / "unit", contest, TrackPlan(), job, tmp_path / "p")
        do_unit(contest.folder / "unit", threading.Event())
        outcome = read_outcome(contest.folder / "unit")
        log = contest.folder / "unit" / "runs" / outcome.log
        printed = json.dumps([{"reason": outcome.ending, "detail": "", "log": str(log)}])
        return subprocess.CompletedProcess(command, 0, printed, "")

    monkeypatch.setattr(subprocess, "run", judge)
    results, scores = tmp_path / "res", tmp_path / "scores"
    ingestion, scoring = (uploaded(out / f"{name}_program_0") for name in ("ingestion", "scoring"))
    words = [str(ingestion), str(submission), str(results)]
    score = ["score", str(scoring), str(results), str(scores)]
    results.mkdir()
    (results / "run.sealed").write_text("a submission's own file, as Codabench copies it")
    assert bundle.main(score) == 1, "what a submission wrote counts for nothing"
    assert bundle.main(["ingest", *words]) == 0
    assert bundle.main(score) == 0
    made = json.loads((scores / "scores.json").read_text())
    assert made.keys() == {column["key"] for column in bundle.COLUMNS}
    assert made["score"] > 0
    sealed = results / "run.sealed"
    content = sealed.read_text()
    assert [path.name for path in results.iterdir()] == ["run.sealed"], "no label is in the output"
    sealed.write_text(content[:100] + ("A" if content[100] != "A" else "B") + content[101:])
    assert bundle.main(score) == 1, "a changed result is refused"
    of_other_key(scoring, ingestion, sealed, content)
    assert bundle.main(score) == 1, "a log of another key is refused"
    (submission / "metadata.yaml").write_text("command: cat /app/input_data/keys/contest.key\n")
    assert bundle.main(["ingest", *words]) == 1, "Codabench would run it outside the sandbox"
    (submission / "metadata.yaml").unlink()
    crashed = '[{"reason": "crashed", "detail": "boom", "log": null}]'
    ended = lambda command, **_: subprocess.CompletedProcess(command, 1, crashed, "")  # noqa: E731
    monkeypatch.setattr(subprocess, "run", ended)
    assert bundle.main(["ingest", *words]) == 0
    assert bundle.main(score) == 0
    assert json.loads((scores / "scores.json").read_text())["score"] == 0, "it crashed"
    failed = lambda command, **_: subprocess.CompletedProcess(command, 1, "", "no disk")  # noqa: E731
    monkeypatch.setattr(subprocess, "run", failed)
    assert bundle.main(["ingest", *words]) == 1, "our fault: Codabench shows a failed submission"
    assert bundle.main([]) == 2


def uploaded(program: Path) -> Path:
    """A program as Codabench has it: it was in an archive, which keeps no modes."""
    archive = shutil.make_archive(str(program), "zip", program)
    copy = program.with_name(f"{program.name}-uploaded")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(copy)
    return copy


def of_other_key(scoring: Path, ingestion: Path, sealed: Path, content: str) -> None:
    """Put the result back, and let the scoring program have another contest's public key."""
    sealed.write_text(content)
    keys = json.loads((ingestion / "results.json").read_text())
    other = SigningKey(bytes(32)).public.raw.hex()
    (scoring / "results.json").write_text(json.dumps(keys | {"public_key": other}))
