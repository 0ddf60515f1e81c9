"""A live device's truth: a gap that swallows a trigger costs its own trial, and no other."""

import pytest

from replay.transform.masking import LiveTruth
from tracks.registry import TRACKS


def labels(track: str, codes: list[int]) -> tuple[list[object], int]:
    """The labels that come of these triggers, one a packet of 10 samples, and how many did not fit."""
    truth = LiveTruth(TRACKS[track], 250.0)
    found: list[object] = []
    troubles = 0
    for number, code in enumerate(codes):
        events, wrong = truth.step(0, number * 10_000, 10, ((3, code),))
        found += [event["label"] for event in events if "label" in event]
        troubles += len(wrong)
    return found, troubles


@pytest.mark.parametrize(
    ("track", "codes", "expected", "troubles"),
    [
        ("mi", [242, 11, 12, 13, 241, 21, 22, 23, 241], [1, 2], 0),
        ("mi", [242, 12, 13, 241, 21, 22, 23, 241], [2], 3),  # the gap took 11
        (
            "mi",
            [242, 11, 12, 13, 21, 22, 23, 241],
            [1, 2],
            0,
        ),  # ... or the 241, which may be absent
        ("erp", [242, 105, 1, 2, 200, 241, 107, 1, 241], ["E", "G"], 0),
        ("erp", [242, 105, 1, 2, 107, 1, 241], ["E", "G"], 1),  # the gap took a 241
        ("erp", [242, 1, 2, 200, 241, 107, 1, 241], ["G"], 4),  # ... or a trial's start
        ("turing", [242, 240, 9, 241, 240, 36, 240, 45, 241], [1, 4, 5], 1),
    ],
)
def test_the_other_trials_keep_their_labels(track, codes, expected, troubles) -> None:
    assert labels(track, codes) == (expected, troubles)


def test_blocks_go_on_being_counted_over_a_gap() -> None:
    truth = LiveTruth(TRACKS["erp"], 250.0)
    events: list[dict[str, object]] = []
    for number, code in enumerate([242, 105, 107, 241, 243, 242, 109, 241]):
        events += truth.step(0, number * 10, 10, ((0, code),))[0]
    assert [(event["block"], event["label"]) for event in events] == [(0, "E"), (0, "G"), (1, "I")]
