"""Laws that hold for every log, by random logs against a slow, second reading of the rules.

The oracle below looks at a whole session at once and asks each question from scratch, as the rules
put it; the referees see one event at a time.
"""

from fractions import Fraction
from math import log2
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracks.run import Run

CLASSES = {"mi": 3, "turing": 7, "erp": 36}
BEGINS = {
    "mi": lambda code: code == 200,
    "turing": lambda code: 8 <= code <= 79,
    "erp": lambda code: 101 <= code <= 136,
}
CODES = {
    "mi": [200, 200, 241, 242, 202, 11, 99],
    "turing": [16, 79, 240, 241, 242, 7, 80],
    "erp": [101, 136, 1, 2, 12, 13, 200, 241, 242],
}
SIZES = {"mi": [40, 400, 1000, 2000], "turing": [10, 3, 600, 1249, 1250], "erp": [10, 7]}
RATE = {"mi": 1000, "turing": 250, "erp": 250}
RESULTS = [1, 2, 3, 1, 2, 3, "1.0", "x", None, True, 200]


def trial_log(seed, track=None):
    """(track, events of one session): trials as they should be, and odd things now and then."""
    r = Random(seed)
    track = track or r.choice(sorted(CLASSES))
    labels = {b: [r.randint(1, 3) for _ in range(r.randint(0, 4))] for b in range(r.randint(1, 3))}
    odd = r.choice([0.0, 0.02, 0.2])
    events = []
    for block in labels:
        packet(events, r, track, odd, 242)
        for label in labels[block] + [1] * (r.random() < odd):
            if r.random() >= odd:
                one_trial(events, r, track, odd, label)
    truth = [(b, v) for b in labels for v in labels[b]] + [(1, "x")] * (r.random() < odd)
    where = r.choice([0, len(events)]) if r.random() < 0.5 else r.randint(0, len(events))
    lines = [{"kind": "truth", "block": b, "label": v} for b, v in truth]
    return track, [*events[:where], *lines, *events[where:]]


def one_trial(events, r, track, odd, label):
    packet(events, r, track, odd, r.choice([c for c in CODES[track] if BEGINS[track](c)]))
    for _ in range(r.randint(1, 6)):
        flashes = [[k, r.choice(CODES[track][-7:-2])] for k in range(r.randint(0, 3))]
        packet(events, r, track, odd, *(flashes if track == "erp" else ()))
        if r.random() < 0.6:
            value = label if r.random() < 0.85 else r.choice(RESULTS)
            events.append({"kind": "report", "result": value})
    if r.random() < 0.9:
        packet(events, r, track, odd, 241)
        if r.random() < 0.3:
            events.append({"kind": "report", "result": label})


def packet(events, r, track, odd, *marks):
    triggers = [[r.randint(0, 2), m] if isinstance(m, int) else m for m in marks]
    if r.random() < odd:
        triggers.insert(r.randint(0, len(triggers)), [r.randint(0, 2), r.choice(CODES[track])])
    n = r.choice(SIZES[track])
    events.append({"kind": "packet", "start": 0, "n": n, "triggers": triggers})
    if r.random() < odd:
        events.append({"kind": "report", "result": r.choice(RESULTS)})


seeds = st.integers(0, 2**64 - 1)
trial_logs = seeds.map(trial_log)


def folded(track, events):
    run = Run()
    run.feed({"kind": "run", "v": 1, "track": track, "team": "t", "rules": {}})
    run.feed({"kind": "session", "subject": "S", "rate": RATE.get(track, 250)})
    given = [verdict for event in events for verdict in run.feed(event)]
    return run, given + run.feed({"kind": "end", "reason": "finished"})


def score(track, events):
    return folded(track, events)[0].result()["score"]


# --- the oracle: mi, turing, erp


def oracle_score(track, events):
    session = Session(track, events)
    judge = {"mi": oracle_mi, "turing": oracle_turing, "erp": oracle_erp}[track]
    return judge(session)


class Session:
    """A session laid out flat: packets, the order of all triggers, trials, reports, labels."""

    def __init__(self, track, events):
        self.packets = [e for e in events if e["kind"] == "packet"]
        self.marks = []  # (packet from 1, code) in the order in which they act
        for number, packet in enumerate(self.packets, start=1):
            in_order = sorted(packet["triggers"], key=lambda t: t[0])
            self.marks += [(number, code) for _, code in in_order]
        self.trials = [i for i, (_, code) in enumerate(self.marks) if BEGINS[track](code)]
        self.labels = {}
        for event in events:
            if event["kind"] == "truth":
                self.labels.setdefault(event["block"], []).append(event["label"])
        self.reports = {i: [] for i in self.trials}  # trial -> (packet, result)
        seen = 0
        for event in events:
            seen += event["kind"] == "packet"
            if event["kind"] == "report":
                owner = self._owner(track, seen)
                if owner is not None:
                    self.reports[owner].append((seen, event["result"]))

    def _owner(self, track, packet):
        if track == "mi" and any(self.marks[i][0] == packet for i in self.trials):
            return None
        ready = [i for i in self.trials if self.marks[i][0] < packet]
        return ready[-1] if ready else None

    def block(self, trial):
        return max(0, sum(code == 242 for _, code in self.marks[:trial]) - 1)

    def labelled(self):
        """block -> [(trial or None, label)] for every label."""
        found = {}
        for block, labels in sorted(self.labels.items()):
            trials = [i for i in self.trials if self.block(i) == block]
            padded = trials + [None] * len(labels)
            found[block] = [(padded[k], value) for k, value in enumerate(labels)]
        return found

    def own_marks(self, trial):
        """The triggers that act on a trial: after its own, before the next trial's."""
        after = [i for i in self.trials if i > trial]
        return self.marks[trial + 1 : after[0] if after else None]

    def end(self, trial):
        """The packet with its 241."""
        ends = [packet for packet, code in self.own_marks(trial) if code == 241]
        return ends[0] if ends else None

    def used(self, trial, packet):
        return sum(p["n"] for p in self.packets[self.marks[trial][0] : packet])


def reads(value, classes):
    if isinstance(value, str) and len(value) == 1 and classes == 36:
        return {"2": 28, "x": 24}.get(value)
    if value is None or value is True or value == "x":
        return None
    number = int(float(value))
    return number if 1 <= number <= classes else None


def correct(value, label, classes):
    return reads(value, classes) is not None and reads(value, classes) == reads(label, classes)


def itr(p, m, t):
    if p <= 1 / m + 1e-12:
        return 0.0
    rest = (1 - p) * log2((1 - p) / (m - 1)) if p < 1 else 0.0
    return 60 / t * (log2(m) + p * log2(p) + rest)


def oracle_mi(s):
    pairs = [pair for block in s.labelled().values() for pair in block]
    if not pairs:
        return 0.0
    rates = []
    for k, limit in enumerate((2, 3, 4)):
        right = 0
        for trial, label in pairs:
            made = s.reports[trial] if trial is not None else []
            if len(made) > k:
                packet, value = made[k]
                in_time = s.used(trial, packet) <= limit * 1000
                early = s.end(trial) is None or packet < s.end(trial)
                right += in_time and early and correct(value, label, 3)
        rates.append(itr(right / len(pairs), 3, limit))
    return sum(rates) / 3


def oracle_turing(s):
    scores = []
    for pairs in s.labelled().values():
        wanted, right, used = -(-len(pairs) * 4 // 5), 0, Fraction(0)
        score = 0.0
        for trial, label in pairs:
            made = s.reports[trial] if trial is not None else []
            samples = s.used(trial, made[0][0]) if made else 5 * 250
            used += Fraction(samples, 250)
            right += bool(made) and samples < 5 * 250 and correct(made[0][1], label, 7)
            if right == wanted:
                score = float(200 * right / used)
                break
        scores.append(score)
    return sum(scores) / len(scores) if scores else 0.0


def oracle_erp(s):
    pairs = [pair for block in s.labelled().values() for pair in block]
    right, seconds = 0, 0.0
    for trial, label in pairs:
        made = s.reports[trial] if trial is not None else []
        if not made or (s.end(trial) is not None and made[0][0] > s.end(trial)):
            seconds += 9
            continue
        packet, value = made[0]
        codes = [code for p, code in s.own_marks(trial) if p <= packet]
        codes = codes[: codes.index(241)] if 241 in codes else codes
        flashes = "".join("f" if 1 <= c <= 12 else "|" if c == 200 else "" for c in codes)
        m = sum(len(part) >= 3 for part in flashes.split("|"))
        seconds += 1.8 * min(5, max(1, m))
        right += correct(value, label, 36)
    if 2 * right <= len(pairs):
        return 0.0
    return itr(right / len(pairs), 36, seconds / len(pairs))


@settings(max_examples=150, deadline=None)
@given(trial_logs)
def test_the_score_is_that_of_the_rules_read_a_second_time(case):
    track, events = case
    assert score(track, events) == pytest.approx(oracle_score(track, events), abs=1e-9)


# --- emotion


def emotion_log(seed):
    r = Random(seed)
    events, position = [], 0
    for number in range(r.randint(30, 150)):
        rare = r.random()
        if rare < 0.01:
            position = 0
        n = 50 if rare < 0.99 else 7
        codes = r.choices([242, 242, 243, 99], k=r.randint(1, 2)) if rare > 0.98 else []
        codes += [242] if number == 2 else []
        triggers = [[r.randint(0, 3), code] for code in codes]
        events.append({"kind": "packet", "start": position, "n": n, "triggers": triggers})
        position += n
        if r.random() < 0.3:
            result, elapsed = r.choice([0, 0, 0, 1, "0", None]), r.choice([0.1, 0.5, 0.6])
            events.append({"kind": "report", "result": result, "elapsed_s": elapsed})
    starts = [r.randint(0, 1500) for _ in range(r.randint(0, 4))]
    clips = [
        {"block": r.choice([0, 0, 1, 2]), "start": s, "end": s + r.randint(0, 2500), "label": 0}
        for s in starts
    ]
    where = r.randint(0, len(events))
    return [*events[:where], {"kind": "truth", "clips": clips}, *events[where:]]


def oracle_emotion(events, limit_s):
    blocks = []  # [origin, {second: result}]
    running, count, reported_on, before = False, 0, None, 0
    for event in events:
        if event["kind"] == "packet":
            running = running and event["start"] >= before
            before = event["start"] + event["n"]
            count += running
            if running and count % 5 == 0:
                reported_on = (len(blocks) - 1, count // 5 - 1)
            for _, code in sorted(event["triggers"], key=lambda t: t[0]):
                if code == 242:
                    blocks.append([before, {}])
                    running, count, reported_on = True, 0, None
                if code == 243:
                    running = False
        if event["kind"] == "report" and reported_on:
            block, second = reported_on
            late = event["elapsed_s"] > limit_s
            blocks[block][1].setdefault(second, None if late else event["result"])
    shares = []
    for clip in next(e for e in events if e["kind"] == "truth")["clips"]:
        if clip["block"] >= len(blocks):
            shares.append(0)
            continue
        origin, results = blocks[clip["block"]]
        inside = [
            j
            for j in range(100)
            if origin + j * 250 >= clip["start"] + 250
            and origin + (j + 1) * 250 <= clip["end"] - 250
        ]
        if inside:
            right = [type(results.get(j)) is int and results[j] == clip["label"] for j in inside]
            shares.append(sum(right) / len(inside))
    return sum(shares) / len(shares) if shares else 0


@settings(max_examples=100, deadline=None)
@given(seeds.map(emotion_log))
def test_emotion_scores_as_the_rules_read_a_second_time(events):
    run = Run()
    rules = {"decision_limit_s": 0.5}
    run.feed({"kind": "run", "v": 1, "track": "emotion", "team": "t", "rules": rules})
    run.feed({"kind": "session", "subject": "S", "rate": 250})
    given = [verdict for event in events for verdict in run.feed(event)]
    assert run.result()["score"] == pytest.approx(oracle_emotion(events, 0.5), abs=1e-9)
    given += run.feed({"kind": "end", "reason": "finished"})
    assert {v.key: v.right for v in given} == {v.key: v.right for v in run.verdicts()}


# --- ecog


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 12)), max_size=12),
    st.integers(1, 120),
    st.sampled_from([1000, 1375, 250]),
)
def test_ecog_predicts_each_row_as_the_rules_say(packets, rows, rate):
    """packets: (samples, rows reported; -1 for no report)."""
    events, expected, last, received = [], [], 0.0, 0
    for number, (n, reported) in enumerate(packets, start=1):
        events.append({"kind": "packet", "start": 0, "n": n, "triggers": []})
        values = [100.0 * number + k for k in range(reported)]
        if reported >= 0:
            events.append({"kind": "report", "result": [[v] * 8 for v in values]})
        first, stop = received * 200 // rate, (received + n) * 200 // rate
        received += n
        for row in range(stop - first):
            last = values[min(row, len(values) - 1)] if values else last
            expected.append(last)
    expected += [last] * (rows - len(expected))
    truth = np.random.default_rng(1).normal(size=(rows, 8)).tolist()
    run = Run()
    run.feed({"kind": "run", "v": 1, "track": "ecog", "team": "t", "rules": {}})
    run.feed({"kind": "session", "subject": "S", "rate": rate})
    for event in [*events, {"kind": "truth", "angles": truth}]:
        run.feed(event)
    referee = run.sessions[0].referee
    filled = referee._predicted.filled(len(referee._truth))
    assert filled[:, 5].tolist() == expected


# --- laws


def test_the_random_logs_are_worth_judging():
    """Else the oracle would agree that everything is 0."""
    cases = [trial_log(seed) for seed in range(200)]
    scored = [track for track, events in cases if score(track, events) > 0]
    assert {track: scored.count(track) > 10 for track in CLASSES} == dict.fromkeys(CLASSES, True)
    above = [oracle_emotion(emotion_log(seed), 0.5) > 0 for seed in range(60)]
    assert sum(above) > 12


@settings(max_examples=60, deadline=None)
@given(trial_logs)
def test_every_trial_ends_in_exactly_one_verdict(case):
    track, events = case
    run, given = folded(track, events)
    session = Session(track, events)
    expected = {(session.block(i), n) for n, i in _numbered(session)}
    expected |= {(b, n) for b, labels in session.labels.items() for n in range(len(labels))}
    assert sorted(v.key for v in given) == sorted(expected)
    assert sorted(v.key for v in run.verdicts()) == sorted(expected)


def _numbered(session):
    counts = {}
    for trial in session.trials:
        block = session.block(trial)
        yield counts.setdefault(block, 0), trial
        counts[block] += 1


@settings(max_examples=60, deadline=None)
@given(trial_logs)
def test_the_verdicts_given_live_are_those_of_the_log(case):
    track, events = case
    run, given = folded(track, events)
    live = {v.key: (v.scored, v.right, v.charged_s, v.label) for v in given}
    assert live == {v.key: (v.scored, v.right, v.charged_s, v.label) for v in run.verdicts()}
    assert run.standing().score == pytest.approx(run.result()["score"], abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(trial_logs, st.randoms(use_true_random=False))
def test_unrelated_triggers_change_nothing(case, random):
    track, events = case
    reserved = {
        "mi": [202, 203, 99, 250],
        "turing": [0, 7, 80, 240, 241],
        "erp": [13, 99, 250, 251],
    }
    noisy = []
    for event in events:
        if event["kind"] == "packet":
            codes = random.choices(reserved[track], k=random.randint(0, 3))
            more = [[random.randint(0, 3), code] for code in codes]
            event = {**event, "triggers": [*event["triggers"], *more]}
        noisy.append(event)
    assert score(track, noisy) == score(track, events)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from(["mi", "erp"]))
def test_reports_after_the_deadline_never_change_a_score(seed, track):
    """After 241 until the next trial begins (turing has no deadline: a late report is charged)."""
    _, events = trial_log(seed, track)
    random = Random(seed)
    quiet, closed = [], False
    for event in events:
        quiet.append(event)
        if event["kind"] == "packet":
            began = any(BEGINS[track](code) for _, code in event["triggers"])
            ended = any(code == 241 for _, code in event["triggers"])
            late = closed and not began and not ended
            closed = (closed or ended) and not began
            if late and random.random() < 0.5:
                quiet.append({"kind": "report", "result": random.choice(RESULTS)})
    assert score(track, quiet) == score(track, events)


@settings(max_examples=50, deadline=None)
@given(trial_logs, st.randoms(use_true_random=False))
def test_truth_may_come_at_any_time(case, random):
    track, events = case
    truth = [e for e in events if e["kind"] == "truth"]
    rest = [e for e in events if e["kind"] != "truth"]
    at = sorted(random.randint(0, len(rest)) for _ in truth)
    for shift, (place, event) in enumerate(zip(at, truth, strict=True)):
        rest.insert(place + shift, event)
    assert score(track, rest) == score(track, events)


@settings(max_examples=40, deadline=None)
@given(trial_logs, st.randoms(use_true_random=False))
def test_measured_times_and_fields_of_tomorrow_change_nothing(case, random):
    track, events = case
    stamped = [
        {**event, "t": random.random(), "elapsed_s": 9 * random.random()} for event in events
    ]
    assert score(track, stamped) == score(track, events)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(seeds.map(lambda seed: trial_log(seed, "turing")), min_size=2, max_size=4),
    st.randoms(),
)
def test_permuting_teams_permutes_the_ranking(cases, random):
    """A score depends on a team's own log only: not on its name, nor on who is judged beside it."""
    alone = [score(track, events) for track, events in cases]
    order = list(range(len(cases)))
    random.shuffle(order)
    runs = {place: Run() for place in order}
    for place, run in runs.items():
        run.feed({"kind": "run", "v": 1, "track": "turing", "team": f"team {place}"})
        run.feed({"kind": "session", "subject": "S", "rate": 250})
    longest = max(len(events) for _, events in cases)
    for step in range(longest):  # all of them side by side, as in a live contest
        for place in order:
            events = cases[place][1]
            if step < len(events):
                runs[place].feed(events[step])
    assert [runs[place].result()["score"] for place in range(len(cases))] == alone
