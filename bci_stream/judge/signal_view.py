"""Shows the page what is on the wire: the judge's small live view of the signal.

It runs in a thread of its own, beside the judging, and only looks.
"""

import threading
from typing import Protocol

from bci_stream.errors import LostError, NotFoundError
from bci_stream.packet import FloatArray
from bci_stream.wire import names
from bci_stream.wire.transport import SampleInlet, Transport

LOOK_EVERY_S = 0.5


class Screen(Protocol):
    def signal(
        self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]
    ) -> None: ...


class SignalView:
    """Follows the signal streams of a contest, one a track."""

    def __init__(self, transport: Transport, contest: str, screen: Screen) -> None:
        self._transport = transport
        self._screen = screen
        self._watch = transport.watch(names.prefix(contest, "signal"))
        self._inlets: dict[str, SampleInlet] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signal-view", daemon=True)

    def __enter__(self) -> "SignalView":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._watch.close()

    def _run(self) -> None:
        looked = -LOOK_EVERY_S
        while not self._stop.wait(0.05):
            now = self._transport.now()
            if now - looked > LOOK_EVERY_S:
                looked = now
                self._look()
            for track, inlet in list(self._inlets.items()):
                self._show(track, inlet)

    def _look(self) -> None:
        for found in self._watch.found():
            try:
                inlet = self._transport.sample_inlet(found, 2.0)
            except (LostError, NotFoundError):
                continue  # it ended as it was seen
            track = inlet.spec.meta.get("track", "")
            if track and track not in self._inlets:
                self._inlets[track] = inlet
            else:
                inlet.close()

    def _show(self, track: str, inlet: SampleInlet) -> None:
        try:
            samples, _ = inlet.pull(int(inlet.spec.rate) or 1, 0.0)
        except LostError:
            del self._inlets[track]
            return
        if len(samples):
            leads = tuple(lead.name for lead in inlet.spec.leads[:-1])
            self._screen.signal(track, samples[:, :-1], inlet.spec.rate, leads)
