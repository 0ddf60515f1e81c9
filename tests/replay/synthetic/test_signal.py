"""The signals show what physiology says they should, and nothing of a label beyond it."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats

from replay.model.recording import Recording
from replay.synthetic import emotion, erp, imagery, turing
from replay.synthetic.ecog import Grid
from replay.synthetic.registry import open_synthetic
from replay.synthetic.scalp import MASTOIDS, Scalp, alpha_hz
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import TimelineEvent
from tracks.common.leads import NEUSEN_64
from tracks.erp import CHARACTERS, GROUPS, TARGETS
from tracks.turing import SSVEP_HZ

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]


@cache
def session(track: str, **params: str) -> Recording:
    return next(open_synthetic(track, {"subjects": "1", **params}).sessions())


def lead(one: Recording, name: str, block: int = 0) -> Array:
    place = [each.name for each in one.leads].index(name)
    return one.blocks[block].read(0, one.blocks[block].n_samples)[:, place].astype(np.float64)


def band_power(row: Array, rate: float, low_hz: float, high_hz: float) -> Array:
    sos = signal.butter(4, (low_hz, high_hz), "band", fs=rate, output="sos")
    out: Array = signal.sosfiltfilt(sos, row - row.mean()) ** 2
    return out


def a_scalp(track: str = "turing", difficulty: float = 0.3, rate: float = 250) -> Scalp:
    return Scalp(Subject(track, "test", 1, 1, difficulty), NEUSEN_64, MASTOIDS, rate)


def spectrum(row: Array, rate: float) -> tuple[Array, Array]:
    f, power = signal.welch(row - row.mean(), rate, nperseg=int(4 * rate))
    return f, power


def test_the_background_falls_like_one_over_f() -> None:
    one = session("erp", trials="6")
    f, power = spectrum(lead(one, "C5"), 250)
    inside = ((f > 2) & (f < 7)) | ((f > 14) & (f < 45))
    slope = stats.linregress(np.log(f[inside]), np.log(power[inside])).slope
    assert -2.2 < slope < -0.8


def test_alpha_peaks_over_the_occipital_cortex_not_over_the_frontal() -> None:
    one = session("erp", trials="6")

    def peak(name: str) -> float:
        f, power = spectrum(lead(one, name), 250)
        beside = power[((f > 5) & (f < 7)) | ((f > 14) & (f < 17))].mean()
        return float(power[(f > 8) & (f < 12.5)].max() / beside)

    assert peak("O1") > 3
    assert peak("O1") > 1.5 * peak("F3")


def test_line_noise_stands_out_at_50_hz_and_a_drift_below_half_a_hertz() -> None:
    one = session("mi", trials="2", blocks="1")
    peaks, drifts = [], []
    for name in ("F3", "C4", "P4", "O2"):
        f, power = spectrum(lead(one, name), 1000)
        peaks.append(power[np.abs(f - 50) < 0.5].max() / np.median(power[np.abs(f - 50) < 5]))
        drifts.append(power[(f > 0) & (f <= 0.5)].mean() / power[(f > 2) & (f < 4)].mean())
    assert np.median(peaks) > 5
    assert np.median(drifts) > 2


def test_blinks_show_on_frontal_and_eog_leads_with_opposite_signs_below_the_eye() -> None:
    one = session("erp", trials="6")
    above, below, front, back = (lead(one, name) for name in ("VEOU", "VEOL", "Fp1", "Oz"))
    sos = signal.butter(2, (0.5, 8), "band", fs=250, output="sos")
    above, below, front, back = (
        signal.sosfiltfilt(sos, row) for row in (above, below, front, back)
    )
    at, _ = signal.find_peaks(front, height=50, distance=100)
    assert len(at) >= 3
    assert np.mean(above[at]) > np.mean(front[at]) > 5 * abs(np.mean(back[at]))
    assert np.mean(below[at]) < 0


def test_the_ecg_lead_beats_at_a_human_pace() -> None:
    row = lead(session("erp", trials="6"), "ECG")
    at, _ = signal.find_peaks(row - np.median(row), height=300, distance=100)
    assert 0.6 < np.median(np.diff(at)) / 250 < 1.15


def test_a_flat_lead_comes_now_and_then() -> None:
    flat = 0
    for number in range(1, 31):
        one = session("erp", trials="1", first_subject=str(number), set="train")
        data = one.blocks[0].read(0, one.blocks[0].n_samples)
        flat += int((data == 0).all(0).any())
    assert 1 <= flat <= 20


def test_imagery_of_a_hand_quiets_mu_over_the_other_side() -> None:
    one = session("mi", difficulty="0.2", trials="18", blocks="2")
    ratios: dict[int, list[float]] = {1: [], 2: []}
    for number, block in enumerate(one.blocks):
        left, right = (band_power(lead(one, name, number), 1000, 8, 14) for name in ("C3", "C4"))
        for start, code in block.triggers:
            if code in (11, 21):
                during = slice(start + 800, start + 4000)
                ratios[code // 10].append(float(np.log(left[during].mean() / right[during].mean())))
    assert np.mean(ratios[imagery.LEFT]) > np.mean(ratios[imagery.RIGHT]) + 0.3
    assert stats.ttest_ind(ratios[1], ratios[2]).pvalue < 0.01


def test_imagery_of_the_feet_quiets_mu_over_the_vertex() -> None:
    scalp = a_scalp("mi", 0.2)
    n = 250 * 400
    starts = range(500, n - 2500, 2500)
    labels = [1 + i % 3 for i in range(len(starts))]
    events = [TimelineEvent(s, s + 1000, label) for s, label in zip(starts, labels, strict=True)]
    vertex = imagery.rhythms(scalp, 0, n, events)[imagery.AREAS.index("Cz")].signal
    power = {
        k: np.mean([np.mean(vertex[e.start + 150 : e.stop] ** 2) for e in events if e.label == k])
        for k in (1, 2, 3)
    }
    assert power[imagery.FEET] < 0.7 * min(power[imagery.LEFT], power[imagery.RIGHT])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ssvep_phase_is_the_lights_less_two_pi_f_latency(number: int) -> None:
    """Measured on the finished recording at Oz, over the trials of all lights."""
    one = session(
        "turing", difficulty="0", first_subject=str(number), blocks="1", rounds="5", trials="6"
    )
    cortex = turing.VisualCortex.of(Subject("turing", "test", number, 1, 0.0))
    row, t = lead(one, "Oz"), np.arange(125, 1250) / 250
    responses = []
    for start, code in one.blocks[0].triggers:
        if code < 128 and code & 7 in SSVEP_HZ:
            turns = SSVEP_HZ[code & 7] * (t - cortex.latency_s)
            trial = signal.detrend(row[start + 125 : start + 1250])
            responses.append(np.mean(trial * np.exp(-2j * np.pi * turns)) * 1j)  # 1j: of a sine
    assert len(responses) >= 8
    assert abs(np.angle(np.sum(responses))) < 0.5


@pytest.mark.parametrize(
    "trait", [turing.VisualCortex.of, imagery.MotorCortex.of, erp.waves_of, alpha_hz]
)
def test_people_differ_and_a_person_is_the_same_in_all_sets(
    trait: Callable[[Subject], object],
) -> None:
    people = [trait(Subject("turing", "test", number, 1, 0.5)) for number in range(1, 9)]
    assert len(set(people)) == len(people)
    assert trait(Subject("turing", "train", 4, 1, 0.5)) == people[3]


def flashes(one: Recording) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    starts, targets, character = [], [], ""
    for sample, code in one.blocks[0].triggers:
        if code in TARGETS:
            character = CHARACTERS[code - TARGETS[0]]
        elif code in GROUPS:
            starts.append(sample)
            targets.append(character in GROUPS[code])
    return np.array(starts), np.array(targets)


def erp_windows(one: Recording, name: str) -> Array:
    sos = signal.butter(2, (0.5, 15), "band", fs=250, output="sos")
    row = signal.sosfiltfilt(sos, lead(one, name))
    starts, _ = flashes(one)
    out: Array = row[starts[:, None] + np.arange(200)]
    return out


def test_targets_evoke_a_p300_at_pz_and_a_negativity_before_it_at_the_back() -> None:
    one = session("erp", difficulty="0.2", trials="20")
    _, targets = flashes(one)

    def difference(name: str) -> Array:
        windows = erp_windows(one, name)
        out: Array = windows[targets].mean(0) - windows[~targets].mean(0)
        return out

    assert difference("Pz")[75] > 1.0  # 300 ms
    assert difference("Pz")[60:120].max() > difference("Fp1")[60:120].max()
    assert min(difference("PO7")[38:60].min(), difference("PO8")[38:60].min()) < -0.5


def auc(one: Recording) -> float:
    """A simple decoder: the mean at Pz, 280-420 ms, less the mean of the first 100 ms."""
    windows = erp_windows(one, "Pz")
    score = windows[:, 70:105].mean(1) - windows[:, :25].mean(1)
    _, targets = flashes(one)
    return float(
        stats.mannwhitneyu(score[targets], score[~targets]).statistic
        / targets.sum()
        / (~targets).sum()
    )


def test_difficulty_makes_a_simple_decoder_worse_and_leaves_it_above_chance() -> None:
    people = [str(number) for number in (101, 102, 103)]
    easy, hard = (
        np.mean(
            [auc(session("erp", difficulty=d, trials="12", first_subject=who)) for who in people]
        )
        for d in ("0", "1")
    )
    assert easy > hard + 0.05
    assert 0.52 < hard < easy < 0.99


def test_emotions_share_a_pattern_across_people_and_add_a_persons_own() -> None:
    people = [
        emotion.pattern_db(Subject("emotion", "train", k, 1, 0.5)).reshape(9, -1) for k in (1, 2, 3)
    ]
    flat = [np.ravel(one - one.mean(0)) for one in people]
    matrix = np.corrcoef(flat)
    off_diagonal = matrix[np.triu_indices(3, 1)]
    assert off_diagonal.min() > 0.2
    assert off_diagonal.max() < 0.99


def test_arousing_clips_have_less_occipital_alpha_than_neutral_ones() -> None:
    """In the finished recording, over the 12 negative and the 4 neutral clips."""
    one = session("emotion", difficulty="0", pace="0.3", set="train")
    powers: dict[bool, list[float]] = {True: [], False: []}
    for number, block in enumerate(one.blocks):
        power = sum(band_power(lead(one, name, number), 250, 8, 13) for name in ("O1", "O2"))
        clip = start = 0
        for sample, code in block.triggers:
            if code <= 28:
                clip = code
            elif code == 240:
                start = sample
            elif code == 241 and (clip <= 9 or 13 <= clip <= 16):
                powers[clip <= 9].append(
                    float(np.log(np.asarray(power)[start + 500 : sample].mean()))
                )
    assert np.mean(powers[True]) < np.mean(powers[False]) - 0.3


def test_high_gamma_follows_the_angles_on_good_channels() -> None:
    one = session("ecog", difficulty="0.2", blocks="1", trials="1")
    assert one.angles is not None
    good = [c for c in range(32) if c not in Grid(Subject("ecog", "test", 2, 1, 0.2)).noisy]
    data = one.blocks[0].read(0, one.blocks[0].n_samples)
    sos = signal.butter(4, (70, 150), "band", fs=1000, output="sos")
    power = np.log(signal.sosfiltfilt(sos, data[:, good], axis=0) ** 2 + 1e-3)
    smooth = signal.butter(2, 5, "low", fs=1000, output="sos")
    slow = signal.sosfiltfilt(smooth, power, axis=0)[::5]
    matrix = np.corrcoef(np.concatenate([slow, one.angles], 1).T)[: len(good), len(good) :]
    assert (np.abs(matrix).max(0) > 0.25).all()


def test_a_task_leaves_no_trace_before_it_begins() -> None:
    scalp, n, first = a_scalp(), 4000, 1500
    for make, event in (
        (imagery.rhythms, TimelineEvent(first, first + 1250, 1)),
        (turing.responses, TimelineEvent(first, first + 1250, 4)),
        (erp.responses, TimelineEvent(first, first + 37, 1)),
    ):
        with_task = make(scalp, 0, n, [event])
        without = make(scalp, 0, n, [])
        for a, b in zip(with_task, without, strict=True):
            np.testing.assert_array_equal(a.signal[:first], b.signal[:first])
        assert any(
            not np.array_equal(a.signal, b.signal) for a, b in zip(with_task, without, strict=True)
        )
