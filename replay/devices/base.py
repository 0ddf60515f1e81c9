"""A live session: a device's chunks, numbered, stamped and cut into packets, until it is closed."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from bci_stream.packet import Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.gaps import find_silent_gaps
from replay.devices.manual_triggers import ManualTriggerError, ManualTriggers, ManualTriggerServer
from replay.devices.packetiser import Packetiser
from replay.devices.status import DeviceStatus, Listener, StatusKeeper
from replay.devices.timing import SampleClock, SampleTimeline
from replay.model.source import RawPacket, Session

MARK_WAIT_S = 1.0
"""A mark waits no longer for the sample of its moment: a device's stamps may be wrong."""


class DeviceFeed(Protocol):
    """A device that is being read."""

    @property
    def counts(self) -> bool:
        """Whether its chunks tell how many samples are missing; else that is found by time."""

    def open(self) -> DeviceInfo:
        """Find the device and what it measures; raises SourceError where that fails in its time."""

    def chunks(self, missing: Callable[[], int]) -> Iterator[tuple[Chunk, float]]:
        """Each chunk with the LSL time at which it was received, until close() or the end.

        missing: how many samples the next packet still needs; nobody waits for fewer, so a device
        that can count its bytes need not be read before they are there.
        """

    def clock(self, rate: float) -> SampleClock:
        """How its samples are stamped."""

    def close(self) -> None:
        """End every wait, from any thread."""


class LiveSession:
    """Implements `replay.model.source.Session`. A device is one block: its samples count from the first.

    until: a trigger code after whose packet the session ends by itself.
    """

    n_samples = None
    angles = None
    notes = ()
    masked = False

    def __init__(
        self,
        subject: str,
        info: DeviceInfo,
        feed: DeviceFeed,
        keeper: StatusKeeper,
        marks: ManualTriggers,
        until: int | None = None,
    ) -> None:
        self.subject = subject
        self.rate = info.rate
        self.leads: tuple[Lead, ...] = info.leads
        self._feed, self._keeper, self._marks, self._until = feed, keeper, marks, until

    def block_triggers(self) -> None:
        return None

    @property
    def status(self) -> DeviceStatus:
        return self._keeper.now

    def listen(self, listener: Listener) -> None:
        self._keeper.listen(listener)

    def close(self) -> None:
        self._feed.close()

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        server = self._take_marks()
        try:
            yield from self._packets(packet_samples)
        finally:
            if server is not None:
                server.close()

    def _packets(self, packet_samples: int) -> Iterator[RawPacket]:
        timeline = SampleTimeline(self.rate, self._feed.clock(self.rate))
        packetiser = Packetiser(packet_samples, timeline.stamp)
        chunks = self._feed.chunks(lambda: packetiser.missing)
        if not self._feed.counts:
            chunks = find_silent_gaps(chunks, self.rate)
        for chunk, arrival in chunks:
            chunk = self._marked(chunk, timeline.end_of(chunk, arrival), arrival)
            placed = timeline.place(chunk, arrival)
            self._keeper.took(placed, timeline.clock)
            for packet in packetiser.push(placed):
                if any(code == self._until for _, code in packet.triggers):
                    self._keeper.tell("ended", f"trigger {self._until} came")
                    yield replace(packet, last_of_block=True)
                    return
                yield packet
            self._keeper.look_at(placed)  # when its packets have left: nobody waits for that
        self._keeper.tell("ended", "closed")
        yield from packetiser.flush(last_of_block=True)

    def _marked(self, chunk: Chunk, end: float, arrival: float) -> Chunk:
        """With the marks that were set until its end: each on the sample that was taken next."""
        taken = self._marks.take(max(end, arrival - MARK_WAIT_S))
        if not taken:
            return chunk
        last = chunk.n - 1
        places = (last - math.floor((end - at) * self.rate) for _, at in taken)
        marks = [(min(last, max(0, i)), code) for i, (code, _) in zip(places, taken, strict=True)]
        triggers = sorted([*marks, *chunk.triggers], key=lambda trigger: trigger[0])
        return replace(chunk, triggers=tuple(triggers))

    def _take_marks(self) -> ManualTriggerServer | None:
        """Marks are a convenience: where they can't be taken, the stream goes on without them."""
        try:
            return ManualTriggerServer(self._marks, self._keeper.now.device.partition(":")[0])
        except ManualTriggerError as error:
            self._keeper.note(str(error))
            return None


class LiveSource:
    """Implements `replay.model.source.Source`: one device, one session. now: the device's clock."""

    live = True

    def __init__(
        self,
        uri: str,
        subject: str,
        make_feed: Callable[[StatusKeeper, ManualTriggers], DeviceFeed],
        until: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uri = uri
        self.track: str | None = None
        self._subject, self._until = subject, until
        self._keeper = StatusKeeper(uri)
        self.marks = ManualTriggers(now)
        self._feed = make_feed(self._keeper, self.marks)

    @property
    def device(self) -> "LiveSource":
        return self

    @property
    def status(self) -> DeviceStatus:
        return self._keeper.now

    def listen(self, listener: Listener) -> None:
        """Be told of each change: connected, stalled, reconnecting, gaps; on the reading thread."""
        self._keeper.listen(listener)

    def sessions(self) -> Iterator[Session]:
        info = self._feed.open()
        yield LiveSession(self._subject, info, self._feed, self._keeper, self.marks, self._until)

    def close(self) -> None:
        self._feed.close()
