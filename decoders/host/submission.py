"""A submission as a decoder: a contestant's own code, unmodified, in its own process.

A submission pulls: its get_data() waits for the next packet, and it may report at any time. A
decoder is fed. So step() hands the packet over as the answer to the get_data() that is waiting, and
collects what is reported until the next get_data(): a report belongs to the last packet that was
given before it.
"""

import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.host.child import GRACE_S, Child
from decoders.host.errors import (
    PackageError,
    SubmissionCrashed,
    SubmissionDisqualified,
    SubmissionError,
    SubmissionRefused,
    SubmissionTimeout,
)
from decoders.host.interface import INTERFACES
from decoders.host.limits import Limits
from decoders.host.prepared import Prepared, prepare
from decoders.host.printable import printable
from decoders.host.sandbox import Strength, choose_sandbox

POSITIONS = ("block", "continuous")


class SubmissionDecoder:
    """Implements `decoders.decoder.Decoder` and `ChannelChooser`.

    A SubmissionError says how the run ends (`ending`) and holds what is still to be reported
    (`results`).
    """

    def __init__(
        self,
        package: Path | str,
        track: str,
        *,
        interface: str | None = None,
        python: str | None = None,
        positions: str | None = None,
        limits: Limits | None = None,
        strength: Strength = "auto",
        log: Path | None = None,
        cache: Path | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        if positions not in (None, *POSITIONS):
            raise PackageError(f"start positions count per block or continuous, not {positions!r}")
        self.limits = limits or Limits()
        self.sandbox = choose_sandbox(strength)
        self.prepared: Prepared = prepare(
            Path(package), track, interface, python, self.limits, cache
        )
        self.log = log or self.prepared.folder / "submission.log"
        self.compute_s = 0.0
        self._stop = stop
        self._track = track
        self._facts = INTERFACES[self.prepared.entry.interface]
        self._continuous = (positions or self._facts.positions) == "continuous"
        self._child: Child | None = None
        self._asked = self._done = False
        self._early: list[object] = []
        self._sessions = 0
        self._subject_number = 0
        self._position = 0

    @property
    def title(self) -> str:
        """What is run and how it is contained, in words to be printed."""
        return f"{self.prepared.title}; {self.sandbox.title}"

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """ecog: ask it for its channels, before any data."""
        child = self._ready()
        deadline, awaited = self._deadline(self.limits.start_s, "name its channels")
        child.send({"kind": "choose", "subject": info.subject, "count": count}, deadline)
        message = child.receive(deadline, awaited)
        if message.kind != "channels":
            raise SubmissionDisqualified(
                f"the submission answered {message.kind!r} where channels were due"
            )
        return _checked_channels(message.value, count, len(info.leads), info.subject)

    def start(self, info: SignalInfo) -> None:
        """Tell it of the subject; the first one starts it, and waits until it asks for data."""
        self._sessions += 1
        self._subject_number = _number_of(info.subject, self._sessions)
        header = {
            "kind": "start",
            "rate": float(info.rate),
            "labels": info.lead_names,
            "data_type": "ECOG" if self._track == "ecog" else "EEG",
        }
        child = self._child or self._launch()
        child.send(header, time.monotonic() + self.limits.step_s)
        self._ready()

    def step(self, packet: Packet) -> Sequence[object]:
        """Give it the packet, and return what it reports before it asks for the next one."""
        results, self._early = self._early, []
        began = time.monotonic()
        try:
            if packet.n or not self._facts.extra_finish:
                flag = packet.finish and not self._facts.extra_finish
                self._give(packet, flag, results)
            if packet.finish and self._facts.extra_finish:
                self._give_end(packet, results)
        except SubmissionError as error:
            error.results = results
            raise
        finally:
            self.compute_s += time.monotonic() - began
            self._position += packet.n
        return results

    def close(self) -> None:
        """End its process and forget its files; its log goes too, unless it was named."""
        if self._child is not None:
            self._child.close(GRACE_S if self._done else 0.0)
        self.prepared.close()

    # --- one packet --------------------------------------------------------------------------

    def _give(self, packet: Packet, finish: bool, results: list[object]) -> None:
        header = {
            **self._place_of(packet),
            "n": packet.n,
            "channels": packet.samples.shape[1],
            "start": packet.start,
            "codes": [code for _, code in packet.triggers],
            "position": self._position if self._continuous else packet.start,
            "finish": finish,
        }
        self._hand_over(header, np.ascontiguousarray(packet.samples, dtype="<f4"), results)

    def _give_end(self, packet: Packet, results: list[object]) -> None:
        """G4's last packet: no data, nothing but the finish flag."""
        header = {**self._place_of(packet), "n": None, "channels": 0, "start": None, "codes": []}
        self._hand_over({**header, "position": None, "finish": True}, None, results)

    def _place_of(self, packet: Packet) -> dict[str, Any]:
        subject = {"subject": packet.subject, "number": self._subject_number}
        return {"kind": "packet", "session": self._sessions, **subject}

    def _hand_over(self, header: dict[str, Any], samples: Any, results: list[object]) -> None:
        child = self._ready()
        last = header["finish"]
        limit_s = self.limits.end_s if last else self.limits.step_s
        awaited = "end after the finish flag" if last else "ask for the next packet"
        deadline, awaited = self._deadline(limit_s, awaited)
        self._asked = False
        child.send(header, deadline, samples)
        self._collect(child, results, deadline, awaited, last)

    def _collect(
        self, child: Child, results: list[object], deadline: float, awaited: str, last: bool
    ) -> None:
        """Take its reports until it asks for the next packet or, after the last one, ends."""
        most = len(results) + self.limits.reports_per_packet
        while True:
            message = child.receive(deadline, awaited)
            if message.kind == "report" and len(results) < most:
                results.append(message.value)
            elif message.kind == "report":
                raise SubmissionDisqualified(
                    "the submission floods its host: it made more than "
                    f"{self.limits.reports_per_packet} reports after one packet"
                )
            elif message.kind == "ask" and not last:
                self._asked = True
                return
            elif message.kind == "done" and last:
                self._done = True
                return
            elif message.kind == "done":
                raise SubmissionCrashed(
                    "the submission's run() returned before the finish flag was set; it must read "
                    "until then"
                )

    # --- its process -------------------------------------------------------------------------

    def _ready(self) -> Child:
        """The running child, waiting for data."""
        child = self._child or self._launch()
        if not self._asked:
            limit_s = self.limits.start_s
            awaited = f"ask for its first packet within {limit_s:g} s of its start"
            try:
                self._collect(child, self._early, time.monotonic() + limit_s, awaited, last=False)
            except SubmissionError as error:
                error.results = self._early
                raise
        return child

    def _launch(self) -> Child:
        entry = self.prepared.entry
        settings = {
            "kind": "settings",
            "interface": entry.interface,
            "module": entry.module,
            "class": entry.class_name,
            "folders": entry.folders,
            "challenge": {"track": self._track},
        }
        place = (self.prepared, self.sandbox)
        self._child = Child(*place, settings, self.limits, self.log, self._stop)
        return self._child

    def _deadline(self, limit_s: float, awaited: str) -> tuple[float, str]:
        """When it must be back, and that in words."""
        left_s = None if self.limits.compute_s is None else self.limits.compute_s - self.compute_s
        if left_s is None or left_s > limit_s:
            return time.monotonic() + limit_s, f"{awaited} within {limit_s:g} s"
        if left_s <= 0:
            raise SubmissionTimeout(
                f"the submission used up the {self.limits.compute_s:g} s of computing that this "
                "run grants"
            )
        allowed = f"{self.limits.compute_s:g} s of computing that this run grants"
        return time.monotonic() + left_s, f"{awaited} within the {allowed}"


def _number_of(subject: str, place: int) -> int:
    """A subject's number for G1 to G3: the one its name ends with, else its place in the run."""
    found = re.search(r"(\d{1,9})$", subject)
    return int(found[1]) if found and int(found[1]) > 0 else place


def _checked_channels(value: object, count: int, leads: int, subject: str) -> list[int]:
    numbers = value if isinstance(value, list) else []
    whole = [each for each in numbers if isinstance(each, int) and not isinstance(each, bool)]
    fitting = {each for each in whole if 1 <= each <= leads}
    if len(numbers) != count or len(fitting) != count:
        raise SubmissionRefused(
            f"the submission must name exactly {count} different channels of 1 to {leads} for "
            f"subject {subject}, as whole numbers; it named {printable(str(value), 200)}"
        )
    return whole
