"""What a contest's file and the command line say of a submission is what it runs under."""

import errno
import os
from dataclasses import fields
from pathlib import Path

import click.testing
import pytest

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.contest import Limits as ContestLimits
from bci_stream.errors import HOST_FAILED, ContestError
from bci_stream.judge.run_command import make_entries
from decoders.cli import main
from decoders.host import install
from decoders.host.limits import MIB, EnvironmentFailed, SubmissionLimits, limits_of
from decoders.host.sandbox import at_least
from decoders.host.submission import open_submission
from tests.decoders.host.conftest import Write, info, packets

TALKS = """
    import sys
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            finish = False
            while not finish:
                model = self.comm_proxy.get_data()
                print("x" * 3000)
                self.comm_proxy.report([model.start_pos, sys.version_info[1]])
                finish = model.finish_flag
"""


def talks(write: Write) -> Path:
    return write({"Algorithm/impl/AlgorithmImplement.py": TALKS})


def contest_file(folder: Path, limits: str) -> Path:
    path = folder / "contest.toml"
    path.write_text(f'name = "cup"\n[limits]\n{limits}\n')
    return path


def run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, list(arguments))


def test_a_contest_without_a_word_grants_what_the_host_would() -> None:
    assert limits_of(ContestLimits()) == SubmissionLimits()


def test_every_limit_of_the_contest_file_reaches_the_submission(tmp_path: Path) -> None:
    written = (
        "silence_s = 7\ncpu_s = 8.5\nmemory_mb = 9\nprocesses = 10\nthreads = 11\nopen_files = 12\n"
        "disk_mb = 13\noutput_mb = 14"
    )
    got = limits_of(load_contest(contest_file(tmp_path, written)).limits)
    wanted = SubmissionLimits(
        step_s=7,
        cpu_s=8.5,
        memory_bytes=9 * MIB,
        processes=10,
        threads=11,
        open_files=12,
        disk_bytes=13 * MIB,
        output_bytes=14 * MIB,
    )
    assert {f.name: getattr(got, f.name) for f in fields(got)} == {
        f.name: getattr(wanted, f.name) for f in fields(wanted)
    }


@pytest.mark.parametrize(
    ("written", "why"),
    [("disk_mb = 0", "disk_mb"), ("cpu_s = -1", "cpu_s"), ('strength = "none"', "strength")],
)
def test_a_limit_that_makes_no_sense_is_named(written: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ContestError, match=why):
        load_contest(contest_file(tmp_path, written))


def test_no_one_goes_below_the_strength_that_a_contest_asks_for() -> None:
    assert at_least("auto", None) == "auto"
    assert at_least("auto", "limits") == "limits"
    assert at_least("bubblewrap", None) == at_least("bubblewrap", "auto") == "bubblewrap"
    with pytest.raises(EnvironmentFailed, match=r"limits\.strength is bubblewrap"):
        at_least("bubblewrap", "limits")


@pytest.mark.usefixtures("hostable")
def test_the_check_runs_under_the_contest_s_limits(tmp_path: Path, write: Write) -> None:
    contest = contest_file(tmp_path, "output_mb = 1")
    arguments = ("check", "--track", "mi", "--submission", str(talks(write)))
    done = run(*arguments, "--contest", str(contest))
    assert done.exit_code == 1
    assert "it would end as disqualified" in done.output
    assert "more than 1 MiB to stdout" in done.output


@pytest.mark.usefixtures("hostable")
@pytest.mark.parametrize(("positions", "starts"), [("block", [0, 0]), ("continuous", [0, 10])])
def test_start_positions_are_chosen_from_outside(
    positions: str, starts: list[int], write: Write
) -> None:
    decoder = open_submission(talks(write), "mi", positions=positions)
    try:
        decoder.start(info())
        reports = [report for packet in packets(2, blocks=2) for report in decoder.step(packet)]
    finally:
        decoder.close()
    assert [report[0] for report in reports] == starts  # type: ignore[index]


def test_a_python_that_is_not_here_is_reported_with_where_it_was_looked_for(write: Write) -> None:
    done = run(
        "check", "--track", "mi", "--submission", str(talks(write)), "--python", "3.999"
    )  # fmt: skip
    assert done.exit_code == HOST_FAILED
    assert "requests Python 3.999" in done.output


def test_what_is_for_submissions_only_is_refused_without_one() -> None:
    done = run("check", "--track", "mi", "--python", "3.8", "--strength", "limits")
    assert done.exit_code == 2
    assert "--python, --strength is for a --submission only" in done.output


def test_a_contest_gives_each_submission_options_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    given = [f"{tmp_path}/a.zip?interface=g3&python=3.8&positions=block", f"{tmp_path}/a.zip"]
    first, second = make_entries("mi", [], given, ("r",))
    path = str(tmp_path / "a.zip")
    words = ("--interface", "g3", "--python", "3.8", "--positions", "block")
    assert first.decoder_arguments == ("--submission", path, *words)
    assert second.decoder_arguments == ("--submission", path)
    assert (first.team, second.team) == ("a", "a-2")
    with pytest.raises(ContestError, match="no option 'speed'"):
        make_entries("mi", [], [f"{tmp_path}/a.zip?speed=2"], ("r",))


PLANNED = """
name = "cup"
track = "mi"
[submissions.a]
path = "packed/a.zip"
interface = "g3"
python = "3.8"
[submissions.b]
positions = "continuous"
"""


def planned(folder: Path, written: str = PLANNED) -> Contest:
    (folder / "contest.toml").write_text(written)
    return load_contest(folder)


def test_the_contest_file_names_submissions_and_their_options(tmp_path: Path) -> None:
    contest = planned(tmp_path)
    with pytest.raises(ContestError, match=r"team a: there is no submission .*a\.zip"):
        make_entries("mi", [], [], ("r",), contest)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "a.zip").touch()
    (entry,) = make_entries("mi", [], [], ("r",), contest)
    path = str(tmp_path / "packed" / "a.zip")
    assert entry.team == "a"
    assert entry.decoder_arguments == (
        "--submission", path, "--interface", "g3", "--python", "3.8",
    )  # fmt: skip


def test_a_named_submission_has_its_options_from_the_contest_file_and_its_own_go_first(
    tmp_path: Path,
) -> None:
    for name in ("a.zip", "b.zip"):
        (tmp_path / name).touch()
    given = [f"{tmp_path}/a.zip?python=3.9", f"{tmp_path}/b.zip"]
    first, second = make_entries("mi", [], given, ("r",), planned(tmp_path))
    assert first.decoder_arguments[2:] == ("--interface", "g3", "--python", "3.9")
    assert second.decoder_arguments[2:] == ("--positions", "continuous")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('[submissions.a]\npath = "a"', "submissions.a needs a `track`"),
        ('[submissions.a]\ntrack = "chess"', "no track 'chess'"),
        ('[submissions.a]\npositions = "both"', "positions"),
        ('[submissions.a]\nspeed = "2"', "speed"),
        ('[submissions."../a"]\npath = "a"', r"\.\./a"),
    ],
)
def test_a_submission_of_the_contest_file_that_makes_no_sense_is_named(
    written: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ContestError, match=why):
        planned(tmp_path, f'name = "cup"\n{written}\n')


def test_what_prepare_found_is_printed(write: Write) -> None:
    done = run("prepare", "--track", "mi", "--submission", str(talks(write)))
    assert done.exit_code == 0
    assert "G3 (2023)" in done.output
    assert run("prepare", "--track", "mi").exit_code == 2


def test_a_failure_of_this_machine_has_an_exit_code_of_its_own(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "uv_program", lambda: None)
    arguments = ("--track", "mi", "--submission", str(talks(write)), "--python", "3.99")
    assert run("prepare", *arguments).exit_code == HOST_FAILED == 75


def test_a_check_that_this_machine_fails_shows_no_findings(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("decoders.host.submission.SubmissionProcess", full)
    done = run("check", "--track", "mi", "--submission", str(talks(write)))
    assert done.exit_code == HOST_FAILED
    assert "no fault of the team" in done.output
    assert "would count" not in done.output
