"""The live signal for the organiser: chosen leads, filtered and thinned, with spectra and quality per lead.

The public page shows few leads, averaged; this is what the console asks for.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import ContestError
from bci_stream.packet import FloatArray
from bci_stream.signal_quality import FILTERS, Floats64, extremes, filtered, lead_quality, spectrum

KEPT_S: Final = 12.0
MOST_VALUES: Final = 1 << 22
"""Seconds of each track that are kept, and values at most, of all its leads."""

SHOWN_COLUMNS: Final = 600
MOST_SHOWN: Final = 32
MOST_JUDGED: Final = 256
"""Columns and leads of a view; leads whose quality is computed."""

SPECTRUM_HZ: Final = 120.0
LEAST_DENSITY: Final = 1e-6
QUALITY_S: Final = 4.0
MAINS: Final = ("0", "50", "60")


class SignalBuffer:
    """The last seconds of a signal, all leads, at its own rate."""

    def __init__(self, rate: float, leads: tuple[str, ...]) -> None:
        self.rate = rate
        self.leads = leads
        self._most = max(1, min(round(KEPT_S * rate), MOST_VALUES // max(1, len(leads))))
        self._chunks: deque[NDArray[np.float32]] = deque()
        self._kept = 0

    def add(self, samples: FloatArray) -> None:
        """Add samples (n, leads)."""
        self._chunks.append(np.array(samples[-self._most :], dtype=np.float32))
        self._kept += len(self._chunks[-1])
        while self._kept - len(self._chunks[0]) >= self._most:
            self._kept -= len(self._chunks.popleft())

    def samples(self) -> FloatArray:
        """What is kept, (n, leads); a copy."""
        if not self._chunks:
            return np.empty((0, len(self.leads)), dtype=np.float32)
        return np.concatenate(self._chunks)[-self._most :]


class SignalChoice:
    """What the organiser wants to see of a signal, read from a query; raises ContestError for a bad value.

    leads: names; empty for the first eight. band: of FILTERS. mains: of MAINS, `0` for no notch.
    """

    def __init__(self, query: Mapping[str, str]) -> None:
        self.leads = [name for name in query.get("leads", "").split(",") if name][:MOST_SHOWN]
        self.band = query.get("band", "none")
        self.mains = query.get("mains", "0")
        text = query.get("seconds", "6")
        if self.band not in FILTERS:
            raise ContestError(f"no filter {self.band!r:.40}; there are {', '.join(FILTERS)}")
        if self.mains not in MAINS:
            raise ContestError(f"mains {self.mains!r:.40}: {', '.join(MAINS)} are possible")
        if not text.isdecimal() or not 1 <= int(text) <= KEPT_S:
            raise ContestError(f"seconds {text!r:.40}: a whole number from 1 to {KEPT_S:g}")
        self.seconds = int(text)


def describe_signal(
    samples: FloatArray, rate: float, leads: Sequence[str], choice: SignalChoice
) -> dict[str, Any]:
    """Traces, spectra and quality; samples: (n, leads).

    traces: for each chosen lead its columns, least and largest value of each. spectra: in dB (uV^2/Hz).
    quality: of every lead. Spectra and quality are of the unfiltered signal, without what is masked.
    """
    chosen = [leads.index(name) for name in choice.leads if name in leads] or list(
        range(min(8, len(leads)))
    )
    mains_hz = float(choice.mains)
    shown = filtered(samples[:, chosen], rate, choice.band, mains_hz)
    shown = shown[-round(choice.seconds * rate) :]
    thinned = extremes(shown, SHOWN_COLUMNS)
    played = _unmasked(samples)
    frequencies, density = _spectra(played[:, chosen], rate)
    return {
        "rate": rate,
        "seconds": choice.seconds,
        "shown_s": round(len(shown) / rate, 3),
        "all_leads": list(leads),
        "leads": [leads[i] for i in chosen],
        "traces": np.moveaxis(thinned, 1, 0).round(2).tolist(),
        "frequencies": frequencies.round(2).tolist(),
        "spectra": density.T.round(1).tolist(),
        "quality": _qualities(played, rate, leads, mains_hz or 50.0),
    }


def _unmasked(samples: FloatArray) -> FloatArray:
    """Without the samples in which all leads are 0, as where a track masks its cues; all if none is left."""
    kept = samples[(samples != 0).any(axis=1)]
    return kept if len(kept) else samples


def _spectra(samples: FloatArray, rate: float) -> tuple[Floats64, Floats64]:
    if len(samples) < 2:
        return np.empty(0), np.empty((0, samples.shape[1]))
    frequencies, density = spectrum(np.nan_to_num(samples, posinf=0.0, neginf=0.0), rate)
    kept = (frequencies >= 1.0) & (frequencies <= SPECTRUM_HZ)
    return frequencies[kept], 10 * np.log10(np.maximum(density[kept], LEAST_DENSITY))


def _qualities(
    samples: FloatArray, rate: float, leads: Sequence[str], line_hz: float
) -> list[dict[str, Any]]:
    recent = samples[-round(QUALITY_S * rate) :]
    found = []
    for name, lead in zip(leads[:MOST_JUDGED], recent.T, strict=False):
        quality = lead_quality(lead, rate, line_hz)
        found.append(
            {
                "lead": name,
                "verdict": quality.verdict,
                "spread_uv": round(quality.spread_uv, 2),
                "line_share": round(quality.line_share, 3),
            }
        )
    return found
