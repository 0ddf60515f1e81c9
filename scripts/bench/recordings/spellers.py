"""Recordings of spellers for the decoders' benchmark: npz files of labelled flashes.

`data` (leads + trigger, samples), `rate`, `ch_names`; with `groups` it is a run in the track's codes,
without them its triggers are 1 non-target, 2 target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bci_stream.packet import Lead, SignalInfo, Triggers
from decoders.dsp import Array
from decoders.erp.flashes import choose_leads, features_of, labelled_flashes
from decoders.erp.noise import SpellerSignal
from decoders.erp.response import RESPONSE_S, TrialSums
from decoders.erp.stopping import SpellerLayout
from replay.model.options import SourceOptions
from replay.model.recording import ArrayBlock, Recording
from replay.sources import open_source
from scripts.bench.recordings.files import NotThisLayoutError
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, SEQUENCE_END, TARGETS

PAUSE_S = 3.0
NON_TARGET, TARGET = 1, 2
ROWS_AND_COLUMNS = (
    *("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_"),
    *("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_"),
)
SYNTHETIC = "synthetic:erp?subjects=4&seed=31&difficulty=0.4&set=test&trials=16"


@dataclass(frozen=True)
class Speller:
    """A labelled recording and its groups (None: its triggers are 1 non-target, 2 target)."""

    name: str
    recording: Recording
    groups: tuple[str, ...]
    synthetic: bool = False

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
    if groups is None:
        triggers, groups = tuple(with_groups(triggers, rate)), ROWS_AND_COLUMNS
    block = ArrayBlock(np.ascontiguousarray(data[:-1].T, dtype=np.float32), triggers)
    leads = tuple(Lead(name) for name in names[:-1])
    speller = Speller(path.stem, Recording(path.stem, rate, leads, [block]), groups)
    _check(speller)
    return speller


def _check(speller: Speller) -> None:
    codes = [code for _, code in speller.triggers]
    SpellerLayout(speller.groups)  # raises where it is none
    if n_letters(speller) < 2 or SEQUENCE_END not in codes:
        raise NotThisLayoutError("fewer than 2 letters, or no sequence end (200)")


def n_letters(speller: Speller) -> int:
    return sum(code in TARGETS for _, code in speller.triggers)


def labels_of(speller: Speller) -> list[int]:
    """The place of each trial's character in the layout."""
    characters = SpellerLayout(speller.groups).characters
    codes = [code for _, code in speller.triggers if code in TARGETS]
    return [characters.index(CHARACTERS[code - FIRST_TARGET]) for code in codes]


def with_groups(triggers: Triggers, rate: float, seed: int = 0) -> list[tuple[int, int]]:
    """The triggers of a speller in the track's codes, from 1 (non-target) and 2 (target).

    In such recordings each sequence of 12 flashes has two targets, and which others flash is random:
    so each trial is given a character, and its flashes groups that agree with it. A pause longer
    than PAUSE_S ends a trial. Raises NotThisLayoutError where sequences are of another kind.
    """
    rng = np.random.default_rng(seed)
    flashes = [(place, code) for place, code in triggers if code in (NON_TARGET, TARGET)]
    size = len(ROWS_AND_COLUMNS)
    coded: list[tuple[int, int]] = [(0, 242)]
    character, ended = -1, -np.inf
    for start in range(0, len(flashes) - size + 1, size):
        sequence = flashes[start : start + size]
        if sum(code == TARGET for _, code in sequence) != 2:
            raise NotThisLayoutError("sequences of 12 flashes without exactly two targets (2)")
        if sequence[0][0] - ended > PAUSE_S * rate:
            if character >= 0:
                coded.append((int(ended + rate), TRIAL_END))
            character = int(rng.integers(len(CHARACTERS)))
            coded.append((sequence[0][0] - 1, FIRST_TARGET + character))
        own = [CHARACTERS[character] in group for group in ROWS_AND_COLUMNS]
        left = {
            kind: rng.permutation(np.flatnonzero(np.array(own) == kind)) for kind in (True, False)
        }
        taken = {True: 0, False: 0}
        for place, code in sequence:
            kind = code == TARGET
            coded.append((place, int(left[kind][taken[kind]]) + 1))
            taken[kind] += 1
        ended = sequence[-1][0]
        coded.append((int(ended) + 2, SEQUENCE_END))
    return [*coded, (int(ended + rate), TRIAL_END)]


def synthetic_spellers() -> list[Speller]:
    """People of our generator."""
    source = open_source(SYNTHETIC, SourceOptions(track="erp"))
    found = []
    for session in source.sessions():
        packets = list(session.packets(round(session.rate)))
        samples = np.concatenate([packet.samples[:, : len(session.leads)] for packet in packets])
        begins = np.cumsum([0] + [len(packet.samples) for packet in packets])
        triggers = tuple(
            (int(begin) + offset, code)
            for begin, packet in zip(begins, packets, strict=False)
            for offset, code in packet.triggers
        )
        places = choose_leads(session.leads)
        block = ArrayBlock(np.ascontiguousarray(samples[:, places]), triggers)
        leads = tuple(session.leads[place] for place in places)
        recording = Recording(session.subject, session.rate, leads, [block])
        groups = SpellerLayout().groups
        found.append(Speller(f"synthetic {session.subject}", recording, groups, synthetic=True))
    source.close()
    return found


def flash_sums(speller: Speller) -> Iterator[tuple[list[bool], TrialSums]]:
    """Of each trial: whether each flash is a target, and the sums with each flash as a group."""
    recording, layout = speller.recording, SpellerLayout(speller.groups)
    info = SignalInfo("erp", recording.subject, recording.rate, recording.leads, packet_samples=1)
    signal = SpellerSignal(info, RESPONSE_S)
    done, number, character = 0, 0, ""
    labels: list[bool] = []
    sums: TrialSums | None = None
    samples = recording.blocks[0].read(0, recording.blocks[0].n_samples)
    most = max_flashes(speller)
    flash: int | None = None
    for place, code in [*speller.triggers, (len(samples), FIRST_TARGET)]:
        grid = signal.feed(samples[done:place], flash)
        if sums is not None:
            sums.add(grid)
        done, flash = place, None
        if code in TARGETS:
            if sums is not None:
                sums.update()
                yield labels, sums.only(number)
            character, labels, number = CHARACTERS[code - FIRST_TARGET], [], 0
            sums = TrialSums(most, len(signal.places))
        elif 1 <= code <= len(layout.groups) and sums is not None:
            flash, number = number, number + 1
            labels.append(character in layout.groups[code - 1])


def max_flashes(speller: Speller) -> int:
    """The largest number of flashes in a trial."""
    counts = [0]
    for _, code in speller.triggers:
        if code in TARGETS:
            counts.append(0)
        counts[-1] += 1 <= code <= len(speller.groups)
    return max(counts)


def flashes_of(speller: Speller) -> Iterator[tuple[bool, Array, tuple[str, ...]]]:
    """(it was a target, features, leads), flash by flash."""
    features = features_of(speller.recording)
    layout = SpellerLayout(speller.groups)
    for is_target, vector in labelled_flashes(speller.recording, features, layout):
        yield is_target, vector, features.lead_names
