"""`bci-judge report RUN...`: one self-contained HTML page on judged runs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bci_stream.errors import BciError, LogError
from bci_stream.files import atomic_write
from bci_stream.leaderboard.fold import find_logs, fold
from bci_stream.leaderboard.report.page import recording_parts, render_page


def write_report(
    logs: Sequence[Path],
    out: Path,
    recordings: Sequence[str | Path] = (),
    title: str = "Contest report",
) -> None:
    """Write `out` from the run logs (files, or folders of them) and, if given, labelled recordings.

    A recording is anything that `bci-replay` plays; it is read as one of the first log's track.
    """
    if not logs:
        raise LogError("no run log was given; name at least one RUN")
    found = [log for path in logs for log in (find_logs(path) if path.is_dir() else [path])]
    runs = [fold(path) for path in found]
    track = runs[0].view.track
    parts = [part for source in recordings for part in recording_parts(str(source), track)]
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = render_page(runs, parts, title, made_at)
    try:
        atomic_write(out, lambda file: file.write(text.encode()))
    except OSError as error:
        raise BciError(f"the report {out} can't be written: {error.strerror}") from error
