"""`bci-decode train`: a progress bar, the figure, and where the model is."""

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from decoders.train import train


def train_with_progress(
    track: str,
    recordings: tuple[str, ...],
    decoder: str | None,
    out: Path,
    seed: int,
    *,
    validate: bool,
) -> None:
    console = Console(stderr=True)
    with Progress(console=console) as bars:
        task = bars.add_task(f"training for {track}", total=1.0)
        trained = train(
            track,
            recordings,
            out,
            decoder=decoder,
            seed=seed,
            validate=validate,
            progress=lambda share, text: bars.update(task, completed=share, description=text),
        )
    console.print(f"on held-out data: {trained.figure}")
    console.print(f"model: {trained.path}")
