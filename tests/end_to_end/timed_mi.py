"""A decoder for tests: always class 1, at 1.6, 2.6 and 3.6 s of each imagery."""

from collections.abc import Sequence

from bci_stream.packet import Packet, SignalInfo

IMAGERY_START = 200
REPORT_AT_S = (1.6, 2.6, 3.6)


class TimedMi:
    def __init__(self, model: object = None, seed: int = 0) -> None:
        self._seen: int | None = None

    def start(self, info: SignalInfo) -> None:
        self._rate = info.rate

    def step(self, packet: Packet) -> Sequence[object]:
        due = []
        if self._seen is not None:
            before, self._seen = self._seen, self._seen + packet.n
            due = [1 for at in REPORT_AT_S if before < at * self._rate <= self._seen]
        if any(code == IMAGERY_START for _, code in packet.triggers):
            self._seen = 0
        return due
