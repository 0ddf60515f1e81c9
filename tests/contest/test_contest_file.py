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
