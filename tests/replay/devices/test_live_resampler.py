"""A device at another rate than its track's comes out as its recording would."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.devices.adapt import LiveResampler
from replay.model.events import KnownEvents
from replay.model.signal import ArraySignal
from replay.model.source import RawPacket
from replay.transform.resample import ResampledEvents, ResampledSignal

RATE = 1000.0
FACTORS = [Fraction(1, 4), Fraction(5, 8), Fraction(125, 256), Fraction(2), Fraction(1)]


def packets(samples, triggers, sizes, starts=None, last=True):
    """The samples cut into packets of these sizes, stamped by their numbers."""
    found, at = [], 0
    for k, n in enumerate(sizes):
        start = at if starts is None else starts[k]
        own = tuple((i - at, code) for i, code in triggers if at <= i < at + n)
        stamp = 50 + (start + n - 1) / RATE
        is_last = last and k == len(sizes) - 1
        found.append(RawPacket(samples[at : at + n], own, start, 0, is_last, stamp))
        at += n
    return found


def resampled(raw, factor, packet_samples=10, leads=2):
    return list(LiveResampler(RATE, factor, leads).packets(iter(raw), packet_samples))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(FACTORS),
    st.lists(st.integers(4, 90), min_size=1, max_size=20),
    st.lists(st.integers(0, 1800), max_size=12),
    st.integers(1, 40),
)
def test_any_packets_give_what_the_recording_gives(factor, sizes, places, packet_samples):
    n = sum(sizes)
    samples = np.random.default_rng(n).normal(0, 30, (n, 2)).astype(np.float32)
    triggers = tuple(sorted({(place, 1 + place % 9) for place in places if place < n}))
    up, down = factor.numerator, factor.denominator
    whole = ResampledSignal(ArraySignal(samples.T), up, down)
    events = ResampledEvents(KnownEvents(triggers), up, down, whole.n_samples)
    out = resampled(packets(samples, triggers, sizes), factor, packet_samples)
    got = np.concatenate([p.samples for p in out])
    np.testing.assert_array_equal(got, whole.read(0, whole.n_samples))
    assert tuple((p.start + i, code) for p in out for i, code in p.triggers) == events.all()
    assert all(len(p.samples) == packet_samples for p in out[:-1])
    assert [p.last_of_block for p in out] == [False] * (len(out) - 1) + [True]
    ends = [p.start + len(p.samples) - 1 for p in out]
    assert [p.stamp for p in out] == pytest.approx([50 + e * down / up / RATE for e in ends])


def test_after_a_gap_numbers_go_on_and_nothing_of_before_it_is_left():
    samples = np.concatenate([np.full((400, 2), 100), np.full((400, 2), -7)]).astype(np.float32)
    raw = packets(
        samples, ((399, 5), (402, 6)), [40] * 20, [k * 40 + 1001 * (k >= 10) for k in range(20)]
    )
    out = resampled(raw, Fraction(1, 4))
    after = [p for p in out if p.start >= 340]
    assert after[0].start == -(-1401 // 4)
    assert np.concatenate([p.samples for p in after]) == pytest.approx(-7, abs=1e-3)
    assert np.concatenate([p.samples for p in out if p.start < 340]) == pytest.approx(100, abs=1e-2)
    # 5 came just before the gap, behind the last new sample: it stands on the next one there is.
    assert [(p.start + i, code) for p in out for i, code in p.triggers] == [(351, 5), (351, 6)]


def test_its_memory_does_not_grow():
    resampler = LiveResampler(RATE, Fraction(1, 4), 2)
    samples = np.zeros((40, 2), np.float32)
    raw = (RawPacket(samples, (), 40 * k, 0, False, float(k)) for k in range(3000))
    assert sum(len(p.samples) for p in resampler.packets(raw, 10)) == 30_000
    assert len(resampler._segment._samples) < 500
