"""A monitor is the small live view of a track's signal: a few leads, thinned for a screen."""

from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SHOWN_LEADS: Final = 8
SHOWN_RATE: Final = 50.0
SHOWN_S: Final = 6.0


class Monitor:
    """Takes samples (n, leads) of any chunking; gives columns at about SHOWN_RATE."""

    def __init__(self, rate: float, leads: tuple[str, ...]) -> None:
        self._source = (rate, leads)
        self._every = max(1, round(rate / SHOWN_RATE))
        self.rate = rate / self._every
        self._picked = np.unique(np.linspace(0, len(leads) - 1, SHOWN_LEADS).round().astype(int))
        self.leads = tuple(leads[i] for i in self._picked)
        self._rest = np.empty((0, len(self._picked)), dtype=np.float32)
        self._columns: deque[list[float]] = deque(maxlen=round(SHOWN_S * self.rate))
        self._unsent: list[list[float]] = []

    def fits(self, rate: float, leads: tuple[str, ...]) -> bool:
        return self._source == (rate, leads)

    def add(self, samples: NDArray[np.float32]) -> None:
        """Average each run of samples into one column, so that nothing fast is aliased badly."""
        whole = np.concatenate([self._rest, samples[:, self._picked]])
        n = len(whole) // self._every
        self._rest = whole[n * self._every :]
        if n == 0:
            return
        means = whole[: n * self._every].reshape(n, self._every, -1).mean(axis=1)
        columns: list[list[float]] = np.nan_to_num(means, posinf=0, neginf=0).round(2).tolist()
        self._columns.extend(columns)
        self._unsent.extend(columns)
        del self._unsent[: -(self._columns.maxlen or 1)]

    def whole(self) -> dict[str, Any]:
        return self._piece(list(self._columns))

    def news(self) -> dict[str, Any] | None:
        """What was added since the last call; None where nothing was."""
        columns, self._unsent = self._unsent, []
        return self._piece(columns) if columns else None

    def _piece(self, columns: list[list[float]]) -> dict[str, Any]:
        return {"rate": self.rate, "leads": self.leads, "columns": columns}
