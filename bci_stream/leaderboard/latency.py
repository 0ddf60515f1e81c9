"""Latencies are counted in narrow bins: percentiles cost the same after a million reports."""

import math
from collections.abc import Mapping
from typing import Any

LEAST_S = 1e-6
RATIO = 1.01
"""Each bin is 1 % wide, so a percentile is right to half a percent."""

_LOG_RATIO = math.log(RATIO)


def elapsed(event: Mapping[str, Any]) -> float | None:
    """How long a report took, as the judge measured it; None where the line doesn't say."""
    value = event.get("elapsed_s") if event.get("kind") == "report" else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


class Latencies:
    """How long reports took, as percentiles."""

    def __init__(self) -> None:
        self.count = 0
        self._bins: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        index = round(math.log(max(seconds, LEAST_S) / LEAST_S) / _LOG_RATIO)
        self._bins[index] = self._bins.get(index, 0) + 1
        self.count += 1

    def percentile(self, share: float) -> float | None:
        """The least latency that at least `share` of the reports kept to; None without reports."""
        wanted = share * self.count
        below = 0
        for index in sorted(self._bins):
            below += self._bins[index]
            if below >= wanted:
                return round(float(LEAST_S * RATIO**index), 6)
        return None
