"""Streams under load: 8 streams of 64 leads at 1 kHz, recorded by LabRecorder and compared sample by sample.

python scripts/bench/soak_lsl.py --seconds 3600
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pyxdf

from bci_stream.wire.lsl import config
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


def expected(stream: int, n: int, leads: int) -> np.ndarray:
    return ((np.arange(n)[:, None] * 7 + np.arange(leads) * 13 + stream) % 65536).astype(np.float32)


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
            sent[0] = int(sender.stdout.readline())
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
        streams, _ = pyxdf.load_xdf(str(path), dejitter_timestamps=False)
    wrong = 0
    for stream in sorted(streams, key=lambda one: one["info"]["name"][0]):
        name, rows = stream["info"]["name"][0], stream["time_series"]
        same = np.array_equal(rows, expected(int(name[1:]), sent[0], given.leads))
        wrong += not same
        print(f"{name}: {len(rows)} of {sent[0]} samples, {'equal' if same else 'NOT EQUAL'}")
    equal = f"{given.streams - wrong} of {given.streams} are equal"
    print(
        f"{given.streams} streams of {given.leads} leads at 1 kHz for {given.seconds:g} s ({passed_s:.0f} s "
        f"with start and end), {done.n_bytes / 1e6:.0f} MB: {equal}"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
