"""Labels reach nothing that is visible without the key: streams, packets, prepared files, log lines."""

import dataclasses

import numpy as np
import pytest
from end_to_end.label_leaks import (
    differences,
    observe_live,
    observe_lockstep,
    observe_prepared,
    observe_realtime,
    program_of,
)
from end_to_end.labelled_sessions import LABELS, MOVED_CLIPS, OTHER_LABELS, labelled

from bci_stream.packet import Lead
from replay.model.recording import Recording
from replay.tools.clip_shuffle import shuffled_clips
from replay.tools.set_writer import write_npz
from tracks.registry import TRACKS

KEY = b"0123456789abcdef"


def seen(observe, contest, track, labels):
    return observe(contest, program_of(track, labelled(track, labels)))


WAYS = [
    *((track, observe_lockstep) for track in TRACKS),
    # ecog has a signal stream for a team only, and no device measures its angles.
    *(
        (track, observe)
        for track in TRACKS
        if track != "ecog"
        for observe in (observe_realtime, observe_live)
    ),
]


@pytest.mark.parametrize(("track", "observe"), WAYS)
def test_two_sessions_that_differ_in_labels_only_look_the_same(track, observe, contest) -> None:
    """Every stream and what describes it, every text, sample, stamp, packet, and their order."""
    first = seen(observe, contest, track, LABELS[track])
    second = seen(observe, contest, track, OTHER_LABELS[track])
    assert differences(first, second) == {}


@pytest.mark.parametrize("observe", [observe_lockstep, observe_realtime, observe_live])
def test_emotion_does_not_show_where_a_clip_begins_or_ends(observe, contest) -> None:
    first = seen(observe, contest, "emotion", LABELS["emotion"])
    second = seen(observe, contest, "emotion", MOVED_CLIPS)
    assert differences(first, second) == {}


# --- the sets that `bci-replay prepare` makes ---------------------------------------------------


def prepared(folder, track, labels, name="S01"):
    """What contestants get of a session and of another one; each lies in a file of its subject's name."""
    sources = []
    folder.mkdir()
    for subject, of_subject in ((name, labels), ("S02", LABELS[track])):
        path = folder / f"{subject}.npz"
        recording = labelled(track, of_subject, subject, TRACKS[track].rate)
        write_npz(recording, path, track, "test", secret=False)
        sources.append(path)
    return observe_prepared(sources, track, folder / "sets", KEY)


@pytest.mark.parametrize("track", TRACKS)
def test_two_prepared_sets_that_differ_in_labels_only_are_the_same_files(track, tmp_path) -> None:
    """Names, their order, metadata, blocks and every byte, the manifest's hashes too."""
    first = prepared(tmp_path / "a", track, LABELS[track])
    second = prepared(tmp_path / "b", track, OTHER_LABELS[track])
    assert differences(first, second) == {}


def test_the_key_lets_every_clip_stand_anywhere() -> None:
    """Six clips, 600 keys: each is at each place about 100 times (sd 9), so no place names a clip."""
    clips = [[(number, 3, 5), (number + 3, 7, 9), (number + 6, 11, 13)] for number in (1, 4 + 6)]
    recording = labelled("emotion", clips)
    places = np.zeros((6, 29))
    for key in range(600):
        shuffled = shuffled_clips(recording, np.random.default_rng(key))
        codes = [code for block in shuffled.blocks for _, code in block.triggers]
        for place, clip in enumerate(code for code in codes if code in range(1, 29)):
            places[place, clip] += 1
    seen_at = places[:, [1, 4, 7, 10, 13, 16]]
    assert seen_at.sum() == 3600
    assert (np.abs(seen_at - 100) < 45).all()


# --- a leak is found ----------------------------------------------------------------------------


class Leaky:
    """mi's mask, and something that depends on the class: what `leak` makes of it."""

    def __init__(self, leak):
        self._leak = leak

    def __call__(self, rate):
        self._mask = TRACKS["mi"].mask(rate)
        self._label = 0
        return self

    def step(self, samples, triggers):
        self._label = next((code // 10 for _, code in triggers if code < 40), self._label)
        return self._leak(self._label, *self._mask.step(samples, triggers))


def shows_a_code(label, samples, triggers):
    return samples, tuple((at, 40 + label if code == 203 else code) for at, code in triggers)


def moves_a_trigger(label, samples, triggers):
    moved = tuple((min(at + label, len(samples) - 1), code) for at, code in triggers)
    return samples, moved


def says_a_trigger_twice(label, samples, triggers):
    return samples, tuple(pair for pair in triggers for _ in range(label if pair[1] == 202 else 1))


def adds_the_smallest_number(label, samples, triggers):
    shown = samples.copy()
    shown[-1, 5] += np.spacing(shown[-1, 5]) * label
    return shown, triggers


@pytest.mark.parametrize(
    ("leak", "channels"),
    [
        (shows_a_code, {"control", "signal", "markers", "codes"}),
        (moves_a_trigger, {"control", "signal", "markers", "codes"}),
        (says_a_trigger_twice, {"control", "markers", "codes"}),
        (adds_the_smallest_number, {"control", "signal"}),
    ],
)
@pytest.mark.parametrize("observe", [observe_realtime, observe_live])
def test_a_mask_that_leaks_is_found(leak, channels, observe, contest) -> None:
    leaky = dataclasses.replace(TRACKS["mi"], make_mask=Leaky(leak))
    both = [
        observe(contest, dataclasses.replace(program_of("mi", labelled("mi", labels)), track=leaky))
        for labels in (LABELS["mi"], OTHER_LABELS["mi"])
    ]
    assert set(differences(*both)) == channels


def total(recording):
    """Something that only labels decide."""
    return sum(code for block in recording.blocks for _, code in block.triggers)


class OddPackets(Recording):
    """Its packets' size tells of its labels."""

    def packets(self, packet_samples):
        return super().packets(packet_samples + total(self) // 10 % 5)


def packet_sizes(recording):
    return OddPackets(recording.subject, recording.rate, recording.leads, recording.blocks)


def block_order(recording):
    by_label = sorted(recording.blocks, key=lambda block: block.triggers[3][1])
    return dataclasses.replace(recording, blocks=by_label)


def lead_metadata(recording):
    first = Lead(recording.leads[0].name, f"EEG{total(recording)}")
    return dataclasses.replace(recording, leads=(first, *recording.leads[1:]))


def subject_name(recording):
    return dataclasses.replace(recording, subject=f"S{total(recording)}")


@pytest.mark.parametrize(
    ("leak", "channels"),
    [
        (packet_sizes, {"control", "signal", "markers", "codes", "status"}),
        (block_order, {"control", "signal", "markers", "codes", "truth"}),
        (lead_metadata, {"streams"}),
        (subject_name, {"control", "handshake", "status"}),
    ],
)
def test_a_session_that_leaks_is_found(leak, channels, contest) -> None:
    both = [
        observe_realtime(contest, program_of("mi", leak(labelled("mi", labels))))
        for labels in (LABELS["mi"], [[3, 2, 1, 1], [1, 1, 1]])
    ]
    found = set(differences(*both))
    assert found
    assert found <= channels


def test_a_truth_that_is_longer_for_one_label_is_found(contest) -> None:
    both = []
    for text in ("A", "A" * 1000):
        program = program_of("erp", labelled("erp", LABELS["erp"]))
        truth = {"kind": "truth", "blocks": [[text]]}
        both.append(observe_realtime(contest, dataclasses.replace(program, truths=(truth,))))
    assert set(differences(*both)) == {"truth"}


def test_a_decoder_that_is_shown_a_label_is_found(contest) -> None:
    leaky = dataclasses.replace(TRACKS["mi"], make_mask=Leaky(adds_the_smallest_number))
    both = [
        observe_lockstep(
            contest, dataclasses.replace(program_of("mi", labelled("mi", labels)), track=leaky)
        )
        for labels in ([[1]], [[2]])
    ]
    assert set(differences(*both)) == {"control", "signal", "decoder"}


def test_a_file_name_a_file_and_a_manifest_that_leak_are_found(tmp_path) -> None:
    first = prepared(tmp_path / "a", "mi", LABELS["mi"], name="left_first")
    second = prepared(tmp_path / "b", "mi", LABELS["mi"], name="right_first")
    assert {"file names", "metadata", "file bytes", "manifest"} <= set(differences(first, second))
