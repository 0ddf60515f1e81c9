"""Phases: what the contest file accepts, and who may submit, what counts and who goes on."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.phases import Phase
from bci_stream.errors import ContestError
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.season.standing import (
    advancing,
    at_time,
    choose_phase,
    counted,
    entry_refusal,
    is_charged,
    phases_of,
    plan_of,
    quota_left,
    quota_refusal,
    shown_result,
    standings,
)
from bci_stream.season.storage.schema import Submission

TEXT = """
name = "cup"
[tracks.emotion]
recordings = ["a.npz"]
rules = {outage = "stand"}

[[phases]]
name = "preliminary"
opens = 2026-03-01T00:00:00+08:00
closes = 2026-04-01T00:00:00
time_zone = "Asia/Shanghai"
quota_a_day = 2
quota = 5
counts = "best"
top = 2
least_score = 10.0

[[phases]]
name = "final"
opens = 2026-05-01T00:00:00
after = "preliminary"
counts = "chosen"
shows = "nothing"
[phases.tracks.emotion]
recordings = ["b.npz", "c.npz"]
rules = {decision_limit_s = 0.5}
"""


def load(folder: Path, text: str = TEXT) -> Contest:
    (folder / "contest.toml").write_text(text)
    return load_contest(folder)


def test_a_phase_has_its_own_recordings_and_rules(tmp_path: Path) -> None:
    contest = load(tmp_path)
    preliminary, final = phases_of(contest)
    assert plan_of(contest, preliminary, "emotion").recordings == ["a.npz"]
    plan = plan_of(contest, final, "emotion")
    assert plan.recordings == ["b.npz", "c.npz"]
    assert plan.rules == {"outage": "stand", "decision_limit_s": 0.5}


def test_times_without_an_offset_are_in_the_phases_zone(tmp_path: Path) -> None:
    preliminary, final = load(tmp_path).phases
    opens = datetime(2026, 2, 28, 16, tzinfo=UTC)  # midnight in Shanghai
    closes = datetime(2026, 3, 31, 16, tzinfo=UTC)
    assert preliminary.is_open(opens)
    assert not preliminary.is_open(opens.replace(hour=15))
    assert not preliminary.is_open(closes)
    assert preliminary.is_open(closes.replace(hour=15, minute=59))
    assert final.is_open(datetime(2030, 1, 1, tzinfo=UTC))
    assert preliminary.shown_time(preliminary.closes) == "2026-04-01 00:00 CST"


def test_a_contest_without_phases_is_always_open(tmp_path: Path) -> None:
    text = 'name = "cup"\n[tracks.mi]\n[qualify]\ntop = 3\n'
    (phase,) = phases_of(load(tmp_path, text))
    assert phase.is_open(at_time(0.0))
    assert (phase.name, phase.quota, phase.top) == ("open", None, 3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "final"', 'name = "preliminary"', "there are two of this name"),
        ('name = "final"', 'name = "the final"', "letters, digits"),
        ('"Asia/Shanghai"', '"Asia/Nowhere"', "no time zone 'Asia/Nowhere'"),
        ("closes = 2026-04-01T00:00:00", "closes = 2026-02-01T00:00:00", "before it opens"),
        ('after = "preliminary"', 'after = "semi"', "names no earlier phase ('semi')"),
        ("top = 2\nleast_score = 10.0", "", "lets no team go on"),
        ("[phases.tracks.emotion]", "[phases.tracks.mi]", "has no track 'mi'"),
        ("decision_limit_s = 0.5", 'decision_limit_s = "x"', "decision_limit_s"),
        ("quota = 5", "quota = 0", "quota"),
        ('shows = "nothing"', 'shows = "little"', "little"),
        ('counts = "chosen"', 'surprise = "x"', "surprise"),
    ],
)
def test_phases_that_cannot_be_used_are_refused(tmp_path: Path, old, new, words) -> None:
    assert old in TEXT
    with pytest.raises(ContestError) as caught:
        load(tmp_path, TEXT.replace(old, new))
    assert words in str(caught.value)


MORNING = datetime(2026, 3, 10, 1, tzinfo=UTC)


def made(number: int, team: str = "alice", score: float | None = 20.0, **others) -> Submission:
    row = asdict(LeaderboardRow(team, "emotion", score=score or 0.0, trials=9, status="finished"))
    given = {
        "phase": "preliminary",
        "received": MORNING.timestamp() + number,
        "stage": "judged",
        **others,
    }
    base = Submission(number, team, "emotion", "", "a.zip", 1, "0" * 64, 0.0)
    return replace(base, score=score, row=row, **given)


def test_the_open_phase_is_chosen_and_others_say_when(tmp_path: Path) -> None:
    phases = load(tmp_path).phases

    def chosen(wanted: str, now: datetime) -> str:
        phase, why = choose_phase(phases, "emotion", wanted, now)
        return phase.name if phase is not None else why.code

    april = datetime(2026, 4, 10, tzinfo=UTC)
    assert chosen("", MORNING) == "preliminary"
    assert chosen("", april) == "phase_not_begun"
    assert chosen("preliminary", april) == "phase_over"
    assert chosen("final", april) == "phase_not_begun"
    assert chosen("semi", april) == "phase_unknown"
    assert chosen("", april.replace(month=6)) == "final"
    assert choose_phase(phases, "mi", "final", april)[1].code == "phase_track"
    assert choose_phase([phases[0]], "emotion", "", april)[1].code == "no_phase_open"
    both = [phases[1], Phase("extra")]
    assert choose_phase(both, "emotion", "", april.replace(month=6))[1].code == "phases_open"


def test_quota_is_of_a_day_in_the_phases_zone_and_in_all(tmp_path: Path) -> None:
    preliminary = load(tmp_path).phases[0]
    two = [made(1), made(2)]
    assert quota_left(preliminary, "emotion", two, MORNING) == (0, 3)
    assert quota_refusal(preliminary, "emotion", two, MORNING).code == "quota_a_day"
    assert quota_refusal(preliminary, "emotion", two[:1], MORNING) is None
    evening = MORNING.replace(hour=16)  # the next day in Shanghai
    assert quota_left(preliminary, "emotion", two, evening) == (2, 3)
    assert quota_left(preliminary, "mi", two, MORNING) == (2, 5)
    five = [made(n, received=float(n)) for n in range(1, 6)]
    assert quota_refusal(preliminary, "emotion", five, MORNING).code == "quota_in_all"
    why = quota_refusal(preliminary, "emotion", two, MORNING)
    assert why.parameters["next_day"] == "2026-03-11 00:00 CST"


@pytest.mark.parametrize(
    ("stage", "fault", "charged"),
    [
        ("received", "", True),
        ("running", "organiser", True),  # it waits for another attempt
        ("judged", "", True),
        ("failed", "team", True),
        ("disqualified", "team", True),
        ("rejected", "team", False),
        ("failed", "organiser", False),
    ],
)
def test_what_fails_at_the_check_or_through_us_costs_no_quota(stage, fault, charged) -> None:
    assert is_charged(made(1, stage=stage, fault=fault)) is charged


def test_best_last_and_chosen() -> None:
    tries = [made(1, score=5.0), made(2, score=9.0, chosen=True), made(3, score=7.0)]
    found = {
        rule: counted(Phase("preliminary", counts=rule), "emotion", tries)["alice"].id
        for rule in ("best", "last", "chosen")
    }
    assert found == {"best": 2, "last": 3, "chosen": 2}
    unchosen = [replace(each, chosen=False) for each in tries]
    assert counted(Phase("preliminary", counts="chosen"), "emotion", unchosen)["alice"].id == 3
    out = [made(4, score=99.0, stage="disqualified"), made(5, score=None, stage="running")]
    assert counted(Phase("preliminary"), "emotion", [*tries, *out])["alice"].id == 2


def test_those_who_go_on_may_submit_in_the_next_phase(tmp_path: Path) -> None:
    phases = load(tmp_path).phases
    scores = {"alice": 30.0, "bob": 20.0, "carol": 15.0, "dave": 5.0}
    everyone = [made(n, team, score) for n, (team, score) in enumerate(scores.items(), 1)]
    gone_on = advancing(standings(phases[0], "emotion", everyone))
    assert gone_on == {"alice", "bob"}
    without = standings(phases[0], "emotion", everyone[2:])
    assert advancing(without) == {"carol"}, "dave has too few points"
    assert entry_refusal(phases[1], "alice", gone_on) is None
    assert entry_refusal(phases[1], "carol", gone_on).code == "not_gone_on"
    assert entry_refusal(phases[0], "carol", ()) is None


def test_a_phase_that_shows_nothing_hides_scores_from_all() -> None:
    sessions = [{"subject": "S1", "score": 4.0, "trials": [1, 2]}]
    hidden, open_, detailed = (
        Phase("preliminary", shows=s) for s in ("nothing", "score", "subjects")
    )
    mine = made(1, sessions=sessions)
    assert shown_result(hidden, mine) == {"score": None, "subjects": []}
    assert shown_result(open_, mine) == {"score": 20.0, "subjects": []}
    assert shown_result(detailed, mine)["subjects"] == [{"subject": "S1", "score": 4.0}]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 100), st.booleans()), max_size=12),
    st.sampled_from(["best", "last", "chosen"]),
)
def test_each_team_has_one_place_by_a_result_of_its_own(tries, rule) -> None:
    phase = Phase("preliminary", counts=rule)
    everyone = [made(n, team, score, chosen=c) for n, (team, score, c) in enumerate(tries, 1)]
    rows = standings(phase, "emotion", everyone)
    assert sorted(row.team for row in rows) == sorted({team for team, _, _ in tries})
    for row in rows:
        scores = [score for team, score, _ in tries if team == row.team]
        assert row.score in scores
        if rule == "best":
            assert row.score == max(scores)
        if rule == "last":
            assert row.score == scores[-1]
