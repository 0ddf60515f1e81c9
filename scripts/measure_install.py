"""How large and how slow an installation is: all requirements, and fewer of them.

    python scripts/measure_install.py [--rounds 2]

Each set is installed with pip from the package registry into a new environment, in turns, without a cache.
Prints for each set the number of packages, the size, the median time of pip, and the time to import a team's
worker.

all: what setup.cfg requires. given: the packages that the project is given (docs/dependencies.md) and what a
team's worker needs. decoders: what the worker and the shipped decoders need. worker: what the worker needs,
for a team whose decoder brings its own packages.
"""

import argparse
import configparser
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GIVEN = ("pylsl", "numpy", "scipy", "mne", "pyriemann", "scikit-learn", "brainflow", "click")
WORKER = ("pylsl", "numpy", "scipy", "click", "rich", "msgspec", "cryptography", "threadpoolctl", "psutil",
          "PyYAML", "packaging", "platformdirs", "filelock")  # fmt: skip
IMPORTS = "import decoders.worker, bci_stream.wire.lsl"
IMPORT_ROUNDS = 5


@dataclass(frozen=True)
class Installation:
    """One installed set: number of packages, megabytes, the time of pip and of an import of the worker."""

    packages: int
    megabytes: float
    install_s: float
    import_s: float


def requirements() -> dict[str, str]:
    """The requirements in setup.cfg, by the name of the package."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = settings["options"]["install_requires"].split()
    return {line.partition(">")[0]: line for line in lines}


def package_sets() -> dict[str, list[str]]:
    """The requirements of each set."""
    needed = requirements()
    names: dict[str, Sequence[str]] = {
        "all": tuple(needed),
        "given": tuple(dict.fromkeys((*GIVEN, *WORKER))),
        "decoders": (*WORKER, "scikit-learn", "pyriemann"),
        "worker": WORKER,
    }
    return {key: [needed[name] for name in chosen] for key, chosen in names.items()}


def install(packages: list[str], folder: Path) -> Installation:
    """Install packages into a new environment in this folder."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pip = [python, "-I", "-m", "pip", "--disable-pip-version-check"]
    install_s = seconds([*pip, "install", "--quiet", "--no-cache-dir", *packages])
    listed = subprocess.run([*pip, "list", "--format=freeze"], check=True, capture_output=True)
    import_s = [seconds([python, "-c", IMPORTS]) for _ in range(1 + IMPORT_ROUNDS)]
    return Installation(
        len(listed.stdout.splitlines()),
        megabytes(folder),
        install_s,
        statistics.median(import_s[1:]),  # the first one compiles
    )


def seconds(command: list[str]) -> float:
    """How long a command takes that can import our packages from the repository."""
    begun = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return time.monotonic() - begun


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    sets = package_sets()
    found: dict[str, list[Installation]] = {name: [] for name in sets}
    for _ in range(rounds):
        for name, packages in sets.items():
            with tempfile.TemporaryDirectory(prefix="bci-install-") as folder:
                found[name].append(install(packages, Path(folder)))
    print("| set | packages | MB | of all | installed in | of all | worker imported in |")
    print("|---|---|---|---|---|---|---|")
    whole = found["all"][0]
    whole_s = statistics.median(one.install_s for one in found["all"])
    for name, installed in found.items():
        one = installed[0]
        took_s = statistics.median(each.install_s for each in installed)
        import_s = statistics.median(each.import_s for each in installed)
        print(
            f"| {name} | {one.packages} | {one.megabytes:.0f} | {one.megabytes / whole.megabytes:.2f} | "
            f"{took_s:.0f} s | {took_s / whole_s:.2f} | {import_s:.2f} s |"
        )


if __name__ == "__main__":
    main()
