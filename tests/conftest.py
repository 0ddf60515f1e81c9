"""Shared fixtures (both transports, a contest, child processes) and the order in which tests run.

Each test has its own $BCI_HOME, each worker of pytest-xdist its own LSL session, and whatever process
a test leaves behind is ended after it, so that tests depend neither on each other nor on their order.
"""

import itertools
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from processes import Processes, end_daemons
from skips import write_skips
from threadpoolctl import threadpool_limits

from bci_stream.contest.contest import Contest
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import Transport

# Hypothesis: no deadline, because a loaded machine would break it, and no database in the work tree.
settings.register_profile("any machine", deadline=None, database=None)
settings.load_profile("any machine")

LSL_SESSION = f"test-{os.getpid()}"
HOME_NUMBERS = itertools.count()
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CONTESTS = ("tests/faults/", "tests/end_to_end/", "tests/redteam/")
"""Folders whose tests run whole contests, those with the longest tests first."""

LAST = ("slow", "browser", "lsl")  # the order in which marked tests follow the others


def pytest_configure() -> None:
    """Let children receive signals, and limit linear algebra to one thread.

    Tests may run in the background (`nohup`, `trap '' INT`). A child inherits ignored and blocked signals,
    but not a handler: with an empty handler this process goes on ignoring the signal, and its children get
    the default action. Several workers share the cores, on which threads of BLAS would wait for each other.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # of children, and of libraries that are loaded later
    threadpool_limits(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a browser and what is slow because it runs a whole contest; quick tests first."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if item.nodeid.startswith(CONTESTS):
            item.add_marker("slow")
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Contests come last: they are distributed one by one, the longest first, so that all workers end at
    about the same time."""
    for place, folder in enumerate(CONTESTS, start=len(LAST) + 1):
        if item.nodeid.startswith(folder):
            return place
    return max((LAST.index(m.name) + 1 for m in item.iter_markers() if m.name in LAST), default=0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_skips(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute files, so that the tests of one share its fixtures, and end-to-end tests one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return nodeid if path.startswith(CONTESTS) else path

    config.option.loadscopereorder = False  # as they were collected: quick ones first
    return ByFile(config, log)


PRIORITY = -10


@pytest.fixture(autouse=True)
def priority(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run contests before the computing of other workers, if this user may.

    A decoder that gets no processor time reports late, by its own fault. Threads and processes that are
    started meanwhile have the same priority.
    """
    marked = any(request.node.get_closest_marker(name) for name in ("lsl", "timed"))
    is_timed = marked or request.node.nodeid.startswith(CONTESTS)
    if not is_timed or os.geteuid() != 0:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, 0)


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
    """A name of its own: tests that share one LSL session do not see each other."""
    name = f"t{abs(hash(request.node.nodeid)) % 10**10}"
    return Contest(name, tmp_path / "contest")


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def own_home(
    request: pytest.FixtureRequest, homes: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No test touches the user's own state, and none leaves a replay in the background.

    The folder is made by whoever needs it; most tests have no other use for a tmp_path either.
    """
    own = "tmp_path" in request.fixturenames
    folder = request.getfixturevalue("tmp_path") if own else homes / str(next(HOME_NUMBERS))
    monkeypatch.setenv("BCI_HOME", str(folder / "home"))
    monkeypatch.setenv("BCI_LSL_SESSION", LSL_SESSION)
    yield
    end_daemons(folder / "home")


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A command that runs in this process sets signal handlers; they are reset after the test."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def runtime_folder() -> Iterator[Path]:
    """A folder for $XDG_RUNTIME_DIR. The path of a socket has at most 107 bytes; tmp_path may be longer."""
    with tempfile.TemporaryDirectory(prefix="bci-run-") as name:
        yield Path(name)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.end()
