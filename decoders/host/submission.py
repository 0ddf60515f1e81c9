"""A submission as a decoder: a contestant's own code, unmodified, in its own process.

A submission pulls packets by get_data() and may report at any time; a decoder is fed. So step()
passes the packet to the waiting get_data() and collects the reports until the next get_data(): a
report belongs to the last packet given before it.
"""

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np

from bci_stream.contest.contest import Limits as ContestLimits
from bci_stream.errors import RuleError
from bci_stream.files import state_dir
from bci_stream.packet import Packet, SignalInfo
from decoders.host.calibration import CalibrationSets, Measured, find_places, package_bytes
from decoders.host.detect import INTERFACES
from decoders.host.inside.shim import CHOOSE, LABELLED, PACKET, START
from decoders.host.limits import (
    PackageError,
    SubmissionCrashed,
    SubmissionDisqualified,
    SubmissionError,
    SubmissionLimits,
    SubmissionRefused,
    SubmissionTimeout,
    escape_text,
    limits_of,
    unavailable,
)
from decoders.host.prepare import Prepared, prepare
from decoders.host.process import GRACE_S, NO_DATA, SubmissionProcess, packet_body
from decoders.host.sandbox import Strength, at_least, choose_sandbox
from tracks.common.seconds import SecondGrid
from tracks.emotion import DEFAULTS
from tracks.registry import TRACKS

POSITIONS = ("block", "continuous")


class SubmissionDecoder:
    """Implements `decoders.decoder.Decoder` and `ChannelChooser`.

    Methods raise SubmissionError, with the ending of the run and the results still to be reported.
    """

    def __init__(
        self,
        package: Path | str,
        track: str,
        *,
        interface: str | None = None,
        python: str | None = None,
        positions: str | None = None,
        limits: SubmissionLimits | None = None,
        strength: Strength = "auto",
        log: Path | None = None,
        cache: Path | None = None,
        stop: threading.Event | None = None,
        calibration: Sequence[str] = (),
    ) -> None:
        if positions not in (None, *POSITIONS):
            raise PackageError(f"start positions count per block or continuous, not {positions!r}")
        self.limits = limits or SubmissionLimits()
        self.sandbox = choose_sandbox(strength)
        self.prepared: Prepared = prepare(
            Path(package), track, interface, python, self.limits, cache, stop
        )
        self.log = log or self.prepared.folder / "submission.log"
        self.compute_s = 0.0
        self._stop = stop
        self._track = track
        self._facts = INTERFACES[self.prepared.entry.interface]
        step_s, end_s = self.limits.step_s, self.limits.end_s
        self._allowed = {  # formatted once, not for each packet
            False: (step_s, f"ask for the next packet within {step_s:g} s"),
            True: (end_s, f"end after the finish flag within {end_s:g} s"),
        }
        self._continuous = (positions or self._facts.positions) == "continuous"
        self._process: SubmissionProcess | None = None
        self._requested = self._done = False
        self._early: list[object] = []
        self._sessions = 0
        self._seconds: SecondGrid | None = None
        self._position = 0
        self.measured = Measured(package_bytes(self.prepared.root))
        self._sets = CalibrationSets(track, calibration)
        self._info: SignalInfo | None = None
        self._names: object = None  # of the leads that it chose; None: it has not chosen yet
        self._places: list[int] | None = None  # None: all leads
        self._sent_at = 0.0

    @property
    def title(self) -> str:
        """What is run and how it is isolated, for a person to read."""
        return f"{self.prepared.title}; {self.sandbox.title}"

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """Request its choice of channels, before any data."""
        process = self._ready()
        limit_s = self.limits.start_s
        deadline, awaited = self._deadline(limit_s, f"name its channels within {limit_s:g} s")
        asked = msgspec.json.encode({"subject": info.subject, "count": count})
        process.send(CHOOSE, asked, deadline)
        message = process.receive(deadline, awaited)
        if message.kind != "channels":
            raise SubmissionDisqualified(
                f"the submission answered {message.kind!r} where channels were due"
            )
        try:
            named = message.value if isinstance(message.value, list) else []
            return TRACKS[self._track].check_leads(named, len(info.leads))
        except RuleError as error:
            raise SubmissionRefused(
                f"the submission's channels for subject {info.subject}: {error}; it named "
                f"{escape_text(str(message.value), 200)}"
            ) from error

    def start(self, info: SignalInfo) -> None:
        """Start a subject; the first one starts the process. Returns when it requests data."""
        self._sessions += 1
        if self.prepared.entry.interface == "my_algorithm":
            self._seconds = SecondGrid(Fraction(info.rate), DEFAULTS)
        self._info = info
        facts = {
            "subject": info.subject,
            "number": _number_of(info.subject, self._sessions),
            "rate": float(info.rate),
            "labels": info.lead_names,
            "data_type": TRACKS[self._track].lead_kind,
            "stage": {
                "exp_name": self._track.upper(),
                "exp_task": self._track.upper(),
                "session_id": self._sessions,
                "stage_seed": self._sessions,
            },
        }
        if self._names is not None:
            self._choose_leads(self._names)
        process = self._process or self._launch()
        process.send(START, msgspec.json.encode(facts), time.monotonic() + self.limits.step_s)
        self._ready()

    def step(self, packet: Packet) -> Sequence[object]:
        """Send the packet, and return the reports until the next one is requested."""
        results, self._early = self._early, []
        began = time.monotonic()
        try:
            if packet.n or not self._facts.extra_finish:
                flag = packet.finish and not self._facts.extra_finish
                self._send_packet(self._body_of(packet, flag), flag, results)
            if packet.finish and self._facts.extra_finish:
                self._send_packet(NO_DATA, True, results)
        except SubmissionError as error:
            error.results = results
            raise
        finally:
            self.compute_s += time.monotonic() - began
            self._position += packet.n
        return results

    def close(self) -> None:
        """End its process and remove its files, with its log unless a path was given."""
        if self._process is not None:
            self._process.close(GRACE_S if self._done else 0.0)
        self.prepared.close()

    # --- one packet --------------------------------------------------------------------------

    def _body_of(self, packet: Packet, finish: bool) -> bytes:
        position = self._position if self._continuous else packet.start
        samples = packet.samples
        if self._places is not None:
            samples = np.ascontiguousarray(samples[:, [*self._places, -1]])
        return packet_body(samples, position, finish, self._is_due(packet))

    def _is_due(self, packet: Packet) -> bool:
        """Whether a result is due: my_algorithm after each second, ecog after each packet."""
        seconds = self._seconds
        return seconds is None or seconds.packet(packet.start, packet.n, list(packet.triggers))

    def _send_packet(self, body: bytes, last: bool, results: list[object]) -> None:
        process = self._ready()
        deadline, awaited = self._deadline(*self._allowed[last])
        self._requested = False
        self._sent_at = time.monotonic()
        process.send(PACKET, body, deadline)
        self._collect(process, results, deadline, awaited, last)

    def _collect(
        self,
        process: SubmissionProcess,
        results: list[object],
        deadline: float,
        awaited: str,
        last: bool,
    ) -> None:
        """Collect reports until the next request or, after the last packet, its end."""
        most = len(results) + self.limits.reports_per_packet
        while True:
            message = process.receive(deadline, awaited)
            if message.kind == "report" and len(results) < most:
                results.append(message.value)
                if self._has_stages and self._sent_at:
                    self.measured.reaction_s.append(time.monotonic() - self._sent_at)
            elif message.kind == "report":
                raise SubmissionDisqualified(
                    "the submission floods its host: it made more than "
                    f"{self.limits.reports_per_packet} reports after one packet"
                )
            elif message.kind == "ask" and not last:
                self._requested = True
                return
            elif message.kind == "done" and last:
                self._done = True
                return
            elif message.kind == "done":
                raise SubmissionCrashed(
                    "the submission's run() returned before the finish flag was set; it must read "
                    "until then"
                )
            elif message.kind == "channels" and self._names is None and self._has_stages:
                self._choose_leads(message.value)
            elif message.kind == "calibrate" and self._names is not None and not last:
                deadline = max(deadline, time.monotonic() + self.limits.start_s)
                self._send_set(process, deadline)
            elif message.kind in ("channels", "calibrate"):
                raise SubmissionDisqualified(
                    "the submission wrote into the pipe that only its host may use: "
                    f"{message.kind} unrequested"
                )

    # --- 2026: leads by name, and calibration sets -------------------------------------------

    @property
    def _has_stages(self) -> bool:
        return self.prepared.entry.interface == "g5"

    def _choose_leads(self, named: object) -> None:
        assert self._info is not None
        self._names = named
        self._places = find_places(named, self._info.lead_names)
        self.measured.leads = max(self.measured.leads, len(self._places))

    def _send_set(self, process: SubmissionProcess, deadline: float) -> None:
        assert self._info is not None
        assert self._places is not None
        body, labels = self._sets.next(self._info.subject, self._info.lead_names, self._places)
        self.measured.trials.setdefault(self._info.subject, Counter()).update(labels)
        process.send(LABELLED, body, deadline)

    # --- its process -------------------------------------------------------------------------

    def _ready(self) -> SubmissionProcess:
        """The running process, waiting for data."""
        process = self._process or self._launch()
        if not self._requested:
            limit_s = self.limits.start_s
            awaited = f"ask for its first packet within {limit_s:g} s of its start"
            try:
                self._collect(process, self._early, time.monotonic() + limit_s, awaited, last=False)
            except SubmissionError as error:
                error.results = self._early
                raise
        return process

    def _launch(self) -> SubmissionProcess:
        entry = self.prepared.entry
        settings = {
            "interface": entry.interface,
            "module": entry.module,
            "class": entry.class_name,
            "folders": entry.folders,
            "challenge": {"track": self._track},
        }
        place = (self.prepared, self.sandbox)
        try:
            self._process = SubmissionProcess(*place, settings, self.limits, self.log, self._stop)
        except OSError as error:
            raise unavailable("the submission's process can't be started", error) from error
        return self._process

    def _deadline(self, limit_s: float, awaited: str) -> tuple[float, str]:
        """The deadline, and what it must do until then."""
        left_s = None if self.limits.compute_s is None else self.limits.compute_s - self.compute_s
        if left_s is None or left_s > limit_s:
            return time.monotonic() + limit_s, awaited
        granted = f"the {self.limits.compute_s:g} s of computing that this run grants"
        if left_s <= 0:
            raise SubmissionTimeout(f"the submission used up {granted}")
        return time.monotonic() + left_s, f"come back within {granted}"


def _number_of(subject: str, place: int) -> int:
    """The subject's number for G1 to G3: at the end of its name, else its place in the run."""
    found = re.search(r"(\d{1,9})$", subject)
    return int(found[1]) if found and int(found[1]) > 0 else place


def open_submission(
    package: Path,
    track: str,
    *,
    interface: str | None = None,
    python: str | None = None,
    positions: str | None = None,
    granted: ContestLimits | None = None,
    strength: Strength | None = None,
    log: Path | None = None,
    stop: threading.Event | None = None,
    calibration: Sequence[str] = (),
) -> SubmissionDecoder:
    """Open a submission as a decoder; close() it after the run.

    granted: the contest's limits. calibration: labelled recordings for submissions of 2026.
    """
    granted = granted or ContestLimits()
    return SubmissionDecoder(
        package,
        track,
        interface=interface,
        python=python,
        positions=positions,
        limits=limits_of(granted),
        strength=at_least(granted.strength, strength),
        log=log or own_log(package),
        stop=stop,
        calibration=calibration,
    )


def own_log(package: Path) -> Path:
    """A new log file for each run, in the state folder. Raises EnvironmentUnavailable."""
    try:
        folder = state_dir() / "submissions"
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unavailable("the folder of submissions' logs can't be made", error) from error
    return folder / f"{package.stem}-{os.getpid()}.log"
