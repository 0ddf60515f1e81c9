"""A picture of a recording: signals, spectra, trigger raster, montage."""

import dataclasses
from pathlib import Path
from typing import Any

import matplotlib
import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.options import SourceOptions
from replay.source import Session
from replay.uri import open_source

SHOWN_S = 10.0
SPECTRUM_S = 60.0
MAX_TRACES = 24
HEAD_M = 0.095


def plot_uri(uri: str, options: SourceOptions, path: Path) -> list[Path]:
    """Draw each session; the first as `path`, the others beside it under their subjects' names."""
    source = open_source(uri, dataclasses.replace(options, nan="keep", as_is=True))
    if source.live:
        raise SourceError(f"{uri} is live: only a recording can be drawn; record it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    for session in source.sessions():
        own = path.with_name(f"{path.stem}-{session.subject}.png") if drawn else path
        plot_session(session, own)
        drawn.append(own)
    source.close()
    return drawn


def plot_session(session: Session, path: Path) -> None:
    """Draw one session as a PNG."""
    samples, first_s = _stretch(session, max(SHOWN_S, SPECTRUM_S))
    with matplotlib.rc_context(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(13, 9), layout="constrained")
        axes: Any = figure.subplot_mosaic(
            [["signals", "signals", "spectra"], ["signals", "signals", "montage"], ["raster"] * 3],
            height_ratios=[3, 3, 2],
        )
        figure.suptitle(
            f"{session.subject}: {len(session.leads)} leads, {session.rate:g} Hz, "
            f"{(session.n_samples or 0) / session.rate:.1f} s"
        )
        _signals(axes["signals"], session, samples, first_s)
        _spectra(axes["spectra"], session, samples)
        _raster(axes["raster"], session)
        _montage(axes["montage"], session)
        figure.savefig(path, dpi=110, format="png")


def _stretch(session: Session, seconds: float) -> tuple[NDArray[np.float32], float]:
    """Samples from one second before the first trigger of a trial on, and where they begin."""
    start = 0
    first_block = next(iter(session.block_triggers() or ()), (0, ()))
    codes = [sample for sample, code in first_block[1] if code not in (242, 250)]
    if codes:
        start = max(0, codes[0] - round(session.rate))
    wanted = round(seconds * session.rate)
    pieces: list[NDArray[np.float32]] = []
    for packet in session.packets(max(1, round(session.rate))):
        if packet.block > 0 or sum(len(piece) for piece in pieces) >= wanted:
            break
        if packet.start + len(packet.samples) > start:
            pieces.append(packet.samples[max(0, start - packet.start) :])
    return np.nan_to_num(np.concatenate(pieces))[:wanted], start / session.rate


def _signals(axes: Axes, session: Session, samples: NDArray[np.float32], first_s: float) -> None:
    raw = samples[: round(SHOWN_S * session.rate), :MAX_TRACES]
    shown = raw - np.median(raw, axis=0)
    spread = np.percentile(np.abs(shown), 95, axis=0)
    step = 2.5 * float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    seconds = first_s + np.arange(len(shown)) / session.rate
    offsets = -step * np.arange(shown.shape[1])
    axes.plot(seconds, np.clip(shown, -2 * step, 2 * step) + offsets, lw=0.5, color="#1f3b57")
    axes.set_yticks(offsets, [lead.name for lead in session.leads[:MAX_TRACES]])
    triggers = next(iter(session.block_triggers() or ()), (0, ()))[1]
    for sample, code in triggers:
        if seconds[0] <= sample / session.rate <= seconds[-1]:
            axes.axvline(sample / session.rate, color="#c0392b", lw=0.6, alpha=0.7)
            axes.text(
                sample / session.rate, step, str(code), color="#c0392b", ha="center", fontsize=6
            )
    axes.set(
        title=f"signals ({step:.3g} microvolts a line)", xlabel="s", xlim=(seconds[0], seconds[-1])
    )


def _spectra(axes: Axes, session: Session, samples: NDArray[np.float32]) -> None:
    window = min(len(samples), round(4 * session.rate))
    power, hertz = mne.time_frequency.psd_array_welch(
        samples.T.astype(np.float64), session.rate, fmin=0.5, n_fft=window, verbose="error"
    )
    decibels = 10 * np.log10(np.maximum(power, 1e-12))
    axes.plot(hertz, decibels.T, lw=0.4, color="#1f3b57", alpha=0.5)
    axes.plot(hertz, np.median(decibels, axis=0), lw=1.4, color="#c0392b")
    axes.set(title="spectra (red: median)", xlabel="Hz", ylabel="dB re 1 microvolt²/Hz")
    axes.set_xlim(0, min(100, session.rate / 2))


def _raster(axes: Axes, session: Session) -> None:
    offset, places, codes = 0, [], []
    for n_samples, triggers in session.block_triggers() or ():
        axes.axvline(offset / session.rate, color="#999999", lw=0.8, ls=":")
        places += [(offset + sample) / session.rate for sample, _ in triggers]
        codes += [code for _, code in triggers]
        offset += n_samples
    kinds = sorted(set(codes))
    rows = [kinds.index(code) for code in codes]
    axes.scatter(places, rows, marker="|", s=60, color="#c0392b", lw=0.8)
    step = -(-len(kinds) // 14) or 1
    axes.set_yticks(range(0, len(kinds), step), [str(code) for code in kinds[::step]])
    axes.set(title="triggers (dotted: a block begins)", xlabel="s", xlim=(0, offset / session.rate))
    if not codes:
        axes.text(0.5, 0.5, "no triggers", transform=axes.transAxes, ha="center")


def _montage(axes: Axes, session: Session) -> None:
    places = {lead.name: lead.position for lead in session.leads if lead.position is not None}
    title = "montage"
    if not places:
        places, title = _template(session), "montage (standard positions: the file has none)"
    if not places:
        axes.text(0.5, 0.5, "no positions known", transform=axes.transAxes, ha="center")
        axes.set_axis_off()
        return
    info = mne.create_info(list(places), session.rate, "eeg", verbose="error")
    montage = mne.channels.make_dig_montage(places, coord_frame="head")
    info.set_montage(montage, on_missing="ignore", verbose="error")
    mne.viz.plot_sensors(
        info,
        axes=axes,
        show_names=True,
        pointsize=12,
        sphere=HEAD_M,  # MNE would fit one, which fails where all leads are at the back
        show=False,
        verbose="error",
    )
    for text in axes.texts:
        text.set_fontsize(6)
    axes.set_title(title)


def _template(session: Session) -> dict[str, tuple[float, float, float]]:
    """Standard 10-05 positions of the leads that have such names."""
    known = mne.channels.get_builtin_montages()
    name = "colin27_1005" if "colin27_1005" in known else "standard_1005"
    positions = mne.channels.make_standard_montage(name).get_positions()["ch_pos"]
    by_name = {key.upper(): tuple(map(float, value)) for key, value in positions.items()}
    found = {lead.name: by_name.get(lead.name.upper().strip(" .")) for lead in session.leads}
    return {lead: (p[0], p[1], p[2]) for lead, p in found.items() if p is not None}
