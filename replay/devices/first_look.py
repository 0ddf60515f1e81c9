"""A first look: as many rows must come a second as was said, before anybody is shown one.

Raw bytes tell neither leads nor rate. Where channels= makes a row as long as two real ones, every
other trigger word passes for a lead and every value is plausible: only the pace gives it away.
"""

from bci_stream.errors import SourceError
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.rate_watch import RateWatch

LOOKS = 5
"""So many seconds are counted where the first ones are not right: bytes may have queued up, or hang."""

BREAKS = 5
"""A connection that breaks so often before a second has passed is no source for a stream."""

FAR_OFF = 0.05
"""What a second's count may be off by, since chunks come when they like; a wrong row is off by half."""


class FirstLook:
    """said: what the user says of the device."""

    def __init__(self, said: DeviceInfo) -> None:
        self._said = said
        self._watch = RateWatch(LOOKS, FAR_OFF)
        self._breaks = 0

    def is_enough(self, chunk: Chunk, arrival: float) -> bool:
        """Takes the next chunk; raises SourceError where none of the seconds had the rows it should.

        Seconds with too few and others with too many are a link that hangs, not a wrong setting.
        """
        if chunk.lost is None:
            self._connect_again()
        self._watch.took(chunk.n, arrival)
        comes = self._watch.other_than(self._said.rate)
        if comes is not None:
            raise SourceError(_other_rate(self._said, comes))
        return self._watch.agrees_with(self._said.rate) or self._watch.is_full

    def _connect_again(self) -> None:
        """The pause between two connections belongs to no second."""
        self._watch.restart()
        self._breaks += 1
        if self._breaks == BREAKS:
            raise SourceError(
                f"the amplifier's connection broke {BREAKS} times, each time before a second's samples "
                "had come: check the network, and that no other program takes its data"
            )


def _other_rate(said: DeviceInfo, comes: float) -> str:
    rate, leads = said.rate, len(said.leads)
    fitting = comes * (leads + 1) / rate - 1
    return (
        f"about {comes:.0f} samples a second come, rate= says {rate:g}: nothing is published. With "
        f"rate={rate:g} these bytes would be channels={fitting:.0f}, with channels={leads} they would be "
        f"rate={comes:.0f}: check both in the recorder (channels= is the number of leads without the "
        "trigger)"
    )
