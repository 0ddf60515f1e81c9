"""Damaged bytes and texts for hypothesis, and the limits under which they are read.

`BCI_FUZZ_EXAMPLES` multiplies the number of examples of each test: 1 by default, some seconds in all.
"""

import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from bci_stream.errors import BciError

MORE = int(os.environ.get("BCI_FUZZ_EXAMPLES", "1"))
MOST_CPU_S = 20.0
"""Processor time of one example in this process; none is expected to take a second."""
MOST_MEMORY_MB = 300
"""Growth of this process's peak in one example; the files are smaller than 0.1 MB."""

_NUMBERS = [0, 1, 2, 255, 256, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**32 - 1]
_PACKED = [struct.pack(form, number) for number in _NUMBERS for form in ("<I", ">I")]
_PACKED += [struct.pack("<f", value) for value in (float("nan"), float("inf"), -1e30, 0.0)]
_TEXTS = [b"-1", b"0", b"99999999", b"1e999", b"nan", b"\t", b"\n", b",", b"=", b'"', b"{", b"["]
_TEXTS += [b"\0", b"\xff\xfe", b"../../../etc/passwd", b"T" * 400, b"[" * 3000]

Edit = Callable[[bytes], bytes]


def examples(count: int) -> settings:
    """The settings of a fuzz test. count: of examples, for a run of some seconds."""
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=count * MORE, suppress_health_check=slow)


def _edit(kind: str, at: float, other: float, piece: bytes) -> Edit:
    """One change of some bytes; at, other: places in them from 0 to 1."""

    def apply(whole: bytes) -> bytes:
        first, second = int(at * len(whole)), int(other * len(whole))
        low, high = min(first, second), max(first, second)
        changed = {
            "cut": whole[:first],
            "drop": whole[:low] + whole[high:],
            "repeat": whole[:high] + whole[low : min(high, low + 4096)] + whole[high:],
            "write": whole[:first] + piece + whole[first + len(piece) :],
            "insert": whole[:first] + piece + whole[first:],
            "flip": whole[:first] + bytes(b ^ piece[0] for b in whole[first : first + 1])
            + whole[first + 1 :],
        }  # fmt: skip
        return changed[kind]

    return apply


def _places(head: float) -> st.SearchStrategy[float]:
    """Places in a file; half of them in its head, where most of what can go wrong stands."""
    return st.one_of(st.floats(0, head), st.floats(0, 1))


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, head: float = 0.1) -> bytes:
    """These bytes with one to six changes. head: the share of them that is the header."""
    kinds = st.sampled_from(["flip", "flip", "write", "write", "insert", "drop", "repeat", "cut"])
    pieces = st.one_of(st.sampled_from(_PACKED + _TEXTS), st.binary(min_size=1, max_size=8))
    for _ in range(draw(st.integers(1, 6))):
        place = _places(head)
        whole = _edit(draw(kinds), draw(place), draw(place), draw(pieces))(whole)
    return whole


FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn", "pickle.find_class"}
_watched: list[str] = []
_is_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook, which stays for the life of the process."""
    if not _is_watching:
        return
    ours = event == "subprocess.Popen" and arguments[1][:2] == [sys.executable, "-I"]
    if event in FORBIDDEN or (event == "subprocess.Popen" and not ours):
        _watched.append(f"{event} {arguments}")


sys.addaudithook(_watch)


class TooLongError(BaseException):
    """Not an Exception: a reader that turns errors of parsers into its own must not catch it."""


def _refuse_time(*_: object) -> None:
    raise TooLongError(f"it took more than {MOST_CPU_S:g} s of processor time")


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


@contextmanager
def limits() -> Iterator[None]:
    """Around one example: time and memory are bounded, and nothing foreign is executed."""
    global _is_watching
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    before = _peak_mb()
    old = signal.signal(signal.SIGPROF, _refuse_time)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    _watched.clear()
    _is_watching = True
    try:
        yield
    finally:
        _is_watching = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
    assert not _watched, f"foreign data started something: {_watched}"
    grown = _peak_mb() - before
    assert grown < MOST_MEMORY_MB, f"reading it took {grown:.0f} MB"


def read_within_limits(read: Callable[[], object]) -> None:
    """Read foreign data; one of our errors is as good as none, any other error is a defect."""
    with limits(), suppress(BciError):
        read()
