"""Reads the files of the decoders' benchmark one by one; unusable ones are named and skipped."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from bci_stream.errors import BciError

T = TypeVar("T")
R = TypeVar("R")


class NotThisLayoutError(Exception):
    """A file does not have the layout that a part of the benchmark reads."""


class BenchError(Exception):
    """A decoder or a reference failed on valid recordings."""


def read_each(paths: Iterable[Path], read: Callable[[Path], T]) -> Iterator[T]:
    """Yield read(path) of each; damaged files and those of another layout are named and skipped."""
    for path in paths:
        name = f"{path.parent.name}/{path.name}"
        try:
            found = read(path)
        except (NotThisLayoutError, BciError) as error:
            _print(f"skipped {name}: {error}")
        except Exception as error:  # noqa: BLE001 - arbitrary files may raise anything
            _print(f"skipped {name}: it can't be read: {type(error).__name__}: {error}")
        else:
            _print(f"found {name}")
            yield found


def rows_of_each(
    things: Iterable[T], name_of: Callable[[T], str], rows_of: Callable[[T], Iterable[R]]
) -> Iterator[R]:
    """The rows of each. A recording that training refuses (a class is missing) is skipped with its
    message; other errors are collected, and raised as BenchError after the rest."""
    broken = []
    for thing in things:
        try:
            yield from list(rows_of(thing))
        except BciError as error:
            _print(f"skipped {name_of(thing)}: {error}")
        except Exception as error:  # noqa: BLE001 - the other recordings go on; raised below
            broken.append(f"{name_of(thing)}: {type(error).__name__}: {error}")
            _print(f"FAILED {broken[-1]}")
    if broken:
        raise BenchError("; ".join(broken))


def _print(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)
