"""JellyFish frames, decoded and encoded: meta (modules and channels) and data (samples, device time)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray
from replay.devices.neuracle.frames import LONGEST_FRAME, FrameKind

META_HEAD, META_TAIL = b"\x5f\xf5", b"\xf5\x5f"
DATA_HEAD, DATA_TAIL = b"\x5a\xa5", b"\xa5\x5a"
ACKNOWLEDGE = b"\xf5\x5f\x5f\xf5"
META_HEADER = struct.Struct("<2s4I")
DATA_HEADER = struct.Struct("<2s7I")
MODULE = struct.Struct("<30s30s30s2I")
TEXT_BYTES = 30
NAME_BYTES = 10
MOST_MODULES = 64
MOST_CHANNELS = 1024
TRIGGER_RATE = 1000
"""Rate of the trigger line, independent of the leads' rate."""


class BrokenFrameError(SourceError):
    """A frame with head and tail whose content is invalid."""


@dataclass(frozen=True, slots=True)
class JellyfishChannel:
    """count: samples of this channel in each data frame."""

    name: str
    type: str
    rate: int
    count: int


@dataclass(frozen=True, slots=True)
class Module:
    """A measuring box; serial 0 carries triggers.

    values: number of its values in a data frame, channel after channel.
    """

    serial: int
    name: str
    channels: tuple[JellyfishChannel, ...]
    person: str = ""
    type: str = "EEG"
    values: int = field(init=False)

    def __post_init__(self) -> None:  # once, not in every frame
        object.__setattr__(self, "values", sum(channel.count for channel in self.channels))

    def place(self, channel: int) -> slice:
        """Indices of a channel's values."""
        start = sum(before.count for before in self.channels[:channel])
        return slice(start, start + self.channels[channel].count)


@dataclass(frozen=True, slots=True)
class Meta:
    """flag even: one frame for all modules, whose last channel is the trigger; odd: one a module."""

    flag: int
    modules: tuple[Module, ...]

    @property
    def whole(self) -> bool:
        return self.flag % 2 == 0


@dataclass(frozen=True, slots=True)
class Data:
    """values: by module serial, channel after channel. triggers: (device ms, text)."""

    start_ms: int
    length_ms: int
    values: dict[int, NDArray[np.float32]]
    masks: dict[int, bytes]
    triggers: tuple[tuple[int, bytes], ...]


def _meta_length(header: bytes) -> int | None:
    _, header_bytes, total, _, modules = META_HEADER.unpack(header)
    return total if header_bytes == META_HEADER.size and 1 <= modules <= MOST_MODULES else None


def _data_length(header: bytes) -> int | None:
    _, header_bytes, total, _, _, triggers, _, modules = DATA_HEADER.unpack(header)
    if header_bytes != DATA_HEADER.size or modules > MOST_MODULES:
        return None
    smallest = DATA_HEADER.size + 4 * modules + (4 + TEXT_BYTES) * triggers + len(DATA_TAIL)
    return total if total >= smallest else None


FRAME_KINDS = (
    FrameKind(META_HEAD, META_TAIL, META_HEADER.size, _meta_length),
    FrameKind(DATA_HEAD, DATA_TAIL, DATA_HEADER.size, _data_length),
)


def decode_meta(frame: bytes) -> Meta:
    _, _, total, flag, count = META_HEADER.unpack_from(frame)
    pieces = _pieces(frame, META_HEADER.size, count, total - len(META_TAIL))
    return Meta(flag, tuple(_decode_module(piece) for piece in pieces))


def decode_data(frame: bytes, meta: Meta) -> Data:
    _, _, total, start_ms, length_ms, n_triggers, _, count = DATA_HEADER.unpack_from(frame)
    tail = total - len(DATA_TAIL) - (4 + TEXT_BYTES) * n_triggers
    values, masks = {}, {}
    for piece in _pieces(frame, DATA_HEADER.size, count, tail):
        serial = _serial(piece)
        values[serial], masks[serial] = _decode_values(piece, _module(meta, serial))
    stamps = struct.unpack_from(f"<{n_triggers}I", frame, tail)
    texts = frame[tail + 4 * n_triggers : total - len(DATA_TAIL)]
    triggers = ((ms, texts[i * TEXT_BYTES :][:TEXT_BYTES]) for i, ms in enumerate(stamps))
    return Data(start_ms, length_ms, values, masks, tuple(triggers))


def _pieces(frame: bytes, header_bytes: int, count: int, end: int) -> list[bytes]:
    """The modules' bytes, by the table of offsets from the frame's start that follows the header."""
    if header_bytes + 4 * count > end:
        raise _broken(f"{count} modules do not fit into {len(frame)} bytes")
    offsets = [*struct.unpack_from(f"<{count}I", frame, header_bytes), end]
    if any(b < a for a, b in zip([header_bytes + 4 * count, *offsets], offsets, strict=False)):
        raise _broken(f"the offsets of its modules {offsets[:-1]} are not in order")
    return [frame[a:b] for a, b in pairwise(offsets)]


def _decode_module(piece: bytes) -> Module:
    if len(piece) < MODULE.size:
        raise _broken(f"a module has {len(piece)} bytes, at least {MODULE.size} are needed")
    person, name, kind, serial, n = MODULE.unpack_from(piece)
    if n > MOST_CHANNELS or len(piece) < MODULE.size + 45 * n:
        raise _broken(f"module {serial} has {n} channels, which do not fit")
    at = MODULE.size
    names = [_text(piece[at + NAME_BYTES * i :][:NAME_BYTES]) for i in range(n)]
    types = [_text(piece[at + NAME_BYTES * (n + i) :][:NAME_BYTES]) for i in range(n)]
    rates = struct.unpack_from(f"<{n}I", piece, at + 20 * n)
    counts = struct.unpack_from(f"<{n}I", piece, at + 24 * n)
    if 4 * sum(counts) > LONGEST_FRAME:
        raise _broken(f"module {serial} has {sum(counts)} values in a data frame, which do not fit")
    channels = tuple(map(JellyfishChannel, names, types, rates, counts))
    return Module(serial, _text(name), channels, _text(person), _text(kind))


def _decode_values(piece: bytes, module: Module) -> tuple[NDArray[np.float32], bytes]:
    values_at = 4 + len(module.channels)
    if len(piece) != values_at + 4 * module.values:
        raise _broken(f"module {module.serial} has {len(piece)} bytes, unlike in its meta frame")
    return np.frombuffer(piece, "<f4", offset=values_at), piece[4:values_at]


def _serial(piece: bytes) -> int:
    if len(piece) < 4:
        raise _broken("a module has no serial number")
    return int.from_bytes(piece[:4], "little")


def _module(meta: Meta, serial: int) -> Module:
    for module in meta.modules:
        if module.serial == serial:
            return module
    raise _broken(f"module {serial} is not in its meta frame")


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "replace").strip()


def _broken(what: str) -> BrokenFrameError:
    return BrokenFrameError(f"a JellyFish frame of the amplifier is broken: {what}")


def encode_meta(meta: Meta) -> bytes:
    pieces = [_encode_module(module) for module in meta.modules]
    table, body = _offsets(META_HEADER.size, pieces)
    total = META_HEADER.size + len(table) + len(body) + len(META_TAIL)
    header = META_HEADER.pack(META_HEAD, META_HEADER.size, total, meta.flag, len(pieces))
    return header + table + body + META_TAIL


def _encode_module(module: Module) -> bytes:
    n = len(module.channels)
    names = b"".join(_padded(channel.name, NAME_BYTES) for channel in module.channels)
    types = b"".join(_padded(channel.type, NAME_BYTES) for channel in module.channels)
    rates = struct.pack(f"<{n}I", *(channel.rate for channel in module.channels))
    counts = struct.pack(f"<{n}I", *(channel.count for channel in module.channels))
    digital = struct.pack(f"<{2 * n}i", *[2**23 - 1] * n, *[-(2**23)] * n)
    physical = struct.pack(f"<{2 * n}f", *[375_000.0] * n, *[-375_000.0] * n)
    texts = (_padded(text, TEXT_BYTES) for text in (module.person, module.name, module.type))
    header = MODULE.pack(*texts, module.serial, n)
    return header + names + types + rates + counts + digital + physical + b"\x01" * n


def encode_data(
    flag: int,
    start_ms: int,
    length_ms: int,
    signals: dict[int, Sequence[FloatArray]],
    triggers: Sequence[tuple[int, str]] = (),
) -> bytes:
    """start_ms may be any number; it wraps at 2**32, as the device's does."""
    pieces = [
        struct.pack("<I", serial)
        + b"\x01" * len(channels)
        + b"".join(np.ascontiguousarray(channel, "<f4").tobytes() for channel in channels)
        for serial, channels in signals.items()
    ]
    table, body = _offsets(DATA_HEADER.size, pieces)
    stamps = struct.pack(f"<{len(triggers)}I", *(ms % 2**32 for ms, _ in triggers))
    texts = b"".join(_padded(text, TEXT_BYTES) for _, text in triggers)
    rest = table + body + stamps + texts + DATA_TAIL
    numbers = (start_ms % 2**32, length_ms, len(triggers), flag, len(pieces))
    return (
        DATA_HEADER.pack(DATA_HEAD, DATA_HEADER.size, DATA_HEADER.size + len(rest), *numbers) + rest
    )


def _offsets(header_bytes: int, pieces: Sequence[bytes]) -> tuple[bytes, bytes]:
    first = header_bytes + 4 * len(pieces)
    offsets = [first + sum(map(len, pieces[:i])) for i in range(len(pieces))]
    return struct.pack(f"<{len(pieces)}I", *offsets), b"".join(pieces)


def _padded(text: str, size: int) -> bytes:
    raw = text.encode("utf-8")
    if len(raw) > size:
        raise SourceError(f"JellyFish has {size} bytes for {text!r}: use a shorter name")
    return raw.ljust(size, b"\0")
