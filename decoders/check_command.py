"""`bci-decode check`: each law, and whether the decoder keeps it."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from decoders.checks import check, sample_session
from decoders.registry import default_of, load


def check_decoder(track: str, decoder: str | None, model: Path | None, seed: int) -> bool:
    """Prints a line for each law; whether all of them held."""
    console = Console()
    console.print(f"{decoder or default_of(track)} on track {track}")
    held = True
    session = sample_session(track, seed)
    for law in check(track, lambda: load(decoder, track, model, seed), session, seed):
        held = held and law.ok
        mark = "[green]✔[/]" if law.ok else "[red]✘[/]"
        console.print(f" {mark} {law.name}: {escape(law.detail)}")
    return held
