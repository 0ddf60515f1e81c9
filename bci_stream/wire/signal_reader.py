"""Cuts the signal stream into the packets that the control stream names, and notices what is lost."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import LostError
from bci_stream.packet import FloatArray
from bci_stream.wire.transport import SampleInlet


class SignalReader:
    """Samples and packet notes carry the same stamps: that is how the two are matched.

    Samples before the first packet (probes of the handshake, or what came before a late joiner's first
    note) are passed over. `missing` counts the samples that never came, since LSL drops the oldest ones
    of a consumer that fell too far behind, in silence.
    """

    def __init__(self, inlet: SampleInlet, rate: float) -> None:
        """rate: samples a second on the wire, which is faster than the recording's at a faster pace."""
        self._inlet = inlet
        self._sample_s = 1.0 / rate
        self._held: FloatArray = np.empty((0, inlet.spec.channels), dtype=np.float32)
        self._held_stamps: NDArray[np.float64] = np.empty(0)
        self.missing = 0

    def ready(self, n: int, timeout_s: float) -> bool:
        """Whether the next n samples are here; waits up to timeout_s for them."""
        if len(self._held) < n:
            more, stamps = self._inlet.pull(n - len(self._held), timeout_s)
            if len(self._held):
                more = np.concatenate([self._held, more])
                stamps = np.concatenate([self._held_stamps, stamps])
            self._held, self._held_stamps = more, stamps
        return len(self._held) >= n

    def read(self, n: int, stamp: float, timeout_s: float) -> FloatArray | None:
        """The n samples (n, channels) that end at this stamp; None where some of them are lost."""
        samples, stamps = self._take(n, timeout_s)
        if len(samples) == n and self._fits(stamps, n, stamp):
            return samples
        return self._search(n, stamp, samples, stamps, timeout_s)

    def _fits(self, stamps: NDArray[np.float64], n: int, stamp: float) -> bool:
        half_s = self._sample_s / 2
        first = stamp - (n - 1) * self._sample_s
        return bool(abs(stamps[-1] - stamp) < half_s and abs(stamps[0] - first) < half_s)

    def _take(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        self.ready(n, timeout_s)
        held, stamps = self._held, self._held_stamps
        self._held, self._held_stamps = held[n:], stamps[n:]
        return held[:n], stamps[:n]

    def _search(
        self,
        n: int,
        stamp: float,
        samples: FloatArray,
        stamps: NDArray[np.float64],
        timeout_s: float,
    ) -> FloatArray | None:
        """Pass over what is older than the packet; hold what is newer."""
        end = stamp + self._sample_s / 2
        while len(stamps) and stamps[-1] < stamp - self._sample_s / 2:
            more, more_stamps = self._take(1, timeout_s)
            if not len(more):
                break
            samples = np.concatenate([samples[-n:], more])
            stamps = np.concatenate([stamps[-n:], more_stamps])
        if not len(stamps):
            raise LostError(f"the {n} samples of a packet did not come within {timeout_s:g} s")
        newer = stamps > end
        self._held = np.concatenate([samples[newer], self._held])
        self._held_stamps = np.concatenate([stamps[newer], self._held_stamps])
        found, found_stamps = samples[~newer][-n:], stamps[~newer][-n:]
        if len(found) == n and self._fits(found_stamps, n, stamp):
            return np.ascontiguousarray(found)
        self.missing += n - int(np.sum(found_stamps > stamp - (n - 0.5) * self._sample_s))
        return None
