"""What a mask lets through: no label, by tests that try to find one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracks.mi import MiMask
from tracks.registry import TRACKS
from tracks.turing import TASKS_OF_BEHAVIOUR

RATE = {"mi": 100, "turing": 50, "emotion": 50, "ecog": 100, "erp": 50}


def mi_triggers(labels):
    """8 s a trial: cue, imagery from 2 s, three segments, 241 at 6 s."""
    marks, at = [(0, 250), (1, 242)], 10
    for label in labels:
        start = at + 2 * RATE["mi"]
        marks += [(start, 10 * label + 1), (start + 200, 10 * label + 2)]
        marks += [(start + 300, 10 * label + 3), (start + 400, 241)]
        at += 8 * RATE["mi"]
    return (*marks, (at, 243), (at + 1, 251)), at + 5


def turing_triggers(tasks):
    """tasks: (behaviour of the robots, which is shown; task, which is not)."""
    marks, at = [(0, 250), (1, 242)], 10
    for behaviour, task in tasks:
        marks += [(at, 240), (at + 150, 8 * behaviour + task), (at + 650, 241)]
        at += 700
    return (*marks, (at, 243), (at + 1, 251)), at + 5


def emotion_triggers(clips):
    marks, at = [(0, 250), (1, 242)], 10
    for clip in clips:
        marks += [(at, clip), (at + 5, 240), (at + 205, 241)]
        at += 300
    return (*marks, (at, 243), (at + 1, 251)), at + 5


def erp_triggers(labels):
    marks, at = [(0, 250), (1, 242)], 10
    for label in labels:
        marks.append((at, 100 + label))
        marks += [(at + 60 + 8 * flash, flash) for flash in range(1, 13)]
        marks += [(at + 160, 200), (at + 170, 241)]
        at += 200
    return (*marks, (at, 243), (at + 1, 251)), at + 5


WRITERS = {
    "mi": mi_triggers,
    "turing": turing_triggers,
    "emotion": emotion_triggers,
    "erp": erp_triggers,
}
LABELS = {
    "mi": [1, 2, 3],
    "turing": [(2, 1), (6, 7), (2, 3)],
    "emotion": [5, 28, 13],
    "erp": [1, 20, 36],
}
OTHER_LABELS = {
    "mi": [3, 1, 2],
    "turing": [(2, 4), (6, 3), (2, 2)],
    "emotion": [1, 2, 3],
    "erp": [36, 1, 9],
}
ALL_LABELS = {
    "mi": [1, 2, 3],
    "turing": [(b, task) for b, tasks in TASKS_OF_BEHAVIOUR.items() for task in tasks],
    "emotion": range(1, 29),
    "erp": range(1, 37),
}


def masked(track, triggers, n, cuts=(), samples=None):
    """The recording as it is shown, cut at the given samples."""
    mask = TRACKS[track].mask(RATE[track])
    if samples is None:
        samples = np.arange(1, n * 3 + 1, dtype=np.float32).reshape(n, 3)
    shown, marks = [], []
    edges = sorted({0, n, *cuts})
    for start, stop in pairwise(edges):
        piece = tuple((p - start, code) for p, code in triggers if start <= p < stop)
        part, codes = mask.step(samples[start:stop], piece)
        shown.append(part)
        marks += [(p + start, code) for p, code in codes]
    return np.concatenate(shown), tuple(marks)


@pytest.mark.parametrize("track", WRITERS)
def test_two_recordings_that_differ_in_labels_only_look_the_same(track):
    """Whatever could give a label away: a code, a position, a sample, a number of triggers."""
    first, n = WRITERS[track](LABELS[track])
    second, m = WRITERS[track](OTHER_LABELS[track])
    assert n == m
    assert first != second
    shown, marks = masked(track, first, n)
    shown_too, marks_too = masked(track, second, n)
    assert np.array_equal(shown, shown_too)
    assert marks == marks_too


@pytest.mark.parametrize(
    ("track", "codes"),
    [
        ("mi", {250, 251, 242, 243, 200, 202, 203, 241}),
        ("turing", {250, 251, 242, 243, 240, 241, *range(8, 80, 8)}),
        ("emotion", {250, 251, 242, 243}),
        ("erp", {250, 251, 242, 243, 101, *range(1, 13), 200, 241}),
    ],
)
def test_every_label_of_a_track_is_hidden(track, codes):
    triggers, n = WRITERS[track](ALL_LABELS[track])
    _, marks = masked(track, triggers, n)
    assert {code for _, code in marks} <= codes


@pytest.mark.parametrize("track", TRACKS)
def test_the_input_is_never_changed(track):
    triggers, n = mi_triggers([1, 2])
    samples = np.ones((n, 3), dtype=np.float32)
    samples.setflags(write=False)
    masked(track, triggers, n, samples=samples, cuts=range(0, n, 7))
    assert samples.all()


@pytest.mark.parametrize("track", ["turing", "emotion", "ecog", "erp"])
def test_where_nothing_is_hidden_the_same_array_comes_back(track):
    samples = np.ones((9, 2), dtype=np.float32)
    assert TRACKS[track].mask(250).step(samples, ())[0] is samples


@settings(max_examples=30, deadline=None)
@given(track=st.sampled_from(sorted(WRITERS)), data=st.data())
def test_any_cut_into_pieces_shows_the_same(track, data):
    triggers, n = WRITERS[track](LABELS[track])
    cuts = data.draw(st.lists(st.integers(1, n - 1), max_size=40))
    shown, marks = masked(track, triggers, n)
    pieces, marks_too = masked(track, triggers, n, cuts)
    assert np.array_equal(shown, pieces)
    assert marks == marks_too


def test_mi_shows_the_imagery_and_nothing_else():
    triggers, n = mi_triggers([1, 2])
    shown, _ = masked("mi", triggers, n)
    lit = np.flatnonzero(shown.any(axis=1))
    imagery = np.r_[210:610, 1010:1410]
    assert np.array_equal(lit, imagery)
    whole = np.arange(1, n * 3 + 1, dtype=np.float32).reshape(n, 3)
    assert np.array_equal(shown[imagery], whole[imagery])


def test_mi_imagery_ends_after_4_s_without_a_241():
    triggers = ((10, 11),)
    shown, _ = masked("mi", triggers, 1000)
    assert np.array_equal(np.flatnonzero(shown.any(axis=1)), np.arange(10, 410))


@pytest.mark.parametrize("code", [241, 242, 243, 250, 251])
def test_mi_imagery_ends_early_at_241_or_with_its_block(code):
    shown, _ = masked("mi", ((10, 21), (50, code)), 1000)
    assert np.array_equal(np.flatnonzero(shown.any(axis=1)), np.arange(10, 50))


def test_mi_does_not_end_imagery_at_the_segment_marks():
    shown, marks = masked("mi", ((10, 31), (210, 32), (310, 33)), 1000)
    assert shown.any(axis=1).sum() == 400
    assert [code for _, code in marks] == [200, 202, 203]


def test_mi_passes_a_recording_that_is_in_the_test_format_already():
    triggers = ((0, 242), (10, 200), (210, 202), (310, 203), (410, 241), (800, 243))
    shown, marks = masked("mi", triggers, 1000)
    assert marks == triggers
    assert np.array_equal(np.flatnonzero(shown.any(axis=1)), np.arange(10, 410))


def test_mi_gives_the_same_array_within_imagery():
    mask = MiMask(100)
    mask.step(np.ones((1, 2), dtype=np.float32), ((0, 11),))
    samples = np.ones((9, 2), dtype=np.float32)
    assert mask.step(samples, ())[0] is samples
    assert mask.step(samples, ((2, 202), (5, 7)))[0] is samples


@pytest.mark.parametrize(
    ("code", "shown"), [(9, 8), (79, 72), (127, 120), (80, 80), (128, 128), (-1, -1)]
)
def test_turing_clears_the_task_of_every_code_below_128(code, shown):
    assert TRACKS["turing"].mask(250).step(np.empty((1, 1)), ((0, code),))[1] == ((0, shown),)


@pytest.mark.parametrize("code", range(8))
def test_turing_drops_a_task_without_a_behaviour(code):
    assert TRACKS["turing"].mask(250).step(np.empty((1, 1)), ((0, code),))[1] == ()


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("code", [88, 96, 239, 244, 255])
def test_reserved_codes_pass(track, code):
    assert TRACKS[track].mask(250).step(np.empty((1, 1)), ((0, code),))[1] == ((0, code),)


@pytest.mark.parametrize(("code", "shown"), [(0, True), (1, False), (28, False), (29, True)])
def test_emotion_hides_the_clip_numbers(code, shown):
    marks = TRACKS["emotion"].mask(250).step(np.empty((1, 1)), ((0, code),))[1]
    assert bool(marks) == shown


@pytest.mark.parametrize(("code", "shown"), [(100, 100), (101, 101), (136, 101), (137, 137)])
def test_erp_shows_every_trial_start_as_101(code, shown):
    assert TRACKS["erp"].mask(250).step(np.empty((1, 1)), ((0, code),))[1] == ((0, shown),)
