"""
Replay a file and read it with MNE-LSL
======================================

`bci_stream.replay` plays a recording on LSL in a process of its own. Any LSL client can read it; here it is
MNE-LSL's ``StreamLSL``, which finds names, types, units and positions in the stream's description.
"""

import time

import matplotlib.pyplot as plt
from mne_lsl.stream import StreamLSL

import bci_stream as bci

with bci.replay("synthetic:erp?subjects=1&trials=2", track="erp", pace=2.0) as playing:
    stream = StreamLSL(bufsize=2, name=playing.signal).connect(timeout=20)
    print(stream.info)
    deadline = time.monotonic() + 20
    while stream.n_new_samples < 500 and time.monotonic() < deadline:
        time.sleep(0.05)
    data, times = stream.get_data(picks=["Cz", "Pz", "Oz"])
    stream.disconnect()

# %%
# Two seconds of signal in microvolts; slow drifts are taken out for the picture.

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for row, name in enumerate(("Cz", "Pz", "Oz")):
    axes.plot(
        times - times[-1], data[row] - data[row].mean() - 100 * row, linewidth=0.7, label=name
    )
axes.set(xlabel="time before now (s)", yticks=[])
axes.legend(loc="upper right")
plt.show()
