"""Decoders on real recordings, streamed causally, beside the usual references in the same run.

    python scripts/bench/decoders.py [--track T]... [--json FILE] [--page FILE]
    python scripts/bench/decoders.py --rows FILE --page FILE

Takes whatever recordings of the known layouts stand in $BCI_DATA (default ../shared/data); what is not
there, or can't be read, is named and skipped. Each track prints as it ends. Every figure of
docs/decoders-results.md comes from here.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import click  # noqa: E402 - BLAS reads its variables when numpy is first imported
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from scripts.bench.results import read_rows, update_page  # noqa: E402
from scripts.bench.table import (  # noqa: E402
    HIDDEN,
    Row,
    Verdict,
    over_all,
    pooled_verdicts,
    verdicts,
)

BENCHES = {
    "erp": ("scripts.bench.recordings.erp", "p300"),
    "mi": ("scripts.bench.recordings.mi", "."),
    "turing": ("scripts.bench.recordings.turing", "ssvep"),
    "emotion": ("scripts.bench.recordings.emotion", "emotion"),
    "ecog": ("scripts.bench.recordings.ecog", "ecog"),
}
"""Track: the module that runs it, and the folder that its recordings stand in."""
DEFAULT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@click.command()
@click.option("--track", "tracks", multiple=True, type=click.Choice(sorted(BENCHES)))
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the rows there.")
@click.option(
    "--rows",
    "earlier",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Run nothing: write the page from what --json wrote in an earlier run.",
)
@click.option("--page", type=click.Path(path_type=Path), help="Replace the tracks' sections there.")
def main(
    tracks: tuple[str, ...], json_path: Path | None, earlier: tuple[Path, ...], page: Path | None
) -> None:
    """Run the decoders over the real recordings in $BCI_DATA."""
    if earlier:
        write_earlier(earlier, page)
        return
    data_dir = Path(os.environ.get("BCI_DATA", DEFAULT_DATA))
    console = Console(width=int(os.environ.get("COLUMNS", "150")))
    rows: list[Row] = []
    failed = False
    day = time.strftime("%Y-%m-%d")
    for track in tracks or tuple(BENCHES):
        found, whole = run_track(track, data_dir, console)
        rows += found
        failed |= not whole
        if page is not None and found:
            update_page(page, track, found, list(verdicts(found)), day)
    if json_path is not None:
        write_rows(json_path, rows, day)
    if failed or not rows:
        raise SystemExit(1)


def write_rows(path: Path, rows: Sequence[Row], day: str) -> None:
    """The rows and their verdicts as JSON."""
    found = [_plain(verdict) for verdict in verdicts(rows)]
    whole = {"day": day, "rows": [_shown(row) for row in rows], "verdicts": found}
    path.write_text(json.dumps(whole, indent=1))


def write_earlier(paths: tuple[Path, ...], page: Path | None) -> None:
    """Replace the sections of the tracks whose rows stand in these files."""
    if page is None:
        raise click.UsageError("--rows needs --page: the file to write")
    for path in paths:
        try:
            rows, found, day = read_rows(path)
        except (ValueError, KeyError, TypeError) as error:
            raise click.ClickException(
                f"{path}: these are no rows of this benchmark ({error!r:.80}); write them with --json"
            ) from None
        for track in dict.fromkeys(row.track for row in rows):
            own = [verdict for verdict in found if verdict.track == track]
            update_page(page, track, [row for row in rows if row.track == track], own, day)


def run_track(track: str, data_dir: Path, console: Console) -> tuple[list[Row], bool]:
    """One track's rows, printed, and whether nothing broke on the way to them."""
    module, folder = BENCHES[track]
    if not (data_dir / folder).is_dir():
        console.print(f"{track}: skipped, there is no {data_dir / folder}; set BCI_DATA")
        return [], True
    begun = time.monotonic()
    rows: list[Row] = []
    broken = ""
    try:
        rows.extend(import_module(module).run(data_dir))
    except Exception as error:  # noqa: BLE001 - the rows so far are shown, and the other tracks go on
        broken = f"{type(error).__name__}: {error}"
    rows += over_all(rows)
    if rows:
        console.print(table(track, rows))
    for verdict in [*verdicts(rows), *pooled_verdicts(rows)]:
        console.print(str(verdict), markup=False)
    if broken:
        console.print(f"{track}: FAILED, {broken}", markup=False)
    elif not rows:
        console.print(f"{track}: skipped, too few recordings of its layout in {data_dir / folder}")
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(f"{track}: took {time.monotonic() - begun:.0f} s, load {load}\n")
    return rows, not broken


def table(track: str, rows: list[Row]) -> Table:
    """Rows as people read them; ours are marked."""
    shown = Table("data", "method", "score", "spread", "n", "ms mean / worst", "note", title=track)
    for row in rows:
        shown.add_row(
            row.data,
            f"[bold]{row.method}[/bold]" if row.ours else row.method,
            f"{row.score:.3f} {row.measure}",
            f"{row.low:.3f} to {row.high:.3f} ({row.spread})",
            str(row.n),
            "" if row.mean_ms != row.mean_ms else f"{row.mean_ms:.2f} / {row.worst_ms:.1f}",
            row.note,
        )
    return shown


def _shown(row: Row) -> dict[str, object]:
    return {f.name: getattr(row, f.name) for f in fields(row) if f.name not in HIDDEN}


def _plain(verdict: Verdict) -> dict[str, object]:
    return {**asdict(verdict), "word": verdict.word}


if __name__ == "__main__":
    main()
