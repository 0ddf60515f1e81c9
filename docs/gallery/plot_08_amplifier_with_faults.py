"""
An amplifier with faults
========================

An emulated Neuracle amplifier leaves out half a second of samples, and later refuses connections for a
second. ``bci-replay`` reconnects and goes on. Lead 1 counts its samples, so the gaps can be seen.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from mne_lsl.stream import StreamLSL

import bci_stream as bci
from replay.devices.emulator.amplifier import EmulatedAmplifier, parse_fault
from replay.devices.emulator.emulator import Emulator
from replay.devices.emulator.encoders import EmulatedSignal
from replay.model.recording import ArrayBlock, Recording

RATE, SECONDS = 250, 7
samples = np.zeros((RATE * SECONDS, 4), dtype=np.float32)
samples[:, 0] = np.arange(len(samples))
leads = tuple(bci.Lead(name) for name in ("C3", "Cz", "C4", "Pz"))
recording = Recording("S1", RATE, leads, [ArrayBlock(samples, ())])

# %%
# The emulator serves it over TCP; `bci_stream.replay` connects to it as to a real amplifier.

faults = [parse_fault("gap@2:0.5"), parse_fault("refuse@4:1")]
amplifier = EmulatedAmplifier(EmulatedSignal(recording), "raw", faults)
received = []
with Emulator(amplifier) as emulator:
    address = f"neuracle://127.0.0.1:{emulator.port}?protocol=raw&channels=4&rate={RATE}"
    with bci.replay(address, start="now") as playing:
        stream = StreamLSL(bufsize=1, name=playing.signal).connect(timeout=20)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if stream.n_new_samples:
                data, times = stream.get_data(picks=[0])
                received += list(zip(times, data[0], strict=True))
            time.sleep(0.05)
        stream.disconnect()

# %%
# What arrived, by its time stamp: the counter jumps where samples were lost.

times, counter = np.array(sorted(set(received))).T
keep = (times > 0) & (counter > 0)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(times[keep] - times[keep][0], counter[keep] / RATE, ".", markersize=2)
axes.set(xlabel="time stamp (s)", ylabel="sample counter (s)")
plt.show()
