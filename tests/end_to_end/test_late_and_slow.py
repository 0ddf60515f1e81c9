"""Who comes late loses nothing that was meant for it; who is too slow is told, loudly."""

import threading

import numpy as np
from playground import Recorder, erp_recording, play, program

from bci_stream.packet import Lead, Packet
from bci_stream.wire import names
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.seat import Seat
from bci_stream.wire.signal_reader import SignalReader
from decoders.worker import Worker


def test_a_team_that_comes_in_mid_run_is_judged_from_there_on(contest) -> None:
    """Real time: one team is at work; another one joins, and gets whole packets from then on."""
    transport = MemoryTransport()
    early, late = Recorder(), Recorder()
    seat = Seat(transport, contest.name, "late", contest.keys.token("late"), stop=threading.Event(),
                say=lambda _: None)  # fmt: skip
    worker = Worker(seat, late, track="erp", join_s=30, stop=threading.Event())
    joining = threading.Thread(target=worker.run, daemon=True)

    def start_late(number: int, packet: Packet) -> list[object]:
        if number == 5:
            joining.start()
        return []

    early.answer = start_late
    recording = erp_recording((105, 110, 115, 120, 125, 130))
    played = play(transport, contest, program("erp", recording), {"early": early}, pace="1")
    joining.join(30)
    assert played.errors == {}
    assert played.runs["late"].ended == "finished"
    assert 0 < len(late.packets) < len(early.packets)
    starts = [packet.start for packet in early.packets]
    assert [packet.start for packet in late.packets] == starts[-len(late.packets) :]


def test_a_slow_consumer_within_the_buffers_loses_nothing_and_is_told(contest) -> None:
    transport = MemoryTransport()
    held = threading.Event()

    def dawdle(number: int, packet: Packet) -> list[object]:
        if number == 3:
            held.wait(1.5)  # as a decoder that thinks for too long
        return []

    decoder = Recorder(dawdle)
    recording = erp_recording()
    played = play(transport, contest, program("erp", recording), {"slow": decoder}, pace="8")
    assert played.errors == {}
    assert sum(packet.n for packet in decoder.packets) == recording.n_samples
    assert any("BEHIND by" in text for text in played.said)
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
