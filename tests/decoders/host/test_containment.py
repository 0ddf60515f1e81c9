"""What surrounds a submission before and beside its own code: installing, reading, starting, sockets."""

import errno
import gzip
import io
import os
import resource
import socket
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from decoders.host import cgroup
from decoders.host.cgroup import (
    ControlGroup,
    find_place,
    group_place,
    group_settings,
    make_group,
    sweep_groups,
)
from decoders.host.environment import Environment, environment_for, find_interpreter
from decoders.host.limits import MIB, EnvironmentFailed, PackageError, SubmissionCrashed
from decoders.host.prepare import read_package
from decoders.host.requested import RequestedEnvironment
from decoders.host.sandbox import INSIDE
from tests.decoders.host.conftest import (
    SMALL,
    Open,
    Write,
    info,
    needs_bubblewrap,
    packets,
    run,
)
from tests.decoders.host.test_hostile import hostile
from tests.decoders.host.wheels import INSTALLERS, install_from, make_wheel

pytestmark = pytest.mark.slow

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
G3 = {"Algorithm/impl/AlgorithmImplement.py": "x = 'comm_proxy'\n"}

# --- a wheel that replaces the interpreter ----------------------------------------------------


@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("evil-1.0.data/data/pyvenv.cfg", "pyvenv.cfg"),
        ("evil-1.0.data/data/bin/python", "bin/python|python"),
        ("evil-1.0.data/scripts/python3", "bin/python3|python3"),
    ],
)
def test_a_wheel_that_replaces_the_interpreter_is_refused_and_leaves_nothing(
    place: str, named: str, installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = find_interpreter(OWN).resolve().read_bytes()
    make_wheel(tmp_path / "index", "evil", files={place: "#!python\nhome = /package/evil/bin\n"})
    install_from(tmp_path / "index", monkeypatch, installer)
    cache = tmp_path / "cache"
    with pytest.raises(EnvironmentFailed, match=named):
        environment_for(RequestedEnvironment(OWN, ("evil==1.0",)), cache)
    left = [path.name for path in cache.iterdir() if path.is_dir()]
    assert [name for name in left if not name.startswith("pip-")] == []
    assert find_interpreter(OWN).resolve().read_bytes() == real


@pytest.mark.parametrize("installer", INSTALLERS)
def test_pip_runs_no_file_that_a_wheel_has_just_written(
    installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late imports of pip, a .pth file and sitecustomize: none of them runs while it installs."""
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\n"
    hooks = ("sitecustomize.py", "pip/__init__.py", "pip/_internal/self_outdated_check.py")
    files = {**dict.fromkeys(hooks, code), "hook.pth": "import sitecustomize\n"}
    make_wheel(tmp_path / "index", "evil", files=files)
    install_from(tmp_path / "index", monkeypatch, installer)
    made = environment_for(RequestedEnvironment(OWN, ("evil==1.0",)), tmp_path / "cache")
    assert not ran.exists()
    subprocess.run([str(made.python), "-c", ""], check=True)
    assert ran.exists()  # so the check above can fail


def test_an_environment_that_was_changed_later_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "good")
    made = environment_for(RequestedEnvironment(OWN, ("good==1.0",)), tmp_path / "cache")
    made.close()
    config = made.python.parents[1] / "pyvenv.cfg"
    text = config.read_text()
    config.write_text("home = /package\n")
    assert environment_for(RequestedEnvironment(OWN, ("good==1.0",)), tmp_path / "cache") == made
    assert config.read_text() == text


SHOWS = """#!/bin/sh
echo "user $(id -u), groups $(id -G)"
grep -E 'CapEff|CapPrm|NoNewPrivs' /proc/self/status
echo "files $(ulimit -n)"
exit 5
"""


@needs_bubblewrap
def test_privileges_are_gone_before_the_environment_s_interpreter_starts(
    tmp_path: Path, write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter is replaced by a script that shows what it was started with."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(SHOWS)
    python.chmod(0o755)
    base = find_interpreter(OWN)
    folders = (tmp_path / "env", Path(sys.base_prefix))
    replaced = Environment(python, base, folders, "replaced")
    monkeypatch.setattr("decoders.host.prepare.environment_for", lambda *_: replaced)
    decoder = submitted(write(hostile("return 1")), limits=replace(SMALL, open_files=77))
    with pytest.raises(SubmissionCrashed, match="exit code 5"):
        run(decoder, packets(1))
    decoder.close()
    lines = decoder.log.read_text().splitlines()
    user = lines[0].split(",")[0].removeprefix("user ")
    assert user != "0" if os.geteuid() == 0 else user == str(os.getuid())
    assert "CapPrm:\t0000000000000000" in lines
    assert "CapEff:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert "files 77" in lines


def test_a_program_that_can_not_be_started_is_named() -> None:
    command = [
        sys.executable,
        "-I",
        "-S",
        str(INSIDE / "launch.py"),
        '{"user": null, "rlimits": {}}',
        "/nowhere",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        126,
        "/nowhere can't be started: No such file or directory\n",
    )


# --- a package that is made to fill the memory ------------------------------------------------


def pax_bomb(folder: Path) -> Path:
    """A tar of 1.5 MB with a header of 1.5 GiB: equal parts, each compressed for itself."""
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.XHDTYPE, 1536 * MIB
    path = folder / "team.tar.gz"
    zeros = gzip.compress(bytes(MIB))
    path.write_bytes(gzip.compress(head.tobuf(tarfile.PAX_FORMAT)) + zeros * 1536)
    assert path.stat().st_size < 2 * MIB
    return path


def deep_tar(folder: Path) -> Path:
    """300 files, each 150 folders deep."""
    path = folder / "team.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(300):
            name = "/".join(["Algorithm", str(number), *["d"] * 148, "A.py"])
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def aliases(folder: Path) -> Path:
    """Nine levels of ten aliases: 10**10 texts once it is written out."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    text = "\n".join(["l0: &l0 [aaaaaaaaaa]", *levels, "method: {method_class_file: *l9}"])
    return _folder(folder, {**G3, "Algorithm/config/AlgorithmConfig.yml": text})


def merged_aliases(folder: Path) -> Path:
    """Merge keys are copied by the parser itself."""
    levels = [f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 10)}]}}" for n in range(1, 10)]
    text = "\n".join(["l0: &l0 {a: 1, b: 2}", *levels, "method: *l9"])
    return _folder(folder, {**G3, "Algorithm/config/AlgorithmConfig.yml": text})


def long_tuple(folder: Path) -> Path:
    """4 MB whose syntax tree takes 2.4 GB."""
    return _folder(folder, {"Algorithm/impl/AlgorithmImplement.py": "a," * (2 * MIB)})


def long_tuples(folder: Path) -> Path:
    """Each below the size that is parsed."""
    texts = {f"Algorithm/impl/AlgorithmImplement{n}.py": "a," * (MIB // 2 - 1) for n in range(40)}
    return _folder(folder, texts)


def _folder(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "team" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "team"


@pytest.mark.parametrize(
    ("pack", "why"),
    [
        (pax_bomb, "more than 512 MiB of memory"),
        (deep_tar, "151 folders deep; 40 are allowed"),
        (aliases, "method_class_file is a list; it must be a text"),
        (merged_aliases, "no `method:`|of memory|processor time|does not hold"),
        (long_tuple, r"larger than 1024 KiB: Algorithm/impl/AlgorithmImplement\.py"),
        (long_tuples, "processor time|no algorithm was found"),
    ],
)
def test_a_package_made_to_fill_memory_or_time_is_refused_in_words(
    pack: object, why: str, tmp_path: Path
) -> None:
    package = pack(tmp_path)  # type: ignore[operator]
    host = psutil.Process()
    before_bytes, before = host.memory_info().rss, resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(PackageError, match=why):
        read_package(package, tmp_path / "into", "mi")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert host.memory_info().rss - before_bytes < 32 * MIB
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20


def test_reading_a_package_leaves_this_process_s_own_limits_alone(write: Write) -> None:
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE)
    before = [resource.getrlimit(kind) for kind in kinds]
    root = write({"Algorithm/impl/AlgorithmImplement.py": "self.comm_proxy\n"})
    facts = read_package(root, root.parent / "into", "mi")
    assert facts.entry.interface == "g3"
    assert [resource.getrlimit(kind) for kind in kinds] == before


@needs_bubblewrap
def test_a_report_that_it_writes_into_the_pipe_itself_is_its_own_report(
    write: Write, submitted: Open
) -> None:
    body = """
        pipe = int(open("/proc/self/cmdline").read().split(chr(0))[-2])
        os.write(pipe, b"\\x02\\x00\\x00\\x00r42")
        return 1
    """
    assert run(submitted(write(hostile(body))), packets(2)) == [[42, 1], [42, 1]]


# --- sockets ---------------------------------------------------------------------------------


@needs_bubblewrap
def test_only_unix_sockets_exist_in_the_sandbox(write: Write, submitted: Open) -> None:
    body = """
        observed = {}
        for family in range(0, 46):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
                try:
                    socket.socket(family, kind).close()
                except OSError as error:
                    observed.setdefault(family, set()).add(error.errno)
                else:
                    observed.setdefault(family, set()).add(0)
        pair = socket.socketpair()
        pair[0].send(b"x")
        return [[family, sorted(codes)] for family, codes in observed.items()] + [pair[1].recv(1) == b"x"]
    """
    ((*answers, pair),) = run(submitted(write(hostile(body))), packets(1))[0]
    assert pair is True
    observed = dict(answers)
    unix = observed.pop(int(socket.AF_UNIX))
    assert 0 in unix
    assert len(observed) == 45
    assert {tuple(codes) for codes in observed.values()} == {(errno.EAFNOSUPPORT,)}


@needs_bubblewrap
def test_what_uses_unix_sockets_works_there(write: Write, submitted: Open) -> None:
    body = """
        import asyncio, multiprocessing.connection as connection
        with connection.Listener(family="AF_UNIX") as listener:
            with connection.Client(listener.address) as client, listener.accept() as server:
                client.send([1, 2])
                received = server.recv()
        async def later():
            await asyncio.sleep(0)
            return 3
        return received + [asyncio.run(later())]
    """
    assert run(submitted(write(hostile(body))), packets(1)) == [[[1, 2, 3]]]


# --- control groups --------------------------------------------------------------------------

MOUNTS = "35 24 0:30 / TOP rw,relatime shared:9 - cgroup2 cgroup2 rw\n"


def hierarchy(top: Path, own: str, controllers: str) -> Path:
    here = top / own
    here.mkdir(parents=True)
    for place in (here, here.parent):
        (place / "cgroup.subtree_control").write_text("")
    (here.parent / "cgroup.subtree_control").write_text(controllers)
    return here


def test_groups_are_made_beside_the_host_s_own_where_all_controllers_are_passed_on(
    tmp_path: Path,
) -> None:
    here = hierarchy(tmp_path / "top", "user.slice/app.scope", "cpu io memory pids\n")
    mounts = MOUNTS.replace("TOP", str(tmp_path / "top"))
    assert find_place(mounts, "1:cpu:/\n0::/user.slice/app.scope\n") == (here.parent, "")


@pytest.mark.parametrize(
    ("mounts", "own", "why"),
    [
        ("", "0::/\n", "not mounted"),
        (MOUNTS, "1:cpu:/x\n", "not mounted"),
        (MOUNTS, "0::/user.slice/app.scope\n", "can't bound cpu, memory, pids"),
    ],
)
def test_why_there_is_no_group_is_reported(mounts: str, own: str, why: str, tmp_path: Path) -> None:
    hierarchy(tmp_path / "top", "user.slice/app.scope", "memory pids\n")
    place, fault = find_place(mounts.replace("TOP", str(tmp_path / "top")), own)
    assert place is None
    assert why in fault


def test_the_sandbox_s_title_says_whether_there_is_a_group(
    write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fault = group_place()
    title = submitted(write(hostile("return 1"))).title
    assert ("a control group" if place else f"no control group ({fault})") in title
    monkeypatch.setattr("decoders.host.sandbox.group_place", lambda: (Path("/x"), ""))
    assert "no control group" not in submitted(write(hostile("return 1"))).title


def test_a_group_bounds_processors_memory_and_threads() -> None:
    limits = replace(SMALL, cores=1.5, memory_bytes=100 * MIB)
    assert group_settings(limits, 24 * MIB) == {
        "cpu.max": "150000 100000",
        "cpu.weight": "50",
        "memory.max": str(124 * MIB),
        "memory.oom.group": "1",
        "pids.max": "72",
    }


def test_what_a_group_counted_is_read(tmp_path: Path) -> None:
    group = ControlGroup(tmp_path)
    assert (group.cpu_s(), group.exceeded_memory()) == (0.0, False)
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert (group.cpu_s(), group.exceeded_memory()) == (2.5, True)


def test_a_group_that_can_not_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="control group can't be made"):
        make_group(tmp_path / "absent", SMALL, 0)


def _unified() -> Path:
    """The v2 hierarchy, if this user may make groups in it; it needs no controller for that."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if " - cgroup2 " in line and os.access(words[4], os.W_OK):
            return Path(words[4])
    pytest.skip("no cgroup v2 that may be written")


def test_a_process_joins_its_group_before_it_can_fork_and_all_are_killed_with_it() -> None:
    group = ControlGroup(_unified() / f"bci-{os.getpid()}-0123abcd")
    group.path.mkdir()
    try:
        script = "sleep 1000 & echo ready; wait"
        command = [*group.prefix, "/bin/sh", "-c", script]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == b"ready\n"
            members = (group.path / "cgroup.procs").read_text().split()
            assert len(members) == 2
            assert str(first.pid) in members
            group.kill()
            assert first.wait(30) != 0
    finally:
        group.remove()
    assert not group.path.exists()


def test_a_submission_runs_in_a_group_of_its_own_that_is_gone_after_it(
    write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the hierarchy of this machine, whatever controllers it has."""
    top = _unified()
    monkeypatch.setattr("decoders.host.process.group_place", lambda: (top, ""))
    monkeypatch.setattr(cgroup, "group_settings", lambda *_: {})
    decoder = submitted(write(hostile("return 1")))
    first, last = packets(2)
    decoder.start(info())
    assert decoder.step(first) == [1]
    (group,) = top.glob(f"bci-{os.getpid()}-*")
    members = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    assert members
    assert members <= ours
    assert decoder.step(last) == [1]
    decoder.close()
    assert not group.exists()


def test_groups_of_hosts_that_were_killed_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    names = [f"bci-{gone.pid}-0123abcd", f"bci-{os.getpid()}-0123abcd", "other"]
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroup, "group_place", lambda: (tmp_path, ""))
    monkeypatch.setattr(ControlGroup, "kill", lambda _: None)
    sweep_groups()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])
