"""XDF channels: what a stream's header says about each of its channels."""

from dataclasses import dataclass
from typing import Any

from bci_stream.packet import Lead
from replay.readers.lead_kinds import VOLTAGES, kind_called
from replay.units import microvolts

_STIM_NAMES = ("trigger", "stim", "status")


@dataclass(frozen=True)
class Channel:
    """A lead, and what its values are multiplied by to give its unit.

    unit_said: the unit that the header gives; empty where it gives none.
    """

    lead: Lead
    scale: float
    unit_said: str

    @property
    def odd_unit(self) -> bool:
        """It should be a voltage, and its header does not say which, or says something else."""
        return self.lead.kind in VOLTAGES and microvolts(self.unit_said) is None


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
    unit = _text(entry, "unit")
    kind = _kind(name, _text(entry, "type"), unit)
    scale = microvolts(unit) if unit else 1.0
    if kind not in VOLTAGES or scale is None:
        return Channel(Lead(name, kind, unit or "none", _position(entry)), 1.0, unit)
    return Channel(Lead(name, kind, "microvolts", _position(entry)), scale, unit)


def _kind(name: str, stated: str, unit: str) -> str:
    if name.lower() in _STIM_NAMES:
        return "STIM"
    if stated:
        return kind_called(stated)
    return "EEG" if not unit or microvolts(unit) is not None else "MISC"


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
