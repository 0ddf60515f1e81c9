"""`python -m bci_stream.contest.token TEAM [CONTEST]`: the path of a team's token file, made if need be."""

import sys
from pathlib import Path

from bci_stream.contest.contest import load_contest
from bci_stream.wire.names import checked_name


def token_file(team: str, contest_path: Path | None = None) -> Path:
    return load_contest(contest_path).keys.token_file(checked_name(team, "team"))


if __name__ == "__main__":
    print(token_file(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None))
