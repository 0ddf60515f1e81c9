"""A team's voice: its results stream, on which everything it says is numbered and signed.

In lockstep it may also have a stream of asks; an ask has its number among the messages.
"""

import time
from collections import deque

import numpy as np
from numpy.typing import NDArray

from bci_stream.wire import names
from bci_stream.wire.crypto import sign
from bci_stream.wire.messages import Done, PacketRequest, ReportMessage, ResultsMessage, encode
from bci_stream.wire.requests import encode_request, request_stream
from bci_stream.wire.transport import SampleOutlet, Transport

KEPT = 20_000
"""How many messages can be said again to a judge that was started anew."""


class ResultsPublisher:
    def __init__(self, transport: Transport, contest: str, team: str, token: bytes) -> None:
        self.contest = contest
        self.team = names.checked_name(team, "team")
        self.token = token
        self.run = ""
        # Numbers only ever grow, also when a worker is started again in the middle of a run.
        self._seq = time.time_ns() // 1000
        self._n = 0
        self._said: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._transport = transport
        self._outlet = transport.text_outlet(names.text_stream(contest, "results", team))
        self._asks: SampleOutlet | None = None
        self._last_ask: NDArray[np.int32] | None = None

    def open_asks(self) -> None:
        if self._asks is None:
            self._asks = self._transport.sample_outlet(request_stream(self.contest, self.team))

    def ask(self, packet: int) -> None:
        """Lockstep: let me have this packet."""
        assert self._asks is not None  # opened before the run was joined
        self._last_ask = encode_request(self.run, packet, self._n, self.token)
        self._n += 1
        self._asks.push(self._last_ask, self._transport.now())

    def ask_again(self) -> None:
        """Said again where it is not answered: an ear may have been opened a moment late."""
        if self._asks is not None and self._last_ask is not None:
            self._asks.push(self._last_ask, self._transport.now())

    def say(self, kind: type[ResultsMessage], **fields: object) -> None:
        """What belongs to the run itself also has a number of its own, and can be recalled."""
        self._seq += 1
        of_the_run = kind in (PacketRequest, ReportMessage, Done)
        if of_the_run:
            fields["n"] = self._n
            self._n += 1
        message = kind(self.contest, self.run, self.team, self._seq, **fields)  # type: ignore[arg-type]
        text = sign(encode(message), self.token)
        if of_the_run:
            self._said.append((self._n - 1, text))
        self._outlet.push(text)

    def repeat(self, n: int) -> None:
        """Say again everything from number n on, word for word."""
        for number, text in list(self._said):
            if number >= n:
                self._outlet.push(text)

    def close(self) -> None:
        self._outlet.close()
        if self._asks is not None:
            self._asks.close()
