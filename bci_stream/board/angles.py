"""Angle traces (ecog): what was measured and what was reported in the trial closed last."""

from collections.abc import Mapping
from typing import Any, Final

from tracks import TRACKS
from tracks.angles import ANGLE_RATE, JOINTS, Rows
from tracks.ecog import EcogReferee
from tracks.exact import exact_rate

POINTS_SHOWN: Final = 400


class AngleTraces(EcogReferee):
    """A referee that also shows the rows of its last closed trial; open trials stay hidden."""

    @classmethod
    def begin(cls, subject: str, rate: float, rules: Mapping[str, Any]) -> "AngleTraces":
        track = TRACKS["ecog"]
        return cls(subject, exact_rate(rate), track.rules(rules))

    def feed(self, event: Mapping[str, Any]) -> None:
        take = {"truth": self.truth, "packet": self.packet, "report": self.report}
        if event["kind"] in take:
            take[event["kind"]](event)

    def view(self) -> dict[str, Any] | None:
        """The traces, thinned to what a screen can show; None while no trial is closed."""
        if self._given == 0:
            return None
        _, start, end = self._trials[self._given - 1]
        every = max(1, -(-(end - start) // POINTS_SHOWN))
        return {
            "joints": JOINTS,
            "rate": ANGLE_RATE / every,
            "truth": _thin(self._truth.rows[start:end:every]),
            "reported": _thin(self._predicted.rows[start:end:every]),
        }


def _thin(rows: Rows) -> list[list[float]]:
    thinned: list[list[float]] = rows.round(2).tolist()
    return thinned
