"""A growing file: a recording under way stands beside its name, and takes it at its end.

`keep.xdf` grows as `keep.xdf.part`, so that an older `keep.xdf` stays until there is a new one.
Whoever holds the lock on the part is the one who writes it.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from bci_stream.errors import SourceError
from replay.whole_file import naming


class GrowingFile:
    """A name that is claimed until its file is whole; what nobody finished or kept is removed.

    lock: the descriptor that holds the claim; a process that inherits it holds it too.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path, self.part = path, path.with_name(path.name + ".part")
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.lock = _lock(path, self.part)
            left = self.part.stat().st_size > 0
        if overwrite or not (path.exists() or left):
            return
        if not left:
            self.part.unlink()
        os.close(self.lock)
        if path.exists():
            raise SourceError(f"{path} is there already: name another file, or say --overwrite")
        raise SourceError(
            f"{self.part} is left of a recording that was cut off: give it another name that ends "
            "in .xdf, or say --overwrite"
        )

    def __enter__(self) -> "GrowingFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.lock >= 0:
            self.part.unlink(missing_ok=True)
            self._let_go()

    def finish(self) -> None:
        """It is whole: it takes its name."""
        with naming(self.path):
            self.part.replace(self.path)
        self._let_go()

    def keep(self) -> Path:
        """It is not whole: it is kept, but not in place of an older one. Returns where."""
        if self.path.exists():
            self._let_go()
            return self.part
        self.finish()
        return self.path

    def _let_go(self) -> None:
        os.close(self.lock)
        self.lock = -1


def _lock(path: Path, part: Path) -> int:
    while True:
        lock = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise SourceError(
                f"{path} is being recorded by another command: name another file, or end that first"
            ) from None
        except OSError:
            return lock  # a file system that has no locks: it is not worse than without one
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), part.stat()):
                return lock
        os.close(lock)  # the other one ended just now, and took its file away
