"""A device's parameters, as its URI gives them: checked, and none left over."""

from collections.abc import Iterable
from pathlib import Path

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.chunk import Timeouts
from tracks.common.codes import MAX_CODE


class DeviceParams:
    """Take each parameter once, then call `done`: what nobody took is a mistake of the user's."""

    def __init__(self, device: str, given: dict[str, str]) -> None:
        self._device = device
        self._left = dict(given)
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None) or None

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name) or default
        if value not in (allowed := list(allowed)):
            raise self.wrong(name, f"one of {', '.join(allowed)}", value)
        return value

    def whole(self, name: str, default: int | None, least: int, most: int) -> int:
        return int(self.number(name, default, least, most, whole=True))

    def number(
        self, name: str, default: float | None, least: float, most: float, whole: bool = False
    ) -> float:
        text = self.text(name)
        if text is None and default is not None:
            return default
        rule = f"a {'whole ' if whole else ''}number from {least:g} to {most:g}"
        try:
            value = int(text or "") if whole else float(text or "")
        except ValueError:
            raise self.wrong(name, rule, text or "nothing") from None
        if not least <= value <= most:
            raise self.wrong(name, rule, str(value))
        return value

    def wrong(self, name: str, rule: str, got: str) -> SourceError:
        return SourceError(f"{self._device}: {name}= must be {rule}, got {got}")

    def done(self) -> None:
        if self._left:
            raise SourceError(
                f"{self._device} has no parameter {', '.join(sorted(self._left))}; "
                f"it takes {', '.join(self._known)}"
            )


def read_montage(text: str | None, channels: int | None) -> tuple[Lead, ...] | None:
    """The leads that montage= names: a track, a file with a name a line, or names with commas.

    None where there is neither a montage nor a number of channels: the device may know itself.
    """
    if text is None:
        return None if channels is None else tuple(Lead(f"ch{i + 1}") for i in range(channels))
    leads = _named_leads(text)
    names = [lead.name for lead in leads]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise SourceError(
            f"montage= names {', '.join(doubles)} twice: each lead needs its own name"
        )
    if channels is not None and len(leads) != channels:
        raise SourceError(
            f"montage={text} names {len(leads)} leads, but channels= says {channels}: they must "
            "agree"
        )
    return leads


def _named_leads(text: str) -> tuple[Lead, ...]:
    from tracks.registry import TRACKS

    if text in TRACKS:
        track = TRACKS[text]
        return tuple(Lead(name, track.lead_kinds.get(name, "EEG")) for name in track.leads)
    if "," in text:
        return tuple(Lead(name.strip()) for name in text.split(",") if name.strip())
    try:
        lines = Path(text).read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"montage={text} is no track ({', '.join(TRACKS)}), no list of names with commas, and "
            f"no readable file with a name a line ({error})"
        ) from None
    return tuple(Lead(name) for name in lines)


def read_live_params(params: DeviceParams) -> tuple[str, int | None, Timeouts]:
    """What every device takes: subject=, until=, wait_s=, reconnect_s=."""
    subject = params.text("subject") or "live"
    until = params.whole("until", 0, 0, MAX_CODE) or None
    first_s = params.number("wait_s", Timeouts.first_s, 0.1, 3600)
    reconnect_s = params.number("reconnect_s", Timeouts.reconnect_s, 0, 86_400)
    return subject, until, Timeouts(first_s=first_s, reconnect_s=reconnect_s)
