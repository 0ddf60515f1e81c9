"""`bci-judge report RUN...`: one self-contained HTML page on the runs whose logs are given."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bci_stream.errors import BciError, LogError
from bci_stream.files import atomic_write
from bci_stream.leaderboard.fold import fold
from bci_stream.leaderboard.report.page import recording_parts, render_page


def write_report(
    logs: Sequence[Path],
    out: Path,
    recordings: Sequence[str | Path] = (),
    title: str = "Contest report",
) -> None:
    """Write `out` from the run logs (files, or folders of them) and, if given, labelled recordings.

    A recording is anything that `bci-replay` plays; it is looked at with the eyes of the first log's
    track.
    """
    runs = [fold(path) for path in find_logs(logs)]
    track = runs[0].view.track
    parts = [part for source in recordings for part in recording_parts(str(source), track)]
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = render_page(runs, parts, title, made_at)
    try:
        atomic_write(out, lambda file: file.write(text.encode()))
    except OSError as error:
        raise BciError(f"the report {out} can't be written: {error.strerror}") from error


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """The run logs among files and folders; LogError where a folder holds none."""
    found: list[Path] = []
    for path in paths:
        logs = (
            sorted([*path.rglob("*.jsonl"), *path.rglob("*.jsonl.gz")]) if path.is_dir() else [path]
        )
        if not logs:
            raise LogError(f"{path} holds no run log (*.jsonl)")
        found += logs
    if not found:
        raise LogError("no run log was given; name at least one RUN")
    return found
