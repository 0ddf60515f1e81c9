"""The limits that a submission runs under: what a contest grants, in seconds, bytes and counts."""

import math
from dataclasses import dataclass

from bci_stream.contest.contest import Limits as ContestLimits

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SubmissionLimits:
    """Everything a contest may grant more or less of.

    start_s: from its process's start to its first request for data (imports, models).
    step_s: from one packet to the request for the next.
    end_s: from the last packet to its own end.
    compute_s: all the time between packets and requests together; None: no limit but the others.
    cpu_s: processor time of all its processes together.
    memory_bytes: of all its processes together; each one's private memory is held to it as well.
    processes, threads: at one moment, all together.
    disk_bytes: what it may write beyond its own files; also the largest file it may write.
    output_bytes: stdout and stderr together; log_bytes of it are kept.
    """

    start_s: float = 120.0
    step_s: float = 60.0
    end_s: float = 30.0
    compute_s: float | None = None
    cpu_s: float = 24 * 3600.0
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
        """The same as the operating system knows them, by the names of the `resource` module."""
        return {
            "CORE": 0,
            "CPU": math.ceil(self.cpu_s) + 5,  # the warden is the first to say it
            "DATA": self.memory_bytes,
            "FSIZE": self.disk_bytes,
            "NOFILE": self.open_files,
            "NPROC": self.threads,
        }


def limits_of(granted: ContestLimits) -> SubmissionLimits:
    """What a contest's file grants a submission."""
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
