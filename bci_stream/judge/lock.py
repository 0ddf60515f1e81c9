"""One judge a contest: a lock file that the system releases by itself when its owner dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError


@contextmanager
def only_judge(contest: Contest) -> Iterator[None]:
    """Hold the contest for as long as the context lasts; a second judge is refused."""
    contest.folder.mkdir(parents=True, exist_ok=True)
    path = contest.folder / f"judge-{contest.name}.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise ContestError(
                f"contest {contest.name!r} has a judge already (pid {owner}): two would write two logs "
                "of one run; stop that one first, or choose another --contest or --room"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
