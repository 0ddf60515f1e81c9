"""Labels read from recordings of the training format, and what is said of those that break it."""

import numpy as np
import pytest

from tracks.common.truth import read_truth
from tracks.errors import RuleError, TruthError
from tracks.registry import TRACKS


def read(track, *blocks, rate=None, angles=None, n=100_000):
    return read_truth(TRACKS[track], rate or TRACKS[track].rate, [(n, b) for b in blocks], angles)


def test_mi_reads_the_class_from_the_tens_digit():
    one = ((0, 242), (100, 11), (2100, 12), (3100, 13), (4100, 241), (8100, 31), (12100, 241))
    two = ((5, 242), (100, 21), (2100, 22), (3100, 23), (4100, 241), (9000, 243))
    assert read("mi", one, two) == {"kind": "truth", "blocks": [[1, 3], [2]]}


def test_mi_may_lack_the_segments_and_241():
    assert read("mi", ((0, 11), (4000, 21), (9000, 31))) == {"kind": "truth", "blocks": [[1, 2, 3]]}


def test_blocks_are_counted_by_242_as_in_the_run_log():
    one_piece = ((0, 11), (5000, 242), (5001, 21), (10000, 242), (10001, 31))
    assert read("mi", one_piece)["blocks"] == [[1, 2], [3]]


def test_a_block_without_labels_keeps_its_place():
    assert read("mi", ((0, 242), (1, 11)), ((0, 242),), ((0, 242), (1, 21)))["blocks"] == [
        [1],
        [],
        [2],
    ]


MI_BROKEN = [
    (((0, 241),), "241 without a trial", "11, 21 or 31"),
    (((0, 12),), "12 without 11", "11 before it"),
    (((0, 11), (2000, 22)), "22 without 21", "21 before it"),
    (((0, 11), (2000, 13)), "13 without 12", "12 before it"),
    (((0, 11), (3999, 21)), "21 within a trial", "241 before the next trial"),
    (((9000, 11), (11000, 12), (12999, 21)), "21 within a trial", "241 before the next trial"),
    (((0, 11), (4000, 241), (4001, 12)), "12 without 11", "11"),
    (((0, 200),), "200 is a test recording's code", "11, 21 or 31"),
]


@pytest.mark.parametrize(("triggers", "got", "expected"), MI_BROKEN)
def test_mi_names_what_breaks_the_format(triggers, got, expected):
    with pytest.raises(TruthError, match=f"{got}; expected {expected}"):
        read("mi", triggers)


def test_an_error_says_where_in_samples_and_seconds():
    with pytest.raises(TruthError, match=r"block 1, sample 2500 \(2\.500 s\)"):
        read("mi", ((0, 11),), ((2500, 241),))


def test_mi_forgets_an_open_trial_at_the_end_of_its_block():
    assert read("mi", ((0, 11),), ((0, 21),))["blocks"] == [[1, 2]]


def test_turing_reads_bits_2_to_0():
    triggers = ((0, 242), (10, 240), (760, 8 * 2 + 4), (3260, 241), (3300, 240), (4050, 8 + 7))
    assert read("turing", (*triggers, (6550, 241)))["blocks"] == [[4, 7]]


def test_turing_lets_a_trial_end_where_the_next_one_begins():
    triggers = ((0, 240), (750, 9), (3250, 240), (3250, 241), (4000, 11), (6500, 243), (6500, 241))
    assert read("turing", triggers)["blocks"] == [[1, 3]]


def test_turing_may_lack_240_and_241():
    assert read("turing", ((0, 9), (2000, 18)))["blocks"] == [[1, 2]]


TURING_BROKEN = [
    (((0, 240), (9, 240)), "240 within a trial", "241 after the 240 at 0"),
    (((0, 241),), "241 without 240", "240 before it"),
    (((0, 240),), "240 without 241", "241 before the block ends"),
    (((0, 240), (5, 243)), "240 without 241", "241 before the block ends"),
    (((0, 240), (5, 241)), "a trial without a task", "a code 8-79"),
    (((0, 240), (5, 9), (6, 9), (9, 241)), "task 9 after task 9", "one task a trial"),
    (((0, 240), (5, 9), (9, 241), (20, 9)), "task 9 outside a trial", "240 before it"),
    (((0, 240), (5, 80), (9, 241)), "code 80, behaviour 10", "a behaviour of 1-9"),
    (((0, 240), (5, 3), (9, 241)), "code 3, behaviour 0", "a behaviour of 1-9"),
    (((0, 240), (5, 8), (9, 241)), "code 8, task 0 with behaviour 1", "one of the tasks 1, 3, 7"),
    (((0, 240), (5, 1), (9, 241)), "code 1, behaviour 0", "a behaviour of 1-9"),
    (((0, 240), (5, 127), (9, 241)), "code 127, behaviour 15", "a behaviour of 1-9"),
    (((0, 240), (5, 47), (9, 241)), None, None),
    (((0, 240), (3, 0), (4, 128), (5, 47), (6, 200), (9, 241)), None, None),
    (((0, 240), (5, 46), (9, 241)), "code 46, task 6 with behaviour 5", "one of the tasks 5, 7"),
]


@pytest.mark.parametrize(("triggers", "got", "expected"), TURING_BROKEN)
def test_turing_names_what_breaks_the_format(triggers, got, expected):
    if got is None:
        assert read("turing", triggers)["blocks"] == [[7]]
    else:
        with pytest.raises(TruthError, match=f"{got}; expected {expected}"):
            read("turing", triggers)


def test_emotion_reads_clips_in_the_numbering_of_their_block():
    one = ((0, 250), (5, 242), (100, 4), (125, 240), (1000, 241), (1500, 243))
    two = ((7, 242), (100, 28), (125, 240), (900, 241), (1000, 13), (1025, 240), (2000, 241))
    assert read("emotion", one, two)["clips"] == [
        {"block": 0, "start": 125, "end": 1000, "label": 1},
        {"block": 1, "start": 125, "end": 900, "label": 8},
        {"block": 1, "start": 1025, "end": 2000, "label": 4},
    ]


EMOTION_BROKEN = [
    (((0, 240),), "240 without a clip", "a clip's number 1-28 before it"),
    (((0, 29), (25, 240)), "240 without a clip", "a clip's number 1-28"),
    (((0, 1), (25, 240), (50, 240)), "240 within a clip", "241 before it"),
    (((0, 241),), "241 without 240", "240 before it"),
    (((0, 1), (9, 241)), "241 without 240", "240 before it"),
    (((0, 1), (25, 240)), "240 without 241", "241 before the block ends"),
    (((0, 1), (25, 240), (90, 243)), "240 without 241", "241 before the block ends"),
    (((0, 1),), "clip 1 without 240", "240 before the block ends"),
    (((0, 1), (9, 2)), "clip 2 within clip 1", "240 and 241 before it"),
    (((0, 1), (9, 240), (20, 2)), "clip 2 within clip 1", "240 and 241 before it"),
    (
        ((0, 1), (9, 240), (20, 241), (30, 1)),
        r"clip 1 twice \(before: block 0, sample 0 \(0.000 s\)\)",
        "each clip once",
    ),
]


@pytest.mark.parametrize(("triggers", "got", "expected"), EMOTION_BROKEN)
def test_emotion_names_what_breaks_the_format(triggers, got, expected):
    with pytest.raises(TruthError, match=f"{got}; expected {expected}"):
        read("emotion", triggers)


@pytest.mark.parametrize(
    ("track", "triggers", "place"),
    [
        ("emotion", ((5, 1), (30, 240)), "sample 30 "),
        ("emotion", ((5, 1),), "sample 5 "),
        ("turing", ((30, 240),), "sample 30 "),
        ("erp", ((30, 101),), "sample 30 "),
    ],
)
def test_what_never_ended_is_named_by_where_it_began(track, triggers, place):
    with pytest.raises(TruthError, match=place):
        read(track, triggers)


def test_erp_reads_characters():
    triggers = ((0, 242), (9, 101), (99, 1), (120, 200), (150, 241), (200, 136), (300, 241))
    assert read("erp", triggers)["blocks"] == [["A", "_"]]


ERP_BROKEN = [
    (((0, 101), (9, 102)), "102 within a trial", "241 after the trial's start at 0"),
    (((0, 241),), "241 without a trial", "101-136 before it"),
    (((0, 101),), "a trial without 241", "241 before the block ends"),
    (((0, 12), (5, 101)), "12 outside a trial", "101-136 before it"),
    (((0, 200), (5, 101)), "200 outside a trial", "101-136 before it"),
]


@pytest.mark.parametrize(("triggers", "got", "expected"), ERP_BROKEN)
def test_erp_names_what_breaks_the_format(triggers, got, expected):
    with pytest.raises(TruthError, match=f"{got}; expected {expected}"):
        read("erp", triggers)


@pytest.mark.parametrize(
    ("track", "labels"),
    [
        ("mi", "trigger 11, 21 or 31 (a first segment)"),
        ("turing", "trigger 8-79 (a task)"),
        ("emotion", "trigger 240 after a clip's number 1-28"),
        ("erp", "trigger 101-136 (a trial's start)"),
        ("ecog", "row of joint angles"),
    ],
)
def test_a_recording_without_a_label_is_refused(track, labels):
    angles = np.zeros((0, 8)) if track == "ecog" else None
    with pytest.raises(TruthError) as caught:
        read_truth(
            TRACKS[track],
            TRACKS[track].rate,
            [(100, ((0, 250), (1, 242), (99, 243)))],
            angles,
        )
    assert str(caught.value) == (
        f"the recording holds no label: no {labels} in it. "
        "Is it a test recording, or one of another track?"
    )


@pytest.mark.parametrize(("offset", "sample"), [(-1, 199), (10, 210)])
def test_a_trigger_outside_its_piece_is_refused(offset, sample):
    reader = TRACKS["mi"].truth(1000)
    reader.step(1, 200, 10, ((0, 242), (9, 11)))
    with pytest.raises(
        TruthError, match=rf"block 1, sample {sample} .*trigger 21 outside its piece"
    ):
        reader.step(1, 200, 10, ((offset, 21),))


def test_ecog_reads_angles_and_trials_in_rows_of_the_session():
    angles = np.arange(160.0).reshape(20, 8)
    blocks = [(60, ((0, 242), (10, 240), (44, 241))), (40, ((0, 242), (5, 240), (40 - 1, 241)))]
    truth = read_truth(TRACKS["ecog"], 1000, blocks, angles)
    assert truth["angles"] == angles.tolist()
    assert truth["trials"] == [
        {"block": 0, "start": 2, "end": 8},
        {"block": 1, "start": 13, "end": 19},
    ]


def test_ecog_gives_each_piece_its_rows():
    reader = TRACKS["ecog"].truth(1000, np.arange(160.0).reshape(20, 8))
    counts = [len(reader.step(0, s, 17, ())[0]["angles"]) for s in (0, 17, 34)]
    assert counts == [3, 3, 4]


def test_ecog_finds_a_trials_rows_wherever_the_pieces_are_cut():
    reader = TRACKS["ecog"].truth(1000, np.arange(480.0).reshape(60, 8))
    events = reader.step(0, 0, 100, ())
    events += reader.step(1, 0, 50, ((0, 242),))
    events += reader.step(1, 50, 50, ((10, 240),))
    events += reader.step(1, 100, 50, ((30, 241),))
    trials = [event["trials"] for event in events if "trials" in event]
    assert trials == [[{"block": 0, "start": (100 + 60) // 5, "end": (100 + 130) // 5}]]


def test_ecog_leaves_rows_out_that_no_sample_goes_with():
    truth = read_truth(TRACKS["ecog"], 1000, [(40, ())], np.zeros((20, 8)))
    assert len(truth["angles"]) == 8
    assert "trials" not in truth


@pytest.mark.parametrize(
    ("triggers", "message"),
    [
        (((0, 241),), "241 without 240; expected 240"),
        (((0, 240), (5, 240)), "240 within a trial; expected 241"),
        (((50, 240),), r"sample 50 \(0.050 s\): 240 without 241; expected 241"),
        (((0, 240), (900, 241)), "angles end at row 20; expected 180 rows"),
    ],
)
def test_ecog_names_what_breaks_the_format(triggers, message):
    with pytest.raises(TruthError, match=message):
        read_truth(TRACKS["ecog"], 1000, [(1000, triggers)], np.zeros((20, 8)))


def test_ecog_lets_a_trial_end_with_the_last_row():
    blocks = [(1000, ((0, 240), (100, 241)))]
    trials = read_truth(TRACKS["ecog"], 1000, blocks, np.zeros((20, 8)))["trials"]
    assert trials == [{"block": 0, "start": 0, "end": 20}]


def test_ecog_without_angles_is_refused():
    with pytest.raises(TruthError, match="needs the joint angles"):
        read_truth(TRACKS["ecog"], 1000, [(40, ())])


def test_ecog_angles_must_be_eight_finite_numbers_a_row():
    with pytest.raises(RuleError, match="8 finite numbers"):
        read_truth(TRACKS["ecog"], 1000, [(40, ())], np.full((9, 8), np.nan))


@pytest.mark.parametrize("track", ["mi", "turing", "emotion", "erp"])
def test_any_cut_into_pieces_gives_the_same_truth(track):
    triggers = {
        "mi": ((3, 242), (10, 11), (4010, 241), (5000, 21), (9000, 241)),
        "turing": ((3, 242), (10, 240), (20, 9), (30, 240), (30, 241), (40, 11), (50, 241)),
        "emotion": ((3, 242), (10, 4), (20, 240), (300, 241), (310, 5), (320, 240), (330, 241)),
        "erp": ((3, 242), (10, 104), (20, 241), (30, 105), (40, 241)),
    }[track]
    whole = TRACKS[track].truth(TRACKS[track].rate)
    pieces = TRACKS[track].truth(TRACKS[track].rate)
    events = []
    for start in range(0, 10_000, 7):
        here = tuple((p - start, code) for p, code in triggers if start <= p < start + 7)
        events += pieces.step(0, start, 7, here)
    assert events == whole.step(0, 0, 10_000, triggers)
    assert pieces.finish() == whole.finish() == []
