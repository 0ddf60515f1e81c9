"""Testimony: what a replay says to the judge, on its control stream and, sealed, on its truth stream."""

from collections import Counter
from collections.abc import Iterator

from bci_stream.errors import LostError, WireError
from bci_stream.wire import names
from bci_stream.wire.messages import ControlMessage, TruthMessage, read_control, read_truth
from bci_stream.wire.sealing import unseal
from bci_stream.wire.transport import Found, TextInlet, Transport

OPEN_S = 5.0


class Testimony:
    """Reads both streams. `complaints` counts what could not be read; `gone`: the replay has ended."""

    def __init__(self, transport: Transport, control: Found, truth: Found, key: bytes) -> None:
        self._transport = transport
        self._key = key
        self._control = transport.text_inlet(control, OPEN_S)
        self._truth = transport.text_inlet(truth, OPEN_S)
        self.offset_s = self._control.clock_offset_s()
        self.replay = names.owner(control.source_id)
        self.heard_at = transport.now()
        self.gone = False
        self.complaints: Counter[str] = Counter()

    def words(self) -> Iterator[tuple[ControlMessage, float]]:
        """What has come on the control stream, with its stamps in the replay's clock."""
        for text, stamp in self._pull(self._control):
            try:
                message = read_control(text)
            except WireError as error:
                self.complaints[str(error)] += 1
                continue
            self.heard_at = self._transport.now()
            yield message, stamp

    def truth(self, run: str) -> Iterator[TruthMessage]:
        """What has come on the truth stream; sealed for this run, which is empty while it is not known."""
        for text, _ in self._pull(self._truth):
            if not run:
                continue  # it is said again
            try:
                yield read_truth(unseal(text, self._key, run))
            except WireError as error:
                self.complaints[str(error)] += 1

    def _pull(self, inlet: TextInlet) -> list[tuple[str, float]]:
        try:
            return inlet.pull(0.0)
        except LostError:
            self.gone = True
            return []

    def close(self) -> None:
        self._control.close()
        self._truth.close()
