"""A labelled recording in a report: the quality of its leads, and maps of the scalp by class.

A source that MNE can't read is converted by `bci-replay prepare` in a process of its own: the
leaderboard does not import `replay`, just as the judge starts replays and decoders as processes.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import is_trigger_name
from tracks.registry import TRACKS
from tracks.track import MapFacts

FLAT_UV: Final = 0.1
LARGE_UV: Final = 200.0
MAINS_HZ: Final = 50.0
LEAST_POSITIONS: Final = 8
PREPARE_TIMEOUT_S: Final = 600.0
Floats = NDArray[np.float64]
Moment = tuple[int, str]
"""(sample, class) of a stimulus."""


@dataclass(frozen=True, slots=True)
class RecordedLeadQuality:
    """Quality of a lead: standard deviation, share of mains power, share of large samples."""

    name: str
    spread_uv: float
    mains_share: float
    large_share: float

    @property
    def verdict(self) -> str:
        if self.spread_uv < FLAT_UV:
            return "flat"
        if self.large_share > 0.05:
            return "noisy"
        return "hum" if self.mains_share > 0.5 else "good"


def lead_quality(raw: Any) -> list[RecordedLeadQuality]:
    """One entry for each EEG or ECoG lead."""
    picks = mne.pick_types(raw.info, eeg=True, ecog=True, exclude=())
    data_uv = 1e6 * raw.get_data(picks=picks)
    rate = float(raw.info["sfreq"])
    names = [raw.ch_names[pick] for pick in picks]
    return [_quality(name, lead, rate) for name, lead in zip(names, data_uv, strict=True)]


def _quality(name: str, lead_uv: Floats, rate: float) -> RecordedLeadQuality:
    centred = lead_uv - np.median(lead_uv)
    power, frequencies = mne.time_frequency.psd_array_welch(
        centred,
        rate,
        fmin=1.0,
        fmax=rate / 2,
        n_fft=min(len(centred), int(2 * rate)),
        verbose="error",
    )
    mains = power[np.abs(frequencies - MAINS_HZ) <= 1.0].sum()
    share = float(mains / power.sum()) if power.sum() > 0 else 0.0
    return RecordedLeadQuality(
        name, float(centred.std()), share, float(np.mean(np.abs(centred) > LARGE_UV))
    )


def trigger_codes(raw: Any) -> list[tuple[int, int]]:
    """(sample, code) from a stimulus channel, else from annotations that are numbers."""
    stim = [n for n, k in zip(raw.ch_names, raw.get_channel_types(), strict=True) if k == "stim"]
    named = [name for name in raw.ch_names if is_trigger_name(name)]
    for name in (*stim, *named):
        codes = raw.get_data(picks=[name])[0].round().astype(int)
        starts = np.flatnonzero((codes != 0) & (np.diff(codes, prepend=0) != 0))
        return [(int(at), int(codes[at])) for at in starts]
    return [(at, int(text)) for at, text in _annotations(raw) if text.isdecimal()]


def _annotations(raw: Any) -> Iterator[Moment]:
    """(sample, text) of each annotation except those that mark bad data."""
    rate = float(raw.info["sfreq"])
    for onset, text in zip(raw.annotations.onset, raw.annotations.description, strict=True):
        if not str(text).upper().startswith(("BAD", "EDGE")):
            yield round((onset - raw.first_time) * rate), str(text)


def map_title(track: str) -> str:
    """The heading of a track's maps; empty for a track without maps."""
    facts = TRACKS[track].maps
    if facts is None:
        return ""
    first, last = facts.window_s
    if facts.band_hz is None:
        return f"mean amplitude {first:g}-{last:g} s after it (uV)"
    low, high = facts.band_hz
    return f"power {low:g}-{high:g} Hz, {first:g}-{last:g} s, against the mean of all (dB)"


def class_maps(raw: Any, track: str) -> tuple[Any, dict[str, Floats]] | None:
    """MNE info of the leads with a position, and for each class a value per lead; None if impossible."""
    facts = TRACKS[track].maps
    placed = place_leads(raw)
    if facts is None or placed is None:
        return None
    moments = list(facts.moments(trigger_codes(raw))) or list(_annotations(raw))
    values = _values(placed, facts, moments)
    if len(values) < 2:
        return None
    if facts.band_hz is None:
        return placed.info, values
    middle = np.mean(list(values.values()), axis=0)
    return placed.info, {name: value - middle for name, value in values.items()}


def _values(raw: Any, facts: MapFacts, moments: list[Moment]) -> dict[str, Floats]:
    rate = float(raw.info["sfreq"])
    data = 1e6 * raw.get_data()
    if facts.band_hz is not None:
        low, high = facts.band_hz
        data = mne.filter.filter_data(data, rate, low, min(high, 0.45 * rate), verbose="error") ** 2
    else:
        data = mne.filter.filter_data(data, rate, 0.5, min(20.0, 0.45 * rate), verbose="error")
    first, last = (round(s * rate) for s in facts.window_s)
    found: dict[str, list[Floats]] = {}
    for at, name in moments:
        window = data[:, at + first : at + last]
        if window.shape[1] > 0:
            found.setdefault(name, []).append(window.mean(axis=1))
    means = {name: np.mean(windows, axis=0) for name, windows in sorted(found.items())}
    if facts.band_hz is None:
        return means
    return {name: 10 * np.log10(np.maximum(value, 1e-12)) for name, value in means.items()}


def place_leads(raw: Any) -> Any | None:
    """The EEG leads with a position, from the file or by their 10-05 names; None if there are few."""
    eeg = raw.copy().pick("eeg", exclude=()) if "eeg" in raw else None
    if eeg is None:
        return None
    eeg.rename_channels(lambda name: name.strip(". "))  # EEGMMIDB has names like "Fc5."
    if eeg.get_montage() is None:
        montage = mne.channels.make_standard_montage(_montage_name())
        eeg.set_montage(montage, match_case=False, on_missing="ignore", verbose="error")
    known = [
        channel["ch_name"]
        for channel in eeg.info["chs"]
        if np.isfinite(channel["loc"][:3]).all() and channel["loc"][:3].any()
    ]
    return eeg.pick(known) if len(known) >= LEAST_POSITIONS else None


def _montage_name() -> str:
    """MNE's 10-05 montage, which MNE 1.13 renamed."""
    names = mne.channels.get_builtin_montages()
    return "colin27_1005" if "colin27_1005" in names else "standard_1005"


def read_labelled(source: str, track: str) -> Iterator[tuple[str, Any]]:
    """(name, MNE raw) of each subject; SourceError if the source can't be read."""
    path = Path(source)
    if path.suffix == ".npz" and path.is_file():
        yield path.name, read_contest_file(path)
        return
    raw = _read_with_mne(path) if path.exists() else None
    if raw is not None:
        yield path.name, raw
        return
    with TemporaryDirectory(prefix="bci-report-") as folder:
        for made in _prepare(source, track, Path(folder)):
            yield f"{path.name} {made.stem}", read_contest_file(made)


def _read_with_mne(path: Path) -> Any | None:
    try:
        return mne.io.read_raw(path, preload=True, verbose="error")
    except (OSError, ValueError, NotImplementedError, RuntimeError):
        return None


def _prepare(source: str, track: str, folder: Path) -> list[Path]:
    command = [sys.executable, "-P", "-m", "replay", "prepare", source, "--track", track]
    try:
        done = subprocess.run(
            [*command, "--out", str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PREPARE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{source} could not be read within {PREPARE_TIMEOUT_S:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        why = lines[-1].removeprefix("Error: ")
        raise SourceError(f"{source} can't be read as a labelled recording of {track}: {why}")
    return sorted((folder / "organiser").glob("*.npz"))


def read_contest_file(path: Path) -> Any:
    """A contest file (.npz) as MNE raw, with its triggers as a stimulus channel."""
    try:
        with np.load(path, allow_pickle=False) as file:
            data, rate = file["data"].astype(np.float64), float(file["rate"])
            leads, kinds = file["leads"].tolist(), file["kinds"].tolist()
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise SourceError(f"{path} can't be read as a contest file: {error}") from error
    data[:-1] *= 1e-6
    info = mne.create_info([*leads, "TRIGGER"], rate, [*map(str.lower, kinds), "stim"])
    return mne.io.RawArray(data, info, verbose="error")
