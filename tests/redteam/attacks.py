"""What a program on the network, without a key, can do to a contest; and what an undisturbed run gives."""

import json
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from playground import WAIT_S, Played, Recorder, counter_recording, program

from bci_stream.contest.contest import Contest, Limits
from bci_stream.errors import LostError
from bci_stream.packet import Packet
from bci_stream.runlog import score_run
from bci_stream.wire import names
from bci_stream.wire.crypto import SigningKey, seal_truth, sign
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.messages import (
    Closed,
    Go,
    ResendResults,
    SealedMessage,
    Status,
    Stopped,
    encode,
)
from bci_stream.wire.names import Role
from bci_stream.wire.transport import FoundStream, Lead, StreamSpec, Transport

LABELS = (105, 120, 136)
DECIDE_AFTER_S = 1.0
"""A report comes so long after the last flash, and as long before the next trial: load has no effect."""

DIFFERS = ("t", "elapsed_s", "compute_s", "h", "message", "n", "pace")
WRONG_KEY = b"w" * 32


def sealed_contest(name: str, folder: Path, **limits: float) -> Contest:
    """Outages of this machine's making are left out: a test must not depend on an idle one."""
    given: dict[str, Any] = {"outage_s": 30.0, "return_s": 2.0, **limits}
    return Contest(name, folder, results="sealed", limits=Limits(**given))


def recording(labels: tuple[int, ...] = LABELS, subject: str = "S01") -> Any:
    triggers, at = [(3, 242)], 20
    for label in labels:
        triggers += [(at, label), *((at + 15 + 12 * k, k + 1) for k in range(3)), (at + 55, 200)]
        triggers.append((at + 560, 241))
        at += 580
    return counter_recording("erp", [(at + 7, (*triggers, (at, 243)))], subject)


def what() -> Any:
    return program("erp", recording())


class Speller(Recorder):
    """Reports DECIDE_AFTER_S after each sequence: the first two trials right, the last one wrong.

    labels: what it reports, None for no report.
    """

    def __init__(self, labels: tuple[int | None, ...] = (105, 120, 101)) -> None:
        super().__init__(self._answer)
        self._labels = labels
        self._due: list[int] = []
        self._sequences = 0
        self.most_memory = 0

    def _answer(self, number: int, packet: Packet) -> list[object]:
        self.most_memory = max(self.most_memory, psutil.Process().memory_info().rss)
        if any(code == 200 for _, code in packet.triggers):
            self._due.append(number + int(DECIDE_AFTER_S * 25))
        if self._due and number >= self._due[0]:
            self._due.pop(0)
            self._sequences += 1
            label = self._labels[self._sequences - 1]
            return [] if label is None else [label - 100]
        return []


def log_lines(path: Path) -> list[dict[str, Any]]:
    """A run log without measured times, and without what names this run."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {k: v for k, v in event.items() if k not in DIFFERS or (k == "n" and "start" in event)}
        for event in events
        if event["kind"] not in ("seal", "status")
    ]


def check_run(played: Played, undisturbed: Path, *teams: str, ordered: bool = True) -> None:
    """The teams' runs are the undisturbed one, but for measured times.

    ordered: whether reports stand between the same packets; in real time they may move by a few, and
    what they used is the same.
    """
    calm = log_lines(undisturbed)
    score = score_run(undisturbed).result()["score"]
    for team in teams or ("alice",):
        assert team not in played.errors
        log = played.runs[team].path
        mine = log_lines(log)
        expected = [{**line, "team": team} if line["kind"] == "run" else line for line in calm]
        if not ordered:
            mine.sort(key=lambda line: str(line["kind"]))
            expected.sort(key=lambda line: str(line["kind"]))
        assert mine == expected
        assert score_run(log).result()["score"] == score


Attack = Callable[["Attacker"], None]


class Attacker:
    """A program on the network that has no key. Its methods run until `over` is set."""

    def __init__(self, transport: Transport, contest: str) -> None:
        self.transport = transport
        self.contest = contest
        self.over = threading.Event()
        self.sent = 0
        self._outlets: list[Any] = []

    def outlet(self, role: Role, owner: str) -> Any:
        made = self.transport.text_outlet(names.text_stream(self.contest, role, owner))
        self._outlets.append(made)
        return made

    def sample_outlet(self, spec: StreamSpec) -> Any:
        made = self.transport.sample_outlet(spec)
        self._outlets.append(made)
        return made

    def own(self, uid: str) -> bool:
        return any(outlet.uid == uid for outlet in self._outlets)

    def find(self, role: Role, owner: str) -> FoundStream | None:
        """The contest's stream of this name; None once the attack is over."""
        watch = self.transport.watch(names.source_id(self.contest, role, owner))
        try:
            while not self.over.wait(0.005):
                for found in watch.found():
                    if not self.own(found.uid):
                        return found
        finally:
            watch.close()
        return None

    def read(self, role: Role, owner: str) -> Iterator[str]:
        """Each text of the contest's stream of this name."""
        found = self.find(role, owner)
        if found is None:
            return
        inlet = self.transport.text_inlet(found, WAIT_S)
        try:
            while not self.over.is_set():
                for text, _ in inlet.pull(0.01):
                    yield text
        except LostError:
            return  # the stream has ended, and the attack with it
        finally:
            inlet.close()

    def run_id(self) -> str:
        """The run's id, which every offer names."""
        for text in self.read("control", "r"):
            fields = json.loads(text)
            if fields["kind"] == "offer":
                return str(fields["run"])
        return ""

    def repeat(self, outlets: list[Any], make: Callable[[int, Any], str]) -> None:
        """Push what `make` returns for a number and an outlet, 50 times a second, on all outlets."""
        while not self.over.wait(0.02):
            for outlet in outlets:
                outlet.push(make(self.sent, outlet))
            self.sent += 1

    def close(self) -> None:
        for outlet in self._outlets:
            outlet.close()


@contextmanager
def attacking(transport: Transport, contest: Contest, *attacks: Attack) -> Iterator[list[Attacker]]:
    """Run attacks beside what the body does; an attack that fails by itself fails the test."""
    attackers = [Attacker(transport, contest.name) for _ in attacks]
    failed: list[BaseException] = []

    def run(attack: Attack, attacker: Attacker) -> None:
        try:
            attack(attacker)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in zip(attacks, attackers, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield attackers
    finally:
        for attacker in attackers:
            attacker.over.set()
        for thread in threads:
            thread.join(WAIT_S)
        for attacker in attackers:
            attacker.close()
    assert failed == []


# --- the attacks ------------------------------------------------------------------------------


def stop_on_a_second_control_stream(a: Attacker) -> None:
    """A1: `stopped` in the replay's name, without a signature and with one of another key."""
    outlets = [a.outlet("control", "r"), a.outlet("control", "a")]
    run, key = a.run_id(), SigningKey(WRONG_KEY)
    texts = [encode(Stopped("attack", run=run)), encode(Status("paused", run=run))]
    a.repeat(outlets, lambda k, _: key.sign(texts[k % 2], "control") if k % 3 else texts[k % 2])


def forge_truth(a: Attacker) -> None:
    """A1, A2: a truth stream of the replay's name, sealed under another key."""
    outlets = [a.outlet("truth", "r"), a.outlet("truth", "a")]
    run = a.run_id()

    def make(k: int, outlet: Any) -> str:
        text = encode(SealedMessage(k + 1000, Stopped("attack", run=run)))
        return seal_truth(text, WRONG_KEY, run, outlet.uid)

    a.repeat(outlets, make)


def copy_stream(role: Role, owner: str, *to: tuple[Role, str]) -> Attack:
    """Send each text of a stream again, at once, on streams that were there before it."""

    def attack(a: Attacker) -> None:
        outlets = [a.outlet(*target) for target in to]
        for text in a.read(role, owner):
            a.sent += 1
            for outlet in outlets:
                outlet.push(text)

    attack.__name__ = f"copy_{role}"
    return attack


def copy_offers(a: Attacker) -> None:
    """Offers are copied and the welcome is kept back, so that a team would wait for it."""
    outlet = a.outlet("control", "a")
    for text in a.read("control", "r"):
        if '"kind":"offer"' in text:
            a.sent += 1
            outlet.push(text)


def repeat_sealed_messages(a: Attacker) -> None:
    """A22: every sealed message again, later, on the same name and on another one."""
    outlets = [a.outlet("truth", "r"), a.outlet("truth", "z")]
    seen: list[str] = []
    for text in a.read("truth", "r"):
        seen.append(text)
        for outlet in outlets:
            outlet.push(seen[len(seen) // 2])
            a.sent += 1


def stay_silent(a: Attacker) -> None:
    """A6, A11: streams that can be opened and send nothing, also in the judge's name."""
    for role in ("results", "truth", "judge", "control", "asks"):
        for owner in ("r", "alice", "judge", "x"):
            a.outlet(role, owner)  # type: ignore[arg-type]
    a.over.wait()


def send_texts_as_packet_requests(a: Attacker) -> None:
    """Streams of the name of the team's packet requests: of texts, of other channels, of zeros."""
    texts = a.outlet("asks", "alice")
    source_id = names.source_id(a.contest, "asks", "alice")
    leads = tuple(Lead(f"x{k}", "MISC", "none") for k in range(10))
    rows = a.sample_outlet(StreamSpec("x", "BCI-Asks", source_id, "int32", leads=leads))
    a.sample_outlet(StreamSpec("y", "BCI-Asks", source_id, "int32", leads=leads[:3]))
    while not a.over.wait(0.02):
        texts.push("next")
        rows.push(np.zeros((1, 10), np.int32), a.transport.now())
        a.sent += 1


def send_a_second_signal(a: Attacker) -> None:
    """A signal of the replay's name, which is there before the replay's."""
    source_id = names.source_id(a.contest, "signal", "r")
    leads = tuple(Lead(f"x{k}") for k in range(65))
    rows = a.sample_outlet(StreamSpec("x", "EEG", source_id, "float32", 250.0, leads=leads))
    while not a.over.wait(0.02):
        rows.push(np.full((10, 65), -777.0, np.float32), a.transport.now())
        a.sent += 1


def forge_judge(a: Attacker) -> None:
    """A11-A13: `go`, `closed` and `recall` in the judge's name."""
    outlets = [a.outlet("judge", "judge"), a.outlet("judge", "x")]
    run, key = a.run_id(), SigningKey(WRONG_KEY)

    def make(k: int, outlet: Any) -> str:
        seq = (1 << 60) + k
        messages = (
            Go(a.contest, run, seq, stream=outlet.uid),
            Closed(a.contest, run, seq, team="alice", reason="finished", stream=outlet.uid),
            ResendResults(a.contest, run, seq, team="alice", n=0, stream=outlet.uid),
        )
        text = encode(messages[k % 3])
        return text if k % 2 else sign(key.sign(text, "judge"), WRONG_KEY)

    a.repeat(outlets, make)


def send_garbage(a: Attacker) -> None:
    """Texts of no form on every stream of texts."""
    kinds = ["", " ", "{}", '{"kind":"report"}', "\x00", "[" * 5000, "alice - 1 AAAA", "9" * 300]
    roles: tuple[Role, ...] = ("results", "truth", "judge", "control")
    outlets = [a.outlet(role, owner) for role in roles for owner in ("alice", "x y\x1b[2J")]
    a.repeat(outlets, lambda k, _: kinds[k % len(kinds)])


KEYLESS: tuple[Attack, ...] = (
    stop_on_a_second_control_stream,
    forge_truth,
    copy_stream("results", "alice", ("results", "alice"), ("results", "bob")),
    copy_stream("judge", "judge", ("judge", "judge"), ("judge", "x")),
    copy_stream("control", "r", ("control", "r"), ("control", "a")),
    copy_offers,
    repeat_sealed_messages,
    stay_silent,
    send_texts_as_packet_requests,
    send_a_second_signal,
    forge_judge,
    send_garbage,
)


# --- a stream that is announced, and accepts connections, and never answers -------------------


class BlackHole:
    """Answers LSL's searches for one source_id, accepts TCP connections, and sends nothing.

    LSL searches on loopback ask every port of its range, so any free one there will do.
    """

    PORTS = range(17060, 16572, -1)

    def __init__(self, session: str, source_id: str) -> None:
        self._session = session
        self.source_id = source_id
        self._uid = f"0{uuid.uuid4().hex[1:8]}-0000-4000-8000-000000000000"
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.settimeout(0.1)
        self._bind()
        self._over = threading.Event()
        self.answered = 0
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _bind(self) -> None:
        for port in self.PORTS:
            try:
                self._udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return
        raise AssertionError("no free port in LSL's range")

    def _answer(self) -> None:
        prefix = self.source_id.rpartition("/")[0]
        while not self._over.is_set():
            try:
                query, sender = self._udp.recvfrom(65536)
            except TimeoutError:
                continue
            lines = query.decode("utf-8", "replace").split("\r\n")
            if lines[0] == "LSL:shortinfo" and prefix in lines[1]:
                port, number = lines[2].split()
                answer = f"{number}\r\n{self._description()}".encode()
                self._udp.sendto(answer, (sender[0], int(port)))
                self.answered += 1

    def _description(self) -> str:
        port = self._tcp.getsockname()[1]
        fields = {
            "name": "x", "type": "x", "channel_count": 1, "channel_format": "string",
            "source_id": self.source_id, "nominal_srate": "0.000000000000000", "version": "1.100",
            "created_at": "1.0", "uid": self._uid, "session_id": self._session, "hostname": "x",
            "v4address": "", "v4data_port": port, "v4service_port": self._udp.getsockname()[1],
            "v6address": "", "v6data_port": 0, "v6service_port": 0,
        }  # fmt: skip
        xml = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return f'<?xml version="1.0"?><info>{xml}<desc /></info>'

    def close(self) -> None:
        self._over.set()
        self._thread.join(WAIT_S)
        self._udp.close()
        self._tcp.close()


def main(session: str, contest: str) -> None:
    """All attacks at once over LSL, until standard input is closed."""
    transport = LslTransport("machine", session)
    with attacking(transport, Contest(contest, Path()), *KEYLESS):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
