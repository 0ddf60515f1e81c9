"""Files of the decoders' benchmark: whatever stands in a folder, read one by one; what can't be is named."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class NotThisLayoutError(Exception):
    """A file is not of the layout that a part of the benchmark reads; its text says why."""


def read_each(paths: Iterable[Path], read: Callable[[Path], T]) -> Iterator[T]:
    """What `read` makes of each; a file that is damaged or of another layout is skipped by name."""
    for path in paths:
        try:
            found = read(path)
        except Exception as error:  # noqa: BLE001 - strangers' files: whatever is wrong is the finding
            why = str(error) or type(error).__name__
            print(f"  skipped {path.parent.name}/{path.name}: {why}", file=sys.stderr)
        else:
            print(f"  found {path.parent.name}/{path.name}", file=sys.stderr)
            yield found
