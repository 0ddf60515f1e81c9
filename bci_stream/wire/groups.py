"""All text streams of one role in a contest, read together; new ones are opened as they appear."""

from bci_stream.errors import LostError, NotFoundError
from bci_stream.wire import names
from bci_stream.wire.names import Role
from bci_stream.wire.transport import FoundStream, TextInlet, Transport

OPEN_S = 5.0


class StreamGroup:
    """The open inlets of a role; `gone` lists the owners of streams that have ended."""

    def __init__(self, transport: Transport, contest: str, role: Role) -> None:
        self._transport = transport
        self._watch = transport.watch(names.prefix(contest, role))
        self._inlets: dict[str, tuple[str, TextInlet]] = {}
        self._ended: set[str] = set()
        self.gone: list[str] = []
        self._closed = False

    @property
    def owners(self) -> list[str]:
        return [owner for owner, _ in self._inlets.values()]

    def look(self) -> None:
        """Open the streams that have appeared since the last call."""
        for found in self._watch.found():
            if found.uid not in self._inlets and found.uid not in self._ended:
                self._open(found)

    def _open(self, found: FoundStream) -> None:
        try:
            inlet = self._transport.text_inlet(found, OPEN_S)
        except NotFoundError:
            return  # ended just after it was discovered, or tried again at the next call
        self._inlets[found.uid] = (names.owner(found.source_id), inlet)

    def pull(self, timeout_s: float = 0.0) -> list[tuple[str, str, float]]:
        """(owner, text, stamp) of all texts that have arrived; waits only if there is one stream."""
        wait_s = timeout_s if len(self._inlets) == 1 else 0.0
        texts = []
        for uid, (owner, inlet) in list(self._inlets.items()):
            try:
                texts += [(owner, text, stamp) for text, stamp in inlet.pull(wait_s)]
            except LostError:
                self._end(uid)
        return texts

    def _end(self, uid: str) -> None:
        owner, inlet = self._inlets.pop(uid)
        inlet.close()
        self._ended.add(uid)
        self.gone.append(owner)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        for _, inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()
