"""A long recording is looked through while its replay waits: what is bad is told before anything is sent."""

import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError, SourceError
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import PacketNote, Stopped, read_control
from replay.daemon import read_state
from replay.finite import FiniteSignal
from replay.options import SourceOptions
from replay.pace import Pace
from replay.serve import Service
from replay.survey import PIECE_SAMPLES, Survey

WAIT_S = 60.0
LEADS = 32
N_SAMPLES = 600_000
BAD = 431_234
HEADER = """Brain Vision Data Exchange Header File Version 1.0

[Common Infos]
DataFile=long.eeg
DataFormat=BINARY
DataOrientation=MULTIPLEXED
NumberOfChannels={leads}
SamplingInterval=1000

[Binary Infos]
BinaryFormat=IEEE_FLOAT_32

[Channel Infos]
{channels}
"""


class Zeros:
    """A signal of one lead; bad: where it is no number. Tells how much was read, and when."""

    n_samples = 100 * PIECE_SAMPLES

    def __init__(self, bad: int = -1) -> None:
        self.bad = bad
        self.read_up_to = 0
        self.longest = 0
        self.has_read = threading.Event()

    def read(self, start: int, stop: int) -> np.ndarray:
        samples = np.zeros((stop - start, 1), dtype=np.float32)
        if start <= self.bad < stop:
            samples[self.bad - start] = np.nan
        self.read_up_to, self.longest = stop, max(self.longest, stop - start)
        self.has_read.set()
        return samples


def finite(signal: Zeros) -> FiniteSignal:
    return FiniteSignal(signal, "long.fif", (Lead("Cz"),), 1000.0)


def test_it_tells_what_it_found_and_calls_at_once() -> None:
    found = threading.Event()
    good, bad = Zeros(), Zeros(bad=77 * PIECE_SAMPLES + 5)
    with Survey([finite(good), finite(bad)], found.set) as survey:
        assert found.wait(WAIT_S)
        with pytest.raises(SourceError, match=f"Cz holds nan at sample {bad.bad}"):
            survey.end()
    assert good.read_up_to == good.n_samples
    assert max(good.longest, bad.longest) == PIECE_SAMPLES


def test_it_ends_when_packets_are_due() -> None:
    class Held(Zeros):
        """Lets the survey read the second piece only when the test says so."""

        go = threading.Event()

        def read(self, start: int, stop: int) -> np.ndarray:
            samples = super().read(start, stop)
            assert start == 0 or self.go.wait(WAIT_S)
            return samples

    signal = Held(bad=50 * PIECE_SAMPLES)
    with Survey([finite(signal), finite(Zeros(bad=0))], lambda: None) as survey:
        assert signal.has_read.wait(WAIT_S)
        ended = threading.Thread(target=survey.end)
        ended.start()
        signal.go.set()
        ended.join(WAIT_S)
        assert not ended.is_alive()
        survey.end()
    assert signal.read_up_to < signal.bad


def test_nothing_is_sent_of_a_recording_that_was_found_bad_while_waiting(
    tmp_path, long_bad
) -> None:
    transport, stop = MemoryTransport(), threading.Event()
    inlets = {}

    def say(said: str) -> None:
        if said.startswith("waiting for"):
            for it in transport.visible(""):
                if it.name in ("c-r-signal", "c-r-markers", "c-r-truth", "c-r-control"):
                    opened = (
                        transport.sample_inlet if it.name == "c-r-signal" else transport.text_inlet
                    )
                    inlets[it.name] = opened(it, 1)

    service = Service(
        transport,
        Contest("c", tmp_path),
        name="r",
        uris=(long_bad,),
        options=SourceOptions(),
        track=None,
        pace=Pace(lockstep=False),
        start_on="team",
        team="",
        wait_s=WAIT_S,
        loop=True,
        stop=stop,
        say=say,
    )
    with pytest.raises(SourceError, match=rf"CH7 holds nan at sample {BAD} \(431\.234 s\)"):
        service.run()
    assert len(inlets) == 4
    with pytest.raises(LostError):  # it has ended, and there is nothing left to be pulled
        inlets["c-r-signal"].pull(1, 0)
    assert heard(inlets["c-r-markers"]) == heard(inlets["c-r-truth"]) == []
    said = [read_control(text) for text in heard(inlets["c-r-control"])]
    assert isinstance(said[-1], Stopped)
    assert f"CH7 holds nan at sample {BAD}" in said[-1].reason
    assert not any(isinstance(message, PacketNote) for message in said)
    state = read_state("r")
    assert state is not None
    assert (state.state, state.progress["packets"]) == ("failed", 0)


def heard(inlet) -> list[str]:
    texts: list[str] = []
    with suppress(LostError):  # the stream has ended, and so does the pulling
        while pulled := inlet.pull(0):
            texts += [text for text, *_ in pulled]
    return texts


@pytest.fixture
def long_bad(tmp_path) -> str:
    """A recording of 19 million float values, one of them no number; most of it is a hole in the file."""
    channels = "\n".join(f"Ch{k}=CH{k},,1,µV" for k in range(1, LEADS + 1))
    (tmp_path / "long.vhdr").write_text(HEADER.format(leads=LEADS, channels=channels))
    with (tmp_path / "long.eeg").open("wb") as file:
        file.truncate(4 * LEADS * N_SAMPLES)
        file.seek(4 * (LEADS * BAD + 6))
        file.write(np.float32(np.nan).tobytes())
    return str(tmp_path / "long.vhdr")


@pytest.mark.lsl
@pytest.mark.timeout(180)
def test_the_command_ends_in_words_while_it_waits(long_bad) -> None:
    command = ["replay", "start", long_bad, "--foreground", "--start", "consumer", "--wait", "120"]
    ended = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=150, check=False
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, said
    assert f"lead CH7 holds nan at sample {BAD}" in said
    assert "waiting for consumer" in said
    assert "Traceback" not in said
