"""Looking for streams: a search that ends, and says what it looked for and what it saw."""

import threading

from bci_stream.errors import NotFoundError
from bci_stream.wire.transport import Found, Transport, Watch

POLL_S = 0.02


def wait_for(
    transport: Transport,
    watch: Watch,
    what: str,
    timeout_s: float,
    stop: threading.Event,
    source_id: str | None = None,
) -> Found:
    """The first stream that a watch sees; with a source_id, the one that has exactly it."""
    deadline = transport.now() + timeout_s
    while not stop.is_set():
        for found in watch.found():
            if source_id in (None, found.source_id):
                return found
        if transport.now() > deadline:
            raise NotFoundError(never_came(transport, what, timeout_s))
        stop.wait(POLL_S)
    raise NotFoundError(f"stopped while waiting for {what}")


def wait_for_stream(
    transport: Transport, source_id: str, what: str, timeout_s: float, stop: threading.Event
) -> Found:
    watch = transport.watch(source_id)
    try:
        return wait_for(transport, watch, what, timeout_s, stop, source_id)
    finally:
        watch.close()


def never_came(transport: Transport, what: str, timeout_s: float) -> str:
    """What to tell a user whose wait was in vain."""
    everything = transport.watch("")
    try:
        seen = sorted({found.name for found in everything.found()})
    finally:
        everything.close()
    streams = ", ".join(seen) if seen else "none"
    return (
        f"waited {timeout_s:g} s for {what}, which never appeared; streams seen here: {streams}. "
        "Is it started, with the same --contest, --lsl-session and --scope?"
    )
