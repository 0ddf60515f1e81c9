"""Submissions are written to a folder by each test, and run as contestants' code is run."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.host.limits import MIB, EnvironmentFailed, SubmissionLimits
from decoders.host.sandbox import bubblewrap_fault, must_be_reachable
from decoders.host.submission import SubmissionDecoder

Write = Callable[[dict[str, str]], Path]
Open = Callable[..., SubmissionDecoder]

SMALL = SubmissionLimits(
    start_s=30,
    step_s=10,
    end_s=10,
    memory_bytes=512 * MIB,
    processes=8,
    threads=64,
    disk_bytes=8 * MIB,
    output_bytes=4 * MIB,
    log_bytes=64 * 1024,
)

needs_bubblewrap = pytest.mark.skipif(
    bubblewrap_fault() is not None, reason=f"no containment to test: {bubblewrap_fault()}"
)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(files: dict[str, str]) -> Path:
        root = tmp_path / "submission"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return root

    return put


def skip_where_it_can_not_run(python: Path) -> None:
    """Root does not run submissions as root: another user must be able to start the interpreter."""
    if os.geteuid() == 0 and bubblewrap_fault() is not None:
        try:
            must_be_reachable(python.resolve())
        except EnvironmentFailed as fault:
            pytest.skip(str(fault))


@pytest.fixture
def hostable() -> None:
    skip_where_it_can_not_run(Path(sys.executable))


@pytest.fixture
def submitted(tmp_path: Path) -> Iterator[Open]:
    """Opens submissions, and closes them when the test is over."""
    opened: list[SubmissionDecoder] = []

    def make(package: Path, track: str = "mi", **options: object) -> SubmissionDecoder:
        given = {"limits": SMALL, "log": tmp_path / "submission.log", **options}
        opened.append(SubmissionDecoder(package, track, **given))  # type: ignore[arg-type]
        skip_where_it_can_not_run(opened[-1].prepared.environment.python)
        return opened[-1]

    yield make
    for decoder in opened:
        decoder.close()


def info(subject: str = "S1", leads: int = 4, track: str = "mi") -> SignalInfo:
    named = tuple(Lead(f"E{number}") for number in range(1, leads + 1))
    return SignalInfo(track, subject, 250.0, named, 10)


def packets(
    count: int, n: int = 10, leads: int = 4, subject: str = "S1", blocks: int = 1
) -> list[Packet]:
    """Every sample is its own number, so that any packet proves its place."""
    made = []
    for number in range(count):
        samples = np.arange(n * (leads + 1), dtype=np.float32).reshape(n, leads + 1) + 1000 * number
        samples[:, -1] = 0
        block, place = divmod(number, -(-count // blocks))
        finish = number == count - 1
        made.append(Packet(samples, (), place * n, block, subject, finish))
    return made


def run(decoder: SubmissionDecoder, fed: list[Packet]) -> list[list[object]]:
    """One subject, from start to finish; what was reported after each packet."""
    decoder.start(info(fed[0].subject, fed[0].samples.shape[1] - 1))
    return [list(decoder.step(packet)) for packet in fed]
