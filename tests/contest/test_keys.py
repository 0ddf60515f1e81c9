"""Keys of a contest: what follows from one secret, team files, and tokens that are replaced or revoked."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import Keys, read_team_file
from bci_stream.errors import ContestError
from bci_stream.judge.cli import main as judge_main
from bci_stream.wire.crypto import PublicKey
from replay.service import secret_seed


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    arguments = [
        "init",
        str(tmp_path / "cup"),
        "--track",
        "erp",
        "--team",
        "alice",
        "--team",
        "bob",
    ]
    assert CliRunner().invoke(judge_main, arguments).exit_code == 0
    return tmp_path / "cup"


def judge(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(judge_main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_every_key_differs_from_every_other_and_between_contests(tmp_path) -> None:
    keys = [Keys(tmp_path / name) for name in "ab"]
    secrets = {
        secret
        for each in keys
        for secret in (
            each.contest_key(),
            each.truth_key(),
            each.public_key().raw,
            each.token("alice"),
            each.token("bob"),
        )
    }
    assert len(secrets) == 10
    assert Keys(tmp_path / "a").public_key().raw == keys[0].public_key().raw


def test_a_team_file_has_all_that_a_team_needs_and_is_its_owners_alone(cup) -> None:
    contest = load_contest(cup)
    path = cup / "keys" / "alice.bci"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file = read_team_file(path)
    assert (file.contest, file.team, file.results) == ("cup", "alice", "sealed")
    assert file.token_bytes == contest.token("alice")
    signed = contest.keys.signing_key().sign('{"kind":"go"}', "judge")
    assert PublicKey(bytes.fromhex(file.public_key)).verified(signed, "judge") == '{"kind":"go"}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no team file"),
        ("{", "is not a team file"),
        (json.dumps({"contest": "c", "team": "t", "token": "00", "public_key": "00"}), "32 bytes"),
        (json.dumps({"contest": "c", "team": "t", "token": "x", "public_key": "00"}), "not a team"),
    ],
)
def test_a_file_that_is_no_team_file_is_refused(tmp_path, content, words) -> None:
    path = tmp_path / "alice.bci"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ContestError, match=words):
        read_team_file(path)


def test_a_revoked_token_is_refused_at_once_and_replaced_by_rotate(cup) -> None:
    running = load_contest(cup)  # a judge that was started before
    first = running.token("alice")
    assert judge("team", "revoke", "alice", "--contest", cup)[0] == 0
    assert running.token("alice") is None
    assert running.token("bob") is not None
    assert judge("team", "list", "--contest", cup)[1] == "alice: token revoked\nbob: first token\n"
    code, output = judge("team", "file", "alice", "--contest", cup)
    assert (code, "is revoked" in output) == (1, True)
    assert judge("team", "rotate", "alice", "--contest", cup)[0] == 0
    second = running.token("alice")
    assert second not in (None, first)
    assert read_team_file(cup / "keys" / "alice.bci").token_bytes == second


def test_a_team_that_is_not_listed_is_named(cup) -> None:
    code, output = judge("team", "rotate", "carol", "--contest", cup)
    assert code == 1
    assert "team 'carol' is not on the list of contest 'cup'; it has alice, bob" in output


def test_token_states_that_cannot_be_read_let_no_team_in(cup) -> None:
    (cup / "keys" / "teams.json").write_text("{")
    with pytest.raises(ContestError, match="restore it from a copy"):
        load_contest(cup).token("alice")


def test_synthetic_recordings_of_a_contest_with_keys_have_a_seed_of_their_own(tmp_path) -> None:
    uri = "synthetic:erp?subjects=1"
    opened = Contest("open", tmp_path / "open")
    assert secret_seed(uri, opened) == uri
    sealed = [Contest("c", tmp_path / name, results="sealed") for name in "ab"]
    seeds = {secret_seed(given, each) for given in (uri, f"{uri}&seed=2") for each in sealed}
    assert len(seeds) == 4
    assert all(seed.startswith(f"{uri}&seed=") for seed in seeds)
    assert secret_seed("recording.edf", sealed[0]) == "recording.edf"


def test_teams_that_are_added_at_the_same_time_are_all_there(tmp_path) -> None:
    teams = [f"t{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda team: Keys(tmp_path).add_team(team), teams))
    assert set(Keys(tmp_path).added_teams()) == set(teams)
