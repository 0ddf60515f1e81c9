"""Coverage-guided fuzzing of readers of foreign bytes, with Atheris (`pip install atheris`).

    python scripts/fuzz_coverage.py heeg [-runs=100000] [-max_total_time=60] [CORPUS_FOLDER]

Ends with a traceback and a file `crash-...` where a reader raises an error that is not ours. What follows the
reader's name goes to libFuzzer. tests/fuzz tests all readers; this finds deeper defects in a few.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

try:
    import atheris
except ImportError:
    sys.exit("this script needs Atheris: pip install atheris")

with atheris.instrument_imports(include=["replay", "bci_stream"]):
    from bci_stream.errors import BciError
    from bci_stream.packet import Lead
    from bci_stream.wire.messages import read_control, read_results
    from replay.devices.chunk import DeviceInfo
    from replay.devices.neuracle.heeg import HeegParser
    from replay.devices.neuracle.jellyfish import JellyfishParser
    from replay.devices.neuracle.raw import RawParser
    from replay.model.event_map import EventMap


def _feed(make_parser: Callable[[], RawParser | HeegParser | JellyfishParser], data: bytes) -> None:
    make_parser().feed(data)


def _text(read: Callable[[str], object], data: bytes) -> None:
    read(data.decode("utf-8", "surrogateescape"))


READERS: dict[str, Callable[[bytes], None]] = {
    "raw": partial(_feed, lambda: RawParser(DeviceInfo(1000.0, (Lead("C3"), Lead("C4"))))),
    "heeg": partial(_feed, HeegParser),
    "jellyfish": partial(_feed, JellyfishParser),
    "control": partial(_text, read_control),
    "results": partial(_text, read_results),
    "events": partial(_text, EventMap.parse),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", choices=READERS)
    chosen, rest = parser.parse_known_args()
    read = READERS[chosen.reader]

    def one_input(data: bytes) -> None:
        with suppress(BciError):
            read(data)

    atheris.Setup([sys.argv[0], *rest], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
