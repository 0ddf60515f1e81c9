"""Plot of a recording: signals, spectra, triggers, montage."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.files import atomic_write
from bci_stream.packet import Lead
from replay.model.options import SourceOptions
from replay.model.source import Session
from replay.sources import open_source
from replay.transform.leads import place
from tracks.common.codes import BLOCK_START, SESSION_START

MontagePlace = NDArray[np.float64]
"""x, y, z in metres."""

HORIZON = ("Fpz", "Oz", "T7", "T8")
"""Leads on the outline of the head in drawings of the 10-20 system."""
RADIUS_M = 0.095


def draw_montage(axes: Axes, leads: Sequence[Lead]) -> None:
    """Draw the positions of the leads; without positions, the standard ones for their names."""
    found = {lead.name: np.array(lead.position) for lead in leads if lead.position is not None}
    places = found or _by_name([lead.name for lead in leads])
    if not places:
        axes.text(0.5, 0.5, "no positions known", transform=axes.transAxes, ha="center")
        axes.set_axis_off()
        return
    shown = {name.strip(" ."): at for name, at in on_round_head(places).items()}
    info = mne.create_info(list(shown), 1.0, "eeg", verbose="error")
    montage = mne.channels.make_dig_montage(shown, coord_frame="head")
    info.set_montage(montage, verbose="error")
    mne.viz.plot_sensors(
        info,
        axes=axes,
        show_names=True,
        pointsize=9,
        linewidth=0,
        sphere=RADIUS_M,  # fitting one fails if all leads are at the back
        show=False,
        verbose="error",
    )
    assert isinstance(axes.figure, Figure)
    above = offset_copy(axes.transData, axes.figure, y=2.5, units="points")
    for text in axes.texts:
        text.set(fontsize=5.5, ha="center", va="bottom", transform=above)
        text.set_text(text.get_text().strip())
    axes.set_title("montage" if found else "montage (standard positions: the file has none)")


def on_round_head(places: Mapping[str, MontagePlace]) -> dict[str, MontagePlace]:
    """Positions scaled to a round head around the origin, level with Fpz, T7, Oz and T8.

    A head is longer than wide and MNE's frame is tilted, so leads of the forehead would be drawn outside it.
    Positions are shifted to the standard ones of their names, because many files have another origin.
    """
    standard = _standard()
    front, back, left, right = (standard[place(name)] for name in HORIZON)
    centre = (left + right) / 2
    ahead, aside = (front - back) / 2, (right - left) / 2
    up = np.cross(aside, ahead)
    up *= np.dot(standard[place("Cz")] - centre, up) / np.dot(up, up)
    onto_axes = np.linalg.inv(np.column_stack([aside, ahead, up]))
    named = _by_name(list(places))
    moved = [places[name] - at for name, at in named.items()]
    centre += np.median(moved, axis=0) if moved else 0.0
    return {name: RADIUS_M * onto_axes @ (at - centre) for name, at in places.items()}


def _by_name(names: Sequence[str]) -> dict[str, MontagePlace]:
    """Standard 10-05 positions of the leads that have such names."""
    standard = _standard()
    return {name: standard[place(name)] for name in names if place(name) in standard}


@cache
def _standard() -> dict[str, MontagePlace]:
    """Positions of the 10-05 system in MNE's head frame."""
    known = mne.channels.get_builtin_montages()
    name = "colin27_1005" if "colin27_1005" in known else "standard_1005"
    montage = mne.channels.make_standard_montage(name)
    info = mne.create_info(montage.ch_names, 1.0, "eeg", verbose="error")
    info.set_montage(montage, verbose="error")
    return {place(channel["ch_name"]): channel["loc"][:3] for channel in info["chs"]}


SHOWN_S = 10.0
SPECTRUM_S = 60.0
MAX_TRACES = 24
MAX_ROWS = 60
WIDTH_IN = 13.0
LETTER = 0.0085
"""Width of a character of a trigger code, as a fraction of the panel."""
TINY = 1e-12
"""Smallest power, so that its logarithm exists."""
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a lead may be called $1
}
DARK, RED = "#1f3b57", "#c0392b"


def plot_uri(uri: str, options: SourceOptions, path: Path) -> list[Path]:
    """Plot each session; the first to `path`, the others beside it with the subject in the name."""
    drawn: list[Path] = []
    with closing(open_source(uri, dataclasses.replace(options, nan="keep", as_is=True))) as source:
        if source.live:
            raise SourceError(f"{uri} is live: only a recording can be plotted; record it first")
        path.parent.mkdir(parents=True, exist_ok=True)
        for session in source.sessions():
            own = path.with_name(f"{path.stem}-{session.subject}.png") if drawn else path
            plot_session(session, own)
            drawn.append(own)
    return drawn


def plot_session(session: Session, path: Path) -> None:
    """Plot one session to a PNG."""
    with matplotlib.rc_context(STYLE):
        figure = draw_session(session)
        atomic_write(path, lambda file: figure.savefig(file, dpi=110, format="png"))


def draw_session(session: Session) -> Figure:
    """The figure of one session."""
    samples, first_s = _first_samples(session, max(SHOWN_S, SPECTRUM_S))
    n_rows = min(
        len({code for _, own in session.block_triggers() or () for _, code in own}), MAX_ROWS
    )
    heights = [3.4, 3.4, max(1.6, 0.6 + 0.13 * n_rows)]
    figure = Figure(figsize=(WIDTH_IN, sum(heights)), layout="constrained")
    axes: Any = figure.subplot_mosaic(
        [["signals", "spectra"], ["signals", "montage"], ["raster", "raster"]],
        height_ratios=heights,
        width_ratios=[1.7, 1],
    )
    figure.suptitle(
        f"{session.subject}: {len(session.leads)} leads, {session.rate:g} Hz, "
        f"{(session.n_samples or 0) / session.rate:.1f} s"
    )
    _signals(axes["signals"], session, samples, first_s)
    _spectra(axes["spectra"], session, samples)
    _raster(axes["raster"], session)
    draw_montage(axes["montage"], session.leads)
    return figure


def _first_samples(session: Session, seconds: float) -> tuple[NDArray[np.float32], float]:
    """Samples from one second before the first trigger of a trial, and their start in seconds."""
    start = 0
    first_block = next(iter(session.block_triggers() or ()), (0, ()))
    codes = [sample for sample, code in first_block[1] if code not in (BLOCK_START, SESSION_START)]
    if codes:
        start = max(0, codes[0] - round(session.rate))
    wanted = round(seconds * session.rate)
    pieces: list[NDArray[np.float32]] = []
    for packet in session.packets(max(1, round(session.rate))):
        if packet.block > 0 or sum(len(piece) for piece in pieces) >= wanted:
            break
        if packet.start + len(packet.samples) > start:
            pieces.append(packet.samples[max(0, start - packet.start) :])
    stretch = np.concatenate(pieces)[:wanted]
    return np.nan_to_num(stretch, posinf=0.0, neginf=0.0), start / session.rate


def _signals(axes: Axes, session: Session, samples: NDArray[np.float32], first_s: float) -> None:
    raw = samples[: round(SHOWN_S * session.rate), :MAX_TRACES]
    shown = raw - np.median(raw, axis=0)
    spread = np.percentile(np.abs(shown), 95, axis=0)
    step = 2.5 * float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    seconds = first_s + np.arange(len(shown)) / session.rate
    offsets = -step * np.arange(shown.shape[1])
    axes.plot(seconds, np.clip(shown, -2 * step, 2 * step) + offsets, lw=0.5, color=DARK)
    axes.set_yticks(offsets, [lead.name for lead in session.leads[:MAX_TRACES]])
    axes.margins(y=0.02)
    axes.set_xlim(seconds[0], seconds[-1])
    triggers = next(iter(session.block_triggers() or ()), (0, ()))[1]
    places = [(sample / session.rate, str(code)) for sample, code in triggers]
    _mark(axes, [mark for mark in places if seconds[0] <= mark[0] <= seconds[-1]])
    some = f"first {MAX_TRACES} of {len(session.leads)} leads, "
    which = some if len(session.leads) > MAX_TRACES else ""
    axes.set_title(f"signals ({which}{step:.3g} microvolts a line)", pad=14)
    axes.set_xlabel("s")


def _mark(axes: Axes, marks: Sequence[tuple[float, str]]) -> None:
    """A line at each trigger, with its code above the panel if there is room."""
    left, right = axes.get_xlim()
    free_from = -np.inf
    for at, code in marks:
        axes.axvline(at, color=RED, lw=0.6, alpha=0.7)
        half = (len(code) + 1) * LETTER * (right - left) / 2
        if at - half >= free_from:
            axes.text(
                at, 1.005, code, transform=axes.get_xaxis_transform(),
                color=RED, ha="center", va="bottom", fontsize=6,
            )  # fmt: skip
            free_from = at + half


def _spectra(axes: Axes, session: Session, samples: NDArray[np.float32]) -> None:
    changing = samples[:, np.ptp(samples, axis=0) > 0]
    n_flat = samples.shape[1] - changing.shape[1]
    flat = f", {n_flat} flat lead{'s' if n_flat > 1 else ''} not drawn" if n_flat else ""
    axes.set_title(f"spectra (red: median{flat})", pad=14)
    axes.set(xlabel="Hz", ylabel="dB re 1 microvolt²/Hz")
    axes.set_xlim(0, min(100, session.rate / 2))
    if not changing.size:
        return
    window = min(len(samples), round(4 * session.rate))
    power, hertz = mne.time_frequency.psd_array_welch(
        changing.T.astype(np.float64), session.rate, fmin=0.5, n_fft=window, verbose="error"
    )
    seen = hertz <= axes.get_xlim()[1]  # the stop band of a filter would compress the rest
    decibels = 10 * np.log10(np.maximum(power[:, seen], TINY))
    axes.plot(hertz[seen], decibels.T, lw=0.4, color=DARK, alpha=0.5)
    axes.plot(hertz[seen], np.median(decibels, axis=0), lw=1.4, color=RED)


def _raster(axes: Axes, session: Session) -> None:
    offset, places, codes = 0, [], []
    for n_samples, triggers in session.block_triggers() or ():
        if offset:
            axes.axvline(offset / session.rate, color="#999999", lw=0.8, ls=":")
        places += [(offset + sample) / session.rate for sample, _ in triggers]
        codes += [code for _, code in triggers]
        offset += n_samples
    kinds = sorted(set(codes))
    rows = {code: row for row, code in enumerate(kinds)}
    axes.scatter(places, [rows[code] for code in codes], marker="|", s=45, color=RED, lw=0.8)
    step = -(-len(kinds) // MAX_ROWS) or 1
    axes.set_yticks(range(0, len(kinds), step), [str(code) for code in kinds[::step]])
    axes.set(title="triggers (dotted: a block begins)", xlabel="s")
    # Margins, so that the first sample and the lowest code are not hidden by the frame.
    axes.set_xlim(-0.005 * offset / session.rate, 1.005 * offset / session.rate)
    axes.set_ylim(-0.6, len(kinds) - 0.4)
    if not codes:
        axes.text(0.5, 0.5, "no triggers", transform=axes.transAxes, ha="center")
