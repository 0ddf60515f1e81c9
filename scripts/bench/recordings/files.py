"""Files of the decoders' benchmark: whatever stands in a folder, one by one; what can't be used is named."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from bci_stream.errors import BciError

T = TypeVar("T")
R = TypeVar("R")


class NotThisLayoutError(Exception):
    """A file is not of the layout that a part of the benchmark reads; its text says why."""


class BenchError(Exception):
    """A decoder or a reference broke on recordings that are of the layout."""


def read_each(paths: Iterable[Path], read: Callable[[Path], T]) -> Iterator[T]:
    """What `read` makes of each; a file that is damaged or of another layout is skipped by name."""
    for path in paths:
        name = f"{path.parent.name}/{path.name}"
        try:
            found = read(path)
        except (NotThisLayoutError, BciError) as error:
            _say(f"skipped {name}: {error}")
        except Exception as error:  # noqa: BLE001 - strangers' files: whatever is wrong is the finding
            _say(f"skipped {name}: it can't be read: {type(error).__name__}: {error}")
        else:
            _say(f"found {name}")
            yield found


def rows_of_each(
    things: Iterable[T], name_of: Callable[[T], str], rows_of: Callable[[T], Iterable[R]]
) -> Iterator[R]:
    """The rows of each. A recording that a training refuses (a class is missing) is skipped in that
    training's words; anything else that is raised is a fault of ours, and is told after the rest."""
    broken = []
    for thing in things:
        try:
            yield from list(rows_of(thing))
        except BciError as error:
            _say(f"skipped {name_of(thing)}: {error}")
        except Exception as error:  # noqa: BLE001 - the other recordings go on; raised below
            broken.append(f"{name_of(thing)}: {type(error).__name__}: {error}")
            _say(f"FAILED {broken[-1]}")
    if broken:
        raise BenchError("; ".join(broken))


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)
