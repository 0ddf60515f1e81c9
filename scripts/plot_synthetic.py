"""Pictures of the synthetic recordings, one PNG a track, to be judged by eye.

python scripts/plot_synthetic.py [OUT_DIR] [--seed N] [--difficulty D] [--track T]
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import signal

from replay.model.recording import Recording
from replay.synthetic.registry import open_synthetic
from tracks.common.codes import TRIAL_END, TRIAL_START
from tracks.emotion import CLASSES as EMOTIONS
from tracks.emotion import CLIPS
from tracks.erp import CHARACTERS, GROUPS, TARGETS
from tracks.turing import SSVEP_HZ

Array = NDArray[np.float64]
TOPO_LEADS = ("Fp1", "Fp2", "F3", "F4", "C3", "Cz", "C4", "P3", "Pz", "P4", "O1", "Oz", "O2")
EOG_AND_ECG = ("VEOU", "VEOL", "HEOR", "ECG")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out_dir", nargs="?", type=Path, default=Path("plots"))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--difficulty", default="0.3")
    parser.add_argument("--track", choices=PICTURES)
    args = parser.parse_args()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for track, (params, contrast) in PICTURES.items():
        if args.track in (None, track):
            common = {"subjects": "1", "seed": args.seed, "difficulty": args.difficulty}
            source = open_synthetic(track, params | common)
            path = args.out_dir / f"synthetic_{track}.png"
            picture(next(source.sessions()), source.uri, contrast).savefig(path, dpi=70)
            plt.close("all")
            print(path)


def picture(
    session: Recording, title: str, contrast: Callable[[Recording, Axes, Axes], None]
) -> Figure:
    figure, axes = plt.subplots(2, 2, figsize=(18, 13), layout="constrained")
    figure.suptitle(f"{title}   {session.subject}")
    traces(session, axes[0, 0])
    spectra(session, axes[0, 1])
    contrast(session, axes[1, 0], axes[1, 1])
    return figure


def traces(session: Recording, axes: Axes, seconds: float = 12.0) -> None:
    """What a viewer of raw recordings shows, after a high pass of 0.5 Hz."""
    block = session.blocks[0]
    data = high_passed(session)
    n = int(seconds * session.rate)
    first = min(block.triggers[3][0], len(data) - n)
    names = shown_leads(session)
    for place, name in enumerate(names):
        scale = 600 if name == "ECG" else 250 if session.leads[0].kind == "ECOG" else 100
        row = data[first : first + n, lead(session, name)] / scale
        axes.plot(np.arange(len(row)) / session.rate, row - place, lw=0.5, color="black")
    for sample, code in block.triggers:
        if first <= sample < first + n:
            axes.axvline((sample - first) / session.rate, color="red", lw=0.5)
            axes.text((sample - first) / session.rate, 0.8, str(code), fontsize=6, color="red")
    axes.set(yticks=-np.arange(len(names)), yticklabels=names, xlabel="s", title="signal")


def spectra(session: Recording, axes: Axes) -> None:
    data = high_passed(session)
    for name in shown_leads(session):
        if name not in EOG_AND_ECG:
            f, power = signal.welch(
                data[:, lead(session, name)], session.rate, nperseg=int(4 * session.rate)
            )
            axes.loglog(f[2:], power[2:], lw=0.8, label=name)
    axes.set(xlabel="Hz", ylabel="uV^2/Hz", title="spectra")
    axes.legend(fontsize=6)


def mi_contrast(session: Recording, left: Axes, right: Axes) -> None:
    """Time course of mu at C3 and C4 for each class."""
    for axes, name in ((left, "C3"), (right, "C4")):
        envelope = np.concatenate(
            [envelope_of(session, number, name, (8, 13)) for number in range(len(session.blocks))]
        )
        for label, word in ((1, "left"), (2, "right"), (3, "feet")):
            starts = session_samples(session, [10 * label + 1])
            mean = epochs(envelope, starts, session.rate, -1.5, 6).mean(0)
            axes.plot(np.linspace(-1.5, 6, len(mean)), mean, label=word)
        axes.set(title=f"mu (8-13 Hz) power at {name}, imagery 0-4 s", xlabel="s")
        axes.legend()


def turing_contrast(session: Recording, left: Axes, right: Axes) -> None:
    """Averaged SSVEP at Oz; its spectrum."""
    data = np.concatenate([high_passed(session, number) for number in range(len(session.blocks))])
    oz = data[:, lead(session, "Oz")]
    for task, hz in SSVEP_HZ.items():
        starts = session_samples(session, [8 * behaviour + task for behaviour in range(1, 10)])
        mean = epochs(oz, starts, session.rate, -0.2, 5).mean(0)
        left.plot(
            np.linspace(-0.2, 1, int(1.2 * session.rate)),
            mean[: int(1.2 * session.rate)],
            label=f"{hz} Hz",
        )
        power = np.abs(np.fft.rfft(mean[int(0.5 * session.rate) :], 16384)) ** 2
        f = np.fft.rfftfreq(16384, 1 / session.rate)
        right.plot(
            f[(f > 10) & (f < 35)],
            power[(f > 10) & (f < 35)],
            label=f"{hz} Hz, {len(starts)} trials",
        )
    left.set(title="mean at Oz", xlabel="s")
    right.set(title="spectrum of the mean at Oz", xlabel="Hz")
    right.legend()


def emotion_contrast(session: Recording, left: Axes, right: Axes) -> None:
    """Each emotion's band power against the mean, over leads."""
    names = [one.name for one in session.leads]
    for axes, band in ((left, (8, 13)), (right, (30, 45))):
        rows = np.zeros((len(EMOTIONS), len(names)))
        counts = np.zeros(len(EMOTIONS))
        for number, block in enumerate(session.blocks):
            powers = 10 * np.log10(
                np.stack([envelope_of(session, number, name, band) for name in names], 1) + 1e-6
            )
            clip = start = 0
            for sample, code in block.triggers:
                if code in CLIPS:
                    clip = code
                elif code == TRIAL_START:
                    start = sample
                elif code == TRIAL_END:
                    rows[CLIPS[clip][1]] += powers[start:sample].mean(0)
                    counts[CLIPS[clip][1]] += 1
        rows /= np.maximum(counts, 1)[:, None]
        image = axes.imshow(rows - rows.mean(0), aspect="auto", cmap="RdBu_r", vmin=-4, vmax=4)
        axes.figure.colorbar(image, ax=axes, label="dB")
        axes.set(
            title=f"{band[0]}-{band[1]} Hz power against the mean of all",
            yticks=range(9),
            xticks=range(len(names)),
        )
        axes.set_yticklabels(EMOTIONS.values())
        axes.set_xticklabels(names, rotation=90, fontsize=6)


def ecog_contrast(session: Recording, left: Axes, right: Axes) -> None:
    """Joint angles; the correlation of each channel's high gamma with them."""
    assert session.angles is not None
    names = ["sho", "elb", "wri", "mcp", "hip", "kne", "ank", "mtp"]
    rows = slice(2000, 6000)
    for joint, name in enumerate(names):
        left.plot(np.arange(2000, 6000) / 200, session.angles[rows, joint], lw=0.8, label=name)
    left.set(title="angles", xlabel="s", ylabel="degrees")
    left.legend(fontsize=6)
    powers = np.stack([envelope_of(session, 0, one.name, (70, 150)) for one in session.leads], 1)
    powers = signal.lfilter([0.02], [1, -0.98], np.log(powers + 0.1), axis=0)[::5]
    angles = session.angles[: len(powers)]
    matrix = np.corrcoef(np.concatenate([powers, angles], 1).T)[
        : len(session.leads), len(session.leads) :
    ]
    image = right.imshow(matrix.T, aspect="auto", cmap="RdBu_r", vmin=-0.6, vmax=0.6)
    right.figure.colorbar(image, ax=right)
    right.set(title="correlation of high gamma and angle", yticks=range(8), xlabel="channel")
    right.set_yticklabels(names)


def erp_contrast(session: Recording, left: Axes, right: Axes) -> None:
    """Target and other flashes at Pz and PO8; the difference over all leads and times."""
    data = high_passed(session)
    target, other = flashes(session)
    for name, colour in (("Pz", "tab:blue"), ("PO8", "tab:green"), ("Cz", "tab:orange")):
        for starts, style in ((target, "-"), (other, ":")):
            mean = epochs(data[:, lead(session, name)], starts, session.rate, -0.1, 0.8).mean(0)
            left.plot(
                np.linspace(-100, 800, len(mean)),
                mean,
                style,
                color=colour,
                label=f"{name} {len(starts)}",
            )
    left.set(title="flashes: target (line), other (dots)", xlabel="ms", ylabel="uV")
    left.legend()
    names = [one.name for one in session.leads if one.kind == "EEG"]
    difference = np.stack(
        [
            epochs(data[:, lead(session, name)], target, session.rate, -0.1, 0.8).mean(0)
            - epochs(data[:, lead(session, name)], other, session.rate, -0.1, 0.8).mean(0)
            for name in names
        ]
    )
    image = right.imshow(
        difference, aspect="auto", cmap="RdBu_r", vmin=-8, vmax=8, extent=(-100, 800, len(names), 0)
    )
    right.figure.colorbar(image, ax=right, label="uV")
    right.set(title="target - other", xlabel="ms", yticks=np.arange(len(names)) + 0.5)
    right.set_yticklabels(names, fontsize=5)


def flashes(session: Recording) -> tuple[list[int], list[int]]:
    target: list[int] = []
    other: list[int] = []
    character = ""
    for sample, code in session.blocks[0].triggers:
        if code in TARGETS:
            character = CHARACTERS[code - TARGETS[0]]
        elif code in GROUPS:
            (target if character in GROUPS[code] else other).append(sample)
    return target, other


def shown_leads(session: Recording) -> list[str]:
    names = [one.name for one in session.leads]
    if session.leads[0].kind == "ECOG":
        return names[::3]
    return [name for name in (*TOPO_LEADS, *EOG_AND_ECG) if name in names]


def lead(session: Recording, name: str) -> int:
    return [one.name for one in session.leads].index(name)


def high_passed(session: Recording, block: int = 0) -> Array:
    data = session.blocks[block].read(0, session.blocks[block].n_samples)
    sos = signal.butter(2, 0.5, "high", fs=session.rate, output="sos")
    out: Array = signal.sosfiltfilt(sos, data, axis=0)
    return out


def envelope_of(session: Recording, block: int, name: str, band_hz: tuple[float, float]) -> Array:
    """Power of a band at a lead, smoothed over about 0.3 s."""
    data = session.blocks[block].read(0, session.blocks[block].n_samples)[:, lead(session, name)]
    sos = signal.butter(4, band_hz, "band", fs=session.rate, output="sos")
    narrow = signal.sosfiltfilt(sos, data - data[0])
    smooth = signal.butter(2, 3.0, "low", fs=session.rate, output="sos")
    out: Array = np.maximum(signal.sosfiltfilt(smooth, narrow**2), 0)
    return out


def session_samples(session: Recording, wanted: list[int]) -> list[int]:
    """Where triggers stand in all blocks laid end to end."""
    starts = np.cumsum([0] + [block.n_samples for block in session.blocks])
    return [
        int(start) + sample
        for start, block in zip(starts, session.blocks, strict=False)
        for sample, code in block.triggers
        if code in wanted
    ]


def epochs(row: Array, starts: list[int], rate: float, low_s: float, high_s: float) -> Array:
    steps = np.arange(round(low_s * rate), round(high_s * rate))
    return row[np.minimum(np.array(starts)[:, None] + steps, len(row) - 1)]


PICTURES: dict[str, tuple[dict[str, str], Callable[[Recording, Axes, Axes], None]]] = {
    "mi": ({}, mi_contrast),
    "turing": ({}, turing_contrast),
    "emotion": ({"pace": "0.3"}, emotion_contrast),
    "ecog": ({"blocks": "1", "trials": "2"}, ecog_contrast),
    "erp": ({}, erp_contrast),
}

if __name__ == "__main__":
    main()
