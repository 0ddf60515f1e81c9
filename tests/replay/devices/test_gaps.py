"""Gaps found by stamps and by arrival times."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.devices.boards import CounterRule, PackageCounter
from replay.devices.chunk import Chunk
from replay.devices.gaps import GapFinder, SampleRun
from replay.devices.live import LONGEST_S, SILENCE_S, find_silent_gaps
from replay.devices.timing import SampleTimeline

RATE = 250.0


def stretch(stamps: np.ndarray, lost: np.ndarray | None = None, first: int = 0) -> SampleRun:
    n = len(stamps)
    index = np.arange(first, first + n)
    none = np.zeros(n, dtype=np.int64)
    return SampleRun(
        index[:, None].astype(np.float32), none, stamps, none if lost is None else lost
    )


def found(
    stamps: np.ndarray,
    rate: float = RATE,
    counts: np.ndarray | None = None,
    rule: CounterRule | None = None,
    batch: int = 10,
) -> list[tuple[int, int | None]]:
    """(how many samples came before it, lost) of each gap; and every sample came out, in order."""
    finder = GapFinder(rate, rule.cycle_samples if rule else None)
    counter = PackageCounter(rule) if rule else None
    pieces = []
    for a in range(0, len(stamps), batch):
        lost = counter.step(counts[a : a + batch]) if counter and counts is not None else None
        pieces += finder.step(stretch(stamps[a : a + batch], lost, a))
    pieces += finder.flush()
    came = np.concatenate([piece.samples[:, 0] for piece, _ in pieces])
    assert came.tolist() == list(range(len(stamps)))
    return [(int(piece.samples[0, 0]), lost) for piece, lost in pieces if lost != 0]


def jittered(n: int, rate: float, seed: int, mean_s: float = 2e-3) -> np.ndarray:
    return np.arange(n) / rate + np.random.default_rng(seed).exponential(mean_s, n)


def by_chunks(n: int, rate: float, chunk: int, seed: int, mean_s: float) -> np.ndarray:
    """Each chunk is stamped when it arrives, as LSL does: its samples stand exactly before that."""
    delay = np.random.default_rng(seed).exponential(mean_s, n // chunk + 1)
    return np.arange(n) / rate + np.repeat(delay, chunk)[:n]


@pytest.mark.parametrize("length", [1, 2, 3, 10, 100, 1000])
def test_regular_stamps_show_every_missing_sample(length):
    index = np.concatenate([np.arange(900), np.arange(900 + length, 2000 + length)])
    assert found(5e5 + index / RATE) == [(900, None)]


def test_several_gaps_of_one_sample_are_several():
    index = np.delete(np.arange(2000), [800, 850, 1200])
    assert found(5e5 + index / RATE) == [(800, None), (849, None), (1198, None)]


def test_a_clock_that_is_a_little_off_is_no_gap_and_hides_none():
    index = np.concatenate([np.arange(3000), np.arange(3010, 6000)])
    assert found(index / (RATE * 0.9995)) == [(3000, None)]


@pytest.mark.parametrize("rate", [250.0, 500.0, 1000.0, 2048.0])
@pytest.mark.parametrize("seed", range(5))
def test_jitter_is_no_gap(rate, seed):
    assert found(jittered(20 * int(rate), rate, seed), rate, batch=int(rate / 6)) == []


@pytest.mark.parametrize("mean_s", [1e-5, 2e-4, 2e-3, 1e-2])
@pytest.mark.parametrize("chunk", [4, 20, 50, 100, 500])
def test_stamps_by_the_chunk_are_no_gap(chunk, mean_s):
    for seed, batch in enumerate((17, 60, 170)):
        assert found(by_chunks(10_000, 500.0, chunk, seed, mean_s), 500.0, batch=batch) == []


@pytest.mark.parametrize("chunk", [10, 25, 50])
def test_samples_that_all_carry_the_stamp_of_their_chunk_show_only_real_gaps(chunk):
    """As where each sample is pushed by itself, but all of a chunk at once."""
    delay = np.random.default_rng(1).exponential(2e-3, 120)
    last = (np.arange(120) + 1) * chunk / RATE + delay
    stamps = np.repeat(last, chunk)
    assert found(stamps) == []
    at = 60 * chunk
    assert found(np.concatenate([stamps[:at], stamps[at:] + 0.6])) == [(at, None)]


def test_hiccups_one_after_the_other_are_no_gap():
    """Held up for up to a second, once in two seconds; what comes is in order."""
    random = np.random.default_rng(2)
    held_up = np.where(random.random(15_000) < 0.002, random.uniform(0.05, 1.0, 15_000), 0)
    assert found(np.maximum.accumulate(jittered(15_000, RATE, 2) + held_up)) == []


def test_a_chunk_that_is_late_now_and_then_is_no_gap():
    """A sender that is put to sleep for 20 to 80 ms, on an otherwise quiet machine."""
    random = np.random.default_rng(1)
    delay = np.where(random.random(1500) < 0.02, random.uniform(0.02, 0.08, 1500), 1e-4)
    stamps = np.arange(30_000) / 500.0 + np.repeat(delay, 20)
    assert found(stamps, 500.0, batch=20) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_gap_in_jitter_is_found_where_it_is(seed):
    stamps = np.delete(jittered(5000, RATE, seed), range(2000, 2050))
    assert found(stamps) == [(2000, None)]


@pytest.mark.parametrize("seed", range(5))
def test_a_gap_between_chunks_is_found(seed):
    stamps = np.delete(by_chunks(15_000, 500.0, 20, seed, 1e-3), range(6000, 6100))
    assert found(stamps, 500.0, batch=20) == [(6000, None)]


HICCUPS = st.tuples(st.integers(600, 1500), st.integers(1, 600), st.sampled_from([1.3, 2.0, 1e6]))


def hiccup(at: int, samples: int, speed: float, n: int = 5000) -> np.ndarray:
    """All samples come; those from `at` are held up, and then come so many times as fast."""
    true = np.arange(n) / RATE
    burst = true[at] + samples / RATE + (np.arange(n) - at) / RATE / speed
    return np.where(np.arange(n) < at, true, np.maximum(true, burst))


@settings(max_examples=10)
@given(HICCUPS, st.integers(5, 60))
def test_a_hiccup_is_no_gap_whether_the_board_counts_or_not(it, batch):
    stamps = hiccup(*it)
    assert found(stamps, batch=batch) == []
    counts = (np.arange(len(stamps)) % 256).astype(float)
    assert found(stamps, counts=counts, rule=CounterRule(256), batch=batch) == []


def test_a_hiccup_within_a_hiccup_is_no_gap():
    """After a second 100 samples come at once, after 0.6 s more all the others."""
    stamps = np.arange(3000) / RATE
    stamps[1000:1100] = 5.0
    stamps[1100:1400] = 5.6
    assert found(stamps) == []


def test_nothing_is_kept_back_any_more_when_the_burst_is_through():
    finder, stamps = GapFinder(RATE), hiccup(1000, 250, 1e6, n=1251)
    came = sum(piece.n for a in range(1251) for piece, _ in finder.step(stretch(stamps[a : a + 1])))
    assert came == 1251


def test_only_what_is_lost_in_a_hiccup_is_a_gap():
    """4 s of silence; the first 400 samples of them never come, the others do, in a burst."""
    stamps = hiccup(1000, 1000, 1e6)
    kept = np.delete(np.arange(len(stamps)), range(1000, 1400))
    counts = (kept % 256).astype(float)
    assert found(stamps[kept], counts=counts, rule=CounterRule(256)) == [(1000, 400)]
    assert found(stamps[kept]) == [(1000, None)]


def test_a_counter_that_does_not_advance_loses_nothing():
    stamps = jittered(3000, RATE, 1)
    assert found(stamps, counts=np.zeros(3000), rule=CounterRule(256)) == []


def test_stamps_that_are_set_back_are_no_gap():
    stamps = np.arange(4000) / RATE
    stamps[2000:] -= 3600.0
    assert found(stamps) == []


def test_samples_are_kept_back_for_a_quarter_of_a_second_at_most_after_a_loss():
    finder = GapFinder(RATE)
    stamps = np.delete(jittered(4000, RATE, 3), range(2000, 2500))
    waiting, longest = 0, 0
    for a in range(len(stamps)):
        waiting += 1 - sum(piece.n for piece, _ in finder.step(stretch(stamps[a : a + 1])))
        longest = max(longest, waiting)
    assert longest <= 0.25 * RATE + 3
    assert waiting == 0


@settings(max_examples=30)
@given(st.lists(st.integers(1, 3000), max_size=20))
def test_gaps_do_not_depend_on_how_the_stream_is_cut(cuts):
    stamps = np.delete(np.arange(3000) / RATE, range(1500, 1530))
    finder, gaps = GapFinder(RATE), []
    for a, b in pairwise(sorted({0, len(stamps), *(cut % len(stamps) for cut in cuts)})):
        gaps += [(p.samples[0, 0], lost) for p, lost in finder.step(stretch(stamps[a:b], first=a))]
    assert [gap for gap in gaps if gap[1] != 0] == [(1500, None)]


@pytest.mark.parametrize("stamps", [np.arange(4000) / RATE, jittered(4000, RATE, 5, 5e-4)])
def test_the_timeline_counts_by_time(stamps):
    finder, timeline = GapFinder(RATE), SampleTimeline(RATE)
    lost = 0
    for a in range(0, 3960, 5):
        part = np.delete(stamps, range(2000, 2040))[a : a + 5]
        for piece, missing in finder.step(stretch(part)):
            chunk = Chunk(piece.samples, (), missing, float(piece.stamps[-1]))
            lost += timeline.place(chunk, 0.0).lost
    assert lost == pytest.approx(40, abs=1)


ARRIVAL_RATE = 1000.0
N = 40


def chunks(arrivals, lost=None):
    """Chunks of 40 samples that count, received at these times; lost: what the device itself says of some."""
    return [
        (
            Chunk(
                np.arange(k * N, (k + 1) * N, dtype=np.float32)[:, None],
                lost=(lost or {}).get(k, 0),
            ),
            at,
        )
        for k, at in enumerate(arrivals)
    ]


def found_by_arrival(given_chunks):
    """Numbers of the chunks before which something was found to be lost."""
    out = list(find_silent_gaps(given_chunks, ARRIVAL_RATE))
    assert [(c.samples.tobytes(), at) for c, at in out] == [
        (c.samples.tobytes(), at) for c, at in given_chunks
    ]
    return [k for k, (chunk, _) in enumerate(out) if chunk.lost is None]


def due(n):
    return 100 + 0.04 * np.arange(1, n + 1)


@pytest.mark.parametrize("gap_s", [0.12, 0.4, 1.5, 20.0])
def test_a_device_that_goes_on_as_if_nothing_had_been_has_lost_samples(gap_s):
    arrivals = due(100) + gap_s * (np.arange(100) >= 30)
    assert found_by_arrival(chunks(arrivals)) == [30]


@pytest.mark.parametrize("stall_s", [0.12, 0.4, 1.5, 20.0])
@pytest.mark.parametrize("hurry", [1e-4, 0.01, 0.03])
def test_what_comes_late_but_all_of_it_is_not_lost(stall_s, hurry):
    """hurry: between two chunks of the backlog."""
    n = int(40 + 8 * stall_s / 0.04)
    back = due(n)[29] + stall_s + hurry * np.arange(-29, n - 29)
    arrivals = np.where(np.arange(n) >= 30, np.maximum(due(n), back), due(n))
    assert found_by_arrival(chunks(arrivals)) == []


@given(st.lists(st.floats(0.0, 0.09), min_size=2, max_size=80))
def test_irregular_arrivals_are_no_gaps(late):
    arrivals = np.maximum.accumulate(due(len(late)) + late)
    assert found_by_arrival(chunks(arrivals)) == []


@given(
    st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60),
    st.dictionaries(st.integers(1, 59), st.sampled_from([None, 120]), max_size=3),
)
def test_nothing_is_lost_doubled_or_held_for_long_whatever_comes(steps, lost):
    arrived = chunks(100 + np.cumsum(steps), lost)
    seen = []

    def watched():
        for chunk, at in arrived:
            seen.append(at)
            yield chunk, at

    for _, at in find_silent_gaps(watched(), ARRIVAL_RATE):
        between = [later for later in seen if later > at]
        assert not between or between[0] - at <= LONGEST_S + 3.0
    assert set(found_by_arrival(arrived)) >= {
        k for k, value in lost.items() if value is None and k < len(steps)
    }


def test_a_gap_that_the_device_counts_is_unchanged():
    arrivals = due(100) + 1.5 * (np.arange(100) >= 30)
    assert found_by_arrival(chunks(arrivals, {30: 1500})) == []


def test_the_timeline_jumps_by_what_was_lost():
    arrivals = due(100) + 1.5 * (np.arange(100) >= 30)
    timeline = SampleTimeline(ARRIVAL_RATE)
    placed = [timeline.place(*one) for one in find_silent_gaps(chunks(arrivals), ARRIVAL_RATE)]
    assert [p.lost for p in placed if p.lost] == [pytest.approx(1500, abs=2)]
    assert placed[30].start == pytest.approx(30 * N + 1500, abs=2)
    assert timeline.stamp(placed[-1].stop - 1) == pytest.approx(arrivals[-1], abs=1e-3)
    assert SILENCE_S < 1.5
