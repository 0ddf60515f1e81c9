"""Leads and rate that only the user has said are believed when as many rows come as they mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_amplifier import LEADS, Run, recording

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.device import RateProbe
from replay.devices.neuracle.raw import RawParser
from replay.devices.params import Timeouts

SAID = DeviceInfo(1000.0, tuple(Lead(f"E{n}") for n in range(129)))


def looked(rows: list[tuple[int, float]]) -> float | None:
    """When a look at chunks of so many rows, each so long after the last, was enough."""
    look, now = RateProbe(SAID), 100.0
    for n, after_s in rows:
        now += after_s
        look.add(Chunk(np.zeros((n, 129), np.float32)), now)
        if look.passed:
            return now - 100.0
    return None


def named(count: int) -> tuple[Lead, ...]:
    return tuple(Lead(f"E{n}") for n in range(count))


@given(leads=st.integers(1, 12), fold=st.integers(2, 6))
def test_rows_that_are_several_real_ones_are_refused_before_anything_is_published(leads, fold):
    wrong = DeviceInfo(1000.0, named(fold * (leads + 1) - 1))
    source = recording(12, leads=named(leads))
    run = Run(source, "raw", parser=RawParser(wrong))
    with pytest.raises(SourceError) as refusal:
        run.feed.open()
    assert f"about {1000 / fold:.0f} samples a second come, rate= is 1000" in str(refusal.value)
    assert f"would be channels={leads}," in str(refusal.value)
    assert run.keeper.now.samples == 0


def test_an_emulator_that_sends_half_of_a_row_is_refused():
    with pytest.raises(SourceError, match="rate=1000 these bytes would be channels=1,"):
        Run(recording(12), "raw", ["channels:-2"]).feed.open()


@pytest.mark.parametrize("said", [250, 500, 900, 1100, 2000])
def test_a_rate_that_is_not_the_amplifiers_is_refused(said):
    run = Run(recording(30), "raw", parser=RawParser(DeviceInfo(said, LEADS)))
    with pytest.raises(SourceError, match=f"rate= is {said}: .*with channels=3 .* rate=1000"):
        run.feed.open()


@pytest.mark.parametrize("protocol", ["raw", "raw-uint"])
def test_what_is_right_is_believed_after_a_second(protocol):
    run = Run(recording(4), protocol)
    began = run.clock.now()
    assert run.feed.open() == DeviceInfo(1000, LEADS)
    assert run.clock.now() - began < 1.2


@pytest.mark.parametrize("protocol", ["heeg", "jellyfish"])
def test_an_amplifier_that_says_itself_what_it_sends_is_believed_at_once(protocol):
    run = Run(recording(4), protocol)
    began = run.clock.now()
    assert run.feed.open().rate == 1000
    assert run.clock.now() - began < 0.2


@pytest.mark.parametrize(
    "fault",
    ["stall@0.5:1", "stall@0.3:3", "gap@0.5:0.3", "eof@0.5", "rst@0.9", "refuse@0.5:1", "nan@0.2"],
)
def test_a_fault_in_the_first_second_is_no_wrong_setting(fault):
    run = Run(recording(12), "raw", [fault])
    began = run.clock.now()
    assert run.feed.open().rate == 1000
    assert run.clock.now() - began < 6


def test_what_had_queued_up_before_the_connection_is_no_rate():
    took_s = looked([(40, 0.04), (4000, 0.001), *[(40, 0.04)] * 60])
    assert took_s is not None
    assert 2.0 < took_s < 2.5


def test_a_link_that_hangs_for_half_of_each_second_is_no_wrong_setting():
    halting = [(40, 1.0), *[(600, 1.0), (1400, 1.0)] * 3]
    assert looked(halting) == pytest.approx(6.0)


def test_chunks_of_more_than_a_second_are_counted_by_their_own_time():
    assert looked([(2500, 2.5)] * 3) == pytest.approx(5.0)


def test_a_connection_that_never_lasts_a_second_is_given_up():
    breaks = [f"eof@{at / 10:g}" for at in range(3, 60, 5)]
    with pytest.raises(SourceError, match="broke 5 times"):
        Run(recording(12), "raw", breaks).feed.open()


def test_an_amplifier_that_goes_in_its_first_second_is_waited_for_as_at_the_start():
    run = Run(recording(60), "raw", ["refuse@0.5:50"], Timeouts(first_s=7))
    with pytest.raises(SourceError, match=r"no samples .* for 7 s: can't connect"):
        run.feed.open()
