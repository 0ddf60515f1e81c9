"""JellyFish's triggers: found wherever they travel, once, on the sample of their time."""

import numpy as np
import pytest
from virtual_amplifier import Run, placed_triggers, recording

from bci_stream.packet import Lead
from replay.devices.chunk import Chunk
from replay.devices.emulator.encoders import JellyfishEncoder, SignalPiece
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.jellyfish_frames import (
    JellyfishChannel,
    Meta,
    Module,
    encode_data,
    encode_meta,
)
from replay.devices.status import StatusKeeper

BOX = Module(7, "W8", (JellyfishChannel("C3", "EEG", 1000, 5),))
TRIGGER_BOX = Module(0, "", (JellyfishChannel("T", "Trigger", 1000, 5),))
MODULES = encode_meta(Meta(1, (BOX, TRIGGER_BOX)))


def samples(start: int, n: int = 5) -> np.ndarray:
    return np.arange(start, start + n, dtype=np.float32)


def signal(start_ms: int) -> bytes:
    return encode_data(1, start_ms, 5, {7: [samples(start_ms)]})


def line(start_ms: int, *codes: float) -> bytes:
    return encode_data(1, start_ms, len(codes), {0: [np.array(codes, np.float32)]})


def triggers_of(chunks: list[Chunk]) -> list[tuple[int, int]]:
    """Lead 1 counts the samples."""
    return [(int(c.samples[offset, 0]), code) for c in chunks for offset, code in c.triggers]


def by_module(lines: dict[int, list[bytes]], hold: bool = True) -> list[tuple[int, int]]:
    """Signal frames of 5 ms, each followed by these trigger frames."""
    parser = JellyfishParser(hold=hold)
    frames = [signal(at) + b"".join(lines.get(at, [])) for at in range(0, 200, 5)]
    return triggers_of(parser.feed(MODULES + b"".join(frames)))


def test_a_code_held_over_frames_is_one_trigger():
    held = {at: [line(at, *[0] * 5)] for at in range(0, 200, 5)}
    held |= {50: [line(50, 0, 0, 9, 9, 9)], 55: [line(55, 9, 9, 0, 0, 0)]}
    assert by_module(held) == [(52, 9)]
    assert by_module(held, hold=False) == [(ms, 9) for ms in range(52, 57)]


def test_the_same_code_right_after_a_0_is_a_new_trigger():
    assert by_module({50: [line(50, 9, 0, 9, 9, 0)]}) == [(50, 9), (52, 9)]


def test_frames_that_are_sent_only_with_a_trigger_hold_it_while_they_follow_each_other():
    one = Module(0, "", (JellyfishChannel("T", "Trigger", 1000, 1),))
    parser = JellyfishParser()
    sent = [line(ms, 9) for ms in (51, 52, 53, 60, 61, 70)]
    frames = encode_meta(Meta(1, (BOX, one))) + b"".join(sent)
    chunks = parser.feed(frames + b"".join(signal(at) for at in range(0, 200, 5)))
    assert triggers_of(chunks) == [(51, 9), (60, 9), (70, 9)]


def test_a_line_that_is_sent_twice_is_one():
    again = [line(50, 0, 9, 9, 9, 9), line(55, 9, 9, 0, 0, 0)]
    assert by_module({55: [*again, *again, again[1]]}) == [(51, 9)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("rate", [128, 250, 256, 300, 500, 512, 600, 999, 1000])
def test_a_trigger_lands_on_its_sample_at_any_rate(rate, whole):
    encoder = JellyfishEncoder(rate, (Lead("C3"),), whole)
    n = encoder.piece_samples
    for offset in {*range(0, n, max(1, n // 60)), n - 1}:
        parser = JellyfishParser()
        pieces = [
            SignalPiece(samples(i * n, n)[:, None], ((offset, 77),) if i == 1 else (), i * n)
            for i in range(2 if whole else 10)
        ]
        chunks = parser.feed(encoder.greeting() + b"".join(map(encoder.encode, pieces)))
        assert triggers_of(chunks) == [(n + offset, 77)]


@pytest.mark.parametrize("protocol", ["jellyfish", "jellyfish-modules"])
@pytest.mark.parametrize("rate", [128, 250, 512, 1000, 2000])
def test_a_trigger_that_an_emulator_holds_is_one_at_any_rate(protocol, rate):
    triggers = ((rate // 2, 7), (rate + 2, 8), (2 * rate - 40, 8))
    run = Run(recording(3, rate, triggers), protocol, ["hold:25"])
    assert placed_triggers(run.packets()) == list(triggers)


@pytest.mark.parametrize("value", [-5, 0.5, 70000, 1e20, -1e20, np.nan, np.inf, 12.25])
def test_a_value_that_is_no_code_is_no_trigger_and_is_reported_once(value):
    notes: list[str] = []
    parser = JellyfishParser(note=notes.append)
    frames = [signal(at) + line(at, value, 0, value, 0, 5) for at in range(0, 100, 5)]
    chunks = parser.feed(MODULES + b"".join(frames))
    assert {code for _, code in triggers_of(chunks)} == {5}
    (note,) = notes
    assert "a whole number from 1 to 65535" in note


def test_texts_in_whole_frames_are_triggers_too_and_none_is_one_twice():
    notes: list[str] = []
    encoder, parser = JellyfishEncoder(500, (Lead("C3"),)), JellyfishParser(note=notes.append)
    parser.feed(encoder.greeting())
    on_line = np.zeros(40, np.float32)
    on_line[10] = 51
    texts = [(10, "51"), (20, "Trigger-In:52"), (30, "start"), (70, "53")]
    serial = next(iter(parser._layout.line or ()))
    data = [
        encode_data(0, at, 40, {serial: [samples(at // 2, 20), each]}, texts if at == 0 else [])
        for at, each in ((0, on_line), (40, 0 * on_line))
    ]
    assert triggers_of(parser.feed(b"".join(data))) == [(5, 51), (10, 52), (35, 53)]
    assert "'start' is not a whole number" in notes[0]


def whole(*modules: Module) -> bytes:
    return encode_meta(Meta(0, modules))


def two_boxes(last_of_a: JellyfishChannel) -> tuple[Module, Module]:
    eeg = JellyfishChannel("Fp1", "EEG", 500, 20)
    trigger = JellyfishChannel("Trig", "Trigger", 1000, 40)
    return Module(11, "A", (eeg, last_of_a)), Module(22, "B", (eeg, trigger))


def test_the_last_lead_of_a_box_among_others_is_no_trigger_line():
    a, b = two_boxes(JellyfishChannel("Fp2", "EEG", 500, 20))
    notes: list[str] = []
    parser = JellyfishParser("A", note=notes.append)
    parser.feed(whole(a, b))
    assert parser.info is not None
    assert [lead.name for lead in parser.info.leads] == ["Fp1", "Fp2"]
    count, noise = samples(0, 20), np.linspace(-60, 60, 20, dtype=np.float32)
    on_line = np.eye(40, dtype=np.float32)[12] * 5
    (chunk,) = parser.feed(encode_data(0, 0, 40, {11: [count, noise], 22: [count, on_line]}))
    assert triggers_of([chunk]) == [(6, 5)]
    assert notes == []


@pytest.mark.parametrize(
    "last",
    [
        JellyfishChannel("TRIGGER", "EEG", 500, 20),
        JellyfishChannel("X", "trigger", 500, 20),
        JellyfishChannel("STATUS", "MISC", 1000, 40),
    ],
)
def test_a_box_with_a_trigger_line_of_its_own_keeps_it(last):
    a, b = two_boxes(last)
    parser = JellyfishParser("A")
    parser.feed(whole(a, b))
    assert parser.info is not None
    assert [lead.name for lead in parser.info.leads] == ["Fp1"]
    own = np.eye(last.count, dtype=np.float32)[10 * last.count // 20] * 3
    other = np.eye(40, dtype=np.float32)[0] * 5
    values = {11: [samples(0, 20), own], 22: [samples(0, 20), other]}
    assert triggers_of(parser.feed(encode_data(0, 0, 40, values))) == [(10, 3)]


def test_the_last_channel_of_all_is_the_line_whatever_it_is_called():
    parser = JellyfishParser()
    parser.feed(whole(Module(11, "A", (*BOX.channels, JellyfishChannel("X", "EEG", 1000, 5)))))
    assert parser.info is not None
    assert len(parser.info.leads) == 1
    on_line = np.array([0, 0, 4, 4, 0], np.float32)
    assert triggers_of(parser.feed(encode_data(0, 0, 5, {11: [samples(0), on_line]}))) == [(2, 4)]


def test_triggers_of_a_device_that_counts_again_find_its_new_samples():
    notes: list[str] = []
    parser = JellyfishParser(note=notes.append)
    before = [signal(at) for at in range(5000, 5100, 5)]
    parser.feed(MODULES + b"".join(before) + line(5098, 0, 0, 8, 8, 8))
    parser.restart()
    after = [signal(at) for at in range(0, 100, 5)]
    chunks = parser.feed(MODULES + line(2, 0, 9, 0, 0, 0) + b"".join(after))
    assert triggers_of(chunks) == [(5099, 8), (3, 9)]
    assert [chunk.lost for chunk in chunks].count(None) == 1
    assert notes == []


def test_a_flood_of_broken_frames_is_a_few_notes():
    keeper, notes = StatusKeeper("amp"), []
    keeper.listen(lambda status: notes.append(status.detail))
    parser = JellyfishParser(note=keeper.note_once)
    parser.feed(MODULES)
    for at in range(0, 50_000, 5):
        parser.feed(encode_data(1, at, 5, {7: [samples(at, at % 4 + 1)]}))
    assert len(notes) == 4
