"""Starts the interpreter of a submission's environment after all privileges are dropped.

    base-python -I -S launch.py '{"user": 12345, "rlimits": {"NOFILE": 512}}' PROGRAM ARGUMENT...

Settings: the user to become or null, limits by their names, and `parent` (optional), the process
without which nothing is started. Run by the base interpreter, which a submission cannot change. The
environment's own interpreter reads `pyvenv.cfg` and `.pth` files that an installed wheel may have
written, before its first line of Python: so the user, the limits and the flag against new
privileges are set here, and inherited. Python 3.8 to 3.13, standard library only.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SIGKILL = 9
CANNOT_START = 126
"""Exit code, as a shell's, for a program that can't be started."""


def drop_privileges(user: int | None, rlimits: dict[str, int]) -> None:
    """Become the user for good (None: stay), and set limits that can't be raised again."""
    os.umask(0o022)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _no_new_privileges()
    for name, value in rlimits.items():
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def _no_new_privileges() -> None:
    """Linux: set-user-ID programs have no effect, and the process is killed with the host."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    program = sys.argv[2:]
    drop_privileges(settings["user"], settings["rlimits"])
    if settings.get("parent", os.getppid()) != os.getppid():
        return  # it ended before the system could be asked to end this process with it
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.stderr.write(f"{program[0]} can't be started: {error.strerror}\n")
        raise SystemExit(CANNOT_START) from None


if __name__ == "__main__":
    main()
