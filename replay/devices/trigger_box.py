"""Neuracle's TriggerBox: a code written to its serial port is a trigger on the amplifier."""

import struct
from typing import Protocol

from bci_stream.errors import SourceError

BAUD = 115200
DEVICE = 0x01
EMIT = 0xE1
_FRAME = struct.Struct("<BBH")


class Port(Protocol):
    def write(self, data: bytes, /) -> int | None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def encode_command(function: int, payload: bytes) -> bytes:
    """u8 device, u8 function, u16 length, payload."""
    return _FRAME.pack(DEVICE, function, len(payload)) + payload


def encode_code(code: int) -> bytes:
    """The frame that puts a code on the trigger line: 01 E1 01 00 XX."""
    if not 1 <= code <= 255:
        raise SourceError(f"a TriggerBox code is one byte, from 1 to 255, got {code}")
    return encode_command(EMIT, bytes([code]))


def open_port(path: str) -> Port:
    """The serial port at 115200 8N1; raises SourceError where it can't be opened."""
    try:
        import serial
    except ImportError:
        raise SourceError("sending to a TriggerBox needs pyserial: pip install pyserial") from None
    try:
        port: Port = serial.Serial(
            path, BAUD, bytesize=8, parity="N", stopbits=1, write_timeout=2.0
        )
    except (serial.SerialException, ValueError, OSError) as error:
        raise SourceError(
            f"can't open the TriggerBox at {path}: {error}; check the cable, the port's name "
            "(/dev/ttyUSB0, COM3) and that your user may use it (group dialout)"
        ) from None
    return port


class TriggerBox:
    def __init__(self, port: Port) -> None:
        self._port = port

    def emit(self, code: int) -> None:
        frame = encode_code(code)
        try:
            self._port.write(frame)
            self._port.flush()
        except OSError as error:  # pyserial's errors are OSErrors
            raise SourceError(f"the TriggerBox took no code: {error}") from None

    def close(self) -> None:
        self._port.close()
