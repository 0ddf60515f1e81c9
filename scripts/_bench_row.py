"""A row of the decoders' benchmark: one method on one person's (or group's) recordings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one set of recordings, streamed causally.

    data: which recordings, e.g. "EEGMMIDB S001". method: registry or reference name. ours: it is
    the decoder that we ship. score: by `measure` (e.g. "bits/min", "accuracy of 9", "AUC").
    low, high: its spread, as `spread` says (e.g. "95 % bootstrap over trials").
    n: how many things (trials, flashes, seconds) were judged. mean_ms, worst_ms: compute a packet.
    note: anything a reader must know.
    """

    track: str
    data: str
    method: str
    ours: bool
    measure: str
    score: float
    low: float
    high: float
    spread: str
    n: int
    mean_ms: float = float("nan")
    worst_ms: float = float("nan")
    note: str = ""
