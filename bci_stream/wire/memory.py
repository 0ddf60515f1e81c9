"""Streams in memory: a transport for tests and runs without a network."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import LostError, NotFoundError, WireError
from bci_stream.packet import FloatArray
from bci_stream.wire.transport import MOST_TEXTS, FoundStream, StreamSpec, number_text


class MemoryTransport:
    """A network of streams, shared by all users of the object."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._streams: dict[str, _Stream] = {}
        self._uids = count(1)
        self._lock = threading.Lock()

    def watch(self, prefix: str) -> "MemoryWatch":
        return MemoryWatch(self, prefix)

    def text_outlet(self, spec: StreamSpec) -> "MemoryTextOutlet":
        return MemoryTextOutlet(self, self._open(spec))

    def text_inlet(
        self,
        found: FoundStream,
        timeout_s: float,
        most_texts: int = MOST_TEXTS,
        *,
        measure_clock: bool = False,
    ) -> "MemoryTextInlet":
        stream = found.handle
        assert isinstance(stream, _Stream)
        if stream.spec.rate:
            raise WireError(f"stream {found.name!r} is no stream of texts: it names a rate")
        return MemoryTextInlet(self._subscribe(found, most_texts))

    def sample_outlet(self, spec: StreamSpec) -> "MemorySampleOutlet":
        return MemorySampleOutlet(self, self._open(spec))

    def sample_inlet(self, found: FoundStream, timeout_s: float) -> "MemorySampleInlet":
        return MemorySampleInlet(self._subscribe(found))

    def visible(self, prefix: str) -> list[FoundStream]:
        with self._lock:
            streams = list(self._streams.items())
        return [
            FoundStream(s.spec.name, s.spec.type, s.spec.source_id, uid, s)
            for uid, s in streams
            if s.spec.source_id.startswith(prefix)
        ]

    def forget(self, stream: "_Stream") -> None:
        with self._lock:
            self._streams = {u: s for u, s in self._streams.items() if s is not stream}

    def _open(self, spec: StreamSpec) -> "_Stream":
        stream = _Stream(spec, f"memory-{next(self._uids)}")
        with self._lock:
            self._streams[stream.uid] = stream
        return stream

    def _subscribe(self, found: FoundStream, most: int | None = None) -> "_Queue":
        stream = found.handle
        if not isinstance(stream, _Stream) or stream.closed:
            raise NotFoundError(f"stream {found.name!r} was seen but is gone; start it again")
        return stream.subscribe(most)


class _Queue:
    """The items that one inlet has not pulled yet; of more than `most` the oldest are dropped."""

    def __init__(self, stream: "_Stream", most: int | None) -> None:
        self.stream = stream
        self.items: deque[tuple[object, float]] = deque(maxlen=most)
        self.changed = threading.Condition()

    def put(self, items: Sequence[tuple[object, float]]) -> None:
        with self.changed:
            self.items.extend(items)
            self.changed.notify_all()

    def take(self, least: int, most: int, timeout_s: float) -> list[tuple[object, float]]:
        with self.changed:
            self.changed.wait_for(lambda: len(self.items) >= least or self.stream.closed, timeout_s)
            if not self.items and self.stream.closed:
                raise LostError(f"stream {self.stream.spec.name!r} is gone: its owner ended")
            return [self.items.popleft() for _ in range(min(most, len(self.items)))]


class _Stream:
    def __init__(self, spec: StreamSpec, uid: str) -> None:
        self.spec = spec
        self.uid = uid
        self.closed = False
        self._queues: list[_Queue] = []
        self._lock = threading.Lock()

    @property
    def consumers(self) -> int:
        return len(self._queues)

    def subscribe(self, most: int | None = None) -> _Queue:
        queue = _Queue(self, most)
        with self._lock:
            self._queues.append(queue)
        return queue

    def leave(self, queue: _Queue) -> None:
        with self._lock:
            self._queues = [other for other in self._queues if other is not queue]

    def put(self, items: Sequence[tuple[object, float]]) -> None:
        with self._lock:
            queues = list(self._queues)
        for queue in queues:
            queue.put(items)

    def close(self) -> None:
        self.closed = True
        self.put([])


class MemoryWatch:
    def __init__(self, transport: MemoryTransport, prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix

    def found(self) -> list[FoundStream]:
        return self._transport.visible(self._prefix)

    def close(self) -> None:
        pass


class MemoryTextOutlet:
    def __init__(self, transport: MemoryTransport, stream: _Stream) -> None:
        self._transport = transport
        self._stream = stream
        self.uid = stream.uid

    def push(self, text: str, stamp: float = 0.0) -> None:
        self._stream.put([(text, stamp or self._transport.now())])

    def has_consumers(self) -> bool:
        return self._stream.consumers > 0

    def close(self) -> None:
        self._transport.forget(self._stream)
        self._stream.close()


class MemoryTextInlet:
    def __init__(self, queue: _Queue) -> None:
        self._queue = queue

    def pull(self, timeout_s: float) -> list[tuple[str, float]]:
        taken = self._queue.take(least=1, most=1024, timeout_s=timeout_s)
        return [
            (number_text(item[0]) if isinstance(item, np.ndarray) else str(item), stamp)
            for item, stamp in taken
        ]

    def clock_offset_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._queue.stream.leave(self._queue)


class MemorySampleOutlet:
    def __init__(self, transport: MemoryTransport, stream: _Stream) -> None:
        self._transport = transport
        self._stream = stream
        self.uid = stream.uid

    def push(
        self, samples: FloatArray | NDArray[np.int32], stamps: float | Sequence[float]
    ) -> float:
        left_at = self._transport.now()
        if isinstance(stamps, float):
            rate = self._stream.spec.rate or 1.0
            stamps = [stamps - (len(samples) - 1 - i) / rate for i in range(len(samples))]
        self._stream.put(list(zip(samples.copy(), stamps, strict=True)))
        return left_at

    def has_consumers(self) -> bool:
        return self._stream.consumers > 0

    def close(self) -> None:
        self._transport.forget(self._stream)
        self._stream.close()


class MemorySampleInlet:
    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        self.spec = queue.stream.spec

    def pull(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        taken = self._queue.take(least=n, most=n, timeout_s=timeout_s)
        rows = [row for row, _ in taken]
        dtype = np.int32 if self.spec.format == "int32" else np.float32
        samples = np.array(rows, dtype=dtype).reshape(len(rows), self.spec.channels)
        return samples, np.array([stamp for _, stamp in taken], dtype=np.float64)  # type: ignore[return-value]

    def clock_offset_s(self) -> float:
        return 0.0

    def close(self) -> None:
        self._queue.stream.leave(self._queue)
