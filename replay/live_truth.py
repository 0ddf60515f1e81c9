"""Truth of a live device: read as it comes, and a gap that swallowed a trigger costs only its own trial."""

from bci_stream.errors import TruthError
from bci_stream.packet import Triggers
from tracks.track import Track
from tracks.truth import TruthEvent


class LiveTruth:
    """Feeds a track's reader trigger by trigger; where one does not fit, begins anew with it."""

    def __init__(self, track: Track, rate: float) -> None:
        self._track = track
        self._rate = rate
        self._reader = track.truth(rate)

    def step(
        self, block: int, start: int, n: int, triggers: Triggers
    ) -> tuple[list[TruthEvent], list[str]]:
        """Truth lines, and what did not fit, in words."""
        events: list[TruthEvent] = []
        troubles: list[str] = []
        for trigger in triggers:
            try:
                events += self._reader.step(block, start, n, (trigger,))
            except TruthError as error:
                troubles.append(str(error))
                events += self._after_gap(block, start, n, trigger)
        return events, troubles

    def _after_gap(
        self, block: int, start: int, n: int, trigger: tuple[int, int]
    ) -> list[TruthEvent]:
        """What was open is forgotten; the trigger itself may begin something new."""
        before = self._reader
        self._reader = self._track.truth(self._rate)
        self._reader.continue_from(before)
        try:
            return self._reader.step(block, start, n, (trigger,))
        except TruthError:
            return []
