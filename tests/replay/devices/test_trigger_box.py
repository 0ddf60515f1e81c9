"""The TriggerBox: its frame byte for byte, and over a serial line."""

import os
import pty
import tty

import pytest

from bci_stream.errors import SourceError
from replay.devices.manual_triggers import TriggerBox, encode_code, open_port


def test_the_frame_of_every_code():
    for code in range(1, 256):
        assert encode_code(code) == bytes([0x01, 0xE1, 0x01, 0x00, code])


@pytest.mark.parametrize("code", [0, 256, -1, 1000])
def test_a_code_is_one_byte(code):
    with pytest.raises(SourceError, match=f"from 1 to 255, got {code}"):
        encode_code(code)


def test_a_code_crosses_a_serial_line():
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        box = TriggerBox(open_port(os.ttyname(theirs)))
        box.emit(51)
        box.emit(0x0A)
        box.close()
        sent = b""
        while len(sent) < 10:
            sent += os.read(ours, 64)
        assert sent.hex() == "01e101003301e101000a"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_port_that_is_not_there_is_told():
    with pytest.raises(SourceError, match="can't open the TriggerBox at /dev/no-such-port"):
        open_port("/dev/no-such-port")


def test_a_line_that_breaks_is_told():
    class Broken:
        def write(self, data: bytes) -> int:
            raise OSError("unplugged")

        def flush(self) -> None: ...
        def close(self) -> None: ...

    with pytest.raises(SourceError, match="did not take the code: unplugged"):
        TriggerBox(Broken()).emit(5)
