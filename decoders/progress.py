"""How a team's run goes, as its own worker sees it: one line on a terminal, now and then one in a log."""

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from bci_stream.clock import thread_beside
from bci_stream.packet import Packet, SignalInfo
from bci_stream.wire.messages import Offer

logger = logging.getLogger(__name__)

SHOW_EVERY_S, LOG_EVERY_S = 0.5, 30.0
"""How often the line on a terminal changes, and how often one is logged."""

STEPS_KEPT = 1000
"""The decoder's time a packet is given over so many of the last ones."""


class WorkerProgress:
    """What a worker has done so far. The working thread writes it; another one reads `line`.

    reports: how many were sent. behind_s: how far behind the stream it is; None in lockstep.
    """

    def __init__(self, team: str) -> None:
        self._team = team
        self._offer: Offer | None = None
        self._subjects: list[str] = []
        self._info: SignalInfo | None = None
        self._samples = 0
        self._steps_s: deque[float] = deque(maxlen=STEPS_KEPT)
        self._worst_s = 0.0
        self.reports = 0
        self.behind_s: float | None = None

    def joined(self, offer: Offer) -> None:
        self._offer = offer
        count = len(offer.subjects)
        logger.info(
            "team %s: joined run %s of replay %s: track %s, %s, %s",
            *(self._team, offer.run, offer.name or "-", offer.track, offer.pace),
            "1 subject" if count == 1 else f"{count} subjects",
        )

    def session(self, info: SignalInfo) -> None:
        self._info = info
        self._samples = 0
        self._subjects.append(info.subject)

    def packet(self, packet: Packet, took_s: float) -> None:
        """took_s: what the decoder needed for this packet."""
        self._samples += len(packet.samples)
        self._steps_s.append(took_s)
        self._worst_s = max(self._worst_s, took_s)

    def line(self) -> str:
        """The state in one line; empty before the first subject."""
        if self._offer is None or self._info is None:
            return ""
        of = len(self._offer.subjects)
        played_s = int(self._samples / self._info.rate)
        parts = [
            f"{self._offer.track} {self._info.subject} ({len(self._subjects)} of {of})",
            f"{played_s // 60}:{played_s % 60:02d} of signal",
            f"{self.reports} report{'' if self.reports == 1 else 's'}",
            *self._latency(),
        ]
        return f"team {self._team}: " + ", ".join(parts)

    def _latency(self) -> list[str]:
        steps = list(self._steps_s)
        if not steps:
            return []
        median, high = (1000 * float(q) for q in np.quantile(steps, (0.5, 0.99)))
        parts = [
            f"decoder {median:.1f} ms a packet (p99 {high:.1f}, worst {1000 * self._worst_s:.1f})"
        ]
        if self.behind_s is not None:
            parts.append(f"{max(0.0, self.behind_s):.2f} s behind the stream")
        return parts


def describe_closed(receipt: str) -> str:
    """What the judge's last message about the run says; empty where there is none."""
    if not receipt:
        return "no judge has closed it"
    closed = json.loads(receipt)
    return f"the judge closed it as {closed['reason']}, with {closed['lines']} lines in its log"


def shown(progress: WorkerProgress) -> AbstractContextManager[None]:
    """Show the state on a terminal, or log it now and then; neither with -q."""
    if not logger.isEnabledFor(logging.INFO):
        return nullcontext()
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    show = _show_on_terminal if on_terminal else _log_now_and_then
    return thread_beside(lambda over: show(progress.line, over), "progress")


def _show_on_terminal(line: Callable[[], str], over: threading.Event) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.status import Status

    with Status("waiting for a replay", console=Console(stderr=True)) as status:
        while not over.wait(SHOW_EVERY_S):
            if text := line():
                status.update(escape(text))


def _log_now_and_then(line: Callable[[], str], over: threading.Event) -> None:
    while not over.wait(LOG_EVERY_S):
        if text := line():
            logger.info("%s", text)
