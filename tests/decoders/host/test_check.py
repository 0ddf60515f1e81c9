"""A dry run says in words what would count, what not, and why."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from decoders.host.check import check_submission
from decoders.host.submission import open_submission
from tests.decoders.host.conftest import Write

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hostable")]

MI = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            finish, seen = False, 0
            while not finish:
                model = self.comm_proxy.get_data()
                begins = 200 in list(model.data[-1])
                seen = 0 if begins else seen + 1
                if REPORT:
                    self.comm_proxy.report(RESULT)
                finish = model.finish_flag
"""


def checked(write: Write, when: str, result: str) -> tuple[bool, str]:
    code = MI.replace("REPORT", when).replace("RESULT", result)
    package = write({"Algorithm/impl/AlgorithmImplement.py": code})
    report = check_submission(open_submission(package, "mi"), "mi")
    return report.ok, report.text


def test_reports_in_time_count(write: Write) -> None:
    ok, text = checked(write, "seen in (50, 75, 99)", "1")
    assert ok
    assert "18 of 18 answers would count" in text
    assert "would not count" not in text


def test_a_report_that_is_late_by_a_packet_is_reported(write: Write) -> None:
    _, text = checked(write, "seen in (51, 76, 99)", "1")
    assert "6 of 18 answers would count" in text
    assert "6 x report 1: at 2.04 s, limit 2.00 s -> late by 1 packet" in text
    assert "6 x report 2: at 3.04 s, limit 3.00 s -> late by 1 packet" in text


def test_a_result_of_the_wrong_type_is_reported(write: Write) -> None:
    ok, text = checked(write, "seen in (50, 75, 99)", "[1]")
    assert not ok
    assert "6 x report 1: [1] names no class -> report one of 1 (left), 2 (right), 3 (feet)" in text


def test_a_report_on_the_trigger_packet_is_reported(write: Write) -> None:
    ok, text = checked(write, "begins", "1")
    assert not ok
    assert "reports were refused, and use up nothing" in text
    assert "trigger" in text
    assert "6 x no report 1 -> every trial needs its report" in text


def test_a_crash_shows_their_traceback(write: Write) -> None:
    ok, text = checked(write, "seen == 3", "1 / 0")
    assert not ok
    assert "it would end as crashed: the submission failed: ZeroDivisionError" in text
    assert "line 12, in run" in text
    assert "shim.py" not in text
    log = re.search(r"its log is (\S+\.log)\):", text)
    assert log is not None
    assert "ZeroDivisionError" in Path(log[1]).read_text()


def test_the_command_line_shows_it_and_exits_with_1_where_nothing_counts(write: Write) -> None:
    from decoders.cli import main

    root = write({"Algorithm/impl/AlgorithmImplement.py": MI.replace("REPORT", "False")})
    done = CliRunner().invoke(main, ["check", "--track", "mi", "--submission", str(root)])
    assert done.exit_code == 1
    assert "0 of 18 answers would count" in done.output


def test_the_command_line_shows_what_it_looked_for(tmp_path: Path) -> None:
    from decoders.cli import main

    (tmp_path / "notes.txt").write_text("nothing here")
    done = CliRunner().invoke(main, ["check", "--track", "mi", "--submission", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output.startswith("Error: no algorithm was found in the submission. Looked in")
    assert "Traceback" not in done.output


def test_with_no_report_the_data_and_the_awaited_codes_are_shown(write: Write) -> None:
    ok, text = checked(write, "249 in model.data[-1]", "201")
    assert not ok
    assert "0 reports" in text
    assert "the data had 1000 Hz, 64 leads and TRIGGER: packets of 65 x 40" in text
    assert re.search(r"triggers, with counts: 200 \(6\), .*241 \(6\)", text)
    assert "codes that never came: 249 (AlgorithmImplement.py, line " in text


def test_a_contest_file_chooses_the_profile(write: Write, tmp_path: Path) -> None:
    from decoders.cli import main

    contest = tmp_path / "contest.toml"
    contest.write_text('name = "old"\ntrack = "mi"\nrules = {profile = "2022"}\n')
    code = MI.replace("200 in", "249 in").replace("REPORT", "seen in (50, 75, 99)")
    for result, status in (("202", 0), ("2", 1)):
        root = write({"Algorithm/impl/AlgorithmImplement.py": code.replace("RESULT", result)})
        args = ["check", "--track", "mi", "--submission", str(root), "--contest", str(contest)]
        done = CliRunner().invoke(main, args)
        assert done.exit_code == status
        assert "under profile 2022: 1275 packets, 20 reports" in done.output
        if result == "202":
            assert "18 of 18 answers would count, 6 of them right" in done.output
        else:
            assert "2 names no class -> report one of 201 (left), 202 (right), 203" in done.output
