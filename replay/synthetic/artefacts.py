"""Artefacts of a recording: eyes, heart, muscles, mains, electrodes."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray
from replay.synthetic.head import Head, Vectors, position_of
from replay.synthetic.noise import Activity, activities_of, between, noise
from replay.synthetic.subject import Subject

MAINS_HZ = 50.0


def eyes(subject: Subject, head: Head, block: int, n: int, rate: float) -> list[Activity]:
    """Blinks and saccades."""
    rng = subject.session_rng("eyes", block)
    person = subject.person_rng("eyes")
    blink_uv, per_minute = person.uniform(70, 140), person.uniform(6, 18)
    across_uv, up_uv = person.uniform(10, 30), person.uniform(5, 15)
    return [
        Activity(head.eyes((0.0, 0.35, 1.0), "Fp1"), blink_uv * _blinks(rng, n, rate, per_minute)),
        Activity(head.eyes((1.0, 0.0, 0.0), "HEOR"), across_uv * _gaze(rng, n, rate)),
        Activity(head.eyes((0.0, 0.0, 1.0), "VEOU"), up_uv * _gaze(rng, n, rate)),
    ]


def heart(subject: Subject, leads: tuple[str, ...], block: int, n: int, rate: float) -> Activity:
    """P wave, QRS complex and T wave on the ECG lead, weakly on the others."""
    rng = subject.session_rng("heart", block)
    person = subject.person_rng("heart")
    beat_s, r_wave_uv = person.uniform(0.75, 1.0), person.uniform(600, 1200)
    leak = person.normal(0, 0.0015, len(leads))
    row = np.where([lead == "ECG" for lead in leads], 1.0, leak)
    count = int(n / rate / beat_s * 1.3) + 2
    beats_s = np.cumsum(beat_s * (1 + 0.05 * rng.standard_normal(count))) - beat_s
    t = np.arange(-0.25, 0.45, 1 / rate)
    waves = ((0.12, -0.17, 0.025), (-0.1, -0.025, 0.008), (1.0, 0.0, 0.01), (-0.2, 0.025, 0.01))
    wave = sum(a * np.exp(-0.5 * ((t - at) / w) ** 2) for a, at, w in (*waves, (0.28, 0.25, 0.05)))
    return Activity(row, _placed(np.asarray(r_wave_uv * wave), beats_s - 0.25, n, rate))


def muscles(subject: Subject, head: Head, block: int, n: int, rate: float) -> list[Activity]:
    """Bursts of the temples' muscles, now and then."""
    rng = subject.session_rng("muscles", block)
    rows = np.stack([_near(head.leads, temple) for temple in ("FT7", "FT8")])
    hum = noise(rng, 2, n, rate, between(25, 0.45 * rate))
    for row in hum:
        row *= _bursts(rng, n, rate, per_minute=1.5) * rng.uniform(4, 12)
    return activities_of(rows, hum)


def mains(
    subject: Subject, leads: tuple[str, ...], block: int, n: int, rate: float, level_uv: float
) -> list[Activity]:
    """Line noise with its harmonics up to half the rate; each lead picks up its own share."""
    rng = subject.session_rng("mains", block)
    person = subject.person_rng("mains")
    t = np.arange(n) / rate
    line_hz = MAINS_HZ + rng.normal(0, 0.02)
    out = []
    for harmonic, share in ((1, 1.0), (2, 0.15), (3, 0.3)):
        rows = share * level_uv * (0.6 + 0.5 * person.standard_normal((2, len(leads))))
        if harmonic * MAINS_HZ < rate / 2:
            angle = 2 * np.pi * harmonic * line_hz * t + rng.uniform(0, 2 * np.pi)
            swell = 1 + 0.2 * np.sin(2 * np.pi * rng.uniform(0.02, 0.1) * t)
            waves = np.stack([np.cos(angle), np.sin(angle)]) * swell
            out += activities_of(rows, waves.astype(np.float32))
    return out


def add_pops(
    subject: Subject, block: int, data: FloatArray, rate: float, per_minute: float
) -> None:
    """Add electrode pops, steps that decay exponentially, to data (n, leads) in place."""
    rng = subject.session_rng("pops", block)
    n, leads = data.shape
    for _ in range(rng.poisson(per_minute * n / rate / 60)):
        start, lead = int(rng.integers(n)), int(rng.integers(leads))
        fade_s = rng.uniform(0.2, 0.8)
        t = np.arange(min(n - start, int(5 * fade_s * rate))) / rate
        height_uv = rng.choice([-1, 1]) * rng.uniform(40, 250)
        data[start : start + len(t), lead] += (height_uv * np.exp(-t / fade_s)).astype(np.float32)


def flat_leads(subject: Subject, count: int, probability: float = 0.005) -> NDArray[np.int64]:
    """Places of the leads that recorded nothing in this set; mostly none."""
    return np.flatnonzero(subject.session_rng("flat leads").random(count) < probability)


def _blinks(rng: np.random.Generator, n: int, rate: float, per_minute: float) -> FloatArray:
    gaps_s = 0.6 + rng.exponential(60 / per_minute - 0.6, int(n / rate / 60 * per_minute * 2) + 5)
    t = np.arange(0, 0.5, 1 / rate)
    lid = np.where(t < 0.1, np.sin(np.pi / 2 * t / 0.1) ** 2, np.exp(-(((t - 0.1) / 0.1) ** 2)))
    return _placed(lid, np.cumsum(gaps_s), n, rate)


def _gaze(rng: np.random.Generator, n: int, rate: float) -> FloatArray:
    """Steps every second or so, in the shape of a saccade of 40 ms, drawn back to the middle."""
    count = int(n / rate * 2) + 5
    times = np.cumsum(rng.gamma(3, 0.4, count))
    places = rng.standard_normal(count)
    corners = np.sort(np.concatenate([times, times + 0.04]))
    values = np.repeat(places, 2)
    return np.interp(np.arange(n) / rate, corners[:-1], values[1:]).astype(np.float32)


def _bursts(rng: np.random.Generator, n: int, rate: float, per_minute: float) -> FloatArray:
    on = np.zeros(n, np.float32)
    for start in rng.uniform(0, n, rng.poisson(per_minute * n / rate / 60)):
        length = int(rng.uniform(0.4, 1.5) * rate)
        shape = np.hanning(length).astype(np.float32)[: n - int(start)]
        on[int(start) : int(start) + len(shape)] += shape
    return on


def _placed(wave: Vectors, starts_s: Vectors, n: int, rate: float) -> FloatArray:
    """A wave that begins at each of these times, cut off at the block's ends."""
    margin = len(wave)
    out = np.zeros(n + 2 * margin, np.float32)
    for start in np.round(starts_s * rate).astype(np.int64) + margin:
        if 0 <= start < n + margin:
            out[start : start + margin] += wave
    return out[margin : margin + n]


def _near(leads: tuple[str, ...], place: str, reach_m: float = 0.03) -> Vectors:
    """(leads,): weight of a source on the scalp at a place, falling with the distance."""
    at = np.array(position_of(place))
    row = np.zeros(len(leads))
    for i, lead in enumerate(leads):
        there = position_of(lead)
        if there is not None:
            row[i] = np.exp(-0.5 * (np.linalg.norm(np.array(there) - at) / reach_m) ** 2)
    return row
