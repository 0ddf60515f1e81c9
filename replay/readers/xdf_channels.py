"""XDF channels: what a stream's header says about each of its channels."""

from dataclasses import dataclass
from typing import Any

from bci_stream.packet import Lead

# XDF's convention writes `microvolts`; devices write whatever they like.
_SCALES = {
    **dict.fromkeys(("microvolts", "microvolt", "uv", "µv", "μv"), 1.0),
    **dict.fromkeys(("millivolts", "millivolt", "mv"), 1e3),
    **dict.fromkeys(("volts", "volt", "v"), 1e6),
    **dict.fromkeys(("nanovolts", "nanovolt", "nv"), 1e-3),
}
_STIM_NAMES = ("trigger", "stim", "status")
_KINDS = ("EEG", "ECOG", "SEEG", "EOG", "ECG", "EMG", "MISC", "STIM")


@dataclass(frozen=True)
class Channel:
    """A lead, and what its values are multiplied by to give microvolts."""

    lead: Lead
    scale: float
    unit_known: bool


def channels_of(stream: dict[str, Any]) -> list[Channel]:
    """The channels of a stream; those that its header does not describe are numbered."""
    count = int(stream["info"]["channel_count"][0])
    described = _descriptions(stream)
    if len(described) != count:
        described = [{} for _ in range(count)]
    return [_channel(number, entry) for number, entry in enumerate(described, 1)]


def _descriptions(stream: dict[str, Any]) -> list[dict[str, Any]]:
    desc = (stream["info"].get("desc") or [None])[0] or {}
    channels = (desc.get("channels") or [None])[0] or {}
    return [entry or {} for entry in channels.get("channel") or []]


def _channel(number: int, entry: dict[str, Any]) -> Channel:
    name = _text(entry, "label") or f"ch{number}"
    unit = _text(entry, "unit").lower()
    stated = _text(entry, "type").upper()
    kind = "STIM" if name.lower() in _STIM_NAMES else stated if stated in _KINDS else "EEG"
    known = unit in _SCALES or kind in ("STIM", "MISC")
    return Channel(
        Lead(name, kind, "microvolts" if kind != "MISC" else unit or "none", _position(entry)),
        _SCALES.get(unit, 1.0) if kind != "STIM" else 1.0,
        known,
    )


def _text(entry: dict[str, Any], key: str) -> str:
    return str((entry.get(key) or [""])[0] or "").strip()


def _position(entry: dict[str, Any]) -> tuple[float, float, float] | None:
    """`location/{X,Y,Z}` in millimetres, as XDF's convention has it."""
    place = (entry.get("location") or [None])[0] or {}
    texts = [_text(place, axis) for axis in "XYZ"]
    if not all(texts):
        return None
    x, y, z = (float(text) / 1000 for text in texts)
    return x, y, z
