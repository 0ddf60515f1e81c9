"""An environment is made once, and shared by all who ask for the same."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from decoders.host import environment
from decoders.host.environment import (
    MAGIC_NUMBERS,
    RequestedEnvironment,
    default_cache,
    environment_for,
    find_interpreter,
    read_requirements,
    requested_environment,
)
from decoders.host.limits import EnvironmentFailed, PackageError
from tests.decoders.host.conftest import Write


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


def test_packages_that_can_not_be_had_are_reported_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(EnvironmentFailed, match="no-such-package-of-ours"):
        environment_for(RequestedEnvironment(None, ("no-such-package-of-ours==1",)), tmp_path)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_interpreter_that_is_not_here_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_submission_without_requests_has_none(write: Write) -> None:
    requested = requested_environment(write({"Algorithm/A.py": ""}))
    assert (requested.python, requested.requirements) == (None, None)


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        (".python-version", "3.9.18\n", "3.9"),
        ("runtime.txt", "python-3.10.10", "3.10"),
        (
            "config.toml",
            'unitImage = "registry/eeg-python3.8:2"\ncommand = "python main.py"',
            "3.8",
        ),
        ("config.json", '{"unitImage": "python:3.12-slim", "command": "x"}', "3.12"),
        ("config.json", '{"unitImage": "team/py39", "command": "x"}', "3.9"),
        ("config.json", '{"unitImage": "pytorch1.13-py38"}', "3.8"),
        ("config.json", '{"unitImage": "pytorch/pytorch:2.3.1-cuda12.1"}', None),
        ("config.json", '{"unitImage": "ubuntu:22.04"}', None),
        ("config.json", "[]", None),
    ],
)
def test_a_version_is_read_from_where_teams_write_it(
    file: str, text: str, version: str | None, write: Write
) -> None:
    assert requested_environment(write({"Algorithm/A.py": "", file: text})).python == version


def test_the_callers_word_goes_first(write: Write) -> None:
    assert requested_environment(write({".python-version": "3.9"}), "3.12").python == "3.12"


def test_this_pythons_magic_number_is_in_the_table() -> None:
    magic = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")
    assert MAGIC_NUMBERS[magic] in importlib.util.cache_from_source("x.py").replace(
        "cpython-3", "3."
    )


@pytest.mark.parametrize(("magic", "version"), MAGIC_NUMBERS.items())
def test_a_compiled_file_wants_the_python_that_made_it(
    magic: int, version: str, tmp_path: Path
) -> None:
    (tmp_path / "A.pyc").write_bytes(magic.to_bytes(2, "little") + b"\r\n")
    assert requested_environment(tmp_path).python == version


def test_compiled_files_of_several_or_unknown_pythons_are_refused(tmp_path: Path) -> None:
    (tmp_path / "A.pyc").write_bytes((3413).to_bytes(2, "little"))
    (tmp_path / "B.pyc").write_bytes((3425).to_bytes(2, "little"))
    with pytest.raises(PackageError, match="several Pythons"):
        requested_environment(tmp_path)
    (tmp_path / "A.pyc").write_bytes(b"\1\1")
    with pytest.raises(PackageError, match=r"A\.pyc: .*magic number 257"):
        requested_environment(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_requirements_are_read_as_pip_itself_reads_them(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy==1.23.5\nmne\n", encoding=encoding)
    assert requested_environment(tmp_path).requirements == ("numpy==1.23.5", "mne")


def test_requirements_are_names_and_versions() -> None:
    text = "\ufeffnumpy==1.23.5  # old\n\n# nothing\nmne[hdf5]>=1.2,<2 ; python_version>'3.7'\n"
    wanted = read_requirements(text.lstrip("\ufeff"))
    assert wanted[0] == "numpy==1.23.5"
    assert wanted[1].startswith("mne[hdf5]<2,>=1.2")


@pytest.mark.parametrize(
    "line",
    [
        "-r ../../secret.txt",
        "--index-url http://192.0.2.1/",
        "-e .",
        "./wheel.whl",
        "numpy @ file:///root/x.whl",
        "numpy @ git+https://example.org/x",
        "numpy --no-binary :all:",
        "${HOME}",
    ],
)
def test_requirements_that_reach_into_the_host_are_refused(line: str) -> None:
    with pytest.raises(PackageError, match="line 2"):
        read_requirements(f"numpy\n{line}\n")


def test_a_broken_config_is_reported(write: Write) -> None:
    with pytest.raises(PackageError, match="config file can't be read"):
        requested_environment(write({"config.json": "{"}))
