"""Lockstep sends most packets without a note; the decoder gets the same packets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playground import Recorder, counter_recording, erp_recording, play, program

from bci_stream.contest.contest import Contest
from bci_stream.packet import column_triggers
from bci_stream.wire.handshake import wait_for_stream
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import PacketNote, UnannouncedPackets, read_control
from replay.player.lockstep import MAX_ANNOUNCED
from replay.player.plan import PlaybackPlan

SHARED = ((0, 242), (9, 101), (40, 1), (40, 2), (90, 3), (120, 200), (130, 241), (140, 243))
"""Two flashes on sample 40: the TRIGGER channel can hold one of them only."""


def seen(transport, contest, what: PlaybackPlan) -> Recorder:
    decoder = Recorder()
    played = play(transport, contest, what, {"alice": decoder})
    assert played.errors == {}
    assert played.runs["alice"].ended == "finished"
    assert len(played.runs["alice"].path.read_text().splitlines()) > len(decoder.packets)
    return decoder


def assert_same(decoder: Recorder, what: PlaybackPlan) -> None:
    shown = list(what.packets())
    assert len(decoder.packets) == len(shown)
    for got, sent in zip(decoder.packets, shown, strict=True):
        assert np.array_equal(got.samples, sent.samples)
        assert (got.triggers, got.start, got.block, got.subject, got.finish) == (
            sent.triggers, sent.start, sent.block, sent.subject, sent.finish
        )  # fmt: skip


def test_blocks_subjects_short_packets_and_shared_samples_arrive_as_they_were_sent(
    transport, contest
) -> None:
    blocks = [(1503, SHARED), (150, SHARED), (157, SHARED)]
    sessions = (counter_recording("erp", blocks, "S01"), counter_recording("erp", blocks, "S02"))
    what = program("erp", *sessions)
    assert_same(seen(transport, contest, what), what)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(150, 800), min_size=2, max_size=5))
def test_so_do_blocks_of_any_length(tmp_path_factory, lengths) -> None:
    contest = Contest("law", tmp_path_factory.mktemp("law"))
    what = program("erp", counter_recording("erp", [(n, SHARED) for n in lengths]))
    assert_same(seen(MemoryTransport(), contest, what), what)


def test_a_plain_packet_comes_without_a_note_and_the_rest_with_one(contest) -> None:
    transport = MemoryTransport()
    what = program("erp", erp_recording(range(101, 110)))
    inlets = []

    def listen(player, stop) -> None:
        found = wait_for_stream(transport, f"bci/{contest.name}/control/r", "control", 30, stop)
        inlets.append(transport.text_inlet(found, 1.0))

    play(transport, contest, what, {"alice": Recorder()}, around=listen)
    messages = [read_control(text) for text, _ in inlets[0].pull(0.0)]
    noted = {message.i for message in messages if isinstance(message, PacketNote)}
    plain = [message for message in messages if isinstance(message, UnannouncedPackets)]
    announced = {i for batch in plain for i in range(batch.i, batch.i + batch.count)}
    packets = len(list(what.packets()))
    assert not noted & announced
    assert noted | announced == set(range(packets))
    assert noted == {0, packets - 1}
    assert max(batch.count for batch in plain) == MAX_ANNOUNCED


@pytest.mark.parametrize(
    ("codes", "triggers"),
    [([0, 5, 0, 7], ((1, 5), (3, 7))), ([0, 0], ()), ([255, 1], ((0, 255), (1, 1)))],
)
def test_the_trigger_channel_says_its_triggers(codes, triggers) -> None:
    samples = np.zeros((len(codes), 3), dtype=np.float32)
    samples[:, -1] = codes
    assert column_triggers(samples) == triggers
