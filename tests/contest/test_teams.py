"""`bci-judge team`, display names, teams by track, and whose token is refused and why."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.contest.refusals import CHECK_EVERY_S, TokenRefusals, token_problem
from bci_stream.contest.teams import write_team_file
from bci_stream.errors import ContestError
from bci_stream.judge.cli import main as judge_main
from bci_stream.wire.crypto import seal_results, sign
from bci_stream.wire.messages import Hello, encode
from bci_stream.wire.verify import MessageVerifier, TeamText


def judge(*arguments: str) -> str:
    done = CliRunner().invoke(judge_main, arguments)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    judge("init", str(tmp_path / "cup"), "--track", "mi", "--track", "erp", "--team", "alice",
          "--team", "bob=清华脑机一队")  # fmt: skip
    return tmp_path / "cup"


def test_init_writes_all_tracks_and_the_display_names(cup) -> None:
    contest = load_contest(cup)
    assert list(contest.tracks) == ["mi", "erp"]
    assert contest.pace == "realtime"
    assert contest.display_name("bob") == "清华脑机一队"
    assert contest.display_name("alice") == ""
    assert (cup / "keys" / "bob.bci").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--team", "a", "--team", "a=A"], "--team a was given twice"),
        (["--track", "mi", "--track", "mi"], "--track mi was given twice"),
        (["--team", "清华"], "letters, digits"),
        (["--team", "a=\u202eevil"], "can't be shown"),
        (["--pace", "sideways"], "'lockstep', 'realtime' or a factor"),
    ],
)
def test_init_refuses_what_the_file_would_not_take(tmp_path, options, words) -> None:
    done = CliRunner().invoke(judge_main, ["init", str(tmp_path / "cup"), *options])
    assert done.exit_code == 1
    assert words in done.output
    assert not (tmp_path / "cup" / "contest.toml").exists()


def test_a_team_is_added_while_others_have_the_contest_open(cup) -> None:
    running = load_contest(cup)  # as a judge has it
    assert running.token("carol") is None
    added = judge(
        "team", "add", "carol", "--name", "Alpha Waves", "--track", "mi", "--contest", str(cup)
    )
    assert "carol.bci" in added
    assert running.token("carol") == read_team_file(cup / "keys" / "carol.bci").token_bytes
    assert running.team_list() == ("alice", "bob", "carol")
    assert running.display_name("carol") == "Alpha Waves"
    assert running.takes("carol", "mi")
    assert not running.takes("carol", "erp")
    assert "carol (Alpha Waves): first token; mi only" in judge(
        "team", "list", "--contest", str(cup)
    )
    again = CliRunner().invoke(judge_main, ["team", "add", "carol", "--contest", str(cup)])
    assert again.exit_code == 1
    assert "already" in again.output


def test_rotate_and_revoke_keep_the_name_and_the_list(cup) -> None:
    judge("team", "add", "carol", "--name", "Alpha Waves", "--contest", str(cup))
    contest = load_contest(cup)
    first = contest.token("carol")
    judge("team", "revoke", "carol", "--contest", str(cup))
    assert contest.token("carol") is None
    assert "carol (Alpha Waves): token revoked" in judge("team", "list", "--contest", str(cup))
    judge("team", "rotate", "carol", "--contest", str(cup))
    assert contest.token("carol") not in (None, first)
    assert contest.display_name("carol") == "Alpha Waves"


def test_a_team_added_to_an_open_contest_closes_it_and_that_is_shown(tmp_path) -> None:
    judge("init", str(tmp_path))
    contest = load_contest(tmp_path)
    assert contest.token("anyone") is not None
    assert "only its teams may take part" in judge(
        "team", "add", "carol", "--contest", str(tmp_path)
    )
    assert contest.token("anyone") is None
    assert contest.token("carol") is not None


def test_an_unknown_team_is_refused_with_the_similar_one(cup) -> None:
    done = CliRunner().invoke(judge_main, ["team", "rotate", "alcie", "--contest", str(cup)])
    assert done.exit_code == 1
    assert "did you mean 'alice'?" in done.output
    assert "bci-judge team add alcie" in done.output


def test_the_team_file_has_the_peers_and_an_older_one_has_none(cup) -> None:
    text = (cup / "contest.toml").read_text(encoding="utf-8")
    (cup / "contest.toml").write_text(
        text.replace("pace", 'peers = ["10.0.0.5"]\npace', 1), encoding="utf-8"
    )
    judge("team", "file", "alice", "--contest", str(cup))
    path = cup / "keys" / "alice.bci"
    assert read_team_file(path).peers == ["10.0.0.5"]
    older = {key: value for key, value in json.loads(path.read_text()).items() if key != "peers"}
    path.write_text(json.dumps(older))
    assert read_team_file(path).peers == []


def test_the_teams_of_a_track_replace_those_of_the_contest(tmp_path) -> None:
    (tmp_path / "contest.toml").write_text(
        'name = "c"\nteams = ["alice", "bob"]\n[tracks.mi]\nteams = ["bob", "carol"]\n[tracks.erp]\n'
    )
    contest = load_contest(tmp_path)
    assert contest.teams_of("mi") == ("bob", "carol")
    assert contest.teams_of("erp") == ("alice", "bob")
    assert contest.team_list() == ("alice", "bob", "carol")
    assert not contest.takes("alice", "mi")
    assert contest.token("carol") is not None
    assert contest.token("dave") is None


# --- refused tokens ---------------------------------------------------------------------------


def claimed(contest: Contest, team: str, token: bytes) -> TeamText:
    """A hello of a team, as a judge or a replay reads it."""
    text = encode(Hello(contest.name, "", team, 1))
    sealed = contest.sealed
    protected = (
        seal_results(text, token, contest.name, team, "", 1) if sealed else sign(text, token)
    )
    read = MessageVerifier(contest.name, set(), contest.token, sealed=sealed).read(protected)
    assert read is not None
    return read


@pytest.mark.parametrize("results", ["sealed", "signed"])
def test_each_token_that_is_refused_is_named(tmp_path, results) -> None:
    (tmp_path / "contest.toml").write_text(
        f'name = "c"\nteams = ["alice"]\nresults = "{results}"\n'
    )
    contest = load_contest(tmp_path)
    first = contest.keys.token("alice")

    def problem(team: str, token: bytes) -> str | None:
        why = token_problem(contest, claimed(contest, team, token))
        return None if why is None else why.code

    assert problem("alice", first) is None
    assert problem("alice", bytes(32)) == "token_wrong"
    assert problem("bob", contest.keys.token("bob")) == "team_unlisted"
    contest.keys.rotate("alice")
    assert problem("alice", first) == "token_replaced"
    assert problem("alice", contest.keys.token("alice")) is None
    contest.keys.revoke("alice")
    assert problem("alice", contest.keys.token("alice")) == "token_revoked"
    assert problem("alice", first) == "token_revoked"


def test_the_messages_of_one_stream_are_looked_at_once_a_second(contest) -> None:
    refusals = TokenRefusals(contest)
    wrong = claimed(contest, "alice", bytes(32))
    assert refusals.refuse(wrong, "uid", 10.0) is not None
    assert refusals.refuse(wrong, "uid", 10.0 + CHECK_EVERY_S / 2) is None
    assert refusals.refuse(wrong, "uid", 10.0 + CHECK_EVERY_S) is not None
    assert refusals.of_team("alice") is not None
    refusals.accept("alice")
    assert refusals.of_team("alice") is None


def test_what_names_no_team_is_no_refusal(contest) -> None:
    assert token_problem(contest, TeamText("{", '{"type":"hello"', "")) is None


def test_a_missing_team_can_not_be_given_a_file(cup) -> None:
    contest = load_contest(cup)
    with pytest.raises(ContestError, match="not on the list"):
        write_team_file(contest, "dave")


def test_a_message_that_can_not_be_read_is_no_wrong_token(tmp_path) -> None:
    (tmp_path / "contest.toml").write_text('name = "c"\nteams = ["alice"]\n')
    contest = load_contest(tmp_path)
    odd = seal_results("{NaN", contest.keys.token("alice"), "c", "alice", "", 1)
    assert token_problem(contest, TeamText(odd, "alice", "")) is None
