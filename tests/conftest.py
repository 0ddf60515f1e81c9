"""What all tests share: both transports, a contest of its own, a small labelled recording."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from bci_stream.contest.contest import Contest
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import Transport

settings.register_profile("any machine", deadline=None)  # a law does not hang on a busy clock
settings.load_profile("any machine")

LSL_SESSION = f"test-{os.getpid()}"


@pytest.fixture(scope="session")
def lsl_transport() -> Transport:
    """Real LSL on loopback, in a session that no other process is in."""
    from bci_stream.wire.lsl import LslTransport

    return LslTransport("machine", LSL_SESSION)


@pytest.fixture(params=["memory", pytest.param("lsl", marks=pytest.mark.lsl)])
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param == "memory":
        return MemoryTransport()
    found: Transport = request.getfixturevalue("lsl_transport")
    return found


@pytest.fixture
def contest(tmp_path: Path, request: pytest.FixtureRequest) -> Contest:
    """A name of its own: tests that share one LSL session do not hear each other."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**10}"
    return Contest(name, tmp_path / "contest")


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def hangup() -> Iterator[None]:
    """A closed terminal is heard, also where the tests themselves were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test touches the user's own state."""
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BCI_LSL_SESSION", LSL_SESSION)
