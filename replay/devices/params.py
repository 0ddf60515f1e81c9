"""Parameters of a device's URI: checked, and none left over."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from tracks.common.codes import MAX_CODE
from tracks.registry import TRACKS


@dataclass(frozen=True)
class Timeouts:
    """How long a device is waited for, in seconds.

    first_s: for the first connection. reconnect_s: for a lost device to come back.
    dial_s: for one attempt to connect.
    stall_s: silence that is reported as a stall. dead_s: silence that counts as a lost connection.
    backoff_s: pauses after the first, second, ... failed attempt in a row.
    """

    first_s: float = 30.0
    reconnect_s: float = 600.0
    dial_s: float = 5.0
    stall_s: float = 0.5
    dead_s: float = 5.0
    backoff_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)

    def backoff(self, failures: int) -> float:
        """Pause after this many failures in a row (>= 1)."""
        return self.backoff_s[min(failures, len(self.backoff_s)) - 1]


class DeviceParams:
    """Read each parameter once, then call `done`, which refuses parameters that were not read."""

    def __init__(self, device: str, given: dict[str, str]) -> None:
        self._device = device
        self._given, self._left = given, dict(given)
        self._known: list[str] = []

    def was_given(self, name: str) -> bool:
        return bool(self._given.get(name))

    def text(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(name, None) or None

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name) or default
        if value not in (allowed := list(allowed)):
            raise self._invalid(name, f"one of {', '.join(allowed)}", value)
        return value

    def whole(self, name: str, default: int | None, least: int, most: int) -> int:
        return int(self.number(name, default, least, most, whole=True))

    def number(
        self, name: str, default: float | None, least: float, most: float, whole: bool = False
    ) -> float:
        """default: None for a parameter that must be given."""
        text = self.text(name)
        if text is None and default is not None:
            return default
        rule = f"a {'whole ' if whole else ''}number from {least:g} to {most:g}"
        try:
            value = int(text or "") if whole else float(text or "")
        except ValueError:
            raise self._invalid(name, rule, text or "nothing") from None
        if not least <= value <= most:
            raise self._invalid(name, rule, str(value))
        return value

    def timeouts(self) -> Timeouts:
        """wait_s= and reconnect_s=, which every device takes."""
        first_s = self.number("wait_s", Timeouts.first_s, 0.1, 3600)
        return Timeouts(first_s, self.number("reconnect_s", Timeouts.reconnect_s, 0, 86_400))

    def session(self) -> tuple[str, int | None]:
        """subject= and until= (a trigger code that ends the session), which every device takes."""
        return self.text("subject") or "live", self.whole("until", 0, 0, MAX_CODE) or None

    def done(self) -> None:
        if self._left:
            raise SourceError(
                f"{self._device} has no parameter {', '.join(sorted(self._left))}; "
                f"it takes {', '.join(self._known)}"
            )

    def _invalid(self, name: str, rule: str, value: str) -> SourceError:
        return SourceError(f"{self._device}: {name}= must be {rule}, got {value}")


def default_leads(count: int) -> tuple[Lead, ...]:
    """ch1, ch2, ...: for a device that does not name its leads."""
    return tuple(Lead(f"ch{i + 1}") for i in range(count))


def apply_montage(montage: tuple[Lead, ...] | None, leads: tuple[Lead, ...]) -> tuple[Lead, ...]:
    """The device's own leads under the names of montage=, if that was given."""
    if montage is not None and len(montage) != len(leads):
        raise SourceError(
            f"montage= names {len(montage)} leads, but the device has {len(leads)}: name them all "
            "(channels= and montage= must agree), or omit montage="
        )
    return montage or leads


def read_montage(text: str | None) -> tuple[Lead, ...] | None:
    """The leads that montage= names: a track, a file with one name a line, or names with commas."""
    if text is None:
        return None
    leads = _named_leads(text)
    names = [lead.name for lead in leads]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise SourceError(
            f"montage= names {', '.join(doubles)} twice: each lead needs its own name"
        )
    return leads


def _named_leads(text: str) -> tuple[Lead, ...]:
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
