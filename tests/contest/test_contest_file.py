"""contest.toml: what is accepted and refused, and that its rules reach replay and judge."""

import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from playground import WAIT_S, Quiet, Recorder

from bci_stream.contest.contest import load_contest
from bci_stream.errors import ContestError
from bci_stream.judge.cli import main as judge_main
from bci_stream.judge.judge import Judge
from bci_stream.wire.client import TeamClient
from bci_stream.wire.memory import MemoryTransport
from decoders.worker import Worker
from replay.model.options import SourceOptions
from replay.player.player import parse_pace
from replay.service import Service
from scripts.contest_file_page import HEAD, PAGE, page
from tracks.registry import TRACKS


def written(folder: Path, text: str) -> Path:
    path = folder / "contest.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 3", "name"),
        ("name = ", "Invalid value"),
        ('name = "c"\nsurprise = 1', "surprise"),
        ('name = "c"\npaec = "realtime"', "no setting 'paec'; did you mean 'pace'?"),
        (
            'name = "c"\n[limits]\njion_s = 3',
            "[limits] has no setting 'jion_s'; did you mean 'join_s'?",
        ),
        (
            'name = "c"\n[tracks.mi]\nteam = []',
            "[tracks.mi] has no setting 'team'; did you mean 'teams'?",
        ),
        ('name = "c"\n[tracks.mii]', "did you mean 'mi'?"),
        ('name = "c"\n[tracks.mi.rules]\nclass_name = 1', "did you mean 'class_names'?"),
        (
            'name = "c"\npace = "sideways"',
            'pace = \'sideways\': "lockstep", "realtime" or a factor',
        ),
        ('name = "c"\npace = "lockstpe"', "did you mean 'lockstep'?"),
        ('name = "c"\npace = -1.0', "pace = -1.0"),
        ('name = "c"\nstart = "whenever"', "start = 'whenever'"),
        ('name = "c"\n[tracks.mi]\nstart = "at noon"', "start = 'at noon'"),
        ('name = "c"\nteams = ["a", "b", "a"]', "teams: team 'a' is listed 2 times"),
        (
            'name = "c"\n[tracks.mi]\nteams = ["a", "a"]',
            "tracks.mi.teams: team 'a' is listed 2 times",
        ),
        ('name = "c"\nteams = ["alice"]\n[team.alcie]\nname = "A"', "did you mean 'alice'?"),
        ('name = "c"\n[team.a]\nname = "   "', "team.a.name = '   '"),
        ('name = "c"\npeers = ["http://x"]', "peers: 'http://x' is no host"),
        ('name = "c"\n[limits]\njoin_s = inf', "limits.join_s = inf: a finite number"),
        ('name = "c"\n[limits]\nmemory_mb = 0', "limits.memory_mb = 0: expected int >= 1"),
        ('name = "c"\n[limits]\nstrength = "weak"', "limits.strength = 'weak'"),
        ('name = "c"\n[qualify]\ntop = 0', "qualify.top = 0"),
        ('name = "c"\ntrack = "mi"\n[tracks.mi]', "write one of them"),
        ('name = "c"\n[[awards]]\nname = "x"\nplaces = 0', "awards[0].places = 0"),
        ('name = "c"\n[[awards]]\nname = "x"\ntracks = ["m"]', "no track 'm'"),
        ('name = "c"\nrecordings = ["x"]', "need a `track` beside them"),
        ('name = "c"\ntrack = "chess"', "no track 'chess'; there are mi, turing"),
        (
            'name = "c"\ntrack = "mi"\nrules = {slack_s = 1}',
            "mi has no rule 'slack_s'; it has: window",
        ),
        ('name = "c"\ntrack = "erp"\nrules = {sequence_s = "2"}', "sequence_s must be a number"),
        ('name = "c"\n[tracks.erp.rules]\ncharacters = "AB"', "characters must be"),
        ('name = "c"\n[tracks.ecog.rules]\nblock_codes = 1', "block_codes must be true or false"),
    ],
)
def test_an_invalid_setting_is_an_error_with_the_file_and_the_rule(tmp_path, text, words) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ContestError, match=r"contest file .*contest\.toml") as caught:
        load_contest(path)
    assert words in str(caught.value)


def test_every_setting_of_the_example_in_its_page_is_accepted(tmp_path) -> None:
    lines = HEAD.splitlines()
    example = "\n".join(line.strip() for line in lines if line.startswith("    "))
    contest = load_contest(written(tmp_path, example))
    assert contest.start_policy("mi").kind == "go"
    assert contest.teams_of("erp") == ("alice", "bob")
    assert [award.name for award in contest.awards] == ["特等奖", "一等奖"]
    assert contest.title == "脑机接口大赛"


def test_the_page_of_the_contest_file_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page() + "\n", (
        "run python scripts/contest_file_page.py"
    )


@pytest.mark.parametrize(
    ("given", "pace"), [('"lockstep"', "lockstep"), ("2", "2"), ("1.0", "realtime")]
)
def test_a_pace_is_a_word_or_a_number(tmp_path, given, pace) -> None:
    assert load_contest(written(tmp_path, f'name = "c"\npace = {given}')).pace == pace


def test_recordings_beside_the_file_are_found_from_any_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "a.edf").touch()
    text = 'name = "c"\n[tracks.mi]\nrecordings = ["a.edf?resample=250", "synthetic:mi"]'
    contest = load_contest(written(tmp_path, text))
    monkeypatch.chdir("/")
    assert contest.recordings("mi") == [f"{tmp_path / 'a.edf'}?resample=250", "synthetic:mi"]


@pytest.mark.parametrize("track", TRACKS)
def test_init_spells_out_every_rule_so_that_it_can_be_uncommented(tmp_path, track) -> None:
    made = CliRunner().invoke(judge_main, ["init", str(tmp_path / "c"), "--track", track])
    assert made.exit_code == 0, made.output
    path = tmp_path / "c" / "contest.toml"
    text = path.read_text()
    for name in TRACKS[track].rules:
        assert f"# {name} = " in text
        text = text.replace(f"# {name} = ", f"{name} = ")
    path.write_text(text)
    changed = TRACKS[track].under(load_contest(path).rules(track))
    assert changed.rules == TRACKS[track].rules


def test_its_rules_hold_for_the_packets_the_truth_and_the_score(tmp_path) -> None:
    rules = 'name = "c"\n[tracks.ecog.rules]\npacket_s = 0.1\nblock_codes = false\n'
    contest = load_contest(written(tmp_path, rules))
    transport, stop, decoder = MemoryTransport(), threading.Event(), Recorder()
    service = Service(
        transport=transport,
        contest=contest,
        name="r",
        uris=("synthetic:ecog?blocks=2&trials=1&seconds=4&subjects=1",),
        options=SourceOptions(),
        track="ecog",
        pace=parse_pace("lockstep"),
        start_on="judge",
        team="",
        wait_s=WAIT_S,
        loop=False,
        stop=stop,
    )
    client = TeamClient(transport, "c", "alice", contest.keys.token("alice"), stop=stop)
    worker = Worker(client, decoder, track="ecog", join_s=WAIT_S, stop=stop)
    judge = Judge(transport, contest, Quiet(), stop=stop, may_start=lambda teams: len(teams) == 1)
    threads = [threading.Thread(target=work, daemon=True) for work in (service.run, worker.run)]
    for thread in threads:
        thread.start()
    judge.judge(lambda j: j.all_over(), WAIT_S)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    (run,) = judge.runs
    assert run.ended == "finished"
    assert max(packet.n for packet in decoder.packets) == 100
    assert run.run.track.rules["packet_s"] == 0.1
    assert {verdict.block for verdict in run.run.verdicts()} == {0}
