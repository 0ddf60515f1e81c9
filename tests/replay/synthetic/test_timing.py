"""Triggers stand where the rule documents put them, and the truth can be read from them."""

import math
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from bci_stream.packet import Triggers
from replay.model.recording import Recording
from replay.synthetic.registry import open_synthetic, recording_sets
from tracks.common.truth import read_truth
from tracks.emotion import CLIPS
from tracks.erp import CHARACTERS, GROUPS
from tracks.registry import BUILT_IN, TRACKS
from tracks.turing import TASKS_OF_BEHAVIOUR

pytestmark = pytest.mark.slow


@cache
def session(track: str, **params: str) -> Recording:
    return next(open_synthetic(track, {"subjects": "1", **params}).sessions())


def codes(triggers: Triggers) -> list[int]:
    return [code for _, code in triggers]


ALL_SETS = [(track, name) for track in BUILT_IN for name in recording_sets(track)]


@pytest.mark.parametrize(("track", "name"), ALL_SETS)
def test_whole_sessions_begin_with_250_and_end_with_251_and_blocks_with_242_and_243(
    track: str, name: str
) -> None:
    one = session(track, set=name)
    blocks = [codes(triggers) for _, triggers in one.block_triggers()]
    assert blocks[0][:2] == [250, 242]
    assert blocks[-1][-2:] == [243, 251]
    every = Counter(code for block in blocks for code in block)
    assert every[250] == every[251] == 1
    for block in blocks:
        assert (block.count(242), block.count(243)) == (1, 1)


@pytest.mark.parametrize(("track", "name"), ALL_SETS)
def test_triggers_are_in_order_inside_their_block_one_a_sample(track: str, name: str) -> None:
    for n, triggers in session(track, set=name).block_triggers():
        positions = [position for position, _ in triggers]
        assert positions == sorted(set(positions))
        assert positions[0] >= 0
        assert positions[-1] < n


@pytest.mark.parametrize(("track", "name"), ALL_SETS)
def test_the_last_packet_of_a_block_is_short(track: str, name: str) -> None:
    packet_samples = TRACKS[track].packet_samples
    assert all(n % packet_samples for n, _ in session(track, set=name).block_triggers())


@pytest.mark.parametrize(("track", "name"), ALL_SETS)
def test_the_tracks_truth_reader_accepts_it(track: str, name: str) -> None:
    one = session(track, set=name)
    truth = read_truth(TRACKS[track], one.rate, one.block_triggers(), one.angles)
    labels = {"emotion": "clips", "ecog": "trials"}.get(track, "blocks")
    assert len(truth[labels]) > 0


def test_mi_has_3_blocks_of_30_trials_ten_of_each_class() -> None:
    for _, triggers in session("mi").block_triggers():
        counts = Counter(codes(triggers))
        assert [counts[code] for code in (11, 12, 13, 21, 22, 23, 31, 32, 33)] == [10] * 9
        assert counts[241] == 30


def test_mi_segments_start_at_0_2_3_s_and_241_comes_at_4_s_and_trials_every_8_s() -> None:
    for _, triggers in session("mi").block_triggers():
        trials = [
            triggers[i : i + 4] for i, (_, code) in enumerate(triggers) if code in (11, 21, 31)
        ]
        for trial in trials:
            start, label = trial[0][0], trial[0][1] // 10
            expected = (
                (0, 10 * label + 1),
                (2000, 10 * label + 2),
                (3000, 10 * label + 3),
                (4000, 241),
            )
            assert tuple((position - start, code) for position, code in trial) == expected
        starts = [trial[0][0] for trial in trials]
        assert {b - a for a, b in pairwise(starts)} == {8000}


def test_mi_triggers_fall_anywhere_in_a_packet() -> None:
    offsets = {
        position % 40
        for seed in "123456"
        for _, triggers in session("mi", seed=seed, trials="1").block_triggers()
        for position, code in triggers
        if code == 241
    }
    assert len(offsets) > 8


def test_turing_tests_have_6_blocks_of_3_to_5_rounds_of_4_to_6_trials() -> None:
    blocks = session("turing").block_triggers()
    assert len(blocks) == 6
    for _, triggers in blocks:
        rounds = [1]
        ends = [position for position, code in triggers if code == 241]
        starts = [position for position, code in triggers if code == 240]
        for end, start in zip(ends, starts[1:], strict=False):
            if start - end > 1:
                rounds.append(1)
            else:
                rounds[-1] += 1
        assert 3 <= len(rounds) <= 5
        assert all(4 <= trials <= 6 for trials in rounds)


@pytest.mark.parametrize("name", ["train", "test"])
def test_turing_trials_are_3_s_cue_5_s_task_5_s_action_and_only_allowed_tasks(name: str) -> None:
    for _, triggers in session("turing", set=name).block_triggers():
        trials = [triggers[i - 1 : i + 2] for i, (_, code) in enumerate(triggers) if code < 128]
        for (start, first), (task, code), (end, last) in trials:
            assert (first, last) == (240, 241)
            assert (
                abs(task - start - 750) <= 1
            )  # 240 stands a sample later where a 241 has its place
            assert end - task == 2500
            assert code & 7 in TASKS_OF_BEHAVIOUR[code >> 3]


def test_turing_training_is_10_blocks_of_20_imagery_trials_with_8_s_between() -> None:
    blocks = session("turing", set="train").block_triggers()
    assert len(blocks) == 10
    for _, triggers in blocks:
        tasks = [(position, code & 7) for position, code in triggers if code < 128]
        assert Counter(task for _, task in tasks) == {1: 10, 2: 10}
        assert {b[0] - a[0] for a, b in pairwise(tasks)} == {(5 + 8) * 250}


@pytest.mark.parametrize("name", ["train", "test"])
def test_emotion_shows_all_28_clips_once_4_a_block_at_their_real_lengths(name: str) -> None:
    seen = []
    for _, triggers in session("emotion", set=name).block_triggers():
        clips = [triggers[i : i + 3] for i, (_, code) in enumerate(triggers) if 1 <= code <= 28]
        assert len(clips) == 4
        for (announced, clip), (start, first), (end, last) in clips:
            assert (first, last) == (240, 241)
            assert start - announced == 25
            assert abs((end - start) / 250 - CLIPS[clip][0]) < 0.1
            seen.append(clip)
    assert sorted(seen) == list(range(1, 29))


def test_emotion_training_blocks_are_of_one_valence_and_tests_are_shuffled() -> None:
    def valences(name: str) -> list[int]:
        blocks = session("emotion", set=name).block_triggers()
        shown = [[code for code in codes(triggers) if code <= 28] for _, triggers in blocks]
        return [len({(clip > 12) + (clip > 16) for clip in block}) for block in shown]

    assert valences("train") == [1] * 7
    assert max(valences("test")) > 1


def test_emotion_pace_shortens_clips_but_leaves_each_a_second_that_counts() -> None:
    for _, triggers in session("emotion", pace="0.1").block_triggers():
        starts = [position for position, code in triggers if code == 240]
        ends = [position for position, code in triggers if code == 241]
        for start, end in zip(starts, ends, strict=True):
            first_free, last_free = math.ceil(start / 250 + 1), math.floor(end / 250 - 1)
            assert last_free - first_free >= 0
            assert (end - start) / 250 < 14


def test_erp_spells_32_characters_with_5_sequences_of_all_12_groups() -> None:
    ((_, triggers),) = session("erp").block_triggers()
    trials: list[list[int]] = []
    for code in codes(triggers):
        if 101 <= code <= 136:
            trials.append([])
        elif trials and code <= 12:
            trials[-1].append(code)
    assert len(trials) == 32
    for flashes in trials:
        for k in range(5):
            assert sorted(flashes[12 * k : 12 * k + 12]) == list(range(1, 13))


def test_erp_flashes_come_every_150_ms_after_1_s_cue_with_850_ms_between_sequences() -> None:
    ((_, triggers),) = session("erp").block_triggers()
    for i, (start, code) in enumerate(triggers):
        if not 101 <= code <= 136:
            continue
        trial = triggers[i + 1 : i + 1 + 5 * 13 + 1]
        at_s = [1 + s * (12 * 0.15 + 0.85) + f * 0.15 for s in range(5) for f in range(13)]
        expected_s = [*at_s, 1 + 5 * (12 * 0.15 + 0.85)]
        for (position, got), second in zip(trial, expected_s, strict=True):
            assert abs((position - start) / 250 - second) <= 0.004 + 1e-9, got
        assert [trial[13 * s + 12][1] for s in range(5)] == [200] * 5
        assert trial[-1][1] == 241


def test_erp_groups_cross_at_every_character() -> None:
    pairs = {c: tuple(g for g, members in GROUPS.items() if c in members) for c in CHARACTERS}
    assert len(set(pairs.values())) == 36


@pytest.mark.parametrize(("name", "minutes"), [("train", 180), ("calibration", 5), ("test", 30)])
def test_ecog_sets_are_as_long_as_the_document_says_with_an_angle_row_every_5_samples(
    name: str, minutes: float
) -> None:
    one = session("ecog", set=name)
    in_trials = 0
    for n, triggers in one.block_triggers():
        assert n % 5 == 0
        starts = [position for position, code in triggers if code == 240]
        ends = [position for position, code in triggers if code == 241]
        in_trials += sum(end - start for start, end in zip(starts, ends, strict=True))
    assert in_trials == minutes * 60 * 1000
    assert one.angles is not None
    assert one.angles.shape == (one.n_samples // 5, 8)


def test_ecog_calibration_is_rest_then_an_even_walk() -> None:
    one = session("ecog", set="calibration")
    ((_, triggers),) = one.block_triggers()
    assert one.angles is not None
    rest, even = (
        one.angles[start // 5 : end // 5]
        for (start, a), (end, b) in pairwise(triggers)
        if (a, b) == (240, 241)
    )
    assert rest.std(0).max() < 3
    assert even.std(0).min() > 5
