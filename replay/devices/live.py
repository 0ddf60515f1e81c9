"""A device as a source of packets: `LiveSession` numbers and stamps the samples of a feed and cuts them into
packets; `LiveSource` is what `open_source` returns.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from replay.devices.adapt import adapt_session
from replay.devices.base import LOST_CONNECTION, DeviceFeed
from replay.devices.chunk import Chunk, DeviceInfo, Packetiser
from replay.devices.manual_triggers import ManualTriggerError, ManualTriggers, ManualTriggerServer
from replay.devices.status import DeviceStatus, Listener, StatusKeeper
from replay.devices.timing import SampleTimeline
from replay.model.options import SourceOptions
from replay.model.source import RawPacket, Session

TRIGGER_WAIT_S = 1.0
"""A manual trigger waits at most this long for the sample of its time: stamps may be wrong."""


class LiveSession:
    """Implements `replay.model.source.Session`: a device as one block, numbered from its first sample.

    until: a trigger code after whose packet the session ends by itself.
    """

    n_samples = None
    angles = None
    notes: tuple[str, ...] = ()
    masked = False

    def __init__(
        self,
        subject: str,
        info: DeviceInfo,
        feed: DeviceFeed,
        status: StatusKeeper,
        manual_triggers: ManualTriggers,
        until: int | None = None,
        replay_name: str = "",
    ) -> None:
        self.subject = subject
        self._replay_name = replay_name
        self.rate, self.leads = info.rate, info.leads
        self._feed, self._status, self._until = feed, status, until
        self._manual_triggers = manual_triggers

    def block_triggers(self) -> None:
        return None

    def close(self) -> None:
        self._feed.close()

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        server = self._serve_triggers()
        try:
            yield from self._packets(packet_samples)
        finally:
            if server is not None:
                server.close()

    def _packets(self, packet_samples: int) -> Iterator[RawPacket]:
        timeline = SampleTimeline(self.rate, self._feed.device.clock(self.rate))
        packetiser = Packetiser(packet_samples, timeline.stamp)
        chunks = self._feed.chunks(lambda: packetiser.missing)
        if not self._feed.device.counts_samples:
            chunks = find_silent_gaps(chunks, self.rate)
        for arrived in chunks:
            if arrived is LOST_CONNECTION:
                yield from packetiser.flush()
                continue
            chunk, arrival = arrived
            chunk = self._with_manual_triggers(chunk, timeline.end_of(chunk, arrival), arrival)
            placed = timeline.place(chunk, arrival)
            self._status.count(placed, timeline.clock)
            for packet in packetiser.push(placed):
                if any(code == self._until for _, code in packet.triggers):
                    self._status.set_state("ended", f"trigger {self._until} came")
                    yield replace(packet, last_of_block=True)
                    return
                yield packet
            self._status.check(placed)  # after its packets have left, so that they need not wait
        self._status.set_state("ended", "closed")
        yield from packetiser.flush(last_of_block=True)

    def _with_manual_triggers(self, chunk: Chunk, end: float, arrival: float) -> Chunk:
        """Add the manual triggers set before `end`, each on the sample that was taken next."""
        taken = self._manual_triggers.take(max(end, arrival - TRIGGER_WAIT_S))
        if not taken:
            return chunk
        last = chunk.n - 1
        offsets = (last - math.floor((end - at) * self.rate) for _, at in taken)
        manual = [(min(last, max(0, i)), code) for i, (code, _) in zip(offsets, taken, strict=True)]
        triggers = sorted([*manual, *chunk.triggers], key=lambda trigger: trigger[0])
        return replace(chunk, triggers=tuple(triggers))

    def _serve_triggers(self) -> ManualTriggerServer | None:
        """If manual triggers can't be received, the device runs without them."""
        name = self._replay_name or self._status.now.device.partition(":")[0]
        try:
            return ManualTriggerServer(self._manual_triggers, name)
        except ManualTriggerError as error:
            self._status.note(str(error))
            return None


class LiveSource:
    """Implements `replay.model.source.Source`: one device, one session, its leads and rate adapted.

    options: which leads, under which names, and the track whose leads and rate it gets.
    """

    live = True
    track: str | None = None
    replay_name = ""

    def __init__(
        self,
        feed: DeviceFeed,
        status: StatusKeeper,
        manual_triggers: ManualTriggers | None = None,
        subject: str = "live",
        until: int | None = None,
        options: SourceOptions | None = None,
    ) -> None:
        self.uri = status.now.device
        self._feed, self._status = feed, status
        self._manual_triggers = manual_triggers or ManualTriggers(time.monotonic)
        self._subject, self._until = subject, until
        self._options = options or SourceOptions()

    @property
    def device(self) -> "LiveSource":
        return self

    @property
    def status(self) -> DeviceStatus:
        return self._status.now

    def listen(self, listener: Listener) -> None:
        """Call listener(status) at each change of state and each note, on the reading thread."""
        self._status.listen(listener)

    def sessions(self) -> Iterator[Session]:
        info = self._feed.open()
        triggers, until = self._manual_triggers, self._until
        session = LiveSession(
            self._subject, info, self._feed, self._status, triggers, until, self.replay_name
        )
        yield adapt_session(session, self.uri, self._options)

    def close(self) -> None:
        self._feed.close()


SILENCE_S = 0.1
"""A shorter silence is usual on a network."""

DECIDE_S = 0.2
"""After a silence it is watched for this long whether samples come faster than they are taken,"""
CATCHING_UP = 0.1
"""by at least this share: then they are a backlog, and nothing was lost."""

LONGEST_S = 2.0
"""Nothing is held back longer; what still comes faster by then is a long backlog."""


def find_silent_gaps(
    chunks: Iterable[tuple[Chunk, float] | None], rate: float
) -> Iterator[tuple[Chunk, float] | None]:
    """The same chunks and arrival times; `lost` is None for a chunk before which samples are missing.

    As `replay.devices.gaps.GapFinder`, for samples without stamps: only silences of 0.1 s and more count, and
    chunks are held back only after one.
    At None, where a connection ended, nothing is held back any longer.
    """
    watch = _ArrivalWatch(rate)
    for arrived in chunks:
        if arrived is None:
            yield from [*watch.release(lost=True), None]
        else:
            yield from watch.step(*arrived)
    yield from watch.release(lost=True)


class _ArrivalWatch:
    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._last: float | None = None
        self._owed_s = 0.0
        """Duration of the samples that are due since the silence began and have not come."""
        self._held: list[tuple[Chunk, float]] = []
        self._owed: list[tuple[float, float]] = []

    def step(self, chunk: Chunk, arrival: float) -> list[tuple[Chunk, float]]:
        """Add a chunk; returns what need not be held back any longer."""
        if chunk.lost != 0 or self._last is None:  # a known gap, or the first chunk
            self._last = arrival
            return [*self.release(lost=True), (chunk, arrival)]
        passed_s, self._last = arrival - self._last, arrival
        self._owed_s = passed_s - chunk.n / self._rate + (self._owed_s if self._held else 0.0)
        if not self._held and self._owed_s <= SILENCE_S:
            return [(chunk, arrival)]
        self._held.append((chunk, arrival))
        self._owed.append((arrival, self._owed_s))
        if self._is_lost(arrival):
            return self.release(lost=True)
        is_over = self._owed_s <= SILENCE_S or arrival - self._owed[0][0] >= LONGEST_S
        return self.release(lost=False) if is_over else []

    def release(self, lost: bool) -> list[tuple[Chunk, float]]:
        held, self._held, self._owed = self._held, [], []
        if lost and held:
            chunk, arrival = held[0]
            held[0] = replace(chunk, lost=None), arrival
        return held

    def _is_lost(self, arrival: float) -> bool:
        """Whether the device goes on at its own rate without catching up."""
        watched = [(at, owed_s) for at, owed_s in self._owed if arrival - at >= DECIDE_S]
        if not watched:
            return False
        at, owed_s = watched[-1]
        return self._owed_s > SILENCE_S and owed_s - self._owed_s < CATCHING_UP * (arrival - at)
