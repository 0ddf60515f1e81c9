"""A layout tells which numbers of a JellyFish data frame are leads and which are the trigger line."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.devices.chunk import DeviceInfo
from replay.devices.jellyfish_frames import TRIGGER_RATE, Channel, Data, Meta, Module

KINDS = {"EEG": "EEG", "EOG": "EOG", "ECG": "ECG", "EMG": "EMG", "ECOG": "ECOG", "SEEG": "SEEG"}


@dataclass(frozen=True, slots=True)
class Layout:
    """columns: the module's channels that are leads; places: where their numbers stand.

    line: serial and place of the trigger line; None where there is none.
    """

    module: Module
    columns: tuple[int, ...]
    places: NDArray[np.int64]
    line: tuple[int, slice] | None

    @property
    def rate(self) -> float:
        return float(self.module.channels[self.columns[0]].rate)

    def samples(self, data: Data) -> FloatArray | None:
        values = data.values.get(self.module.serial)
        return None if values is None else np.ascontiguousarray(values[self.places].T)

    def trigger_line(self, data: Data) -> FloatArray:
        """Empty where the frame has none."""
        serial, place = self.line or (0, slice(0))
        values: FloatArray = data.values.get(serial, np.empty(0, np.float32))[place]
        return values

    def unmeasured(self, data: Data) -> list[str]:
        """The leads that the frame marks as not measured."""
        mask = data.masks[self.module.serial]
        if all(mask):
            return []
        return [self.module.channels[i].name for i in self.columns if not mask[i]]

    def device_info(self, names: tuple[Lead, ...] | None) -> DeviceInfo:
        """names: what the user calls the leads; None for the amplifier's own names."""
        channels = [self.module.channels[i] for i in self.columns]
        leads = names or tuple(_lead(i, channel) for i, channel in enumerate(channels))
        if len(leads) != len(channels):
            raise SourceError(
                f"the amplifier sends {len(channels)} leads, but montage= names {len(leads)}: "
                "name them all, or leave montage= away to use the amplifier's own names"
            )
        return DeviceInfo(self.rate, leads)


def find_layout(meta: Meta, wanted: str | None) -> Layout:
    """wanted: name or serial of the box to take, needed where there are several."""
    module = _choose_module(meta, wanted)
    carrier = _line_carrier(meta, module)
    columns = _lead_columns(module, has_trigger=carrier is module)
    numbers = np.arange(module.values)
    places = np.array([numbers[module.place(i)] for i in columns])
    line = None if carrier is None else (carrier.serial, carrier.place(-1))
    return Layout(module, columns, places, line)


def _choose_module(meta: Meta, wanted: str | None) -> Module:
    boxes = [module for module in meta.modules if module.serial and module.channels]
    if wanted is not None:
        boxes = [box for box in boxes if wanted in (box.name, str(box.serial))]
    if len(boxes) == 1:
        return boxes[0]
    seen = ", ".join(f"{box.name or '?'} ({box.serial})" for box in meta.modules) or "none"
    raise SourceError(
        f"the amplifier forwards {len(boxes)} boxes "
        f"{'named ' + wanted if wanted else 'that measure'}, one is needed; it has "
        f"{seen}: choose one with module=NAME or module=SERIAL"
    )


def _line_carrier(meta: Meta, chosen: Module) -> Module | None:
    """Whose last channel is the trigger line: forwarded whole, that is the last channel of all,
    unless the chosen box has a line of its own; box by box, it is that of serial 0."""
    if not meta.whole:
        return next((box for box in meta.modules if not box.serial and box.channels), None)
    if _ends_in_a_line(chosen):
        return chosen
    return next(box for box in reversed(meta.modules) if box.channels)


def _ends_in_a_line(module: Module) -> bool:
    *others, last = module.channels
    if "trig" in f"{last.name} {last.type}".lower():
        return True
    return last.rate == TRIGGER_RATE and any(other.rate != TRIGGER_RATE for other in others)


def _lead_columns(module: Module, has_trigger: bool) -> tuple[int, ...]:
    channels = module.channels[:-1] if has_trigger else module.channels
    if not channels or channels[0].rate <= 0 or channels[0].count <= 0:
        raise SourceError(
            f"the amplifier's box {module.name!r} measures no lead: choose another module="
        )
    # One stream has one rate; what runs at another one (accelerometers, batteries) stays out of it.
    first = (channels[0].rate, channels[0].count)
    return tuple(i for i, c in enumerate(channels) if (c.rate, c.count) == first)


def _lead(number: int, channel: Channel) -> Lead:
    return Lead(channel.name or f"ch{number + 1}", KINDS.get(channel.type.upper(), "MISC"))
