"""Environments: made once, shared, with a Python whose wheels fit; failures are attributed."""

import errno
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from decoders.cli import main
from decoders.host import environment, install, venv
from decoders.host import prepare as prepare_module
from decoders.host.environment import (
    environment_for,
    find_interpreter,
    installed_versions,
)
from decoders.host.install import Installation, NoWheels, failure
from decoders.host.limits import (
    EnvironmentFailed,
    EnvironmentUnavailable,
    PackageError,
    SubmissionStopped,
)
from decoders.host.prepare import prepare, read_package
from decoders.host.requested import OLD_SETUPTOOLS, RequestedEnvironment
from decoders.host.venv import COMPLETE, cached_environments, default_cache, prune
from tests.decoders.host.conftest import Write
from tests.decoders.host.wheels import (
    INSTALLERS,
    install_from,
    make_pip,
    make_wheel,
    use_registry,
)

pytestmark = pytest.mark.slow

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
GOOD = RequestedEnvironment(OWN, ("good==1.0",))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    make_wheel(tmp_path / "index", "good")
    return tmp_path / "index"


def test_who_asks_for_nothing_gets_ours() -> None:
    made = environment_for(RequestedEnvironment(None, None))
    assert made.python == Path(sys.executable)
    assert {Path(sys.prefix), Path(sys.base_prefix)} == set(made.folders)


def test_cache_files_of_another_python_are_mentioned_where_ours_runs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for hints in (("3.8",), (OWN, "3.8")):
        environment_for(RequestedEnvironment(None, None, hints=hints))
    (line,) = caplog.messages
    assert f"the host's own, {OWN}: --python 3.8" in line


@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_environment_is_made_once_and_holds_none_of_our_packages(
    installer: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch, installer)
    first = environment_for(GOOD, tmp_path / "cache")
    marked = first.python.parent / "mark"
    marked.touch()
    again = environment_for(GOOD, tmp_path / "cache")
    assert again == first
    assert marked.exists()
    for name, found in (("good", b""), ("numpy", b"No module named 'numpy'")):
        command = [str(first.python), "-c", f"import {name}"]
        assert found in subprocess.run(command, capture_output=True, check=False).stderr


def test_a_half_made_environment_is_made_again(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    first = environment_for(GOOD, tmp_path / "cache")
    first.close()
    (first.folders[0] / COMPLETE).unlink()
    marked = first.python.parent / "mark"
    marked.touch()
    environment_for(GOOD, tmp_path / "cache")
    assert not marked.exists()


@pytest.mark.parametrize("installer", INSTALLERS)
def test_files_in_the_folder_where_the_host_was_started_decide_nothing(
    installer: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organiser may start it in the folder of a submission."""
    install_from(index, monkeypatch, installer)
    monkeypatch.delenv("UV_NO_CONFIG")
    here = tmp_path / "submission"
    here.mkdir()
    ran = tmp_path / "ran"
    for name in ("venv.py", "ensurepip.py", "pip.py", "msgspec.py", "json.py"):
        (here / name).write_text(f"open({str(ran)!r}, 'w')\n")
    (here / "uv.toml").write_text("no-index = true\n")
    monkeypatch.chdir(here)
    if installer == "pip":
        monkeypatch.setattr(venv, "_installer", make_pip)
    environment_for(GOOD, tmp_path / "cache").close()
    with pytest.raises(PackageError):
        read_package(here, tmp_path / "into", "mi")
    assert not ran.exists()


# --- which Python ----------------------------------------------------------------------------


def test_an_interpreter_that_is_not_here_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "uv_program", lambda: None)
    with pytest.raises(EnvironmentFailed, match=r"requests Python 3\.99, which was not found"):
        find_interpreter("3.99")


@pytest.mark.parametrize("version", ["2.7", "3.7", "3.6.15", "3", "../bin"])
def test_a_python_that_the_shim_does_not_run_on_is_refused_in_words(version: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r"3\.8 and later are supported"):
        find_interpreter(version)


def _other_version() -> str:
    others = [version for version in installed_versions() if version != OWN]
    if not others:
        pytest.skip(f"no Python but {OWN} is installed")
    return others[-1]


@pytest.mark.parametrize("installer", ["uv"])
def test_the_newest_python_whose_wheels_satisfy_the_pins_is_taken(
    installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _other_version()
    tag = "cp" + other.replace(".", "")
    make_wheel(tmp_path / "index", "pinned", "1.2", tag=f"{tag}-none-any")
    install_from(tmp_path / "index", monkeypatch, installer)
    monkeypatch.setattr(environment, "installed_versions", lambda: (OWN, other))
    requested = RequestedEnvironment(None, ("pinned==1.2",))
    made = environment_for(requested, tmp_path / "cache")
    assert made.title.startswith(f"Python {other} with")
    tried: list[str] = []
    monkeypatch.setattr(environment, "_made", lambda version, *_: tried.append(version) or made)
    environment_for(requested, tmp_path / "cache")
    assert tried == [other]  # the choice is kept


def test_the_python_of_its_cache_files_is_tried_first(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _other_version()
    install_from(index, monkeypatch)
    made = environment_for(
        RequestedEnvironment(None, ("good",), hints=(other,)), tmp_path / "cache"
    )
    assert made.title.startswith(f"Python {other} with good")


def test_pins_that_no_python_satisfies_are_the_team_s_in_the_resolver_s_words_and_ours(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    monkeypatch.setattr(environment, "installed_versions", lambda: (OWN,))
    with pytest.raises(EnvironmentFailed) as failed:
        environment_for(RequestedEnvironment(None, ("good==99",)), tmp_path / "cache")
    assert failed.value.ending == "crashed"
    text = str(failed.value)
    assert f"with any Python that was tried ({OWN})" in text
    assert "--python" in text
    assert "good==99" in text
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_the_newest_and_the_oldest_python_lack_is_shown() -> None:
    """The newest has no wheel of an old pin; on older ones two pins conflict."""
    refusals = {"x has no wheels": ["3.13", "3.12"], "x and y conflict": ["3.11", "3.10"]}
    text = environment._describe_refusals(refusals)
    assert "any Python that was tried (3.13, 3.12, 3.11, 3.10)" in text
    assert "for 3.13, 3.12: x has no wheels ... for 3.11, 3.10: x and y conflict" in text
    assert environment._describe_refusals({"no x": ["3.13"]}).endswith("printed for 3.13: no x")


def test_a_hint_at_a_python_that_is_not_here_is_passed_over(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    monkeypatch.setattr(environment, "installed_versions", lambda: (OWN,))
    monkeypatch.setattr(environment, "_of_uv", lambda _: None)
    requested = RequestedEnvironment(None, ("good==1.0",), hints=("3.77",))
    made = environment_for(requested, tmp_path / "cache")
    assert made.title.startswith(f"Python {OWN} ")
    made.close()
    requested = RequestedEnvironment(None, ("good==99",), hints=("3.77",))
    with pytest.raises(EnvironmentUnavailable, match=r"Not tried: .* requests Python 3\.77"):
        environment_for(requested, tmp_path / "cache")


def test_a_lease_that_is_closed_twice_closes_no_other_file(tmp_path: Path) -> None:
    lease = venv.try_lease(tmp_path / "x.lock")
    assert lease is not None
    lease.close()
    with (tmp_path / "other").open("w") as other:
        lease.close()
        other.write("still open")
    assert (tmp_path / "other").read_text() == "still open"


# --- whose fault -----------------------------------------------------------------------------


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_registry_that_can_not_be_reached_is_our_fault(
    installer: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch, installer)
    use_registry("http://127.0.0.1:9/simple", monkeypatch)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentUnavailable, match="registry can't be reached") as failed:
        environment_for(RequestedEnvironment(OWN, ("absent==1.0",)), tmp_path / "cache")
    assert failed.value.ending == "stopped"
    assert "no fault of the team" in str(failed.value)


class Broken(http.server.BaseHTTPRequestHandler):
    """A registry that has the package, and breaks off its download."""

    def do_GET(self) -> None:
        wheel = "absent-1.0-py3-none-any.whl"
        self.send_response(200)
        page = f'<a href="/{wheel}">{wheel}</a>'.encode()
        is_page = self.path.endswith("/")
        self.send_header("Content-Type", "text/html" if is_page else "application/zip")
        self.send_header("Content-Length", str(len(page) if is_page else 100_000))
        self.end_headers()
        self.wfile.write(page if is_page else b"PK\3\4")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def broken_registry() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_download_that_breaks_off_is_our_fault(
    installer: str, broken_registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(tmp_path / "index", monkeypatch, installer)
    use_registry(broken_registry, monkeypatch)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(EnvironmentUnavailable):
        environment_for(RequestedEnvironment(OWN, ("absent==1.0",)), tmp_path / "cache")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_our_fault(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 << 20
    make_wheel(tmp_path / "index", "large", files={"large_data.py": "#" * size})
    install_from(tmp_path / "index", monkeypatch)
    with pytest.raises(EnvironmentUnavailable, match="the disk is full"):
        environment_for(RequestedEnvironment(OWN, ("large==1.0",)), small_disk / "cache")


def test_a_disk_that_is_full_while_a_package_is_unpacked_is_our_fault(
    small_disk: Path, write: Write
) -> None:
    package = write({"Algorithm/impl/model.txt": "#" * (4 << 20)})
    with pytest.raises(
        EnvironmentUnavailable, match=r"can't be unpacked: .*No space left"
    ) as caught:
        read_package(package, small_disk / "into", "mi")
    assert caught.value.ending == "stopped"


def test_a_disk_that_is_full_before_or_after_the_installation_is_our_fault(
    index: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    package = write(
        {"Algorithm/impl/AlgorithmImplement.py": "comm_proxy\n", "requirements.txt": "good==1.0\n"}
    )

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for where in ("make_folder", "environment_for"):
        with monkeypatch.context() as patched:
            patched.setattr(f"decoders.host.prepare.{where}", full)
            with pytest.raises(EnvironmentUnavailable, match="no fault of the team"):
                prepare(package, "mi", cache=tmp_path / "cache")


def test_a_killed_reader_is_our_fault(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = write({"Algorithm/impl/AlgorithmImplement.py": "comm_proxy\n"})
    command = ["/bin/sh", "-c", "kill -KILL $$"]
    monkeypatch.setattr(prepare_module, "ended_with_host", lambda _: command)
    with pytest.raises(EnvironmentUnavailable, match="was killed"):
        read_package(package, tmp_path / "into", "mi")


def test_a_reader_is_stopped_with_the_check_and_waited_for_no_longer_than_its_time(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = write({"Algorithm/impl/AlgorithmImplement.py": "comm_proxy\n"})
    monkeypatch.setattr(prepare_module, "ended_with_host", lambda _: ["/bin/sleep", "1000"])
    monkeypatch.setattr(prepare_module, "STOP_POLL_S", 0.01)
    stop = threading.Event()
    stop.set()
    with pytest.raises(SubmissionStopped):
        read_package(package, tmp_path / "into", "mi", stop=stop)
    monkeypatch.setattr(prepare_module, "WAIT_S", 0.0)
    with pytest.raises(EnvironmentUnavailable, match="no fault of the team"):
        read_package(package, tmp_path / "into", "mi")


@pytest.mark.parametrize(
    ("printed", "error"),
    [
        ("error: Failed to fetch: `https://x`\n  Caused by: dns error", EnvironmentUnavailable),
        ("WARNING: Retrying (Retry(total=4)) after connection broken", EnvironmentUnavailable),
        ("OSError: [Errno 28] No space left on device", EnvironmentUnavailable),
        ("No solution found: Because x was not found in the package registry", NoWheels),
        ("ERROR: No matching distribution found for x==9", NoWheels),
    ],
)
def test_a_failure_is_attributed_by_what_the_installer_printed(
    printed: str, error: type[EnvironmentFailed]
) -> None:
    assert type(failure(["/usr/bin/uv", "pip"], printed)) is error


# --- limits, stopping, leases ----------------------------------------------------------------


def installation(tmp_path: Path, stop: threading.Event | None = None) -> Installation:
    lock = os.open(tmp_path / "x.lock", os.O_CREAT | os.O_RDWR)
    return Installation(tmp_path / "env", "a test", lock, stop or threading.Event())


def test_an_installation_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "BUILD_S", 0.3)
    with pytest.raises(EnvironmentUnavailable, match=r"not made within 0\.3 s"):
        installation(tmp_path).run(["/bin/sleep", "1000"])


def test_an_installation_is_stopped_with_the_run(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(SubmissionStopped):
        installation(tmp_path, stop).run(["/bin/sleep", "1000"])


def test_an_environment_that_is_too_large_is_the_team_s_and_progress_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(install, "PROGRESS_S", 0.1)
    monkeypatch.setattr(install, "MOST_BYTES", 1 << 20)
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "large").write_bytes(bytes(2 << 20))
    with caplog.at_level("INFO"), pytest.raises(EnvironmentFailed, match="larger than") as failed:
        installation(tmp_path).run(["/bin/sleep", "1000"])
    assert failed.value.ending == "crashed"
    assert "still installing a test: 2 MiB" in caplog.text


def test_an_environment_in_use_is_not_pruned_and_others_are(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    made = environment_for(GOOD, tmp_path / "cache")
    (listed,) = cached_environments(tmp_path / "cache")
    assert listed.title == made.title
    assert listed.size_bytes > 0
    assert prune(listed) is False
    assert made.python.exists()
    made.close()
    assert prune(listed) is True
    assert not made.folders[0].exists()


def test_environments_are_pruned_to_a_size_the_oldest_first_and_not_those_in_use(
    tmp_path: Path,
) -> None:
    for number, name in enumerate(("oldest", "used", "newest")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content").write_bytes(bytes(1_000_000))
        (tmp_path / name / COMPLETE).write_text("{}")
        os.utime(tmp_path / name / COMPLETE, (1000 + number, 1000 + number))
    in_use = venv.try_lease(tmp_path / "used.lock")
    assert in_use is not None
    assert [each.folder.name for each in venv.prune_to_size(2_500_000, tmp_path)] == ["oldest"]
    assert [each.folder.name for each in venv.prune_to_size(0, tmp_path)] == ["newest"]
    assert (tmp_path / "used").is_dir()


def test_the_command_lists_and_prunes(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment_for(GOOD).close()
    listed = click.testing.CliRunner().invoke(main, ["cache"])
    assert f"Python {OWN} with good==1.0" in listed.output
    kept = click.testing.CliRunner().invoke(main, ["cache", "--prune"])
    assert "removed" not in kept.output
    large = click.testing.CliRunner().invoke(main, ["cache", "--max-gb", "1"])
    assert (large.exit_code, large.output) == (0, "")
    pruned = click.testing.CliRunner().invoke(main, ["cache", "--prune", "--days", "0"])
    assert "removed" in pruned.output
    assert click.testing.CliRunner().invoke(main, ["cache"]).output == ""


def test_an_environment_that_a_killed_host_was_making_is_swept_and_no_other(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from(index, monkeypatch)
    cache = tmp_path / "cache"
    made = environment_for(GOOD, cache)
    for name in ("left", "making"):
        (cache / name / "bin").mkdir(parents=True)
    (cache / "never-made.lock").touch()
    making = venv.try_lease(cache / "making.lock")
    venv.sweep_environments(cache)
    assert making is not None
    names = [made.folders[0].name, "making"]
    left = sorted(path.name for path in cache.iterdir())
    assert left == sorted([*names, *(f"{name}.lock" for name in names)])


HOST = """
import sys, threading
from pathlib import Path
from decoders.host import install
from decoders.host.venv import _lease
from decoders.host.install import Installation
folder = Path(sys.argv[1])
lease = _lease(folder / "x.lock", "x", threading.Event())
print("locked", flush=True)
Installation(folder, "x", lease.number, threading.Event()).run(["/bin/sleep", "1000"])
"""


def test_an_installer_dies_with_a_host_that_is_killed_and_then_the_lock_is_free(
    tmp_path: Path,
) -> None:
    import psutil

    command = [sys.executable, "-c", HOST, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"locked\n"
        deadline = time.monotonic() + 60
        while not (children := psutil.Process(host.pid).children(recursive=True)):
            assert time.monotonic() < deadline
        host.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    venv._lease(tmp_path / "x.lock", "x", threading.Event()).close()


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "bci-stream" / "environments"


# --- pkg_resources ---------------------------------------------------------------------------


@pytest.mark.parametrize("installer", ["uv"])
def test_old_packages_that_import_pkg_resources_get_it(
    installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    make_wheel(index, "old", files={"old.py": "import pkg_resources\n"})
    make_wheel(index, "setuptools", "82.0", files={"setuptools/__init__.py": ""})
    make_wheel(
        index, "setuptools", "80.0",
        files={"setuptools/__init__.py": "", "pkg_resources/__init__.py": "version = 80"},
    )  # fmt: skip
    install_from(index, monkeypatch, installer)
    made = environment_for(RequestedEnvironment(OWN, ("old==1.0",)), tmp_path / "cache")
    command = [str(made.python), "-c", "import old; print(old.pkg_resources.version)"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"80\n"


def test_a_submission_that_imports_pkg_resources_itself_gets_it_with_its_pins(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"setuptools/__init__.py": "", "pkg_resources/__init__.py": ""}
    make_wheel(index, "setuptools", "80.0", files=files)
    install_from(index, monkeypatch)
    requested = RequestedEnvironment(OWN, ("good==1.0",), old_setuptools=True)
    made = environment_for(requested, tmp_path / "cache")
    subprocess.run([str(made.python), "-c", "import pkg_resources, good"], check=True)


@pytest.mark.parametrize("named", ["setuptools", "Setuptools-scm"])
def test_only_a_version_of_setuptools_itself_keeps_the_older_one_out(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "_only", lambda _version, wanted, *_: asked.append(wanted))
    for version in ("", "==75.0"):
        environment_for(RequestedEnvironment(OWN, (f"{named}{version}",), old_setuptools=True))
    pinned = ("setuptools==75.0",) if named == "setuptools" else (f"{named}==75.0", OLD_SETUPTOOLS)
    assert asked == [(named, OLD_SETUPTOOLS), pinned]


@pytest.mark.parametrize("installer", ["uv"])
def test_a_newer_setuptools_that_came_along_makes_way_unless_it_is_pinned(
    installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that requires setuptools gets the newest, beside one that imports pkg_resources."""
    index = tmp_path / "index"
    make_wheel(index, "old", files={"old.py": "import pkg_resources\n"}, requires=["setuptools"])
    make_wheel(index, "setuptools", "82.0", files={"setuptools/__init__.py": ""})
    make_wheel(
        index, "setuptools", "80.0",
        files={"setuptools/__init__.py": "", "pkg_resources/__init__.py": ""},
    )  # fmt: skip
    install_from(index, monkeypatch, installer)
    for pins, code in ((("old",), 0), (("old", "setuptools==82.0"), 1)):
        made = environment_for(RequestedEnvironment(OWN, pins), tmp_path / "cache")
        command = [str(made.python), "-c", "import old"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code
