"""`bci-judge score LOG [--json]`: what a run log is worth, for a human or for a program."""

import json
from pathlib import Path

from bci_stream.judge.log import score_run


def score_log(path: Path, as_json: bool) -> None:
    """Prints the score of a log; raises LogError for one that can't be read."""
    run = score_run(path)
    if as_json:
        print(json.dumps(run.result(), allow_nan=False))
        return
    from rich.console import Console

    from bci_stream.judge.score import render

    Console().print(render(run))
