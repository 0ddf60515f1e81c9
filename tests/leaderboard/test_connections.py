"""Bounded and timed connections: who holds many of them delays others by seconds, and no judge."""

import json
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count

import psutil
import pytest
from leaderboard.test_page_process import start_live
from leaderboard.waiting import DEADLINE_S, wait_for
from processes import WAIT_S, Processes

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.connections import client_of
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.published import PageLimits

REQUEST = b"GET /api/v1/leaderboard HTTP/1.1\r\nHost: x\r\n\r\n"
EVENTS = b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"
OTHER = "127.0.0.2"


@contextmanager
def serving(board: Leaderboard, **limits: float) -> Iterator[WebBoard]:
    served = WebBoard(board, port=0, period_s=0.02, limits=PageLimits(**limits))  # type: ignore[arg-type]
    served.start()
    try:
        yield served
    finally:
        served.stop()


def connect(port: int, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), DEADLINE_S, (source, 0))
    link.sendall(sent)
    return link


def read_all(link: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := link.recv(1 << 16):
            received += piece
    return received


def read_answer(link: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer, which has a length."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = link.recv(1 << 16)
        assert piece, f"the connection ended after {received!r}"
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += link.recv(1 << 16)
    return int(head.split()[1]), body


def get(port: int, source: str = "127.0.0.1") -> tuple[int, bytes]:
    with connect(port, REQUEST, source) as link:
        return read_answer(link)


# --- bounds -------------------------------------------------------------------------------------


def test_a_connection_above_the_bound_of_its_address_is_answered_with_503() -> None:
    with serving(Leaderboard(), connections=10, per_address=3) as page, ExitStack() as held:
        links = [held.enter_context(connect(page.port, REQUEST)) for _ in range(3)]
        assert [read_answer(link)[0] for link in links] == [200, 200, 200]
        status, text = get(page.port)
        assert status == 503
        assert b"too many connections" in text
        assert get(page.port, OTHER)[0] == 200  # another address has its own share
        links[0].close()
        wait_for(lambda: get(page.port)[0] == 200, "room for another connection")


def test_a_connection_above_the_bound_of_all_is_answered_with_503() -> None:
    with serving(Leaderboard(), connections=4, per_address=2) as page, ExitStack() as held:
        for source in ("127.0.0.1", "127.0.0.1", OTHER, OTHER):
            link = held.enter_context(connect(page.port, REQUEST, source))
            assert read_answer(link)[0] == 200
        assert get(page.port, "127.0.0.3")[0] == 503


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_client_is_an_address_or_the_network_of_one_subscriber(address: str, client: str) -> None:
    assert client_of(address) == client


# --- times --------------------------------------------------------------------------------------

HALF = b"GET / HTTP/1.1\r\nHost:"
TEAMS = 300


@pytest.fixture(scope="module")
def page() -> Iterator[WebBoard]:
    with serving(Leaderboard(), head_s=0.3, idle_s=0.3, unsent_s=0.5) as served:
        yield served


@pytest.mark.parametrize("sent", [b"", HALF], ids=["idle", "half a request"])
def test_a_request_that_does_not_come_ends_the_connection(page: WebBoard, sent: bytes) -> None:
    with connect(page.port, sent) as link:
        assert read_all(link) == b""


def test_a_request_that_comes_byte_by_byte_ends_the_connection_too(page: WebBoard) -> None:
    with connect(page.port) as link:
        link.settimeout(0.01)
        ended = False
        while not ended:
            try:
                link.sendall(b"x")
                ended = link.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True


@pytest.mark.parametrize("sent", [REQUEST, REQUEST + HALF], ids=["idle", "half a request"])
def test_a_connection_without_another_request_is_closed(page: WebBoard, sent: bytes) -> None:
    with connect(page.port, sent) as link:
        assert read_answer(link)[0] == 200
        assert read_all(link) == b""


def test_a_page_of_events_that_does_not_read_is_dropped_and_one_that_reads_is_not(
    page: WebBoard,
) -> None:
    changes = count()
    with connect(page.port, EVENTS) as reader, connect(page.port, EVENTS) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wait_for(lambda: reader.recv(1), "the first event")
        assert page.pid is not None
        server = psutil.Process(page.pid)
        reader.settimeout(0.02)

        def is_dropped() -> bool:
            reason = f"{next(changes)}".rjust(190, "x")
            for team in range(TEAMS):
                page.board.team(f"team {team}", "mi", "running", reason=reason)
            with suppress(TimeoutError):
                while reader.recv(1 << 20):
                    pass
            clients = {link.raddr.port for link in server.net_connections("tcp") if link.raddr}
            assert reader.getsockname()[1] in clients
            return slow.getsockname()[1] not in clients

        wait_for(is_dropped, "the page that does not read to be dropped")


# --- sizes --------------------------------------------------------------------------------------


def test_a_request_with_a_body_is_refused(page: WebBoard) -> None:
    body = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nabc"
    with connect(page.port, body) as link:
        assert read_all(link).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    ],
    ids=["line", "field", "fields"],
)
def test_a_request_that_is_too_long_is_not_answered(page: WebBoard, sent: bytes) -> None:
    received = b""
    with connect(page.port) as link, suppress(ConnectionError):
        link.sendall(sent)
        received = read_all(link)
    assert b" 200 OK" not in received
    assert get(page.port)[0] == 200


def test_a_page_of_events_that_goes_on_sending_is_dropped() -> None:
    with serving(Leaderboard()) as page, connect(page.port, EVENTS) as link:
        with pytest.raises(ConnectionError):  # noqa: PT012
            while True:
                link.sendall(REQUEST * 1000)
        assert get(page.port)[0] == 200


# --- a flood ------------------------------------------------------------------------------------

FLOOD = 5000
SENT = (b"", b"GET / HTTP/1.1\r\nHo", EVENTS)
"""Idle, half-open, and a page of events that is not read."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FLOOD + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the system allows {hard} descriptors; {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def flood(port: int, sources: list[str]) -> Iterator[None]:
    """FLOOD connections, a third of each kind, that read nothing."""
    links: list[socket.socket] = []
    with selectors.DefaultSelector() as opening:
        for number in range(FLOOD):
            link = socket.socket()
            links.append(link)
            link.setblocking(False)
            link.bind((sources[number % len(sources)], 0))
            link.connect_ex(("127.0.0.1", port))
            opening.register(link, selectors.EVENT_WRITE, SENT[number % len(SENT)])
            if number % 200 == 199 or number == FLOOD - 1:
                _send(opening)
        wait_for(lambda: _send(opening) == 0, "all connections to open")
    try:
        yield
    finally:
        for link in links:
            link.close()


def _send(opening: selectors.BaseSelector) -> int:
    """Send what each connection that is open now has to send; returns how many are not yet open."""
    for key, _ in opening.select(0.05):
        link = key.fileobj
        assert isinstance(link, socket.socket)
        opening.unregister(link)
        with suppress(OSError):  # it was refused
            link.send(key.data)
    return len(opening.get_map())


def seconds_of(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def run_contest(processes: Processes) -> None:
    """A team, in lockstep, on the judge that runs already."""
    source, decoder = "synthetic:erp?subjects=1&trials=1", "erp-chance"
    replay = processes.start(
        *("replay", "start", source, "--track", "erp", "--foreground", "--pace", "lockstep")
    )
    processes.run("decoders", "--track", "erp", "--decoder", decoder, "--team", "alice")
    assert replay.wait(WAIT_S) == 0


@pytest.mark.lsl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "most", "answers"),
    [([OTHER], 1000, {200}), ([f"127.0.0.{n}" for n in range(2, 7)], 2000, {200, 503})],
    ids=["one address", "five addresses"],
)
def test_a_flood_of_connections_does_not_reach_the_judge_and_the_page_recovers(
    processes: Processes,
    many_descriptors: None,
    sources: list[str],
    most: int,
    answers: set[int],
) -> None:
    """One address takes its share; if several take all of them, others are refused at once."""
    judge, url = start_live(processes)
    port = int(url.rstrip("/").rpartition(":")[2])
    assert get(port)[0] == 200
    (supervisor,) = psutil.Process(judge.pid).children()
    (page,) = supervisor.children()
    with flood(port, sources):
        assert page.num_fds() < most + 300
        assert psutil.Process(judge.pid).num_fds() < 100
        assert get(port)[0] in answers
        assert min(seconds_of(lambda: get(port)) for _ in range(5)) < 1.0
        if len(sources) > 1:
            run_contest(processes)
    wait_for(lambda: get(port)[0] == get(port, sources[0])[0] == 200, "the page to recover")


@pytest.mark.lsl
@pytest.mark.slow
def test_where_the_system_allows_few_descriptors_the_page_takes_fewer_connections(
    processes: Processes,
) -> None:
    few = 300

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))

    command = ("bci_stream.judge", "live", "--stay", "--port", "0")
    judge = processes.start(*command, preexec_fn=limit)
    assert judge.stdout is not None
    port = int(judge.stdout.readline().rstrip("/\n").rpartition(":")[2])
    with ExitStack() as held:
        for _ in range(few):
            held.enter_context(connect(port))
        assert get(port)[0] == 503
    wait_for(lambda: get(port)[0] == 200, "the page to recover")
    assert json.loads(get(port)[1]) == {"rows": []}
    assert judge.poll() is None
