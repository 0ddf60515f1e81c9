"""Why a decoder reported nothing: what its data had, and which trigger codes its source waits for."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CODES = range(8, 256)
"""Numbers that may be trigger codes; smaller ones are counters and classes."""
MOST_FILES = 200
SHOWN = 12


def describe_data(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What a run's events show of the data: rate, shape of a packet, triggers with counts."""
    for line in events:
        if line["kind"] == "session":
            n_leads = len(line["leads"])
            yield (
                f"the data had {line['rate']:g} Hz, {n_leads} leads and TRIGGER: packets of "
                f"{n_leads + 1} x {line['packet_samples']}"
            )
            break
    counts = trigger_counts(events)
    listed = ", ".join(f"{code} ({n})" for code, n in sorted(counts.items()))
    yield f"its triggers, with counts: {listed or 'none'}"


def trigger_counts(events: Iterable[Mapping[str, Any]]) -> Counter[int]:
    """How often each code was sent."""
    return Counter(
        int(code) for line in events if line["kind"] == "packet" for _, code in line["triggers"]
    )


def describe_awaited(files: Sequence[Path], sent: Iterable[int]) -> Iterator[str]:
    """Codes that the source compares with, and that the data never had; nothing where there are none."""
    sent = set(sent)
    places: dict[int, str] = {}
    for path in files[:MOST_FILES]:
        for code, line in compared_numbers(path):
            if code not in sent:
                places.setdefault(code, f"{path.name}, line {line}")
    if places:
        shown = sorted(places.items())[:SHOWN]
        listed = "; ".join(f"{code} ({where})" for code, where in shown)
        yield f"its source compares with codes that never came: {listed}"


def compared_numbers(path: Path) -> Iterator[tuple[int, int]]:
    """(number, line) of the whole numbers in CODES that a Python file compares with, or names a constant."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts: list[ast.expr] = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            parts = [node.value]
        else:
            continue
        for part in parts:
            yield from _numbers(part)


def _numbers(part: ast.expr) -> Iterator[tuple[int, int]]:
    """Of a number, or a tuple, list or set of numbers."""
    items = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
    for item in items:
        if isinstance(item, ast.Constant) and type(item.value) is int and item.value in CODES:
            yield item.value, item.lineno


def source_files(decoder: object) -> list[Path]:
    """The Python files of a submission's folder, or the file that a decoder's class is in."""
    prepared = getattr(decoder, "prepared", None)
    if prepared is not None:
        return sorted(Path(prepared.root).rglob("*.py"))
    try:
        found = inspect.getsourcefile(type(decoder))
    except TypeError:
        return []
    return [Path(found)] if found else []
