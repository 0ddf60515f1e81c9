"""A filter for system calls: refuses those that would lead around a submission's limits.

Memory that is nobody's (memfd, System V segments), a name space of its own with disks of its own, and the
newest and largest doors into the kernel: no algorithm needs them. All others are allowed. The filter is
a little program for the kernel, which bubblewrap puts in place (`--seccomp`); it can't be taken away again.
"""

import errno
import platform
import struct
import sys

MACHINES = {
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
}
"""Each machine's number in the audit headers, and its column in the table of calls."""

REFUSED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
}
ABSENT = {
    "clone3": (435, 435),  # its flags lie in memory, where no filter sees them
    "io_uring_setup": (425, 425),
}
"""As if the kernel were too old for them: programs then take the older way."""

CLONE = (56, 220)
NEW_NAMESPACES = 0x7E020000
"""clone()'s flags for a user, mount, process, network, IPC, UTS or cgroup name space of its own."""

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32_CALLS = 0x40000000


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter for this machine; None where its system calls are not known here."""
    machine = machine or platform.machine()
    if machine not in MACHINES or not sys.platform.startswith("linux"):
        return None
    audit, column = MACHINES[machine]
    absent = _answer(_FAIL | errno.ENOSYS)
    steps = [_step(_LOAD, _MACHINE), _step(_EQUAL, audit, 1, 0), absent, _step(_LOAD, _NUMBER)]
    steps += [_step(_AT_LEAST, _X32_CALLS, 0, 1), absent]
    for numbers in ABSENT.values():
        steps += [_step(_EQUAL, numbers[column], 0, 1), absent]
    refused = _answer(_FAIL | errno.EPERM)
    for numbers in REFUSED.values():
        steps += [_step(_EQUAL, numbers[column], 0, 1), refused]
    steps += [_step(_EQUAL, CLONE[column], 0, 3), _step(_LOAD, _FIRST_ARGUMENT)]
    steps += [_step(_HAS_BITS, NEW_NAMESPACES, 0, 1), refused, _answer(_ALLOW)]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; the jumps say how many of the next ones are passed over."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _answer(value: int) -> bytes:
    return _step(_RETURN, value)
