"""Angle traces (ecog): what was measured and what was reported in the trial closed last."""

from collections.abc import Mapping
from typing import Any, Final

from tracks.angles import ANGLE_RATE, JOINTS, Rows
from tracks.ecog import EcogReferee
from tracks.exact import exact_rate
from tracks.registry import TRACKS

POINTS_SHOWN: Final = 400


class AngleTraces:
    """Follows a run with a referee of its own; the rows of open trials stay hidden."""

    def __init__(self, subject: str, rate: float, rules: Mapping[str, Any]) -> None:
        in_force = TRACKS["ecog"].under(rules).rules
        self._referee = EcogReferee(subject, exact_rate(rate), in_force)
        self._take = {
            "truth": self._referee.truth,
            "packet": self._referee.packet,
            "report": self._referee.report,
        }

    def feed(self, event: Mapping[str, Any]) -> None:
        if event["kind"] in self._take:
            self._take[event["kind"]](event)

    def view(self) -> dict[str, Any] | None:
        """The traces, thinned to what a screen can show; None while no trial is closed."""
        traces = self._referee.last_traces()
        if traces is None:
            return None
        every = max(1, -(-len(traces[0]) // POINTS_SHOWN))
        truth, reported = (_thin(rows[::every]) for rows in traces)
        return {
            "joints": JOINTS,
            "rate": ANGLE_RATE / every,
            "truth": truth,
            "reported": reported,
        }


def _thin(rows: Rows) -> list[list[float]]:
    thinned: list[list[float]] = rows.round(2).tolist()
    return thinned
