"""Threads that never interrupt the one that wakes them.

liblsl sends what was pushed in threads of its own, and wakes them at the first of a packet's samples. Such
a thread then takes the core from the push that woke it, some six times a packet, which is a tenth of what a
packet costs. A patient one waits for its turn. The price is paid where all cores are busy: there a packet
reaches its consumers about a millisecond later. So who is in a hurry (devices, contests) does without.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def patient_threads() -> Iterator[None]:
    """Threads started meanwhile are patient, and so are those that they start; the caller is not.

    Only Linux knows such threads. A process that was given a policy of its own (`chrt`) keeps it, and so
    does one that may not change it (a container's filter of system calls): they are as they were.
    """
    patient = sys.platform == "linux" and _change_policy(os.SCHED_OTHER, os.SCHED_BATCH)
    try:
        yield
    finally:
        if patient:
            _change_policy(os.SCHED_BATCH, os.SCHED_OTHER)


def _change_policy(old: int, new: int) -> bool:
    """Of the calling thread; False where it had another one, or may not."""
    try:
        if os.sched_getscheduler(0) != old:
            return False
        os.sched_setscheduler(0, new, os.sched_param(0))
    except OSError:
        return False
    return True
