"""Decoders on real recordings, streamed causally, beside the usual references in the same run.

    python scripts/bench_decoders.py [--track T]... [--json FILE]

Takes whatever recordings of the known layouts stand in $BCI_DATA (default ../shared/data); what is not
there is named and skipped. Every figure of docs/decoders.md comes from here.
"""

import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import click  # noqa: E402 - BLAS reads its variables when numpy is first imported
from _bench_row import Row  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

BENCHES = {
    "erp": ("_bench_erp", "p300"),
    "mi": ("_bench_mi", "mi"),
    "turing": ("_bench_turing", "ssvep"),
    "emotion": ("_bench_emotion", "emotion"),
    "ecog": ("_bench_ecog", "ecog"),
}
"""Track: the module that runs it, and the folder that its recordings stand in."""
DEFAULT_DATA = Path(__file__).parent.parent.parent / "shared" / "data"


@click.command()
@click.option("--track", "tracks", multiple=True, type=click.Choice(sorted(BENCHES)))
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the rows there.")
def main(tracks: tuple[str, ...], json_path: Path | None) -> None:
    """Run the decoders over the real recordings in $BCI_DATA."""
    data_dir = Path(os.environ.get("BCI_DATA", DEFAULT_DATA))
    console = Console(width=int(os.environ.get("COLUMNS", "150")))
    rows: list[Row] = []
    for track in tracks or tuple(BENCHES):
        module, folder = BENCHES[track]
        if not (data_dir / folder).is_dir():
            console.print(f"{track}: skipped, there is no {data_dir / folder}; set BCI_DATA")
            continue
        found: list[Row] = import_module(module).run(data_dir)
        if not found:
            console.print(f"{track}: skipped, no recording of its layout in {data_dir / folder}")
            continue
        console.print(table(track, found))
        for line in verdicts(found):
            console.print(line)
        rows += found
    if json_path is not None:
        json_path.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if not rows:
        raise SystemExit(1)


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


def verdicts(rows: list[Row]) -> list[str]:
    """For each of our rows and each reference on the same data and measure: which is ahead."""
    lines = []
    for ours in (row for row in rows if row.ours):
        for other in rows:
            if not other.ours and (other.data, other.measure) == (ours.data, ours.measure):
                word = "ahead of" if ours.score > other.score else "level with"
                word = "BEHIND" if ours.score < other.score else word
                lines.append(f"{ours.data}: {ours.method} is {word} {other.method}")
    return lines


if __name__ == "__main__":
    main()
