"""
Open a recording, and see what a decoder sees
=============================================

`bci_stream.open` reads any format that ``bci-replay inspect`` does. With a track, packets are those that the
wire carries: labels are masked, and motor imagery's cue and rest are zero.
"""

import matplotlib.pyplot as plt
import numpy as np

import bci_stream as bci

recording = bci.open("synthetic:mi?subjects=1&blocks=1&trials=3", track="mi")
print(recording)

# %%
# The labelled triggers of the recording, and those that a decoder receives.

labelled = [code for _, code in recording.triggers()]
packets = list(recording.packets())
received = [code for packet in packets for _, code in packet.triggers]
print("labelled:", labelled[:12])
print("received:", received[:12])

# %%
# One lead, as the recording has it and as a decoder receives it.

raw = recording.to_mne()
lead = raw.ch_names.index("C3")
whole = raw.get_data(picks=[lead])[0] * 1e6
seen = np.concatenate([packet.signal[:, lead] for packet in packets])
times = np.arange(len(seen)) / raw.info["sfreq"]

figure, axes = plt.subplots(2, 1, figsize=(8, 4), sharex=True, layout="constrained")
for axis, signal, title in zip(axes, (whole, seen), ("recording", "decoder"), strict=True):
    axis.plot(times, signal[: len(times)], linewidth=0.5)
    axis.set(title=title, ylabel="C3 (uV)")
axes[1].set_xlabel("time (s)")
plt.show()
