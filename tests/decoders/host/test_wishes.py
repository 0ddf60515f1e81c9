"""A submission's own files say which Python and packages it wants, and can say nothing else."""

import importlib.util
from pathlib import Path

import pytest

from decoders.host.environment import MAGIC_NUMBERS, read_requirements, requested_environment
from decoders.host.errors import PackageError
from tests.decoders.host.conftest import Write


def test_a_submission_without_wishes_has_none(write: Write) -> None:
    wishes = requested_environment(write({"Algorithm/A.py": ""}))
    assert (wishes.python, wishes.requirements) == (None, None)


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


def test_a_broken_config_is_said_so(write: Write) -> None:
    with pytest.raises(PackageError, match="config file can't be read"):
        requested_environment(write({"config.json": "{"}))
