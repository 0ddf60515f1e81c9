"""The state of the viewer: fed by the thread that reads a source, asked for frames by the page's server."""

import base64
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import BciError
from bci_stream.packet import FloatArray
from bci_stream.signal_quality import spectrum
from replay.model.events import text_of
from replay.model.source import RawPacket, Session, Source
from replay.tools.look.signal import (
    ColumnMaker,
    DisplayFilter,
    FilterSettings,
    find_faults,
    finite,
    flat_positions,
    in_decibels,
)

COLUMNS_A_SECOND = 60.0
WINDOW_S = 4.0
"""Faults and spectrum are those of this much of the past."""
SLOW_S = 1.0
MOST_TRIGGERS = 200
PACKET_S = 0.04
OHM = {
    "ohm": 0.001,
    "ohms": 0.001,
    "kohm": 1.0,
    "kohms": 1.0,
    "kiloohm": 1.0,
    "kω": 1.0,
    "ω": 0.001,
}
"""Units of impedance, in kiloohm; channels in such a unit are shown as impedance and not drawn."""


class LiveView:
    """One session of a source, as the page shows it. Any thread may call any method."""

    def __init__(
        self, session: Session, now: Callable[[], float] = time.monotonic, name: str = "signal"
    ) -> None:
        self._now, self._rate, self._name = now, session.rate, name
        self._impedance = [i for i, lead in enumerate(session.leads) if lead.unit.lower() in OHM]
        self._shown = [i for i in range(len(session.leads)) if i not in self._impedance]
        self.leads = [session.leads[i] for i in self._shown]
        self._impedance_leads = [session.leads[i] for i in self._impedance]
        self._size = max(1, round(session.rate / COLUMNS_A_SECOND))
        self._lock = threading.Lock()
        self._set_filter(FilterSettings())
        self._recent: deque[FloatArray] = deque()
        self._kept = 0
        self._drawn: list[tuple[FloatArray, FloatArray]] = []
        self._column = 0
        self._triggers: deque[dict[str, Any]] = deque(maxlen=MOST_TRIGGERS)
        self._samples = self._next_start = self._lost = self._gaps = 0
        self._lag_s: float | None = None
        self._kiloohm: list[float] = []
        self._slow_at = -SLOW_S
        self.state, self.detail = "waiting", ""
        self._places = flat_positions(self.leads)

    def _set_filter(self, settings: FilterSettings) -> None:
        self._filter = DisplayFilter(settings, self._rate)
        self._columns = ColumnMaker(self._size, len(self._shown))

    def describe(self) -> dict[str, Any]:
        """What the page needs once."""
        return {
            "kind": "source",
            "name": self._name,
            "rate": self._rate,
            "columns": self._rate / self._size,
            "leads": [
                {"name": lead.name, "kind": lead.kind, "unit": lead.unit, "place": place}
                for lead, place in zip(self.leads, self._places, strict=True)
            ],
            "filter": vars(self._filter.settings),
            "impedance": [lead.name for lead in self._impedance_leads],
        }

    def change_filter(self, settings: FilterSettings) -> None:
        with self._lock:
            self._set_filter(settings)

    def add(self, packet: RawPacket) -> None:
        with self._lock:
            samples = packet.samples[:, self._shown]
            if self._impedance:
                scale = [OHM[lead.unit.lower()] for lead in self._impedance_leads]
                self._kiloohm = (packet.samples[-1, self._impedance] * scale).tolist()
            if packet.start > self._next_start and self._samples:
                self._lost += packet.start - self._next_start
                self._gaps += 1
            self._triggers.extend(
                {
                    "column": (self._samples + at) // self._size,
                    "code": int(code),
                    "text": text_of(code),
                    "s": (self._samples + at) / self._rate,
                }
                for at, code in packet.triggers
            )
            self._next_start = packet.start + len(samples)
            self._samples += len(samples)
            if packet.stamp is not None:
                self._lag_s = self._now() - packet.stamp
            self._drawn.append(self._columns.step(self._filter.step(samples)))
            self._recent.append(samples)
            self._kept += len(samples)
            while self._kept - len(self._recent[0]) >= WINDOW_S * self._rate:
                self._kept -= len(self._recent.popleft())

    def frame(self, judged: bool = True) -> dict[str, Any]:
        """What is new since the last frame; faults and spectrum once a second, if `judged`."""
        with self._lock:
            drawn, self._drawn = self._drawn, []
            triggers = list(self._triggers)
            self._triggers.clear()
            due = judged and self._now() - self._slow_at >= SLOW_S
            recent = list(self._recent) if due else []
            status = {
                "state": self.state, "detail": self.detail, "samples": self._samples, "lost": self._lost,
                "gaps": self._gaps, "lag_ms": None if self._lag_s is None else 1000 * self._lag_s,
                "kiloohm": self._kiloohm,
            }  # fmt: skip
        frame: dict[str, Any] = {"kind": "frame", "triggers": triggers, **status}
        if drawn:
            low = np.concatenate([low for low, _ in drawn])
            high = np.concatenate([high for _, high in drawn])
            frame["n"] = len(low)
            frame["data"] = _text(np.stack([low, high]).astype("<f4", copy=False))
        frame["first"] = self._column
        self._column += frame.get("n", 0)
        if recent:
            self._slow_at = self._now()
            frame |= self._slow(np.concatenate(recent))
        return frame

    def _slow(self, block: FloatArray) -> dict[str, Any]:
        if len(block) < self._rate / 2:
            return {}
        names = [lead.name for lead in self.leads]
        line_hz = self._filter.settings.notch or 50.0
        computed = spectrum(finite(block), self._rate)
        frequencies, power = in_decibels(*computed)
        faults = find_faults(block, self._rate, line_hz, names, computed)
        return {
            "faults": [fault.as_dict() for fault in faults],
            "spectrum": {
                "hz": np.round(frequencies, 2).tolist(),
                "tenths_db": _text(np.rint(10 * power.T).astype("<i2")),
            },
        }


def _text(values: NDArray[Any]) -> str:
    """An array as the page reads it; numbers in JSON take ten times as long to write."""
    return base64.b64encode(values.tobytes()).decode()


def read_source(source: Source, session: Session, view: LiveView, stop: threading.Event) -> None:
    """Feed the view until the source ends or `stop` is set; a recording is read in real time."""
    view.state = "connected" if source.live else "playing"
    if source.device is not None:
        source.device.listen(lambda status: _show_status(view, status.state, status.as_dict()))
    try:
        for packet in _paced(source, session, stop):
            view.add(packet)
            if stop.is_set():
                break
        view.state = "ended"
    except BciError as error:
        view.state, view.detail = "failed", str(error)


def _show_status(view: LiveView, state: str, details: dict[str, Any]) -> None:
    view.state, view.detail = state, str(details.get("detail", ""))


def _paced(source: Source, session: Session, stop: threading.Event) -> Iterator[RawPacket]:
    packets = session.packets(max(1, round(PACKET_S * session.rate)))
    if source.live:
        yield from packets
        return
    begin, n = time.monotonic(), 0
    for packet in packets:
        n += len(packet.samples)
        if stop.wait(max(0.0, begin + n / session.rate - time.monotonic())):
            return
        yield packet
