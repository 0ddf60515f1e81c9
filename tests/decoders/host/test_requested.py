"""What a submission requests is read from the files that teams ship, and nothing else is followed."""

import importlib.util
from pathlib import Path

import pytest

from decoders.host.limits import PackageError
from decoders.host.requested import MAGIC_NUMBERS, read_requirements, requested_environment
from tests.decoders.host.conftest import Write


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
    wanted, _ = read_requirements(text.lstrip("\ufeff"))
    assert wanted[0] == "numpy==1.23.5"
    assert wanted[1].startswith("mne[hdf5]<2,>=1.2")


@pytest.mark.parametrize(
    "line",
    [
        "-r ../../secret.txt",
        "-c constraints.txt",
        "./wheel.whl",
        "/opt/wheel.whl",
        "numpy @ git+https://example.org/x",
        "numpy @ git+ssh://example.org/x.git",
        "numpy --global-option x",
        "${HOME}",
    ],
)
def test_requirements_that_reach_into_the_host_are_refused(line: str) -> None:
    with pytest.raises(PackageError, match="line 2"):
        read_requirements(f"numpy\n{line}\n")


@pytest.mark.parametrize(
    ("line", "installed", "warning"),
    [
        ("numpy @ file:///croot/numpy_1672336/work", ["numpy"], "addresses are not followed"),
        ("numpy @ file:///x/numpy-1.23.5-cp38-cp38-linux_x86_64.whl", ["numpy==1.23.5"], "1.23.5"),
        (
            "mne @ https://example.org/mne-1.2.0-py3-none-any.whl#sha256=0",
            ["mne==1.2.0"],
            "not fol",
        ),
        ("-f https://example.org/torch_stable.html", [], "packages come from the host's registry"),
        ("--find-links=https://example.org/", [], "packages come from the host's registry"),
        ("--extra-index-url https://example.org/simple", [], "come from the host's registry"),
        ("--index-url http://192.0.2.1/", [], "come from the host's registry"),
        ("-e .", [], "passed over"),
        ("-e git+https://example.org/team.git#egg=team", [], "passed over"),
        ("sklearn==0.0", ["scikit-learn"], "the package's name is scikit-learn"),
        ("pkg-resources==0.0.0", [], "no package"),
        ("pkg_resources==0.0.0", [], "no package"),
        ("mkl-fft==1.3.1", [], "conda's own"),
        ("pywin32==305", [], "Windows"),
        ("torch==1.12.1+cu113", ["torch==1.12.1"], "no builds of your own"),
        ("numpy==1.23.5 --no-binary :all:", ["numpy==1.23.5"], "read as numpy==1.23.5"),
        (
            "numpy==1.23.5 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11",
            ["numpy==1.23.5"],
            None,
        ),
        ("--pre", [], "wheels only"),
    ],
)
def test_relics_of_pip_freeze_are_read_as_far_as_they_make_sense(
    line: str, installed: list[str], warning: str | None
) -> None:
    wanted, warnings = read_requirements(f"scipy\n{line}\nmne==1.2\n")
    assert list(wanted) == ["scipy", *installed, "mne==1.2"]
    if warning is None:
        assert warnings == ()
    else:
        assert len(warnings) == 1
        assert warnings[0].startswith("requirements.txt line 2")
        assert warning in warnings[0]


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "pkg-resources==0.0.0\n"])
def test_requirements_without_a_package_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    assert requested_environment(tmp_path).requirements is None


def test_the_python_of_cache_files_is_a_hint(write: Write) -> None:
    names = ["A.cpython-38.pyc", "B.cpython-38.opt-1.pyc", "A.cpython-310.pyc", "A.cpython-35.pyc"]
    files = {f"Algorithm/__pycache__/{name}": "x" for name in names}
    requested = requested_environment(write({"Algorithm/A.py": "", **files}))
    assert (requested.python, requested.hints) == (None, ("3.8", "3.10"))


@pytest.mark.parametrize(("tag", "hints"), [("36", ("3.8",)), ("27", ()), ("399", ())])
def test_a_cache_file_of_an_older_python_hints_at_the_oldest(
    tag: str, hints: tuple[str, ...], write: Write
) -> None:
    root = write({f"Algorithm/__pycache__/A.cpython-{tag}.pyc": "x"})
    assert requested_environment(root).hints == hints


@pytest.mark.parametrize(
    ("code", "imports"),
    [
        ("import pkg_resources", True),
        ("try:\n    from pkg_resources import parse_version\nexcept ImportError: pass", True),
        ("# import pkg_resources", False),
        ("name = 'pkg_resources'", False),
    ],
)
def test_code_that_imports_pkg_resources_is_noticed(
    code: str, imports: bool, tmp_path: Path
) -> None:
    (tmp_path / "A.py").write_text(code)
    assert requested_environment(tmp_path).old_setuptools is imports


def test_a_broken_config_is_reported(write: Write) -> None:
    with pytest.raises(PackageError, match="config file can't be read"):
        requested_environment(write({"config.json": "{"}))
