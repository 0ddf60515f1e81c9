"""All text streams of one role in a contest, read together; new ones are opened as they appear.

Anyone on the network can open a stream with any name, so a stream counts only after a message of it has
been verified. Streams are found and opened by a few threads, with a short timeout: one that does not answer
delays neither the reader nor, for long, another stream. One whose messages can't be verified is closed.
"""

import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from bci_stream.errors import LostError, NotFoundError
from bci_stream.wire import names
from bci_stream.wire.messages import Offer
from bci_stream.wire.names import Role
from bci_stream.wire.transport import FoundStream, TextInlet, Transport, Watch

OPEN_S = 2.0
OPENED_AT_ONCE = 4
"""How long opening a stream may take, and how many are opened at the same time."""

VERIFY_S = 10.0
"""A stream of which no message was verified within this time is closed, and tried again later."""

RETRY_S, LONGEST_RETRY_S = 0.5, 8.0
"""When a stream that could not be opened or verified is tried again; doubled after each try."""

MOST_UNVERIFIED = 64
"""How many streams may be open without a verified message."""

MOST_TEXTS_GROUPED = 4000
"""How many texts are kept for each stream while nothing is read; of more the oldest are dropped.

In lockstep a dropped report ends the run, since those after it are refused: this must be more than a worker
can send between two packets (`reports_per_packet` of a submission's limits, and `done`).
"""


MOST_OF_ONE_OWNER = 4
"""How many verified streams of one owner stay open: those of a worker, and of some that it has replaced."""

BURST_S, MINUTE_S = 2.0, 60.0
MEGABYTE = 1_000_000
LEAST_TEXTS_A_S, SPARE = 1000.0, 2.0


@dataclass(frozen=True)
class StreamLimits:
    """How much is read of one stream: texts above the limit wait, characters above it close the stream.

    texts_a_s: as many as in BURST_S may come at once.
    """

    texts_a_s: float
    chars_a_minute: float

    @classmethod
    def of_team(cls, offer: Offer, reports_a_packet: float, mb_a_minute: float) -> "StreamLimits":
        """SPARE times what a team may send in a real-time run, which the judge counts."""
        texts_a_s = max(LEAST_TEXTS_A_S, SPARE * reports_a_packet / offer.packet_s)
        return cls(texts_a_s, SPARE * MEGABYTE * mb_a_minute * max(1.0, offer.speed))


class ReceivedText(NamedTuple):
    """A text, its LSL stamp, and the stream from which it came."""

    uid: str
    owner: str
    text: str
    stamp: float


@dataclass
class GroupedStream:
    """An open inlet. seen_at: when it was last found, or brought a text. verified: a message of it was.

    texts_to, chars_to: until when the texts and characters so far would have come at the limits' rates.
    """

    owner: str
    inlet: TextInlet
    opened_at: float
    verified: bool = False
    seen_at: float = 0.0
    texts_to: float = 0.0
    chars_to: float = 0.0

    def keeps(self, limits: StreamLimits, received: list[tuple[str, float]], now: float) -> bool:
        """Count texts that came now; returns whether they are not more characters than the limit."""
        chars = sum(len(text) for text, _ in received)
        self.texts_to = max(self.texts_to, now - BURST_S) + len(received) / limits.texts_a_s
        self.chars_to = (
            max(self.chars_to, now - MINUTE_S) + chars * MINUTE_S / limits.chars_a_minute
        )
        return self.chars_to <= now


@dataclass
class _Attempts:
    """How often a stream was tried without success, and when it may be tried again."""

    tries: int = 0
    not_before: float = 0.0
    failed_for_good: bool = False


@dataclass
class _Opening:
    """Streams that other threads open, and the search for more: many streams take long to list."""

    transport: Transport
    watch: Watch
    measure_clock: bool
    most_texts: int
    futures: dict[str, tuple[FoundStream, "Future[TextInlet]"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(OPENED_AT_ONCE + 1, thread_name_prefix="open-stream")
        self._search: Future[list[FoundStream]] | None = None

    def found(self) -> list[FoundStream] | None:
        """What the search has found that the call before began; None while that one goes on."""
        before = self._search
        if before is not None and not before.done():
            return None
        self._search = self._pool.submit(self.watch.found)
        if self._search.done():
            return self._search.result()
        return None if before is None else before.result()

    def start(self, found: FoundStream) -> None:
        self.futures[found.uid] = (found, self._pool.submit(self._open, found))

    def _open(self, found: FoundStream) -> TextInlet:
        return self.transport.text_inlet(
            found, OPEN_S, self.most_texts, measure_clock=self.measure_clock
        )

    def done(self) -> list[tuple[FoundStream, "Future[TextInlet]"]]:
        ready = [item for item in self.futures.values() if item[1].done()]
        for found, _ in ready:
            del self.futures[found.uid]
        return ready

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.watch.close()
        for _, future in self.futures.values():
            future.add_done_callback(_close_result)


def _close_result(future: "Future[TextInlet]") -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


class StreamGroup:
    """The open streams of a role. One thread reads; `accept` and `reject` may be called from another one.

    gone: owners of verified streams that have ended. rejected: how many streams were closed because a
    message of them could not be verified, or because they brought too much, by owner. limits: of each
    stream; None for none; may be changed at any time.
    """

    def __init__(
        self,
        transport: Transport,
        contest: str,
        role: Role,
        *,
        measure_clock: bool = False,
        most_texts: int = MOST_TEXTS_GROUPED,
        limits: StreamLimits | None = None,
    ) -> None:
        self.limits = limits
        self._now = transport.now
        watch = transport.watch(names.prefix(contest, role))
        self._streams: dict[str, GroupedStream] = {}
        self._attempts: dict[str, _Attempts] = {}
        self._opening = _Opening(transport, watch, measure_clock, most_texts)
        self._lock = threading.Lock()
        self._to_reject: list[str] = []
        self._surplus: list[str] = []
        self._closed = False
        self.gone: list[str] = []
        self.rejected: Counter[str] = Counter()

    @property
    def owners(self) -> list[str]:
        """Owners of the open streams that have been verified."""
        return [stream.owner for stream in list(self._streams.values()) if stream.verified]

    @property
    def uids(self) -> set[str]:
        """Uids of the open streams that have been verified."""
        return {uid for uid, stream in list(self._streams.items()) if stream.verified}

    @property
    def has_unverified(self) -> bool:
        """Whether a stream is open, or being opened, of which no message was verified."""
        streams = list(self._streams.values())
        return bool(self._opening.futures) or not all(stream.verified for stream in streams)

    def verified(self) -> list[tuple[str, TextInlet]]:
        """Owner and inlet of the open streams that have been verified."""
        streams = list(self._streams.values())
        return [(stream.owner, stream.inlet) for stream in streams if stream.verified]

    def inlet(self, uid: str) -> TextInlet | None:
        stream = self._streams.get(uid)
        return None if stream is None else stream.inlet

    # --- opening ------------------------------------------------------------------------------

    def look(self) -> None:
        """Begin to open the streams that have appeared, and take those that were opened meanwhile."""
        self._take_opened()
        self._close_silent()
        all_found = self._opening.found()
        if all_found is None:
            return
        self._note_found(all_found)
        room = OPENED_AT_ONCE - len(self._opening.futures)
        for found in self._candidates(all_found)[: max(0, room)]:
            self._opening.start(found)

    def _note_found(self, all_found: list[FoundStream]) -> None:
        now = self._now()
        for found in all_found:
            if (stream := self._streams.get(found.uid)) is not None:
                stream.seen_at = now

    def out_of_sight(self, longer_than_s: float) -> set[str]:
        """Owners of verified streams that are open, but were neither found nor brought a text for so long."""
        now = self._now()
        verified = [stream for stream in list(self._streams.values()) if stream.verified]
        seen = {s.owner for s in verified if now - s.seen_at <= longer_than_s}
        return {stream.owner for stream in verified} - seen

    def _candidates(self, all_found: list[FoundStream]) -> list[FoundStream]:
        """Streams to open: those with few tries, and with few other streams of their owner, first."""
        now = self._now()
        unverified = sum(not stream.verified for stream in self._streams.values())
        if unverified + len(self._opening.futures) >= MOST_UNVERIFIED:
            return []
        owners = Counter(stream.owner for stream in self._streams.values() if not stream.verified)
        waiting = [found for found in all_found if self._may_open(found.uid, now)]
        if len(self._attempts) > 2 * len(all_found) + MOST_UNVERIFIED:
            present = {found.uid for found in all_found}
            self._attempts = {u: a for u, a in self._attempts.items() if u in present}

        def rank(found: FoundStream) -> tuple[int, int]:
            attempts = self._attempts.get(found.uid, _Attempts())
            return attempts.tries, owners[names.owner(found.source_id)]

        return sorted(waiting, key=rank)

    def _may_open(self, uid: str, now: float) -> bool:
        if uid in self._streams or uid in self._opening.futures:
            return False
        attempts = self._attempts.get(uid)
        return attempts is None or (not attempts.failed_for_good and now >= attempts.not_before)

    def _take_opened(self) -> None:
        for found, future in self._opening.done():
            error = future.exception()
            if isinstance(error, NotFoundError | LostError):
                self._try_later(found.uid)  # it has ended meanwhile, or does not answer
            elif error is not None:
                self._attempts[found.uid] = _Attempts(failed_for_good=True)  # no stream of texts
            else:
                owner = names.owner(found.source_id)
                now = self._now()
                self._streams[found.uid] = GroupedStream(owner, future.result(), now, seen_at=now)

    def _close_silent(self) -> None:
        now = self._now()
        for uid, stream in list(self._streams.items()):
            if not stream.verified and now - stream.opened_at > VERIFY_S:
                self._drop(uid)
                self._try_later(uid)

    def _try_later(self, uid: str) -> None:
        attempts = self._attempts.setdefault(uid, _Attempts())
        attempts.not_before = self._now() + min(RETRY_S * 2**attempts.tries, LONGEST_RETRY_S)
        attempts.tries = min(attempts.tries + 1, 16)

    # --- reading ------------------------------------------------------------------------------

    def pull(self, timeout_s: float = 0.0) -> list[ReceivedText]:
        """All texts that have arrived, within the limits; waits only if there is one stream."""
        self._take_opened()
        self._drop_rejected()
        wait_s = timeout_s if len(self._streams) == 1 else 0.0
        texts: list[ReceivedText] = []
        begun = self._now()
        for uid, stream in list(self._streams.items()):
            if stream.texts_to > begun:
                continue
            try:
                received = stream.inlet.pull(wait_s)
            except LostError:
                self._lose(uid)
                continue
            if received:
                stream.seen_at = now = self._now()
                limits = self.limits
                if limits is not None and not stream.keeps(limits, received, now):
                    self._reject_for_good(uid)
            texts += [ReceivedText(uid, stream.owner, *item) for item in received]
        return texts

    def accept(self, uid: str) -> None:
        """A message of this stream was verified. Of many streams of one owner the oldest is closed."""
        stream = self._streams.get(uid)
        if stream is None or stream.verified:
            return
        stream.verified = True
        others = list(self._streams.items())
        of_owner = [u for u, other in others if other.verified and other.owner == stream.owner]
        if len(of_owner) > MOST_OF_ONE_OWNER:
            with self._lock:
                self._surplus += of_owner[:-MOST_OF_ONE_OWNER]

    def reject(self, uid: str) -> None:
        """A message of this stream was not verified: it is closed for good, unless another one was."""
        stream = self._streams.get(uid)
        if stream is not None and not stream.verified:
            with self._lock:
                self._to_reject.append(uid)

    def _drop_rejected(self) -> None:
        with self._lock:
            rejected, self._to_reject = self._to_reject, []
            surplus, self._surplus = self._surplus, []
        for uid in rejected:
            stream = self._streams.get(uid)
            if stream is not None and not stream.verified:
                self._reject_for_good(uid)
        for uid in surplus:
            if uid in self._streams:
                self._reject_for_good(uid)

    def _reject_for_good(self, uid: str) -> None:
        self._attempts[uid] = _Attempts(failed_for_good=True)
        stream = self._drop(uid)
        self.rejected[stream.owner] += 1
        if stream.verified:
            self.gone.append(stream.owner)

    def _lose(self, uid: str) -> None:
        stream = self._drop(uid)
        if stream.verified:
            self.gone.append(stream.owner)
        self._try_later(uid)  # the connection was lost; the stream itself may still be there

    def _drop(self, uid: str) -> GroupedStream:
        stream = self._streams.pop(uid)
        stream.inlet.close()
        return stream

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._opening.close()
        for uid in list(self._streams):
            self._drop(uid)
