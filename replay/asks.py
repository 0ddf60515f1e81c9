"""The asks of a lockstep team: its requests for packets, on a stream that the replay alone hears."""

import numpy as np

from bci_stream.errors import LostError, NotFoundError
from bci_stream.wire import names
from bci_stream.wire.asking import LEADS, read_ask
from bci_stream.wire.transport import Found, SampleInlet, Transport

OPEN_S = 5.0


class Asks:
    """Hears every stream that says it is the team's; only what the team signed counts."""

    def __init__(
        self, transport: Transport, contest: str, team: str, run: str, token: bytes
    ) -> None:
        self._transport = transport
        self._watch = transport.watch(names.source_id(contest, "asks", team))
        self._run = run
        self._token = token
        self._inlets: dict[str, SampleInlet] = {}
        self._passed_over: set[str] = set()

    @property
    def heard(self) -> bool:
        """Whether a stream is open."""
        return bool(self._inlets)

    def look(self) -> None:
        for found in self._watch.found():
            if found.uid not in self._inlets and found.uid not in self._passed_over:
                self._open(found)

    def _open(self, found: Found) -> None:
        try:
            inlet = self._transport.sample_inlet(found, OPEN_S)
        except (NotFoundError, LostError):
            return  # seen, but gone before it could be opened
        if inlet.spec.format == "int32" and inlet.spec.channels == len(LEADS):
            self._inlets[found.uid] = inlet
        else:
            self._passed_over.add(found.uid)
            inlet.close()

    def pull(self, timeout_s: float) -> list[tuple[int, int]]:
        """(packet, n) of the asks that have come; waits up to timeout_s where there is one stream."""
        wait_s = timeout_s if len(self._inlets) == 1 else 0.0
        asks = []
        for uid, inlet in list(self._inlets.items()):
            try:
                rows, _ = inlet.pull(1, wait_s)
            except LostError:
                self._passed_over.add(uid)
                self._inlets.pop(uid).close()
                continue
            asks += [read_ask(np.asarray(row, np.int32), self._run, self._token) for row in rows]
        return [ask for ask in asks if ask is not None]

    def close(self) -> None:
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()
