"""Installs the wheel in new environments outside of the repository, and runs a small contest there.

    python scripts/try_wheel.py [--python 3.11 --python 3.12 --python 3.13]

Prints how long the installation took and its size, for each version of Python that is installed here. All
warnings are errors in the contest's processes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDING = "synthetic:erp?subjects=1&trials=2"


class RegistryError(Exception):
    """The build's own requirements could not be fetched."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from the working tree. Raises RegistryError without a package registry."""
    command = [sys.executable, "-m", "uv", "build", "-q", "--wheel", "--out-dir", str(folder)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
    if done.returncode and "Failed to fetch" in done.stderr:
        raise RegistryError(done.stderr)
    if done.returncode:
        raise SystemExit(f"the wheel can't be built:\n{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def find_python(version: str) -> str | None:
    """An interpreter of this version on the PATH or under pyenv; None if there is none."""
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{version}")


def install(wheel: Path, folder: Path, interpreter: str) -> Path:
    """Install the wheel with all that it requires; returns the environment's folder of programs."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", interpreter, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "-q", "--python", str(python), str(wheel)], check=True)
    return folder / "bin"


def install_beside(wheel: Path, folder: Path, libraries: Path) -> Path:
    """Install the wheel alone; its requirements are taken from another environment's folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--offline"]
    subprocess.run([*uv, "--python", str(python), str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # A path in a .pth file is added as it is: the editable installation that it holds is not.
    (site / "libraries.pth").write_text(f"{libraries}\n")
    return folder / "bin"


def run_contest(programs: Path, folder: Path) -> str:
    """Run a contest in lockstep in this folder, with warnings as errors; returns its output."""
    command = [str(programs / "bci-judge"), "run", "--track", "erp", "--decoder", "erp-bayes"]
    env = {**os.environ, "PYTHONWARNINGS": "error", "XDG_STATE_HOME": str(folder / "state")}
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    env.pop("PYTHONPATH", None)
    done = subprocess.run(
        [*command, "--recording", RECORDING],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        raise SystemExit(f"{programs}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="a version; repeatable")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bci-wheel-") as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        for version in given.python or ["3.11", "3.12", "3.13"]:
            interpreter = find_python(version)
            if interpreter is None:
                print(f"Python {version}: not installed here")
                continue
            begun = time.monotonic()
            programs = install(wheel, folder / version, interpreter)
            seconds = time.monotonic() - begun
            outside = folder / f"contest-{version}"
            outside.mkdir()
            run_contest(programs, outside)
            size = megabytes(folder / version)
            print(f"Python {version}: installed in {seconds:.0f} s, {size:.0f} MB; contest ran")


if __name__ == "__main__":
    main()
