"""A live contest: an amplifier with labelled triggers, masked on the wire, truth sealed, scored.

Four real processes (the emulator is in this one) over LSL on this machine, in real time.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest

from replay.devices.emulator.amplifier import EmulatedAmplifier, parse_fault
from replay.devices.emulator.emulator import Emulator, client_uri
from replay.devices.emulator.encoders import EmulatedSignal
from replay.model.source import RawPacket, Session
from replay.sources import open_source
from tracks.run import Run

ROOT = Path(__file__).parents[2]
ONE_TRIAL = "synthetic:mi?subjects=1&blocks=1&trials=1&seed=3"
TWO_TRIALS = "synthetic:mi?subjects=1&blocks=1&trials=2&seed=3"
PATIENCE_S = 100.0
LABELS = {11: 1, 21: 2, 31: 3}


class Played:
    """The same session; `over` is set when it has been read to its end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.over = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        yield from self._session.packets(packet_samples)
        self.over.set()


class Contest:
    """Judge, replay and decoder as processes of their own, on an LSL session of their own."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        (folder / "run").mkdir()
        session = f"live-{os.getpid()}-{folder.name}"
        self._env = os.environ | {
            "BCI_HOME": str(folder / "home"),
            "BCI_LSL_SESSION": session,
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}",
            "OMP_NUM_THREADS": "1",
        }
        self.judge = self._start("bci_stream.judge", "live", "--no-web", "--wait", "60")
        self.replay = self._start(
            "replay", "start", uri, "--track", "mi", "--name", "amp", "--foreground", "--wait", "60"
        )
        self.decoder = self._start(
            "decoders", "--track", "mi", "--decoder", "timed_mi:TimedMi", "--team", "t1"
        )

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        log = (self.folder / f"{arguments[0]}.log").open("w")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env=self._env, cwd=self.folder, stdout=log, stderr=log, text=True,
            )  # fmt: skip

    def events(self) -> list[dict]:
        """What the judge has written so far."""
        lines = [
            line
            for path in (self.folder / "home").rglob("*.jsonl")
            for line in path.read_text().splitlines(keepends=True)
        ]
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def status(self) -> str:
        command = [sys.executable, "-m", "replay", "status", "--json"]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=True)
        return done.stdout

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        ticks = threading.Event()
        for _ in range(round(PATIENCE_S / 0.1)):
            if condition():
                return
            dead = [p for p in (self.judge, self.replay, self.decoder) if p.poll() not in (None, 0)]
            assert not dead, f"waiting for {what}: a process died\n{self.logs()}"
            ticks.wait(0.1)
        raise AssertionError(f"{what} never came\n{self.logs()}")

    def logs(self) -> str:
        return "\n".join(f"{p.name}: {p.read_text()}" for p in self.folder.glob("*.log"))

    def close(self) -> None:
        for process in (self.replay, self.decoder, self.judge):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in (self.replay, self.decoder, self.judge):
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_contest(
    folder: Path, uri: str, protocol: str, faults: list[str], until: int | None = None
) -> tuple[list[dict], str, Session]:
    """A contest on an emulated amplifier: to the trigger `until`, else to the operator's stop."""
    session = next(iter(open_source(uri).sessions()))
    played, begin = Played(session), threading.Event()
    signal = EmulatedSignal(played, lead_in=lambda _: not begin.is_set(), tail_s=PATIENCE_S)  # type: ignore[arg-type]
    amplifier = EmulatedAmplifier(signal, protocol, [parse_fault(fault) for fault in faults])
    with Emulator(amplifier) as emulator:
        device = client_uri("127.0.0.1", emulator.port, protocol, session)
        contest = Contest(folder, device + (f"&until={until}" if until else ""))
        try:
            contest.wait_for(
                "the first packets",
                lambda: sum(e["kind"] == "packet" for e in contest.events()) > 5,
            )
            begin.set()
            contest.wait_for("the recording's end", played.over.is_set)
            contest.wait_for(
                "the last trigger at the judge", lambda: 251 in codes(contest.events())
            )
            status = contest.status()
            if until is None:
                contest.replay.terminate()
            contest.wait_for("the judge's end", lambda: contest.judge.poll() is not None)
            return contest.events(), status, session
        finally:
            contest.close()


def packets(events: list[dict]) -> list[dict]:
    return [event for event in events if event["kind"] == "packet"]


def codes(events: list[dict]) -> list[int]:
    return [code for packet in packets(events) for _, code in packet["triggers"]]


def labels(session: Session) -> list[int]:
    blocks = session.block_triggers()
    assert blocks is not None
    return [LABELS[code] for _, triggers in blocks for _, code in triggers if code in LABELS]


def imagery_s(uri: str) -> list[float]:
    """Where in the recording each imagery begins."""
    session = next(iter(open_source(uri).sessions()))
    blocks = session.block_triggers()
    assert blocks is not None
    return [at / session.rate for _, triggers in blocks for at, code in triggers if code in LABELS]


def truths(events: list[dict]) -> list[int]:
    found: list[int] = []
    for event in events:
        if event["kind"] == "truth":
            found += [event["label"]] if "label" in event else chain(*event.get("blocks", []))
    return found


@pytest.mark.lsl
@pytest.mark.timeout(300)
def test_a_live_contest_is_masked_judged_and_scored(tmp_path):
    events, _, session = run_contest(tmp_path, ONE_TRIAL, "raw", [], until=251)
    got = packets(events)
    assert [p["start"] for p in got] == [sum(q["n"] for q in got[:i]) for i in range(len(got))]
    # What a decoder saw names no class; the judge's truth does.
    assert set(codes(events)) <= {200, 202, 203, 241, 242, 243, 250, 251}
    assert codes(events).count(200) == 1
    assert truths(events) == labels(session)
    assert sum(event["kind"] == "report" for event in events) == 3
    assert [event["kind"] for event in events[-2:]] == ["end", "seal"]
    assert events[-2]["reason"] == "finished"
    right = scored(events)
    assert right == [label == 1 for label in labels(session)]


@pytest.mark.lsl
@pytest.mark.timeout(300)
def test_judge_and_decoder_live_through_a_reconnect_and_the_log_shows_the_gap(tmp_path):
    first, *_ = imagery_s(TWO_TRIALS)
    # Away twice: half a second into the first imagery, and between the trials; no trigger is lost.
    faults = [f"eof@{first + 0.5:.3f}", f"refuse@{first + 4.3:.3f}:1"]
    events, status, session = run_contest(tmp_path, TWO_TRIALS, "jellyfish", faults)
    got = packets(events)
    jumps = [b["start"] - a["start"] - a["n"] for a, b in pairwise(got)]
    assert all(jump >= 0 for jump in jumps)
    gaps = [jump for jump in jumps if jump]
    assert len(gaps) == 2
    assert gaps[1] >= 900  # a second away, and then the backoff
    assert truths(events) == labels(session)
    assert sum(event["kind"] == "report" for event in events) >= 4
    assert scored(events)[-1] in (labels(session)[-1] == 1, None)
    assert (events[-2]["kind"], events[-2]["reason"]) == ("end", "stopped")
    assert '"amp"' in status
    # The published device status has numbers only; the gaps are among them.
    details = [event["detail"] for event in events if event["kind"] == "status"]
    assert f"{gaps[0]} lost in 1 gaps, 1 reconnects" in details
    assert f"{sum(gaps)} lost in 2 gaps, 2 reconnects" in details
    assert all(re.fullmatch(r"\d+ lost in \d gaps, \d reconnects", words) for words in details)


def scored(events: list[dict]) -> list[bool | None]:
    """Whether each trial's three reports were all right, by the rulebook; None if an outage voided it, as a
    stall of a busy machine does."""
    run = Run()  # an outage may give a trial a second verdict
    verdicts = {v.key: v for event in events for v in run.feed(event)}
    return [None if v.void else all(v.right) for _, v in sorted(verdicts.items())]
