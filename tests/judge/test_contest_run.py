"""One judge a contest, a full disk, an interrupted contest: clear errors, and nothing is lost."""

import os
from pathlib import Path

import pytest

from bci_stream.errors import HOST_FAILED, ContestError, LogError
from bci_stream.judge.contest_run import (
    ContestEntry,
    Journal,
    Outcome,
    preparation_failure,
    record,
)
from bci_stream.judge.live_command import only_judge
from bci_stream.runlog import RunLog


def test_a_second_judge_of_a_contest_is_refused_and_the_first_goes_on(contest) -> None:
    refused = pytest.raises(ContestError, match=rf"has a judge already \(pid {os.getpid()}\)")
    with only_judge(contest), refused, only_judge(contest):
        pass
    with only_judge(contest):
        pass  # the lock went with its owner


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_an_error_with_a_remedy() -> None:
    log = RunLog(Path("/dev/full"), append=True)
    log.write({"kind": "run"})
    with pytest.raises(
        LogError, match=r"No space left on device.*make room and start the judge again"
    ):
        log.flush()
    log._file.close()


@pytest.mark.parametrize(
    ("exit_code", "ending", "why"),
    [
        (1, "crashed", "no such package"),
        (HOST_FAILED, "stopped", "no such package"),
        (-9, "stopped", "the process that made its environment was ended by SIGKILL"),
    ],
)
def test_an_environment_that_was_not_made_is_the_teams_fault_only_if_it_was_refused(
    exit_code: int, ending: str, why: str
) -> None:
    assert preparation_failure(exit_code, "no such package") == (ending, why)


class TestJournal:
    ENTRY = ContestEntry("alice", "erp", ("synthetic:erp",), ("--decoder", "erp-chance"))

    def test_finished_runs_are_known_after_an_interruption(self, tmp_path: Path) -> None:
        log = tmp_path / "run.jsonl"
        log.touch()
        outcome = Outcome(self.ENTRY, "finished", "", 1.5, log, [{"subject": "S01"}])
        Journal(tmp_path / "j").add(outcome)
        assert Journal(tmp_path / "j").done() == {self.ENTRY: outcome}

    def test_a_run_that_was_stopped_or_lost_its_log_is_run_again(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "j")
        journal.add(Outcome(self.ENTRY, "stopped"))
        journal.add(Outcome(self.ENTRY, "finished", log=tmp_path / "gone.jsonl"))
        assert journal.done() == {}

    def test_an_incomplete_line_is_skipped(self, tmp_path: Path) -> None:
        path = tmp_path / "j"
        Journal(path).add(Outcome(self.ENTRY, "crashed", "boom"))
        with path.open("a") as file:
            file.write('{"entry": {"te')
        assert [outcome.reason for outcome in Journal(path).done().values()] == ["crashed"]
        Journal(path).add(Outcome(self.ENTRY, "timeout"))
        assert [outcome.reason for outcome in Journal(path).done().values()] == ["timeout"]

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
    def test_a_run_that_could_not_be_recorded_is_run_again(self) -> None:
        outcome = record(Journal(Path("/dev/full")), Outcome(self.ENTRY, "finished"))
        assert (outcome.reason, outcome.log) == ("stopped", None)
        assert outcome.detail == "can't write /dev/full: No space left on device"
