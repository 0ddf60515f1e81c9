"""The resource limits of a submission, in seconds, bytes and counts."""

import errno
import math
import os
from dataclasses import dataclass

from bci_stream.contest.contest import Limits as ContestLimits
from decoders.decoder import DecoderFailure

MIB = 1 << 20
GIB = 1 << 30
OWN_CORES = max(1.0, (os.cpu_count() or 1) - 1.0)
"""All processors but one, which is left to the judge; one where there is only one."""


@dataclass(frozen=True, slots=True)
class SubmissionLimits:
    """All limits that a contest can set.

    start_s: from process start to the first request for data (imports, models).
    step_s: from one packet to the request for the next.
    end_s: from the last packet to its exit.
    compute_s: sum of the times between packets and requests; None: unlimited.
    cpu_s: processor time of all its processes together.
    cores: how many processors it may keep busy at one moment, where control groups work.
    memory_bytes: of all its processes together, and of the private memory of each.
    processes, threads: at one moment.
    disk_bytes: written in addition to its own files; also the largest file.
    output_bytes: stdout and stderr; the first log_bytes of it are kept.
    """

    start_s: float = 120.0
    step_s: float = 60.0
    end_s: float = 30.0
    compute_s: float | None = None
    cpu_s: float = 24 * 3600.0
    cores: float = OWN_CORES
    memory_bytes: int = 4 * GIB
    processes: int = 32
    threads: int = 512
    open_files: int = 512
    disk_bytes: int = 512 * MIB
    output_bytes: int = 256 * MIB
    log_bytes: int = MIB
    reports_per_packet: int = 1000
    report_bytes: int = 64 * 1024
    package_bytes: int = 2 * GIB
    package_files: int = 20_000

    def rlimits(self) -> dict[str, int]:
        """The operating system's limits, by the names of the `resource` module."""
        return {
            "CORE": 0,
            "CPU": math.ceil(self.cpu_s) + 5,  # the watchdog reports it first
            "DATA": self.memory_bytes,
            "FSIZE": self.disk_bytes,
            "NOFILE": self.open_files,
            "NPROC": self.threads,
        }


def limits_of(granted: ContestLimits) -> SubmissionLimits:
    """The limits that a contest file sets."""
    return SubmissionLimits(
        step_s=granted.silence_s,
        cpu_s=granted.cpu_s,
        memory_bytes=granted.memory_mb * MIB,
        processes=granted.processes,
        threads=granted.threads,
        open_files=granted.open_files,
        disk_bytes=granted.disk_mb * MIB,
        output_bytes=granted.output_mb * MIB,
    )


class SubmissionError(DecoderFailure):
    """A submission that can't go on; `ending` and `results` as in DecoderFailure."""


class PackageError(SubmissionError):
    """A folder or archive that can't be used as a submission."""


class EnvironmentFailed(SubmissionError):
    """A submission's own Python environment that can't be made."""


class EnvironmentUnavailable(EnvironmentFailed):
    """It can't be made now, for a reason on the host's side: to be tried again later."""

    ending = "stopped"


HOST_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)
"""System errors that no file of a submission can cause: a full or failing disk, no descriptors left."""


def unavailable(what: str, error: OSError) -> EnvironmentUnavailable:
    """The error for a system call that failed on the host's side."""
    return EnvironmentUnavailable(
        f"{what}: {error}; this is no fault of the team, try again when it is mended"
    )


class SubmissionCrashed(SubmissionError):
    """It failed; what it reported before is scored."""


class SubmissionLimit(SubmissionCrashed):
    """It exceeded a resource limit."""


class SubmissionTimeout(SubmissionError):
    """It did not answer in time; the run scores 0."""

    ending = "timeout"


class SubmissionStopped(SubmissionError):
    """The run was stopped; not a fault of the submission."""

    ending = "stopped"


class SubmissionDisqualified(SubmissionError):
    """It misused the interface; the run scores 0."""

    ending = "disqualified"


class SubmissionRefused(SubmissionDisqualified):
    """Its choice of channels breaks the rules; raised before any data."""


def escape_text(text: str, most: int = 2000) -> str:
    """Escape untrusted text for a terminal: one line, at most `most` characters."""
    shown = "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text[:most]
    )
    return shown if len(text) <= most else f"{shown} ... ({len(text)} characters)"
