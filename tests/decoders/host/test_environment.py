"""An environment is made once, and shared by all who ask for the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from decoders.host import environment
from decoders.host.environment import (
    RequestedEnvironment,
    default_cache,
    environment_for,
    find_interpreter,
)
from decoders.host.errors import EnvironmentFailed


def test_who_asks_for_nothing_gets_ours() -> None:
    made = environment_for(RequestedEnvironment(None, None))
    assert made.python == Path(sys.executable)
    assert {Path(sys.prefix), Path(sys.base_prefix)} == set(made.folders)


@pytest.mark.parametrize("uv", [True, False])
def test_an_environment_is_made_once_and_holds_none_of_our_packages(
    uv: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if uv and environment._uv() is None:
        pytest.skip("uv is not installed")
    if not uv:
        monkeypatch.setattr(environment, "_uv", lambda: None)
    first = environment_for(RequestedEnvironment(None, ()), tmp_path)
    marked = first.python.parent / "mark"
    marked.touch()
    again = environment_for(RequestedEnvironment(None, ()), tmp_path)
    assert again == first
    assert marked.exists()
    command = [str(first.python), "-c", "import numpy"]
    assert b"No module named 'numpy'" in subprocess.run(command, capture_output=True).stderr


def test_a_half_made_environment_is_made_again(tmp_path: Path) -> None:
    first = environment_for(RequestedEnvironment(None, ()), tmp_path)
    (first.folders[0] / "requirements.txt").unlink()
    marked = first.python.parent / "mark"
    marked.touch()
    environment_for(RequestedEnvironment(None, ()), tmp_path)
    assert not marked.exists()


def test_packages_that_can_not_be_had_are_said_so_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(EnvironmentFailed, match="no-such-package-of-ours"):
        environment_for(RequestedEnvironment(None, ("no-such-package-of-ours==1",)), tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_interpreter_that_is_not_here_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_uv", lambda: None)
    with pytest.raises(EnvironmentFailed, match=r"requests Python 3\.99, which was not found"):
        find_interpreter("3.99")


@pytest.mark.parametrize("version", ["2.7", "3.7", "3.6.15", "3", "../bin"])
def test_a_python_that_the_shim_does_not_run_on_is_refused_in_words(version: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r"3\.8 and later are supported"):
        find_interpreter(version)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "bci-stream" / "environments"
