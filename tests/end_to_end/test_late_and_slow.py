"""A team or judge that joins late loses nothing; a team that is too slow gets a warning."""

import threading

import numpy as np
import pytest
from playground import Recorder, erp_recording, play, program

from bci_stream.packet import Lead, Packet
from bci_stream.wire import names
from bci_stream.wire.client import TeamClient
from bci_stream.wire.handshake import SignalReader, wait_for_stream
from bci_stream.wire.memory import MemoryTransport
from decoders.worker import Worker
from replay.player.player import Player


def late_worker(transport, contest, decoder) -> threading.Thread:
    """A team that joins when the thread is started."""
    stop, token = threading.Event(), contest.keys.token("late")
    client = TeamClient(transport, contest.name, "late", token, stop=stop)
    worker = Worker(client, decoder, track="erp", join_s=30, stop=stop)
    return threading.Thread(target=worker.run, daemon=True)


def test_a_team_that_joins_in_mid_run_is_judged_from_there_on(transport, contest) -> None:
    """Real time: one team is at work; another one joins, and gets whole packets from then on."""
    early, late = Recorder(), Recorder()
    joining = late_worker(transport, contest, late)

    def start_late(number: int, packet: Packet) -> list[object]:
        if number == 5:
            joining.start()
        return []

    early.answer = start_late
    recording = erp_recording(range(105, 125))
    played = play(transport, contest, program("erp", recording), {"early": early}, pace="2")
    joining.join(30)
    assert played.errors == {}
    assert played.runs["late"].ended == "finished"
    assert 0 < len(late.packets) < len(early.packets)
    starts = [packet.start for packet in early.packets]
    assert [packet.start for packet in late.packets] == starts[-len(late.packets) :]


@pytest.mark.parametrize("pace", ["lockstep", "4"])
def test_a_team_that_comes_five_seconds_after_the_replay_has_the_first_sample(
    lsl_transport, contest, pace
) -> None:
    """The replay offers its run twice a second; the team begins to look for it after the tenth offer."""
    transport = lsl_transport
    decoder = Recorder()
    joining = late_worker(transport, contest, decoder)

    def come_late(player: Player, stop: threading.Event) -> None:
        found = wait_for_stream(transport, f"bci/{contest.name}/control/r", "control", 30, stop)
        control = transport.text_inlet(found, 10.0)
        offers = 0
        while offers < 10:
            offers += sum('"offer"' in text for text, _ in control.pull(30.0))
        control.close()
        joining.start()

    recording = erp_recording()
    played = play(
        transport, contest, program("erp", recording), {}, pace=pace, expected=1, around=come_late
    )
    joining.join(30)
    assert played.runs["late"].ended == "finished"
    counted = np.concatenate([packet.samples[:, 0] for packet in decoder.packets])
    assert counted.tolist() == list(range(recording.n_samples))


@pytest.mark.parametrize("pace", ["lockstep", "8"])
def test_a_judge_that_comes_when_the_team_is_ready_judges_all_of_it(
    transport, contest, pace
) -> None:
    """The team joins before the judge listens to the replay; nothing starts without the judge."""
    decoder = Recorder()
    recording = erp_recording()

    def wait_for_ready(player: Player, stop: threading.Event) -> None:
        results = f"bci/{contest.name}/results/alice"
        found = wait_for_stream(transport, results, "results", 30, stop)
        inlet = transport.text_inlet(found, 10.0)
        while not any('"ready"' in text for text, _ in inlet.pull(30.0)):
            pass
        inlet.close()

    what = program("erp", recording)
    played = play(transport, contest, what, {"alice": decoder}, pace=pace, around=wait_for_ready)
    assert played.errors == {}
    assert played.runs["alice"].ended == "finished"
    assert sum(packet.n for packet in decoder.packets) == recording.n_samples


def test_a_slow_consumer_within_the_buffers_loses_nothing_and_is_warned(transport, contest) -> None:
    held = threading.Event()

    def work_slowly(number: int, packet: Packet) -> list[object]:
        if number == 3:
            held.wait(1.5)  # as a decoder that takes too long
        return []

    decoder = Recorder(work_slowly)
    recording = erp_recording()
    played = play(transport, contest, program("erp", recording), {"slow": decoder}, pace="8")
    assert played.errors == {}
    counted = np.concatenate([packet.samples[:, 0] for packet in decoder.packets])
    assert counted.tolist() == list(range(recording.n_samples))
    assert any("BEHIND by" in text for text in played.logged)
    assert any(status == "lagging" for _, status, _ in played.sink.states)


class TestReader:
    """What a reader makes of a stream that lost samples, as LSL does in silence."""

    def reader(self) -> tuple[object, SignalReader, MemoryTransport]:
        transport = MemoryTransport()
        spec = names.signal_stream("c", "r", 100.0, (Lead("Cz"),))
        outlet = transport.sample_outlet(spec)
        (found,) = transport.visible("bci/")
        return outlet, SignalReader(transport.sample_inlet(found, 1.0), 100.0), transport

    def rows(self, first: int, n: int) -> np.ndarray:
        return np.arange(first, first + n, dtype=np.float32)[:, None].repeat(2, axis=1)

    def test_probes_before_the_first_packet_are_passed_over(self) -> None:
        outlet, reader, _ = self.reader()
        for k in range(5):
            outlet.push(self.rows(0, 1), 10.0 + k * 0.25)
        outlet.push(self.rows(100, 4), 20.0)
        assert reader.read(4, 20.0, 1.0)[:, 0].tolist() == [100, 101, 102, 103]
        assert reader.missing == 0

    def test_a_lost_packet_is_counted_and_the_next_one_is_whole(self) -> None:
        outlet, reader, _ = self.reader()
        outlet.push(self.rows(0, 4), 20.0)
        outlet.push(self.rows(8, 4), 20.08)  # 4 to 7 were dropped
        assert reader.read(4, 20.0, 1.0) is not None
        assert reader.read(4, 20.04, 1.0) is None
        assert reader.missing == 4
        assert reader.read(4, 20.08, 1.0)[:, 0].tolist() == [8, 9, 10, 11]

    def test_a_packet_of_which_a_part_is_lost_is_not_shown_as_whole(self) -> None:
        outlet, reader, _ = self.reader()
        outlet.push(self.rows(0, 4), 20.0)
        outlet.push(self.rows(6, 2), 20.04)  # 4 and 5 were dropped
        outlet.push(self.rows(8, 4), 20.08)
        assert reader.read(4, 20.0, 1.0) is not None
        assert reader.read(4, 20.04, 1.0) is None
        assert reader.missing == 2
        assert reader.read(4, 20.08, 1.0)[:, 0].tolist() == [8, 9, 10, 11]
