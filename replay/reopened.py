"""A reopened session: what is known of a recording; its samples are read when it is played."""

from collections.abc import Callable, Iterator, Sequence

from bci_stream.packet import Triggers
from replay.blocks import SpanBlock
from replay.file_session import FileSession
from replay.source import RawPacket


class ReopenedSession:
    """A session whose recording would lie in memory as a whole; implements `Session`.

    It was opened once, and so checked; its facts stay, its samples do not.
    """

    def __init__(self, session: FileSession, reopen: Callable[[], FileSession]) -> None:
        self.subject = session.subject
        self.rate = session.rate
        self.leads = session.leads
        self.n_samples = session.n_samples
        self.angles = session.angles
        self.notes = session.notes
        self.masked = session.masked
        self._blocks = list(session.block_triggers())
        self._reopen = reopen

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        return self._blocks

    @property
    def blocks(self) -> list[SpanBlock]:
        return self._reopen().blocks

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        yield from self._reopen().packets(packet_samples)
