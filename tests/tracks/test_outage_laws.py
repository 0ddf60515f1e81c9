"""Laws of outages and voided trials, by random logs against a slow, second reading of the rules.

The oracle finds what is void in a whole log from scratch and takes it out of the score of
`test_laws`; the referees see one event at a time, and a line may stand anywhere.
"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracks.test_laws import RATE, Session, emotion_log, trial_log
from tracks.registry import TRACKS
from tracks.run import Run

seeds = st.integers(0, 2**64 - 1)
trial_tracks = st.sampled_from(["mi", "turing", "erp"])
tracks = st.sampled_from(sorted(TRACKS))
RATES = RATE | {"emotion": 250, "ecog": 1000}


def session_log(seed, track):
    """The events of one session of a track."""
    if track == "emotion":
        return clip_log(seed) if seed % 4 else emotion_log(seed)
    return ecog_log(seed) if track == "ecog" else trial_log(seed, track)[1]


def clip_log(seed):
    """Blocks of emotion with long clips, listed in any order; some without a 243."""
    r = Random(seed)
    events, clips, position = [], [], 0
    for block in range(r.randint(1, 2)):
        position = 0 if r.random() < 0.7 else position
        begin, packets = position, r.randint(20, 60)
        closed = r.random() < 0.7
        for number in range(packets + r.randint(0, 4)):
            codes = [242] if number == 0 else [243] if closed and number == packets - 1 else []
            triggers = [[r.randint(0, 49), code] for code in codes]
            events.append({"kind": "packet", "start": position, "n": 50, "triggers": triggers})
            position += 50
            if r.random() < 0.5:
                result = r.choice([0, 0, 0, 1, None])
                events.append({"kind": "report", "result": result, "elapsed_s": 0.1})
        for _ in range(r.randint(1, 3)):
            start = begin + r.randint(-300, 1500)
            clips.append(
                {"block": block, "start": start, "end": start + r.randint(500, 2000), "label": 0}
            )
    r.shuffle(clips)
    for clip in clips:
        events.insert(r.randint(0, len(events)), {"kind": "truth", "clips": [clip]})
    return events


def ecog_log(seed):
    r, values = Random(seed), np.random.default_rng(seed % 2**32)
    rows = r.randint(1, 120)
    trials, position = [], 0
    for _ in range(r.randint(0, 4)):
        start = position + r.randint(0, 10)
        position = start + r.choice([1, 2, 9, 30])
        trials.append({"block": r.randint(0, 1), "start": start, "end": position})
    events = []
    for _ in range(r.randint(1, 16)):
        codes = [[0, 242]] if r.random() < 0.1 else []
        events.append({"kind": "packet", "start": 0, "n": r.choice([40, 40, 7]), "triggers": codes})
        if r.random() < 0.8:
            guess = values.normal(size=(r.randint(1, 9), 8)).tolist()
            events.append({"kind": "report", "result": guess})
    truth = [{"kind": "truth", "angles": values.normal(size=(rows, 8)).tolist()}]
    truth += [{"kind": "truth", "trials": [trial]} for trial in trials]
    for line in truth:
        events.insert(r.randint(0, len(events)), line)
    rank = {id(line): n for n, line in enumerate(truth)}
    order = iter(sorted((e for e in events if id(e) in rank), key=lambda e: rank[id(e)]))
    return [next(order) if id(event) in rank else event for event in events]


def void_lines(r, events, count):
    """Random outage and void lines; most of them name something that is there."""
    packets = sum(event["kind"] == "packet" for event in events)
    lines = []
    for _ in range(count):
        session = r.choice([0, 0, 0, 0, 1, 7])
        if r.random() < 0.7:
            first = r.randint(-1, packets + 1)
            last = first + r.choice([-1, 0, 0, 0, 1, 4, 20])
            lines.append({"kind": "outage", "session": session, "from": first, "to": last})
        else:
            trial = {} if r.random() < 0.2 else {"trial": r.randint(0, 4)}
            lines.append({"kind": "void", "session": session, "block": r.randint(0, 2), **trial})
    return lines


def judged(track, events, lines=(), r=None, rules=None):
    """(the run, the verdicts that were given): two sessions, the lines put in at random places."""
    log = [{"kind": "session", "subject": "S", "rate": RATES[track]}, *events]
    log += [{"kind": "session", "subject": "S", "rate": RATES[track]}, *events]
    log.append({"kind": "end", "reason": "finished"})
    for line in lines:
        log.insert(r.randint(0, len(log)) if r else len(log), line)
    run = Run()
    run.feed({"kind": "run", "v": 1, "track": track, "team": "t", "rules": rules or {}})
    return run, [verdict for event in log for verdict in run.feed(event)]


def case_of(seed, track):
    r = Random(seed)
    events = session_log(r.randrange(2**32), track)
    return events, void_lines(r, events, r.randint(0, 5)), r


# --- the oracle: which trials are void


def last_packet(session, trial, track):
    """Of a trial of mi, turing or erp; packets are counted from 1, as in `Session`."""
    first = session.marks[trial][0]
    later = [session.marks[i][0] for i in session.trials if i > trial]
    candidates = [len(session.packets), *later[:1]]
    if track == "turing":
        full = (p for p in range(first + 1, len(session.packets) + 1))
        candidates += [p for p in full if session.used(trial, p) >= 5 * 250][:1]
    elif session.end(trial) is not None:
        candidates.append(session.end(trial))
    return min(candidates)


def oracle_void(track, events, lines):
    session, void = Session(track, events), set()
    for block, pairs in session.labelled().items():
        for number, (trial, _) in enumerate(pairs):
            for line in lines:
                if line["session"] != 0:
                    continue
                if line["kind"] == "void":
                    named = line["block"] == block and line.get("trial", number) == number
                elif trial is None:
                    named = False
                else:
                    first, last = session.marks[trial][0], last_packet(session, trial, track)
                    named = any(line["from"] <= p - 1 <= line["to"] for p in range(first, last + 1))
                if named:
                    void.add((block, number))
    return void


@settings(max_examples=50, deadline=None)
@given(seeds, trial_tracks)
def test_the_trials_that_are_void_are_those_of_the_rules_read_a_second_time(seed, track):
    events, lines, r = case_of(seed, track)
    run, _ = judged(track, events, lines, r)
    void = {v.key for v in run.verdicts() if v.void and v.session == 0}
    assert void == oracle_void(track, events, lines)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_the_seconds_that_are_void_are_those_of_the_rules_read_a_second_time(seed):
    events, lines, r = case_of(seed, "emotion")
    outages = [line for line in lines if line["kind"] == "outage" and line["session"] == 0]
    run, _ = judged("emotion", events, outages, r)
    blocks = oracle_blocks(events)
    for verdict in run.verdicts():
        if verdict.session or verdict.block >= len(blocks):
            continue
        origin, packets = blocks[verdict.block]
        clips = [clip for e in events if e["kind"] == "truth" for clip in e["clips"]]
        clip = [c for c in clips if c["block"] == verdict.block][verdict.trial]
        seconds = [
            j
            for j in range(100)
            if origin + 250 * j >= clip["start"] + 250
            and origin + 250 * (j + 1) <= clip["end"] - 250
        ]
        void = [second for second in seconds if second_is_void(packets, second, outages)]
        shown = [s for s, a in zip(seconds, verdict.answers, strict=True) if a.right is None]
        assert shown == void
        assert verdict.void == (bool(seconds) and void == seconds)


def oracle_blocks(events):
    """[(origin, packets)] of each block; the packet with the next 242 is the block before's."""
    blocks, running, before = [], False, 0
    packets = [event for event in events if event["kind"] == "packet"]
    for number, packet in enumerate(packets):
        running = running and packet["start"] >= before
        before = packet["start"] + packet["n"]
        if running:
            blocks[-1][1].append(number)
        for _, code in sorted(packet["triggers"], key=lambda t: t[0]):
            if code == 242:
                blocks.append((before, []))
            running = code == 242 or (running and code != 243)
    return blocks


def second_is_void(packets, second, outages):
    own = packets[5 * second : 5 * second + 5]
    touched = packets[5 * second : 5 * second + 10] if own else []
    return any(line["from"] <= p <= line["to"] for line in outages for p in touched)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_the_rows_that_are_void_are_those_of_the_rules_read_a_second_time(seed):
    events, lines, r = case_of(seed, "ecog")
    run, _ = judged("ecog", events, lines, r)
    out, received = set(), 0
    for number, packet in enumerate(e for e in events if e["kind"] == "packet"):
        first, received = received, received + packet["n"]
        if any(
            line["kind"] == "outage" and line["session"] == 0
            and line["from"] <= number <= line["to"]
            for line in lines
        ):  # fmt: skip
            out |= set(range(first * 200 // 1000, received * 200 // 1000))
    for verdict in (v for v in run.verdicts() if not v.session and v.label):
        start, stop = (int(n) for n in verdict.label.removeprefix("rows ").split("-"))
        rows = set(range(start, stop + 1))
        named = any(
            line["kind"] == "void" and line["session"] == 0 and line["block"] == verdict.block
            and line.get("trial", verdict.trial) == verdict.trial
            for line in lines
        )  # fmt: skip
        void = named or (bool(rows & out) and len(rows - out) < 2)
        assert verdict.void == void
        assert verdict.void_parts == (len(rows) if void else len(rows & out))


# --- laws


@settings(max_examples=50, deadline=None)
@given(seeds, tracks)
def test_an_outage_that_touches_nothing_changes_nothing(seed, track):
    events, _, r = case_of(seed, track)
    packets = sum(event["kind"] == "packet" for event in events)
    beyond = [(0, packets, packets + 9), (2, 0, packets), (0, -9, -1), (0, 5, 4), (-1, 0, 99)]
    lines = [
        {"kind": "outage", "session": number, "from": first, "to": last, "cause": "link down"}
        for number, first, last in r.sample(beyond, 3)
    ]
    plain, given = judged(track, events)
    run, given_now = judged(track, events, lines, r)
    assert run.result() == plain.result()
    assert given_now == given


@settings(max_examples=50, deadline=None)
@given(seeds, tracks)
def test_where_outages_stand_they_are_as_if_they_were_not_there(seed, track):
    events, lines, r = case_of(seed, track)
    voids = [line for line in lines if line["kind"] == "void"]
    rules = {"outage": "stand"}
    run, _ = judged(track, events, lines, r, rules)
    assert run.result() == judged(track, events, voids, rules=rules)[0].result()


@settings(max_examples=50, deadline=None)
@given(seeds, tracks)
def test_where_in_the_log_a_line_stands_does_not_matter(seed, track):
    events, lines, r = case_of(seed, track)
    one, _ = judged(track, events, lines, r)
    r.shuffle(lines)
    other, _ = judged(track, events, lines, r)
    assert one.result() == other.result()
    plain = [replace(verdict, reasons=()) for verdict in one.verdicts()]
    # Which of several outages is named may differ, so the reasons are left aside.
    unexplained = [_unexplained(v) for v in plain]
    assert unexplained == [_unexplained(replace(v, reasons=())) for v in other.verdicts()]


def _unexplained(verdict):
    return replace(verdict, answers=tuple(replace(a, reason=None) for a in verdict.answers))


@settings(max_examples=50, deadline=None)
@given(seeds, trial_tracks)
def test_the_rule_removes_and_never_shifts(seed, track):
    """The verdicts on what is left are those without any line, and the score is theirs."""
    events, lines, r = case_of(seed, track)
    plain = judged(track, events)[0].verdicts()
    run, _ = judged(track, events, lines, r)
    left = [verdict for verdict in run.verdicts() if not verdict.void]
    assert left == [verdict for verdict in plain if any(verdict.key == v.key and
                    verdict.session == v.session for v in left)]  # fmt: skip
    for number, session in enumerate(run.result()["sessions"]):
        own = [verdict for verdict in left if verdict.session == number]
        if session["score"] is None:
            assert not any(verdict.scored for verdict in own)
        else:
            assert session["score"] == TRACKS[track].score(own)
    assert run.refusals() == judged(track, events)[0].refusals()


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_emotion_the_seconds_that_are_left_count_as_they_did(seed):
    events, lines, r = case_of(seed, "emotion")
    plain = judged("emotion", events)[0].verdicts()
    for before, now in zip(plain, judged("emotion", events, lines, r)[0].verdicts(), strict=True):
        pairs = list(zip(before.answers, now.answers, strict=True))
        left = [(a, b) for a, b in pairs if b.right is not None]
        assert all(a == b for a, b in left)
        if not now.void and left:
            assert now.share == sum(b.right for _, b in left) / len(left)


@settings(max_examples=60, deadline=None)
@given(seeds, tracks)
def test_where_every_trial_is_void_the_score_is_0_and_the_run_is_flagged(seed, track):
    events, lines, r = case_of(seed, track)
    for session in (0, 1):
        lines += [{"kind": "void", "session": session, "block": block} for block in range(4)]
    run, _ = judged(track, events, lines, r)
    plain, _ = judged(track, events)
    result = run.result()
    assert result["score"] == run.standing().score == 0
    if any(verdict.scored for verdict in plain.verdicts()):
        assert result["void"] is True
        assert [session["score"] for session in result["sessions"]] == [None, None]
        assert all(session["trials"] == session["right"] == 0 for session in result["sessions"])
    else:
        assert "void" not in result


@settings(max_examples=50, deadline=None)
@given(seeds, tracks)
def test_the_verdicts_given_live_and_revised_are_those_of_the_whole_log(seed, track):
    events, lines, r = case_of(seed, track)
    run, given = judged(track, events, lines, r)
    live = {(v.session, v.key): v for v in given}
    whole = {(v.session, v.key): v for v in run.verdicts()}
    assert live.keys() == whole.keys()
    assert all(live[place].counts_as(verdict) for place, verdict in whole.items())
    assert run.standing().score == pytest.approx(run.result()["score"], abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seeds, tracks)
def test_the_totals_after_revisions_are_those_of_the_verdicts(seed, track):
    events, lines, r = case_of(seed, track)
    standing = judged(track, events, lines, r)[0].standing()
    scored = [v for v in judged(track, events, lines)[0].verdicts() if v.scored]
    assert standing.trials == len(scored)
    assert standing.right == sum(flag for verdict in scored for flag in verdict.right)
    assert standing.answers == sum(len(verdict.right) for verdict in scored)


def test_the_random_logs_are_worth_judging():
    """Else the laws would hold because nothing was void, or everything."""
    for track in TRACKS:
        whole, part, revised = 0, 0, 0
        for seed in range(120):
            events, lines, r = case_of(seed, track)
            run, given = judged(track, events, lines, r)
            verdicts = run.verdicts()
            revised += len(given) > len(verdicts)
            some = [v.void for v in verdicts if v.session == 0 and (v.scored or v.void)]
            whole += any(some) and not all(some)
            part += any(v.void_parts and not v.void for v in verdicts)
        assert whole > 5, track
        assert revised > 5, track
        assert part > 5 or not TRACKS[track].parts, track
