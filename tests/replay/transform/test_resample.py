"""Resampling looks at nothing to come, and gives the same in any pieces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.model.events import KnownEvents
from replay.model.options import SourceOptions
from replay.model.signal import ArraySignal
from replay.sources import open_source
from replay.transform.resample import ResampledEvents, ResampledSignal, ratio

RATIOS = [(1, 4), (25, 4), (125, 128), (1, 1), (4, 1)]


def noise(n_samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 50, (2, n_samples)).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(RATIOS),
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 60)), min_size=1, max_size=5),
)
def test_any_piece_is_bit_for_bit_what_the_whole_holds(factor, spans):
    signal = ResampledSignal(ArraySignal(noise(400)), *factor)
    whole = signal.read(0, signal.n_samples)
    for place, length in spans:
        start = int(place * signal.n_samples)
        stop = min(start + length, signal.n_samples)
        np.testing.assert_array_equal(signal.read(start, stop), whole[start:stop])


@pytest.mark.parametrize("factor", RATIOS)
def test_a_sample_depends_on_nothing_that_comes_after_its_time(factor):
    up, down = factor
    one, other = noise(400), noise(400)
    other[:, 200:] = noise(400, seed=9)[:, 200:]
    first, second = (ResampledSignal(ArraySignal(d), up, down) for d in (one, other))
    until = -(-200 * up // down)  # the first output sample at or after input sample 200
    np.testing.assert_array_equal(first.read(0, until), second.read(0, until))
    assert not np.array_equal(first.read(0, first.n_samples), second.read(0, second.n_samples))


@pytest.mark.parametrize(("rate", "target"), [(1000, 250), (160, 1000), (256, 250)])
def test_a_wave_in_the_pass_band_keeps_its_size_and_comes_as_late_as_noted(rate, target):
    factor = ratio("x", rate, target)
    seconds = np.arange(4 * rate) / rate
    wave = np.sin(2 * np.pi * 10 * seconds)[None]
    signal = ResampledSignal(ArraySignal(wave), factor.numerator, factor.denominator)
    out = signal.read(0, signal.n_samples)[target:, 0]
    later = np.arange(target, signal.n_samples) / target - signal.delay_s(rate)
    expected = np.sin(2 * np.pi * 10 * later)
    assert np.abs(out - expected).max() < 0.003


def test_what_the_new_rate_cannot_hold_is_gone():
    seconds = np.arange(8000) / 1000
    wave = np.sin(2 * np.pi * 180 * seconds)[None]
    out = ResampledSignal(ArraySignal(wave), 1, 4).read(500, 1500)
    assert np.abs(out).max() < 0.01  # it would come back as 70 Hz


def test_a_constant_stays_constant_from_the_first_sample_on():
    signal = ResampledSignal(ArraySignal(np.full((1, 500), 4300.0)), 125, 128)
    np.testing.assert_allclose(signal.read(0, signal.n_samples), 4300.0, rtol=1e-3)


@settings(deadline=None)
@given(
    st.sampled_from(RATIOS),
    st.lists(st.integers(0, 399), max_size=10),
    st.lists(st.integers(1, 50), min_size=1, max_size=60),
)
def test_triggers_are_never_early_never_a_sample_late_and_the_same_in_any_pieces(
    factor, samples, sizes
):
    up, down = factor
    n_samples = 399 * up // down + 1
    events = ResampledEvents(KnownEvents([(s, 7) for s in samples]), up, down, n_samples)
    moved = events.all()
    for (new, _), old in zip(moved, sorted(samples), strict=True):
        assert new * down >= old * up or new == n_samples - 1
        assert (new - 1) * down < old * up
    pieces, start = [], 0
    for size in [*sizes, n_samples]:
        stop = min(start + size, n_samples)
        pieces += events.between(start, stop) if stop > start else ()
        start = stop
    assert tuple(pieces) == moved


def test_a_trigger_at_a_blocks_end_stays_in_its_block(tmp_path):
    events = np.array([[0, 242], [255, 243], [256, 242], [511, 243]])
    path = tmp_path / "two.npz"
    np.savez(path, data=np.ones((1, 512)), rate=256, events=events, block_starts=[0, 256])
    session = next(open_source(f"{path}?resample=250").sessions())
    assert [[code for _, code in own] for _, own in session.block_triggers()] == [[242, 243]] * 2
    played = [(p.block, code) for p in session.packets(10) for _, code in p.triggers]
    assert played == [(0, 242), (0, 243), (1, 242), (1, 243)]


def test_resampling_is_noted_with_its_delay(write):
    session = next(open_source(f"{write('run.edf')}?resample=125").sessions())
    assert session.rate == 125
    assert any("resampled from 250 to 125 Hz (as asked)" in note for note in session.notes)


def test_a_ratio_without_small_terms_is_refused():
    with pytest.raises(SourceError, match="can't be resampled"):
        ratio("x", 511.9997, 1000.0003)


def test_a_synthetic_recording_is_resampled_block_by_block():
    uri = "synthetic:mi?subjects=1&blocks=2&trials=2"
    (plain,) = open_source(uri).sessions()
    (session,) = open_source(uri, SourceOptions(resample=250.0)).sessions()
    assert (plain.rate, session.rate, session.subject) == (1000, 250, plain.subject)
    for old, new in zip(plain.block_triggers(), session.block_triggers(), strict=True):
        assert new[0] == -(-old[0] // 4)
        assert new[1] == tuple((min(-(-at // 4), new[0] - 1), code) for at, code in old[1])
    signals = [np.concatenate([p.samples for p in s.packets(100)]) for s in (plain, session)]
    assert signals[1].shape == (session.n_samples, len(plain.leads))
    assert np.corrcoef(signals[0][::4][:-2, 20], signals[1][2:, 20])[0, 1] > 0.9
