"""The wheel works outside of the repository; scripts/try_wheel.py does the same with all requirements."""

import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

from scripts.try_wheel import RegistryError, build_wheel, install_beside, run_contest

pytestmark = [pytest.mark.slow, pytest.mark.lsl]

ROOT = Path(__file__).parents[1]


def test_a_small_contest_runs_from_the_wheel_with_warnings_as_errors(tmp_path: Path) -> None:
    try:
        wheel = build_wheel(tmp_path)
    except RegistryError:
        pytest.skip("the package registry can't be reached")
    libraries = Path(sysconfig.get_path("purelib"))
    programs = install_beside(wheel, tmp_path / "venv", libraries)
    outside = tmp_path / "outside"
    outside.mkdir()
    where = [str(programs / "python"), "-c", "import bci_stream; print(bci_stream.__file__)"]
    found = subprocess.run(where, cwd=outside, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(tmp_path / "venv"))
    assert "erp-bayes" in run_contest(programs, outside)


def test_the_version_is_the_same_everywhere() -> None:
    version = metadata.version("bci-stream")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {version}\n" in (ROOT / "setup.cfg").read_text()
