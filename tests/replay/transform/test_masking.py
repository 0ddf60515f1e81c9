"""Masked packets: the same ones for player, prepare and offline runs; live labels survive a gap."""

import numpy as np
import pytest
from playground import Recorder, counter_recording, play, program

from bci_stream.contest.contest import Contest
from bci_stream.packet import Packet
from bci_stream.wire.memory import MemoryTransport
from decoders.offline import run_offline
from replay.model.recording import Recording
from replay.model.source import RawPacket
from replay.sources import open_source
from replay.tools.prepare import prepare
from replay.tools.set_writer import write_npz
from replay.transform.masking import LiveTruth, masked_packets
from tracks.registry import TRACKS

RATE = 250


def unmarked_mi() -> Recording:
    """Two mi blocks without 242 and 243. The imagery that begins at 4 s of the first is cut off at 6 s."""
    cut_off = ((1000, 11), (1250, 12), (1375, 13))
    whole = ((250, 21), (500, 22), (750, 23), (1250, 241))
    return counter_recording("mi", [(1500, cut_off), (1500, whole)])


def marked_erp() -> Recording:
    triggers = ((3, 242), (20, 105), (35, 1), (50, 2), (50, 3), (75, 200), (150, 241), (160, 243))
    return counter_recording("erp", [(173, triggers), (168, triggers)])


def shown_samples(packets: list[Packet], block: int) -> list[int]:
    signal = np.concatenate([packet.samples[:, 1] for packet in packets if packet.block == block])
    return signal.nonzero()[0].tolist()


def test_an_imagery_that_a_block_cuts_off_shows_nothing_of_the_next_block() -> None:
    packets = list(masked_packets(TRACKS["mi"], unmarked_mi()))
    assert shown_samples(packets, 0) == list(range(1000, 1500))
    assert shown_samples(packets, 1) == list(range(250, 1250))


@pytest.mark.parametrize(("track", "make"), [("mi", unmarked_mi), ("erp", marked_erp)])
def test_player_prepare_and_offline_run_give_the_same_packets(
    track, make, tmp_path, contest: Contest
) -> None:
    recording = make()
    expected = list(masked_packets(TRACKS[track], recording))

    played, offline = Recorder(), Recorder()
    assert not play(MemoryTransport(), contest, program(track, recording), {"a": played}).errors
    run_offline(track, offline, [recording])
    assert_same(played.packets, expected)
    assert_same(offline.packets, expected)

    write_npz(recording, tmp_path / "source.npz", track, "test", secret=False)
    prepare(track, [str(tmp_path / "source.npz")], tmp_path / "sets", b"key")
    (shown,) = open_source(str(tmp_path / "sets" / "test" / f"{track}_test_S01.npz")).sessions()
    # What is masked already is not masked again: without a track the packets pass as they are.
    packets = list(shown.packets(expected[0].n))
    assert [(p.block, p.start, p.triggers) for p in packets] == [
        (p.block, p.start, p.triggers) for p in expected
    ]
    for packet, same in zip(packets, expected, strict=True):
        np.testing.assert_array_equal(packet.samples, same.signal)


def assert_same(packets: list[Packet], expected: list[Packet]) -> None:
    for packet, same in zip(packets, expected, strict=True):
        np.testing.assert_array_equal(packet.samples, same.samples)
        assert (packet.triggers, packet.start, packet.block, packet.subject, packet.finish) == (
            same.triggers, same.start, same.block, same.subject, same.finish
        )  # fmt: skip


# --- labels of a live device: a gap that loses a trigger costs its own trial, and no other ---


def packet(start: int, trigger: tuple[int, int]) -> RawPacket:
    return RawPacket(np.zeros((10, 1), np.float32), (trigger,), start, 0, last_of_block=False)


def labels(track: str, codes: list[int]) -> tuple[list[object], int]:
    """The labels that come of these triggers, one a packet of 10 samples, and how many did not fit."""
    truth = LiveTruth(TRACKS[track], 250.0)
    found: list[object] = []
    troubles = 0
    for number, code in enumerate(codes):
        events, wrong = truth.step(packet(number * 10_000, (3, code)))
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
        events += truth.step(packet(number * 10, (0, code)))[0]
    assert [(event["block"], event["label"]) for event in events] == [(0, "E"), (0, "G"), (1, "I")]
