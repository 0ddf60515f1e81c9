"""A team's voice: its results stream, on which everything it says is numbered and signed."""

import time
from collections import deque

from bci_stream.wire import names
from bci_stream.wire.messages import Done, Next, Report, ResultsMessage, encode
from bci_stream.wire.signing import sign
from bci_stream.wire.transport import Transport

KEPT = 20_000
"""How many messages can be said again to a judge that was started anew."""


class Voice:
    def __init__(self, transport: Transport, contest: str, team: str, token: bytes) -> None:
        self.contest = contest
        self.team = names.checked_name(team, "team")
        self.token = token
        self.run = ""
        # Numbers only ever grow, also when a worker is started again in the middle of a run.
        self._seq = time.time_ns() // 1000
        self._n = 0
        self._said: deque[str] = deque(maxlen=KEPT)
        self._outlet = transport.text_outlet(names.text_stream(contest, "results", team))

    def say(self, kind: type[ResultsMessage], **fields: object) -> None:
        """What belongs to the run itself also has a number of its own, and can be recalled."""
        self._seq += 1
        of_the_run = kind in (Next, Report, Done)
        if of_the_run:
            fields["n"] = self._n
            self._n += 1
        message = kind(self.contest, self.run, self.team, self._seq, **fields)  # type: ignore[arg-type]
        text = sign(encode(message), self.token)
        if of_the_run:
            self._said.append(text)
        self._outlet.push(text)

    def repeat(self, n: int) -> None:
        """Say again everything from number n on, word for word."""
        first_kept = self._n - len(self._said)
        for text in list(self._said)[max(0, n - first_kept) :]:
            self._outlet.push(text)

    def close(self) -> None:
        self._outlet.close()
