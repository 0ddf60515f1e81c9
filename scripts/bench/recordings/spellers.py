"""Recordings of spellers for the decoders' benchmark: npz files of labelled flashes.

`data` (leads + trigger, samples), `rate`, `ch_names`; with `groups` it is a run in the track's codes,
without them its triggers are 1 non-target, 2 target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bci_stream.packet import Lead
from decoders.dsp import Array
from decoders.erp.flashes import FlashFeatures
from decoders.erp.stopping import SpellerLayout
from decoders.erp.training import labelled_flashes
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError
from tracks.erp import SEQUENCE_END, TARGETS

FEWEST_FLASHES = 48
AFTER_S = 2.0
"""Signal kept after the last flash: longer than its response."""
NON_TARGET, TARGET = 1, 2


@dataclass(frozen=True)
class Speller:
    """A labelled recording and its groups (None: its triggers are 1 non-target, 2 target)."""

    name: str
    recording: Recording
    groups: tuple[str, ...] | None

    @property
    def triggers(self) -> Sequence[tuple[int, int]]:
        return self.recording.blocks[0].triggers


def read_speller(path: Path) -> Speller:
    """One file; raises where it is of another layout."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        missing = sorted({"data", "rate", "ch_names"} - set(file.files))
        if missing:
            raise NotThisLayoutError(f"it has no {', '.join(missing)}")
        data, rate = file["data"], float(file["rate"])
        names = [str(name) for name in file["ch_names"]]
        groups = tuple(str(g) for g in file["groups"]) if "groups" in file.files else None
    if data.ndim != 2 or len(data) != len(names):
        raise NotThisLayoutError(f"data of shape {data.shape} for {len(names)} channels")
    if not np.isfinite(data[-1]).all() or not rate > 0:
        raise NotThisLayoutError("its trigger row or its rate is no number")
    codes = data[-1].astype(int)
    triggers = tuple((int(place), int(codes[place])) for place in np.flatnonzero(codes))
    block = ArrayBlock(np.ascontiguousarray(data[:-1].T, dtype=np.float32), triggers)
    leads = tuple(Lead(name) for name in names[:-1])
    speller = Speller(path.stem, Recording(path.stem, rate, leads, [block]), groups)
    _check(speller)
    return speller


def _check(speller: Speller) -> None:
    codes = [code for _, code in speller.triggers]
    if speller.groups is not None:
        SpellerLayout(speller.groups)  # raises where it is none
        if n_letters(speller) < 2 or SEQUENCE_END not in codes:
            raise NotThisLayoutError("fewer than 2 letters, or no sequence end (200)")
    elif min(codes.count(TARGET), codes.count(NON_TARGET)) < FEWEST_FLASHES:
        raise NotThisLayoutError(
            f"{codes.count(TARGET)} targets (2) and {codes.count(NON_TARGET)} others (1): "
            f"at least {FEWEST_FLASHES} of each are needed"
        )


def n_letters(speller: Speller) -> int:
    return sum(code in TARGETS for _, code in speller.triggers)


def most_sequences(speller: Speller) -> int:
    """How many every letter has, on average."""
    ends = sum(code == SEQUENCE_END for _, code in speller.triggers)
    return max(1, ends // max(1, n_letters(speller)))


def letters_only(speller: Speller, kept_letters: Sequence[int]) -> Recording:
    """The same signal with the triggers of some letters only, as far as these need it."""
    number = -1
    kept = []
    for place, code in speller.triggers:
        number += code in TARGETS
        if number < 0 or number in kept_letters:
            kept.append((place, code))
    whole = speller.recording
    end = min(whole.blocks[0].n_samples, kept[-1][0] + round(AFTER_S * whole.rate))
    block = ArrayBlock(whole.blocks[0].read(0, end), tuple(kept))
    return Recording(whole.subject, whole.rate, whole.leads, [block])


def flashes_of(speller: Speller, features: FlashFeatures[int]) -> Iterator[tuple[bool, Array]]:
    """(it was a target, features), flash by flash; no more of the signal is read than was asked for."""
    if speller.groups is not None:
        yield from labelled_flashes(speller.recording, features, SpellerLayout(speller.groups))
    else:
        yield from _marked_flashes(speller.recording, features)


def _marked_flashes(
    recording: Recording, features: FlashFeatures[int]
) -> Iterator[tuple[bool, Array]]:
    for packet in recording.packets(round(recording.rate)):
        done, tag = 0, None
        for offset, code in packet.triggers:
            for is_target, vector in features.feed(packet.samples[done:offset], tag):
                yield bool(is_target), vector
            done, tag = offset, code - NON_TARGET if code in (NON_TARGET, TARGET) else None
        for is_target, vector in features.feed(packet.samples[done:], tag):
            yield bool(is_target), vector
