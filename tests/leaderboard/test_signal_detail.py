"""The organiser's view of the signal: bounded memory, chosen leads, filter, spectrum, quality."""

import numpy as np
import pytest

from bci_stream.errors import ContestError
from bci_stream.leaderboard.web.signal_detail import (
    KEPT_S,
    MOST_SHOWN,
    MOST_VALUES,
    SHOWN_COLUMNS,
    SignalBuffer,
    SignalChoice,
    describe_signal,
)
from bci_stream.leaderboard.web.signal_view import LiveSignals

RATE = 500.0
LEADS = tuple(f"L{k}" for k in range(40))


def signal(seconds: float) -> np.ndarray:
    """Lead 1 is flat, lead 2 hums, lead 3 is cut off; all others are noise."""
    time = np.arange(round(seconds * RATE)) / RATE
    samples = np.random.default_rng(0).normal(0, 10, (len(time), len(LEADS)))
    samples[:, 1] = 4.0
    samples[:, 2] += 80 * np.sin(2 * np.pi * 50 * time)
    samples[:, 3] = np.clip(500 * np.sin(2 * np.pi * time), -300, 300)
    return samples.astype(np.float32)


def test_the_buffer_keeps_the_last_seconds_whatever_the_chunks() -> None:
    buffer = SignalBuffer(RATE, LEADS)
    samples = signal(30.0)
    for start in range(0, len(samples), 77):
        buffer.add(samples[start : start + 77])
    kept = buffer.samples()
    assert np.array_equal(kept, samples[-round(KEPT_S * RATE) :])
    wide = SignalBuffer(50_000.0, tuple(map(str, range(1024))))
    for _ in range(8):
        wide.add(np.zeros((1024, 1024), dtype=np.float32))
    assert wide.samples().size <= MOST_VALUES


def test_a_view_has_the_chosen_leads_and_the_quality_of_all() -> None:
    choice = SignalChoice({"leads": "L5,L2,nosuch", "band": "1-40", "mains": "50", "seconds": "4"})
    view = describe_signal(signal(8.0), RATE, LEADS, choice)
    assert view["leads"] == ["L5", "L2"]
    assert [len(trace) for trace in view["traces"]] == [SHOWN_COLUMNS] * 2
    assert view["shown_s"] == 4.0
    assert np.abs(view["traces"][1]).max() < 60  # the hum is filtered out
    peak = view["frequencies"][int(np.argmax(view["spectra"][1]))]
    assert peak == 50.0  # the spectrum is of the unfiltered signal
    verdicts = {item["lead"]: item["verdict"] for item in view["quality"]}
    found = (verdicts.pop("L1"), verdicts.pop("L2"), verdicts.pop("L3"))
    assert found == ("flat", "line noise", "saturated")
    assert set(verdicts.values()) == {"good"}


def test_what_a_track_masks_is_no_fault_of_a_lead() -> None:
    samples = signal(8.0) + 400  # zeros stand far from the signal, as at an extreme
    samples[-round(3 * RATE) :] = 0
    verdicts = [
        q["verdict"] for q in describe_signal(samples, RATE, LEADS, SignalChoice({}))["quality"]
    ]
    assert verdicts[0] == "good"
    assert verdicts[1:4] == ["flat", "line noise", "saturated"]
    assert set(verdicts[4:]) == {"good"}


def test_without_a_choice_the_first_leads_are_shown() -> None:
    view = describe_signal(signal(0.2), RATE, LEADS, SignalChoice({}))
    assert view["leads"] == list(LEADS[:8])
    assert len(SignalChoice({"leads": ",".join(LEADS)}).leads) == MOST_SHOWN


@pytest.mark.parametrize(
    "query",
    [{"band": "1-4000"}, {"mains": "55"}, {"seconds": "0"}, {"seconds": "1e9"}, {"seconds": "-1"}],
)
def test_a_bad_choice_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ContestError):
        SignalChoice(query)


def test_only_where_a_console_is_all_leads_are_kept() -> None:
    signals = LiveSignals()
    signals.add("mi", signal(1.0), RATE, LEADS)
    assert signals.detail("mi", SignalChoice({})) is None
    signals.keeps_detail = True
    signals.add("mi", signal(1.0), RATE, LEADS)
    assert signals.detail("mi", SignalChoice({})) is not None
    assert signals.detail("erp", SignalChoice({})) is None
