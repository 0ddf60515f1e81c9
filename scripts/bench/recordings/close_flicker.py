"""Flicker of 15.4 to 15.7 Hz with a common phase, simulated from recorded responses.

A recording of such flicker is not at hand. So a person's recorded response (its strength, its pattern
over the leads, its harmonics and how its size varies between trials) is moved to the track's
frequencies, locked in phase to the stimulus, and added to the person's recorded rest. Two rows a
time: the decoder, which learns without labels, and an observer who is given the person's response and
the mean covariance of the noise. For stationary normal noise no decoder is better than that observer;
recorded rest is not quite that, so the decoder can be a little above it.

What this can't show: how well a real response keeps its phase, since in these recordings the flicker
ran freely. A person has 16 rests, which return (reversed in time or sign) in several trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoders.dsp import Array, ComplexArray
from decoders.dsp.filters import CausalFilter, highpass, notch
from decoders.dsp.leads import OCCIPITAL, leads_over
from decoders.turing.decoder import HIGHPASS_HZ, MAINS_HZ
from decoders.turing.ssvep import HARMONICS, NarrowbandNoise, SsvepDetector
from replay.model.recording import Recording
from scripts.bench.table import Row, mean, row_of
from tracks.turing import SSVEP_HZ, TASK_S

HZ = np.array(list(SSVEP_HZ.values()))
TIMES_S = (1.0, 2.0, 3.0, 4.0, 4.96)
LEARNED, JUDGED = 20, 60
"""Trials that the decoder learns from before those that are judged; it goes on learning."""
LATENCY_S = 0.14
ONSET_S = 0.1
BOUND = "known response and noise"


@dataclass(frozen=True)
class FlickerPerson:
    """rests: (samples, leads) each, filtered. response (harmonics, leads): complex amplitudes in
    microvolts; sizes: of single trials, relative to it. noise (harmonics, leads, leads)."""

    rate: float
    rests: Sequence[Array]
    response: ComplexArray
    sizes: Array
    noise: Array


@dataclass(frozen=True)
class CloseTrial:
    """A simulated trial: which frequency, and the pause and the flicker (samples, leads)."""

    which: int
    pause: Array
    flicker: Array


def close_flicker_rows(people: Sequence[Recording], hz_of_task: dict[int, float]) -> list[Row]:
    """Rows of the decoder and of the bound at each of TIMES_S; tasks without a frequency are rest."""
    simulated = [flicker_person(person, hz_of_task) for person in people]
    found = [judge(person, seed) for seed, person in enumerate(simulated)]
    rows = []
    for number, time_s in enumerate(TIMES_S):
        for method, right in (("turing-phase", 0), (BOUND, 1)):
            rows.append(
                row_of(
                    [float(one[right, :, number].mean()) for one in found],
                    mean,
                    "people",
                    track="turing",
                    data=f"15.4-15.7 Hz simulated from {len(people)} people",
                    method=method,
                    ours=method == "turing-phase",
                    measure=f"right of 4 close frequencies at {time_s} s",
                    n=JUDGED * len(people),
                    note=f"after {LEARNED} trials without labels; chance is 0.25",
                )
            )
    return rows


def flicker_person(person: Recording, hz_of_task: dict[int, float]) -> FlickerPerson:
    """Rests, response and noise of a person's recording."""
    rate, places = person.rate, leads_over(OCCIPITAL, person.leads)
    n = int(TASK_S * rate)
    base = float(np.median(list(hz_of_task.values())))
    noise = NarrowbandNoise(HZ.mean() * np.arange(1, HARMONICS + 1), rate, len(places))
    rests, amplitudes = [], []
    for block in person.blocks:
        raw = block.read(0, block.n_samples)[:, places].astype(np.float64)
        sections = np.concatenate([highpass(HIGHPASS_HZ, rate, 2), notch(MAINS_HZ, rate)])
        x = CausalFilter(sections, len(places)).step(raw)
        noise.push(x)
        for at, code in block.triggers:
            trial = x[at : at + n]
            hz = hz_of_task.get(code % 8)
            if len(trial) < n or code < 8 or code >= 80:
                continue
            if hz is None:
                rests.append(trial)
            elif hz == base:
                amplitudes.append(fourier(trial[int(rate) :], hz, rate) * 2)
    response, sizes = common_response(np.array(amplitudes))
    return FlickerPerson(rate, rests, response, sizes, noise.covariance())


def fourier(x: Array, hz: float, rate: float) -> ComplexArray:
    """(harmonics, leads): mean of x(t) exp(-2 pi i h f t)."""
    t = np.arange(len(x)) / rate
    waves = np.exp(-2j * np.pi * hz * np.arange(1, HARMONICS + 1)[:, None] * t)
    return np.asarray(waves @ x / len(x))


def common_response(amplitudes: ComplexArray) -> tuple[ComplexArray, Array]:
    """The response that trials (trials, harmonics, leads) have in common, each turned in time as it
    fits, and the size of each trial's."""
    turns = np.exp(1j * np.linspace(0, 2 * np.pi, 73)[:-1, None] * np.arange(1, HARMONICS + 1))
    turned = amplitudes
    response = amplitudes[0]
    for _ in range(10):
        tried = amplitudes[:, None] * turns[..., None]  # trials, turns, harmonics, leads
        fit = np.sum(tried * response.conj(), axis=(2, 3)).real
        turned = tried[np.arange(len(tried)), fit.argmax(axis=1)]
        response = turned.mean(axis=0)
    sizes = np.sum(turned * response.conj(), axis=(1, 2)).real / np.sum(np.abs(response) ** 2)
    return response, np.maximum(sizes, 0.0)


def judge(person: FlickerPerson, seed: int) -> Array:
    """(2, trials, times): whether the decoder and the observer were right."""
    rng = np.random.default_rng(seed)
    detector = SsvepDetector(list(HZ), person.rate, person.noise.shape[-1])
    right = np.zeros((2, LEARNED + JUDGED, len(TIMES_S)))
    for number in range(LEARNED + JUDGED):
        trial = draw(person, rng)
        right[0, number] = _decide(detector, trial, person.rate)
        right[1, number] = [
            _observe(person, trial.flicker[: int(t * person.rate)]) == trial.which for t in TIMES_S
        ]
    return right[:, LEARNED:]


def draw(person: FlickerPerson, rng: np.random.Generator) -> CloseTrial:
    """A trial: recorded rest (sometimes reversed in time or sign), with a response added."""
    which = int(rng.integers(len(HZ)))
    pause, background = (
        person.rests[int(rng.integers(len(person.rests)))][:: rng.choice((-1, 1))]
        * rng.choice((-1, 1))
        for _ in range(2)
    )
    size = float(rng.choice(person.sizes))
    return CloseTrial(which, pause, background + size * wave(person, HZ[which], len(background)))


def wave(person: FlickerPerson, hz: float, n: int) -> Array:
    """(n, leads): the response to a stimulus of this frequency that begins at time 0."""
    t = np.arange(n) / person.rate - LATENCY_S
    waves = np.exp(2j * np.pi * hz * np.arange(1, HARMONICS + 1)[:, None] * t)
    return np.asarray((waves.T @ person.response).real * (t >= 0)[:, None])


def _decide(detector: SsvepDetector, trial: CloseTrial, rate: float) -> list[bool]:
    detector.push(trial.pause)
    detector.begin()
    done, right = 0, []
    for time_s in TIMES_S:
        detector.push(trial.flicker[done : int(time_s * rate)])
        done = int(time_s * rate)
        evidence = detector.evidence()
        right.append(int(np.argmax(evidence.log_odds)) == trial.which)
    detector.end()
    detector.learn(evidence, np.append(np.full(len(HZ), 1.0), 0.0) / len(HZ))
    return right


def _observe(person: FlickerPerson, x: Array) -> int:
    """The most likely frequency by matched filters, response and noise known."""
    begin = int(LATENCY_S * person.rate)
    inverse = np.linalg.inv(person.noise)
    scores = []
    for hz in HZ:
        expected = fourier(wave(person, hz, len(x))[begin:], hz, person.rate)
        found = fourier(x[begin:], hz, person.rate)
        scores.append(np.einsum("hc,hcd,hd->", expected.conj(), inverse, found).real)
    return int(np.argmax(scores))
