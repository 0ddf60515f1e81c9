"""Streams under load: 8 streams of 64 leads at 1 kHz, recorded by LabRecorder and compared sample by sample.

python scripts/bench/soak_lsl.py --seconds 3600
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import numpy as np

from bci_stream.wire.lsl import config
from replay.readers.xdf_chunks import SampleChunk, read_samples
from replay.tools.record import query, record

SENDER = """
import sys, time
import numpy as np
from bci_stream.packet import Lead
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.transport import StreamSpec
session, streams, leads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lsl = LslTransport("machine", session)
named = tuple(Lead(f"E{k}") for k in range(leads))
outlets = [
    lsl.sample_outlet(StreamSpec(f"S{k}", "EEG", f"{session}-{k}", "float32", 1000.0, named))
    for k in range(streams)
]
print("ready", flush=True)
sys.stdin.readline()
seconds = float(sys.stdin.readline())
begin, n = lsl.now(), 0
while n < seconds * 1000:
    time.sleep(max(0.0, begin + n / 1000 - lsl.now()))
    index = np.arange(n, n + 40)
    stamps = (begin + index / 1000).tolist()
    for k, outlet in enumerate(outlets):
        rows = ((index[:, None] * 7 + np.arange(leads) * 13 + k) % 65536).astype(np.float32)
        outlet.push(rows, stamps)
    n += 40
print(n, flush=True)
sys.stdin.readline()
"""


def expected(stream: int, begin: int, n: int, leads: int) -> np.ndarray:
    """The samples begin to begin + n that the sender sent."""
    index = np.arange(begin, begin + n)
    return ((index[:, None] * 7 + np.arange(leads) * 13 + stream) % 65536).astype(np.float32)


def compare(path: Path, leads: int) -> tuple[dict[str, int], set[str]]:
    """The samples of each stream, and the streams with a wrong value; the file is read chunk by chunk."""
    counts: dict[str, int] = {}
    wrong: set[str] = set()
    for part in read_samples(path):
        if not isinstance(part, SampleChunk):
            counts[part.name] = 0
            continue
        name, n = part.stream.name, len(part.stamps)
        sent = expected(int(name[1:]), counts[name], n, leads)
        if part.values is None or not np.array_equal(part.values, sent):
            wrong.add(name)
        counts[name] += n
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--leads", type=int, default=64)
    given = parser.parse_args()
    session, sent = f"soak-{uuid.uuid4().hex[:8]}", [0]
    command = [sys.executable, "-c", SENDER, session, str(given.streams), str(given.leads)]
    sender = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert sender.stdin is not None
    assert sender.stdout is not None
    sender.stdout.readline()
    stop = threading.Event()

    def send() -> None:
        sender.stdin.write(f"\n{given.seconds}\n")
        sender.stdin.flush()

        def wait() -> None:
            sent[0] = int(sender.stdout.readline() or 0)
            stop.set()

        threading.Thread(target=wait, daemon=True).start()

    with tempfile.TemporaryDirectory() as folder:
        path, begin = Path(folder) / "soak.xdf", time.monotonic()
        queries = [query(name=f"S{k}") for k in range(given.streams)]
        done = record(
            path,
            queries,
            stop=stop,
            lsl_config=config("machine", session),
            on_start=send,
            wait_s=30,
        )
        passed_s = time.monotonic() - begin
        sender.stdin.close()
        sender.wait(30)
        print(f"recorded in {passed_s:.0f} s; comparing", flush=True)
        counts, unequal = compare(path, given.leads)
    unequal |= {name for name, n in counts.items() if n != sent[0]}
    for name, n in sorted(counts.items()):
        print(f"{name}: {n} of {sent[0]} samples, {'NOT EQUAL' if name in unequal else 'equal'}")
    wrong = given.streams - len(counts.keys() - unequal)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    equal = f"{given.streams - wrong} of {given.streams} are equal"
    print(
        f"{given.streams} streams of {given.leads} leads at 1 kHz for {given.seconds:g} s ({passed_s:.0f} s "
        f"with start and end), {done.n_bytes / 1e6:.0f} MB: {equal}; {peak_mb:.0f} MB of memory at most"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
