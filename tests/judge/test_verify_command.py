"""Verification of run logs: no change stays unseen, and what can't be checked is named."""

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.amendments import log_seal
from bci_stream.contest.contest import Contest, Limits, load_contest
from bci_stream.errors import ContestError, LogError
from bci_stream.judge.cli import main
from bci_stream.judge.live_command import only_judge
from bci_stream.judge.session.ordering import PacketReceived, ReportReceived
from bci_stream.judge.session.plan import SessionPlan, add_truth
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.judge.verify_command import read_reveal
from bci_stream.runlog import CHAIN_START, RunLog, chain_hash, encode, score_run, with_hash
from bci_stream.season.serve_command import only_server
from bci_stream.verification import VerificationKeys, read_receipt, verify_log
from bci_stream.wire.crypto import SigningKey, seal_results, sign
from bci_stream.wire.messages import PacketNote, ReportMessage, TruthNote
from bci_stream.wire.messages import encode as encode_message

RUN = "r1"
RESULTS = ("A", {"label": 3}, [1.5, None])


@dataclass
class Case:
    """A contest, one of its logs and the receipt."""

    contest: Contest
    log: Path
    receipt: Path
    run: TeamRun

    @property
    def folder(self) -> str:
        return str(self.contest.folder)

    def verify(self, *options: object) -> Result:
        return CliRunner().invoke(main, ["verify", str(self.log), *map(str, options)])

    def check(self, *options: object) -> dict[str, Any]:
        """The JSON output on the log, after a comparison with the exit status."""
        result = self.verify("--json", *options)
        output = json.loads(result.output)
        assert result.exit_code == (0 if output["holds"] else 1)
        log: dict[str, Any] = output["logs"][0]
        return log

    def problems(self, *options: object) -> list[str]:
        return [f"{p['line']}: {p['text']}" for p in self.check(*options)["problems"]]


def signed_report(
    contest: Contest, seq: int, result: object, team: str = "alice", **more: Any
) -> str:
    ids = {"contest": contest.name, "run": RUN, "team": team, "n": seq, **more}
    return sign(
        encode_message(ReportMessage(seq=seq, result=result, **ids)), contest.keys.token(team)
    )


def sealed_report(contest: Contest, seq: int, result: object, team: str = "alice") -> str:
    text = encode_message(ReportMessage(contest.name, RUN, team, seq, result, seq))
    return seal_results(text, contest.keys.token(team), contest.name, team, RUN, seq)


Message = Callable[[Contest, int, object], str]


def write_log(
    contest: Contest, message: Message, *, team: str = "alice", run: str = RUN
) -> TeamRun:
    """A judged run of three packets, with a report after each."""
    contest.runs.mkdir(parents=True, exist_ok=True)
    plan: SessionPlan = {}
    add_truth(plan, TruthNote(0, "S01", 0, 250.0, 8, 10, 30, {"blocks": [["A"]]}))
    log = RunLog(contest.runs / f"erp-{team}-20261117T120000-{run}.jsonl")
    seal = log_seal(contest.keys.signing_key(), contest.name, run, team)
    team_run = TeamRun(team, "erp", {}, Limits(), plan, log, 0.0, seal=seal)
    for i, result in enumerate(RESULTS):
        team_run.fold(PacketReceived(PacketNote(i, 0, 0, i * 10, 10, finish=i == 2), i + 1.0))
        text = message(contest, i, result)
        team_run.fold(ReportReceived(result, i + 1.5, text, i))
    team_run.end("finished", "", 4.0)
    return team_run


def write_receipt(contest: Contest, run: TeamRun, path: Path, /, **changes: object) -> Path:
    closed = {
        "kind": "closed", "contest": contest.name, "run": RUN, "seq": 9, "team": run.team,
        "reason": run.ended, "head": run.head, "lines": run.lines, **changes,
    }  # fmt: skip
    path.write_text(contest.keys.signing_key().sign(json.dumps(closed), "judge") + "\n")
    return path


def new_contest(folder: Path, *options: str) -> Contest:
    made = CliRunner().invoke(main, ["init", str(folder), "--name", "cup", *options])
    assert made.exit_code == 0
    return load_contest(folder)


def new_case(folder: Path, message: Message = sealed_report) -> Case:
    contest = new_contest(folder / "cup", "--team", "alice", "--team", "bob")
    run = write_log(contest, message)
    return Case(contest, run.path, write_receipt(contest, run, folder / "alice.receipt"), run)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return new_case(tmp_path)


# --- what holds -------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [sealed_report, signed_report])
def test_a_log_that_was_not_changed_holds(tmp_path: Path, message: Message) -> None:
    case = new_case(tmp_path, message)
    check = case.check("--contest", case.folder, "--receipt", case.receipt)
    assert check["problems"] == check["unchecked"] == []
    assert [what.split(",")[0] for what in check["held"]] == [
        f"hash chain of {case.run.lines + 1} lines", "seal", "3 reports", f"receipt {case.receipt}",
    ]  # fmt: skip
    assert (check["head"], check["lines"]) == (case.run.head, case.run.lines)
    assert (check["contest"], check["run"], check["team"]) == ("cup", RUN, "alice")


def test_the_output_for_people_has_a_line_for_each_log_and_details_below(case: Case) -> None:
    first, *details = case.verify("--contest", case.folder).output.splitlines()
    assert first == f"{case.log}: holds: the log of team 'alice' is as the judge wrote it"
    assert all(line.startswith("  holds: ") for line in details)


def test_a_compressed_log_and_a_folder_of_logs_can_be_checked(case: Case) -> None:
    packed = case.log.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(case.log.read_bytes()))
    result = CliRunner().invoke(main, ["verify", str(case.contest.runs), "--json"])
    assert [log["holds"] for log in json.loads(result.output)["logs"]] == [True, True]


def test_without_a_key_signatures_are_listed_as_not_checked(case: Case) -> None:
    check = case.check("--receipt", case.receipt)
    assert check["holds"]
    seal, reports, receipt = check["unchecked"]
    assert "signature of the seal" in seal
    assert "who sent 3 reports; the results of 3 of them, which are sealed" in reports
    assert "signature of receipt" in receipt
    assert "as far as that could be checked" in case.verify().output


def test_a_public_key_checks_the_seal_and_a_team_file_the_reports_too(case: Case) -> None:
    keys = case.contest.keys
    hex_file = case.contest.folder / "public.hex"
    hex_file.write_text(keys.public_key().raw.hex())
    (unchecked,) = case.check("--public-key", hex_file)["unchecked"]
    assert unchecked.startswith("who sent 3 reports")
    team_file = keys.team_file("alice", "cup", "sealed")
    assert case.check("--public-key", team_file, "--receipt", case.receipt)["unchecked"] == []
    (unchecked,) = case.check("--public-key", keys.team_file("bob", "cup", "sealed"))["unchecked"]
    assert "no token of team 'alice'" in unchecked


def test_a_log_of_a_room_of_the_contest_holds(case: Case) -> None:
    room = Contest("cup.a1", case.contest.folder)
    case.log.unlink()
    run = write_log(room, sealed_report)
    assert case.check("--contest", case.folder)["holds"]
    assert run.path == case.log


def test_reports_under_a_token_that_was_replaced_later_hold(case: Case) -> None:
    before = case.contest.keys.token("alice")
    case.contest.keys.rotate("alice")
    between = case.contest.keys.token("alice")
    case.contest.keys.rotate("alice")
    present = case.contest.keys.token("alice")
    assert case.contest.keys.issued_tokens("alice") == [present, between, before]
    assert case.check("--contest", case.folder)["problems"] == []


# --- what was changed -------------------------------------------------------------------------


def rewritten(log: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the events and compute the chain again, as somebody without the contest's key can."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    change(events)
    previous, lines = CHAIN_START, []
    for event in events:
        if event["kind"] == "seal":
            event.update(head=previous, lines=len(lines))
        unhashed = encode({key: event[key] for key in event if key != "h"})[:-1]
        previous = chain_hash(previous, unhashed)
        lines.append(with_hash(unhashed, previous) + b"\n")
    log.write_bytes(b"".join(lines))


def lines_of(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def test_a_changed_line_is_named(case: Case) -> None:
    case.log.write_bytes(case.log.read_bytes().replace(b'"result":"A"', b'"result":"B"'))
    (problem,) = case.problems()
    assert (
        problem == "5: does not follow from line 4: it was changed, or lines before it are missing"
    )
    assert "DOES NOT HOLD" in case.verify().output
    assert "  wrong: line 5: does not follow" in case.verify().output


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines.pop(4), "5: does not follow from line 4"),
        (lambda lines: lines.pop(0), "1: does not begin the chain"),
        (lambda lines: lines.insert(5, lines[4]), "6: repeats line 5"),
        (lambda lines: lines.insert(3, lines.pop(4)), "4: stood behind line 5: lines were moved"),
        (lambda lines: lines.insert(4, b'{"kind":"status"}\n'), "5: has no hash: it was added"),
        (
            lambda lines: lines.insert(4, with_hash(b'{"kind":"status"}', "ab" * 32) + b"\n"),
            "6: stood behind line 4: line 5 was added or moved",
        ),
        (lambda lines: lines.append(b"{}\n"), "12: stands behind the seal"),
        (lambda lines: lines.pop(), "0: no seal behind line 10: the judge that wrote it had no key"),
        (lambda lines: lines.__delitem__(slice(8, None)), "0: no seal behind line 8: the run has not"),
        (lambda lines: lines.insert(3, b"\n"), "4: not a JSON object"),
        (lambda lines: lines.insert(3, b"nonsense\n"), "4: not a JSON object"),
        (lambda lines: lines.append(lines.pop()[:-1]), "11: cut off"),
        (lambda lines: lines.clear(), "0: the log is empty"),
    ],
)  # fmt: skip
def test_what_was_done_to_a_log_is_named_with_its_line(
    case: Case, change: Callable[[list[bytes]], object], problem: str
) -> None:
    lines = lines_of(case.log)
    assert len(lines) == 11
    change(lines)
    case.log.write_bytes(b"".join(lines))
    assert any(found.startswith(problem) for found in case.problems())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    case = new_case(tmp_path_factory.mktemp("whole"))
    return case.log, case.log.read_bytes()


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """The log with one byte changed, or a line removed, repeated, moved or added, or cut anywhere."""
    lines = content.splitlines(keepends=True)
    index = st.integers(0, len(lines) - 1)
    match draw(st.sampled_from(["byte", "remove", "repeat", "move", "add", "cut"])):
        case "byte":
            at = draw(st.integers(0, len(content) - 1))
            changed = draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
            return content[:at] + bytes([changed]) + content[at + 1 :]
        case "remove":
            del lines[draw(index)]
        case "repeat":
            lines.insert(draw(st.integers(0, len(lines))), lines[draw(index)])
        case "move":
            lines.insert(draw(index), lines.pop(draw(index)))
        case "add":
            body = encode(
                {"kind": draw(st.sampled_from(["report", "packet", "end", "seal", "x"]))}
            )[:-1]
            at = draw(st.integers(0, len(lines)))
            before = json.loads(lines[at - 1])["h"] if at else CHAIN_START
            hashed = with_hash(body, chain_hash(before, body))
            lines.insert(at, draw(st.sampled_from([body, hashed])) + b"\n")
        case "cut":
            return content[: draw(st.integers(0, len(content) - 1))]
    return b"".join(lines)


@settings(max_examples=400)
@given(data=st.data())
def test_any_single_change_is_found_without_any_key(
    whole: tuple[Path, bytes], data: st.DataObject
) -> None:
    log, content = whole
    changed = data.draw(mutated(content))
    log.write_bytes(changed)
    assert verify_log(log, VerificationKeys()).holds == (changed == content)


def test_a_chain_that_was_computed_again_is_found_with_the_public_key(case: Case) -> None:
    rewritten(case.log, lambda events: events[4].update(result="B"))
    assert case.check()["holds"]  # without a key nothing shows it: the reports are sealed
    key = case.contest.keys.team_file("bob", "cup", "sealed")
    (problem,) = case.problems("--public-key", key)
    assert problem.startswith("11: the seal was not signed with the contest's key")


def test_a_seal_that_the_organiser_makes_again_is_found_with_the_receipt(case: Case) -> None:
    """The organiser has all keys, but not the receipt that the team keeps."""
    case.log.unlink()
    write_log(case.contest, lambda contest, i, result: sealed_report(contest, i + 10, result))
    assert case.problems("--contest", case.folder) == [
        f"{line}: the team's message has number {n + 10}, the line {n}"
        for n, line in enumerate((5, 7, 9))
    ]
    case.log.unlink()
    write_log(case.contest, sealed_report)
    assert case.problems("--contest", case.folder) == []
    (problem,) = case.problems("--contest", case.folder, "--receipt", case.receipt)
    assert f"is of a log of {case.run.lines} lines with head {case.run.head[:16]}" in problem


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (lambda c, i, r: signed_report(c, i, "Z"), "the result is not that of the team's message"),
        (lambda c, i, r: sealed_report(c, i, "Z"), "the result is not that of the team's message"),
        (lambda c, i, r: "", "a report without the team's message"),
        (lambda c, i, r: signed_report(c, i, r, n=9), "the team's message has number 9"),
        (lambda c, i, r: signed_report(c, i, r, run="r0"), "message is of contest 'cup', run 'r0'"),
        (lambda c, i, r: signed_report(c, i, r, "bob"), "was not signed with its token"),
        (lambda c, i, r: sealed_report(c, i, r, "bob"), "was not sealed with its token"),
        (lambda c, i, r: "{}" + "0" * 70, "was not signed with its token"),
    ],
)
def test_a_report_that_the_team_did_not_send_is_found(
    tmp_path: Path, message: Message, problem: str
) -> None:
    case = new_case(tmp_path, message)
    found = case.problems("--contest", case.folder)
    assert [line.split(":")[0] for line in found] == ["5", "7", "9"]
    assert all(problem in line for line in found)


def test_readable_results_are_compared_without_any_key(tmp_path: Path) -> None:
    case = new_case(tmp_path, lambda c, i, r: signed_report(c, i, "A"))
    wrong = "the result is not that of the team's message"
    assert case.problems() == [f"7: {wrong}", f"9: {wrong}"]


def test_a_message_that_counts_twice_is_found(tmp_path: Path) -> None:
    case = new_case(tmp_path, lambda c, i, r: signed_report(c, max(i, 1), r, n=i))
    assert case.problems("--contest", case.folder) == ["7: the team's message is that of line 5"]


def test_a_log_of_version_1_has_no_chain_and_does_not_pass(case: Case) -> None:
    """A log whose hashes were removed looks the same, so it can't pass either."""
    events = [json.loads(line) for line in case.log.read_text().splitlines()][:-1]
    events[0]["v"] = 1
    score = score_run(case.log).result()
    case.log.write_bytes(b"".join(encode({k: e[k] for k in e if k != "h"}) for e in events))
    (problem,) = case.problems("--contest", case.folder)
    assert problem.startswith("0: no hash chain: a log of version 1 can be scored")
    assert score_run(case.log).result() == score


# --- receipts ---------------------------------------------------------------------------------


def test_a_receipt_with_a_mac_behind_it_is_read(case: Case) -> None:
    case.receipt.write_text(f"{case.receipt.read_text().strip()} {'ab' * 32}\n")
    assert case.check("--contest", case.folder, "--receipt", case.receipt)["unchecked"] == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"head": "0" * 64}, "with head 0000000000000000..."),
        ({"lines": 3}, "is of a log of 3 lines"),
        ({"contest": "other"}, "is of contest 'other'"),
        ({"reason": "timeout"}, "another reason for the end: 'timeout'"),
        ({"team": "bob"}, ""),
        ({"run": "r2"}, ""),
    ],
)
def test_a_receipt_of_another_log_is_found(
    case: Case, changes: dict[str, object], problem: str
) -> None:
    write_receipt(case.contest, case.run, case.receipt, **changes)
    result = case.verify("--contest", case.folder, "--receipt", case.receipt)
    assert result.exit_code == 1
    assert (problem or "of which no log with hashes was given") in result.output


def test_a_receipt_that_the_judge_did_not_sign_is_found(case: Case) -> None:
    text = case.receipt.read_text().replace('"seq": 9', '"seq": 8')
    case.receipt.write_text(text)
    (problem,) = case.problems("--contest", case.folder, "--receipt", case.receipt)
    assert "was not signed with the contest's key" in problem


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"kind":"go"}', '{"kind":"closed"}'])
def test_a_file_that_is_not_a_receipt_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "receipt"
    with pytest.raises(LogError, match="is not a receipt"):
        read_receipt(path)
    path.write_text(text)
    with pytest.raises(LogError, match="is not a receipt"):
        read_receipt(path)


def test_each_of_several_receipts_is_compared_with_its_log(case: Case, tmp_path: Path) -> None:
    bob = write_log(case.contest, lambda c, i, r: sealed_report(c, i, r, "bob"), team="bob")
    receipt = write_receipt(case.contest, bob, tmp_path / "bob.receipt")
    arguments = [
        "--receipt",
        str(receipt),
        "--receipt",
        str(case.receipt),
        "--contest",
        case.folder,
    ]
    result = CliRunner().invoke(main, ["verify", str(case.contest.runs), "--json", *arguments])
    logs = json.loads(result.output)["logs"]
    assert [log["receipts"] for log in logs] == [[str(case.receipt)], [str(receipt)]]
    assert all(log["holds"] for log in logs)


# --- reveal -----------------------------------------------------------------------------------


def reveal(case: Case, *options: str) -> tuple[Result, Path]:
    out = case.contest.folder / "reveal.json"
    return CliRunner().invoke(
        main, ["reveal", "--contest", case.folder, "--out", str(out), *options]
    ), out


def test_with_the_reveal_file_anybody_can_check_everything(case: Case) -> None:
    result, path = reveal(case)
    assert result.exit_code == 0
    assert "tokens of 2 teams" in result.output
    check = case.check("--reveal", path, "--receipt", case.receipt)
    assert check["problems"] == check["unchecked"] == []
    content = read_reveal(path)
    assert content.truth_key == case.contest.keys.truth_key().hex()
    assert content.tokens_of("bob") == [case.contest.keys.token("bob")]


def test_an_open_contest_reveals_the_teams_of_its_logs(tmp_path: Path) -> None:
    contest = new_contest(tmp_path / "cup")
    run = write_log(contest, sealed_report)
    case = Case(contest, run.path, tmp_path, run)
    _, path = reveal(case)
    assert list(read_reveal(path).tokens) == ["alice"]


def test_nothing_is_revealed_while_a_judge_is_at_work_unless_forced(case: Case) -> None:
    with only_judge(Contest("cup.room", case.contest.folder)):
        result, path = reveal(case)
        assert result.exit_code == 1
        assert "a judge of contest 'cup.room' is at work" in result.output
        assert not path.exists()
        assert reveal(case, "--force")[0].exit_code == 0
    path.unlink()
    assert reveal(case)[0].exit_code == 0


def test_nothing_is_revealed_while_a_season_is_served(case: Case) -> None:
    """Its teams upload with their tokens."""
    with only_server(case.contest):
        result, path = reveal(case)
    assert result.exit_code == 1
    assert "the server of the season is at work" in result.output
    assert not path.exists()


def test_a_reveal_file_that_was_changed_is_refused(case: Case) -> None:
    _, path = reveal(case)
    path.write_text(path.read_text().replace('"cup"', '"cap"'))
    with pytest.raises(ContestError, match="signature does not verify"):
        read_reveal(path)
    path.write_text("{}")
    with pytest.raises(ContestError, match="bci-judge reveal"):
        read_reveal(path)


def test_keys_are_never_made_by_verify_or_reveal(case: Case) -> None:
    (case.contest.folder / "keys" / "contest.key").unlink()
    for result in (case.verify("--contest", case.folder), reveal(case)[0]):
        assert result.exit_code == 1
        assert "no key at" in result.output
    assert not (case.contest.folder / "keys" / "contest.key").exists()


def test_keys_of_two_contests_are_refused(case: Case, tmp_path: Path) -> None:
    other = new_contest(tmp_path / "other")
    file = other.keys.team_file("alice", "cup", "sealed")
    result = case.verify("--contest", case.folder, "--public-key", file)
    assert result.exit_code == 1
    assert "they are of different contests" in result.output


# --- docs/run-log.md --------------------------------------------------------------------------


def documented(tmp_path: Path) -> dict[str, Path]:
    """The log, receipt, public key and script in docs/run-log.md, as files."""
    text = (Path(__file__).parents[2] / "docs" / "run-log.md").read_text("utf-8")
    (section,) = re.findall(r"^## Hash chain\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    files = dict(zip(("erp-alice-r1.jsonl", "receipt", "key", "script"), blocks, strict=True))
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    return {name.rpartition(".")[2]: tmp_path / name for name in files}


def test_the_documented_log_and_receipt_hold(tmp_path: Path) -> None:
    files = documented(tmp_path)
    arguments = ["--public-key", str(files["key"]), "--receipt", str(files["receipt"])]
    result = CliRunner().invoke(main, ["verify", str(files["jsonl"]), *arguments, "--json"])
    (log,) = json.loads(result.output)["logs"]
    assert log["problems"] == []
    assert [what.split(" ")[0] for what in log["held"]] == ["hash", "seal,", "1", "receipt"]
    signing_key = SigningKey(bytes(range(32)))
    assert signing_key.public.raw.hex() == files["key"].read_text().strip()
    *_, seal = files["jsonl"].read_text().splitlines()
    made_again = log_seal(signing_key, "cup", "r1", "alice")(log["head"], log["lines"])
    assert seal == f'{made_again[:-1]},"h":"{json.loads(seal)["h"]}"}}'


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="no sha256sum on this system")
def test_the_documented_script_checks_the_chain(tmp_path: Path) -> None:
    files = documented(tmp_path)

    def run() -> subprocess.CompletedProcess[str]:
        command = ["sh", str(files["script"]), str(files["jsonl"])]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    last = json.loads(files["jsonl"].read_text().splitlines()[-1])
    assert run().stdout.strip() == last["h"]
    files["jsonl"].write_text(files["jsonl"].read_text().replace('"A"', '"B"', 1))
    assert run().returncode == 1
    assert run().stdout.startswith('does not follow: {"kind":"truth"')
