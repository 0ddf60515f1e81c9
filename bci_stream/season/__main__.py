"""`python -m bci_stream.season FOLDER` does the unit of a folder; an engine starts it."""

import sys
from pathlib import Path

from bci_stream.child_process import end_with_parent
from bci_stream.cli import configure_logging, stop_on_signals
from bci_stream.errors import BciError


def main() -> int:
    configure_logging()
    end_with_parent()
    stop = stop_on_signals()
    from bci_stream.season.units.unit import run_unit

    try:
        run_unit(Path(sys.argv[1]), stop)
    except (BciError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
