"""Hostile submissions: each ends in the documented way, with a reason, and affects no other process."""

import errno
import os
import platform
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from decoders.host.detect import EntryPoint
from decoders.host.environment import Environment
from decoders.host.limits import (
    MIB,
    EnvironmentFailed,
    SubmissionCrashed,
    SubmissionDisqualified,
    SubmissionError,
    SubmissionLimit,
    SubmissionTimeout,
)
from decoders.host.prepare import Prepared
from decoders.host.sandbox import CLONE, MACHINES, REFUSED, Bubblewrap, LimitsOnly, choose_sandbox
from tests.decoders.host.conftest import SMALL, Open, Write, needs_bubblewrap, packets, run

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
HEAD = """
from Algorithm.AlgorithmInterface import AlgorithmInterface
import ctypes, os, signal, socket, subprocess, sys, threading, time

class AlgorithmImplement(AlgorithmInterface):
    def run(self):
        finish = False
        while not finish:
            model = self.comm_proxy.get_data()
            self.comm_proxy.report(self.attack(model))
            finish = model.finish_flag

    def attack(self, model):
"""

Children = Callable[[], list[psutil.Process]]


@pytest.fixture
def children() -> Children:
    """The processes that this test has started and that still run; earlier tests may share some of theirs."""
    earlier = set(psutil.Process().children(recursive=True))

    def left() -> list[psutil.Process]:
        now = set(psutil.Process().children(recursive=True)) - earlier
        return [child for child in now if child.status() != psutil.STATUS_ZOMBIE]

    return left


def hostile(body: str) -> dict[str, str]:
    lines = "".join(f"        {line}\n" for line in textwrap.dedent(body).strip("\n").splitlines())
    return {"Algorithm/impl/AlgorithmImplement.py": HEAD + lines}


def observed(attempt: str) -> str:
    """An attack that reports what came of it."""
    return f"""
        try:
            return repr({attempt})
        except OSError as error:
            return type(error).__name__
    """


# --- what it can't see or do ---------------------------------------------------------------


@needs_bubblewrap
def test_it_sees_no_file_of_the_judge_or_of_other_teams(
    tmp_path: Path, write: Write, submitted: Open
) -> None:
    truth = tmp_path / "truth.jsonl"
    truth.write_text("labels")
    truth.chmod(0o644)
    body = observed(f"open({str(truth)!r}).read()")
    assert run(submitted(write(hostile(body))), packets(1)) == [["FileNotFoundError"]]


@needs_bubblewrap
def test_it_sees_no_process_but_its_own_and_no_environment_of_ours(
    write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BCI_KEY", "secret")
    body = """
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [len(pids) <= 3, os.environ.get("BCI_KEY"), os.getpid() < 10]
    """
    assert run(submitted(write(hostile(body))), packets(1)) == [[[True, None, True]]]


@needs_bubblewrap
@pytest.mark.parametrize(
    "attempt",
    [
        'socket.create_connection(("127.0.0.1", PORT), timeout=2)',
        'socket.create_connection(("192.0.2.1", 80), timeout=2)',
        'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("224.0.0.183", 16571))',
    ],
)
def test_it_has_no_network_not_even_this_machine(
    attempt: str, write: Write, submitted: Open
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        body = observed(attempt.replace("PORT", str(server.getsockname()[1])))
        (answer,) = run(submitted(write(hostile(body))), packets(1))[0]
    assert answer in ("ConnectionRefusedError", "OSError")


@needs_bubblewrap
def test_it_can_change_neither_the_clock_nor_its_package_nor_the_system(
    write: Write, submitted: Open
) -> None:
    attempts = [
        "time.clock_settime(time.CLOCK_REALTIME, 0)",
        'open("/package/new", "w")',
        'open("/usr/new", "w")',
        'open("/new", "w")',
        'open("/dev/new", "w")',
        "os.setuid(0)",
        'os.kill(1, 9) or open("/proc/sys/kernel/hostname", "w")',
    ]
    body = """
        observed = []
        for attempt in ATTEMPTS:
            try:
                observed.append(repr(eval(attempt)))
            except OSError as error:
                observed.append(type(error).__name__)
        return observed
    """.replace("ATTEMPTS", repr(attempts))
    before = time.time()
    (answers,) = run(submitted(write(hostile(body))), packets(1))[0]
    assert set(answers) <= {"PermissionError", "OSError"}
    assert len(answers) == len(attempts)
    assert time.time() >= before


@needs_bubblewrap
def test_it_can_neither_take_memory_that_no_one_counts_nor_leave_its_name_spaces(
    write: Write, submitted: Open
) -> None:
    """Each of these would lead around the limits of memory and disk."""
    body = """
        libc = ctypes.CDLL(None, use_errno=True)
        attempts = {
            "memfd_create": lambda: os.memfd_create("nobody's"),
            "a segment of System V": lambda: libc.shmget(0, 1 << 20, 0o1600),
            "a user name space": lambda: libc.unshare(0x10000000),
            "a clone into one": lambda: libc.syscall(CLONE, 0x10000011, 0, 0, 0, 0),
            "a disk of its own": lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None),
            "the kernel's keys": lambda: libc.syscall(KEYCTL, 0, -3, 0),
        }
        observed = {}
        for name, attempt in attempts.items():
            try:
                observed[name] = "done" if attempt() >= 0 else ctypes.get_errno()
            except OSError as error:
                observed[name] = error.errno
        return sorted(observed.items())
    """
    column = MACHINES[platform.machine()][1]
    body = body.replace("CLONE", str(CLONE[column])).replace(
        "KEYCTL", str(REFUSED["keyctl"][column])
    )
    (answers,) = run(submitted(write(hostile(body))), packets(1))[0]
    assert len(answers) == 6  # type: ignore[arg-type]
    assert {code for _, code in answers} == {errno.EPERM}  # type: ignore[union-attr]


@needs_bubblewrap
def test_threads_processes_and_shared_memory_work_behind_the_filter(
    write: Write, submitted: Open
) -> None:
    body = """
        import multiprocessing
        import multiprocessing.shared_memory as shared
        from concurrent.futures import ThreadPoolExecutor
        with multiprocessing.Pool(2) as pool, ThreadPoolExecutor(2) as threads:
            numbers = pool.map(abs, [-1, -2]) + list(threads.map(abs, [-3]))
        memory = shared.SharedMemory(create=True, size=100)
        memory.buf[0] = 4
        numbers.append(memory.buf[0])
        memory.close()
        memory.unlink()
        return numbers + [len(subprocess.check_output([sys.executable, "-c", "print(12345)"]))]
    """
    assert run(submitted(write(hostile(body))), packets(1)) == [[[1, 2, 3, 4, 6]]]


@needs_bubblewrap
def test_it_inherits_its_pipe_and_its_output_and_nothing_else(
    write: Write, submitted: Open
) -> None:
    body = """
        shown = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                shown[name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
            except OSError:
                pass  # the folder that was just read
        pipe = open("/proc/self/cmdline").read().split(chr(0))[-2]
        try:
            open("/dev/tty")
        except OSError as error:
            return [sorted(shown) == sorted(["0", "1", "2", pipe]), shown["0"], shown[pipe],
                    type(error).__name__]
    """
    answer = [True, "/dev/null", "socket", "OSError"]
    assert run(submitted(write(hostile(body))), packets(1)) == [[answer]]


@needs_bubblewrap
def test_it_can_neither_kill_nor_trace_its_host_nor_read_what_it_was_started_with(
    write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BCI_TOKEN", "secret")
    body = f"""
        observed = []
        for attempt in ("os.kill({os.getpid()}, 9)", "open('/proc/{os.getpid()}/environ').read()",
                        "os.kill(1, 9) or os.kill(os.getppid(), 9)"):
            try:
                observed.append(repr(eval(attempt)))
            except OSError as error:
                observed.append(type(error).__name__)
        seen = [open(f"/proc/{{pid}}/environ").read() for pid in ("1", "self")
                if os.access(f"/proc/{{pid}}/environ", os.R_OK)]
        return [observed[:2], any("secret" in text for text in seen)]
    """
    ((told_now, leaked),) = run(submitted(write(hostile(body))), packets(1))[0:1][0]
    assert told_now == ["ProcessLookupError", "FileNotFoundError"]
    assert leaked is False


def test_our_own_folder_is_hidden_where_it_lies_in_one_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "env" / "state"))
    shown = Environment(Path("/usr/bin/python3"), Path("/usr/bin/python3"), (tmp_path / "env",), "")
    entry = EntryPoint("g3", "A.py", "A", None, (), "")
    prepared = Prepared(tmp_path, tmp_path, entry, shown)
    command = Bubblewrap().command(prepared, SMALL).command
    hidden = command.index(str(tmp_path / "env" / "state"))
    assert command[hidden - 1] == "--tmpfs"
    assert hidden > command.index(str(tmp_path / "env"))
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "elsewhere"))
    assert str(tmp_path / "elsewhere") not in Bubblewrap().command(prepared, SMALL).command


def test_the_clock_it_shows_itself_is_its_own_affair(write: Write, submitted: Open) -> None:
    decoder = submitted(write(hostile("time.time = time.monotonic = lambda: 0.0\nreturn 1")))
    assert run(decoder, packets(3)) == [[1]] * 3


# --- what ends it ----------------------------------------------------------------------------


def ended(decoder: object, error: type[SubmissionError], why: str) -> SubmissionError:
    with pytest.raises(error, match=why) as raised:
        run(decoder, packets(3))  # type: ignore[arg-type]
    decoder.close()  # type: ignore[attr-defined]
    return raised.value


def test_one_that_never_returns_is_a_timeout(write: Write, submitted: Open) -> None:
    decoder = submitted(write(hostile("while True: pass")), limits=replace(SMALL, step_s=0.5))
    error = ended(decoder, SubmissionTimeout, r"did not ask for the next packet within 0\.5 s")
    assert error.ending == "timeout"


def test_one_that_does_not_end_after_the_finish_flag_is_a_timeout(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(
        write(hostile("time.sleep(1000) if model.finish_flag else None")),
        limits=replace(SMALL, end_s=0.5),
    )
    ended(decoder, SubmissionTimeout, "did not end after the finish flag")


def test_one_that_never_begins_is_a_timeout(write: Write, submitted: Open) -> None:
    files = {"Algorithm/impl/AlgorithmImplement.py": "import time\ntime.sleep(1000)\n"}
    decoder = submitted(write(files), interface="g3", limits=replace(SMALL, start_s=1.0))
    ended(decoder, SubmissionTimeout, "first packet within 1 s of its start")


def test_the_computing_of_a_whole_run_is_limited(write: Write, submitted: Open) -> None:
    limits = replace(SMALL, compute_s=0.5)
    decoder = submitted(write(hostile("time.sleep(0.3)")), limits=limits)
    ended(decoder, SubmissionTimeout, r"0\.5 s of computing")


def test_one_that_ignores_sigterm_is_ended_all_the_same(
    write: Write, submitted: Open, children: Children
) -> None:
    body = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(1000)"
    )
    decoder = submitted(write(hostile(body)), limits=replace(SMALL, step_s=1.0))
    ended(decoder, SubmissionTimeout, "next packet")
    assert decoder.log.read_text() == "deaf\n"
    assert children() == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("os._exit(3)", "ended with exit code 3"),
        ("sys.exit('enough')", "SystemExit: enough"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("raise ValueError('mine')", "ValueError: mine"),
        ("raise ValueError('\x1b[2J\u202e')", r"ValueError: \\x1b\[2J\\u202e;"),
    ],
)
def test_one_that_exits_or_fails_has_crashed(
    body: str, why: str, write: Write, submitted: Open
) -> None:
    assert ended(submitted(write(hostile(body))), SubmissionCrashed, why).ending == "crashed"


@pytest.mark.parametrize("code", ["import sys\nsys.exit()", "import os\nos._exit(0)", "1 +"])
def test_one_that_exits_or_fails_at_import_has_crashed(
    code: str, write: Write, submitted: Open
) -> None:
    files = {"Algorithm/impl/AlgorithmImplement.py": code}
    decoder = submitted(write(files), interface="g3")
    with pytest.raises(SubmissionCrashed):
        run(decoder, packets(1))


@needs_bubblewrap
def test_a_fork_bomb_is_a_crash_and_dies(write: Write, submitted: Open, children: Children) -> None:
    body = """
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """
    error = ended(submitted(write(hostile(body))), SubmissionLimit, "more than 8 processes")
    assert error.ending == "crashed"
    assert children() == []


@needs_bubblewrap
def test_children_that_leave_their_session_die_with_it(
    write: Write, submitted: Open, children: Children
) -> None:
    body = """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        return 1
    """
    decoder = submitted(write(hostile(body)))
    assert run(decoder, packets(1)) == [[1]]
    decoder.close()
    assert children() == []


HOST = """
import sys, time
from decoders.host.submission import SubmissionDecoder
from tests.decoders.host.conftest import info
decoder = SubmissionDecoder(sys.argv[1], "mi", log=None)
decoder.start(info())
print(decoder.prepared.folder, flush=True)
time.sleep(1000)
"""


@needs_bubblewrap
def test_it_dies_with_its_host_even_if_that_is_killed(write: Write) -> None:
    root = write(hostile("return 1"))
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(root)], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    with host:
        assert host.stdout is not None
        folder = host.stdout.readline().decode().strip()
        children = psutil.Process(host.pid).children(recursive=True)
        host.kill()
    _, left = psutil.wait_procs(children, timeout=20)
    shutil.rmtree(folder, ignore_errors=True)  # the next host that is started sweeps it, too
    assert len(children) >= 2
    assert [process for process in left if process.status() != psutil.STATUS_ZOMBIE] == []


def test_one_that_eats_memory_has_crashed(write: Write, submitted: Open) -> None:
    body = "self.eaten = []\nwhile True:\n    self.eaten.append(bytearray(16 << 20))"
    ended(submitted(write(hostile(body))), SubmissionCrashed, "MemoryError|of memory")


@needs_bubblewrap
def test_memory_is_counted_over_all_its_processes(write: Write, submitted: Open) -> None:
    body = """
        for _ in range(4):
            if os.fork() == 0:
                eaten = bytearray(100 << 20)
                time.sleep(1000)
        time.sleep(1000)
    """
    limits = replace(SMALL, memory_bytes=256 * MIB)
    decoder = submitted(write(hostile(body)), limits=limits)
    ended(decoder, SubmissionLimit, "more than 256 MiB of memory")


@needs_bubblewrap
@pytest.mark.parametrize("place", [".", "/tmp", "/dev/shm"])
def test_one_that_fills_the_disk_finds_it_full(place: str, write: Write, submitted: Open) -> None:
    body = f"""
        for number in range(1000):
            with open({place!r} + "/" + str(number), "wb") as file:
                file.write(bytes(1 << 20))
    """
    ended(submitted(write(hostile(body))), SubmissionCrashed, "No space left on device")


def test_one_that_writes_without_end_to_stdout_is_disqualified(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write(hostile("while True: print('x' * 65536)")))
    ended(decoder, SubmissionDisqualified, "more than 4 MiB to stdout")
    log = decoder.log.read_bytes()
    assert len(log) < SMALL.log_bytes + 100
    assert log.endswith(b"[the log is full: what follows is not kept]\n")


def test_one_that_reports_without_end_is_disqualified(write: Write, submitted: Open) -> None:
    body = "for number in range(10**6): self.comm_proxy.report(number)"
    error = ended(submitted(write(hostile(body))), SubmissionDisqualified, "1000 reports after one")
    assert error.results == list(range(1000))


@pytest.mark.parametrize(
    "garbage",
    [
        'b"rubbish" * 1000',
        'b"\\xff" * 64',
        'b"\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00{}"',
        'b"\\x10\\x00\\x00\\x00\\x00\\x00\\x00\\x00" + b"[" * 16',
        'b"\\x10\\x00\\x00\\x00r" + b"[" * 16',
        'b"\\xff\\xff\\xff\\x7fr"',
        'b"\\x02\\x00\\x00\\x00n[]"',
        'b"\\x00\\x00\\x00\\x00p"',
    ],
)
def test_one_that_writes_into_the_pipe_itself_is_disqualified(
    garbage: str, write: Write, submitted: Open
) -> None:
    body = f"os.write(int(open('/proc/self/cmdline').read().split(chr(0))[-2]), {garbage})"
    error = ended(submitted(write(hostile(body))), SubmissionDisqualified, "wrote into the pipe")
    assert error.ending == "disqualified"


def test_one_that_uses_up_its_processor_time_is_a_timeout(write: Write, submitted: Open) -> None:
    decoder = submitted(write(hostile("while True: pass")), limits=replace(SMALL, cpu_s=1.0))
    ended(decoder, SubmissionTimeout, "more than 1 s of processor time")


def test_a_hostile_team_leaves_the_others_untouched(write: Write, submitted: Open) -> None:
    """Two at once: while one burns its processor, the other's packets and reports go on."""
    good = submitted(write(hostile("return model.start_pos")))
    limits = replace(SMALL, step_s=3.0)
    bad = submitted(write(hostile("while True: print('x')")), limits=limits)
    failures: list[SubmissionError] = []

    def run_bad() -> None:
        try:
            run(bad, packets(2))
        except SubmissionError as error:
            failures.append(error)

    thread = threading.Thread(target=run_bad)
    thread.start()
    assert run(good, packets(20)) == [[start] for start in range(0, 200, 10)]
    thread.join()
    assert [error.ending for error in failures] in (["disqualified"], ["timeout"])


# --- where there is no bubblewrap -----------------------------------------------------------------


@pytest.fixture
def limits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may not run untrusted code, so another user has to be able to start the interpreter."""
    system = Path("/usr/bin/python3")
    if os.geteuid() == 0:
        if not system.exists():
            pytest.skip("root's own interpreter is closed to other users, and there is no other")
        plain = Environment(system, system, (), "the system's Python")
        monkeypatch.setattr("decoders.host.prepare.environment_for", lambda *_: plain)


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_run_it_as_another_user_and_warn_that_this_is_weak(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(
        write(hostile("return [os.getuid() != 0, len(model.data)]")), strength="limits"
    )
    assert "resource limits only" in decoder.title
    assert run(decoder, packets(1)) == [[[True, 5]]]


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_still_keep_keys_from_it(
    tmp_path: Path, write: Write, submitted: Open
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give it a user of its own")
    key = tmp_path / "contest.key"
    key.write_text("secret")
    key.chmod(0o600)
    decoder = submitted(write(hostile(observed(f"open({str(key)!r}).read()"))), strength="limits")
    assert run(decoder, packets(1)) == [["PermissionError"]]


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_still_keep_the_teams_from_each_other(write: Write, submitted: Open) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give each a user of its own")
    other = submitted(write(hostile("return 1")), strength="limits")
    assert run(other, packets(1)) == [[1]]
    theirs = other.prepared.root / "Algorithm/impl/AlgorithmImplement.py"
    decoder = submitted(
        write(hostile(observed(f"open({str(theirs)!r}).read()"))), strength="limits"
    )
    assert run(decoder, packets(1)) == [["PermissionError"]]


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_still_bound_the_disk(write: Write, submitted: Open) -> None:
    body = """
        for number in range(1000):
            with open(str(number), "wb") as file:
                file.write(bytes(1 << 20))
            time.sleep(0.01)
    """
    decoder = submitted(write(hostile(body)), strength="limits")
    ended(decoder, SubmissionLimit, "more than 8 MiB to disk")


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_still_end_children_that_left_their_session(
    write: Write, submitted: Open
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a user of its own tells them from others")
    body = """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        os.wait()
        return os.getuid()
    """
    decoder = submitted(write(hostile(body)), strength="limits")
    ((user,),) = run(decoder, packets(1))
    decoder.close()
    running = [process.info for process in psutil.process_iter(["status", "uids"])]
    alive = [each["uids"] for each in running if each["uids"] and each["status"] != "zombie"]
    assert user not in [uids.real for uids in alive]


@pytest.mark.usefixtures("limits_only")
def test_limits_alone_still_count_children_that_left_the_process_tree(
    write: Write, submitted: Open
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a user of its own tells them from others")
    body = """
        for _ in range(12):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
            os.wait()
        time.sleep(1000)
    """
    decoder = submitted(write(hostile(body)), strength="limits")
    ended(decoder, SubmissionLimit, "more than 8 processes")


def test_what_limits_alone_leave_open_is_reported_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (
        "the network and your files, keys and processes are in its reach" in LimitsOnly("-").title
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "a user of its own" in LimitsOnly("-").title
    assert "files that others may read are in its reach" in LimitsOnly("-").title


@needs_bubblewrap
def test_the_time_of_children_that_have_ended_counts_too(write: Write, submitted: Open) -> None:
    """Many short ones: none of them lives long enough to be seen at work."""
    body = """
        while True:
            if os.fork() == 0:
                begun = time.process_time()
                while time.process_time() - begun < 0.05:
                    pass
                os._exit(0)
            os.wait()
    """
    decoder = submitted(write(hostile(body)), limits=replace(SMALL, cpu_s=1.0))
    ended(decoder, SubmissionTimeout, "more than 1 s of processor time")


def test_a_sandbox_that_was_asked_for_and_does_not_work_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("decoders.host.sandbox.bubblewrap_fault", lambda: "forbidden here")
    with pytest.raises(EnvironmentFailed, match="forbidden here"):
        choose_sandbox("bubblewrap")
    assert isinstance(choose_sandbox("auto"), LimitsOnly)
    assert "forbidden here" in choose_sandbox("auto").title
