"""
A decoder in 30 lines
=====================

Motor imagery lowers the power of the area that moves. This decoder compares each trial with those
before it, needs no training, and is better than chance at all three reports.
"""

import matplotlib.pyplot as plt
import numpy as np

import bci_stream as bci
from decoders.dsp.filters import CausalFilter, bandpass

LEADS = ("C4", "C3", "CZ")  # left hand, right hand, feet: the class is the place + 1
LIMITS_S = (2, 3, 3.96)  # the third must be made before the packet that carries 241


class Mine:
    def start(self, info):
        names = [name.upper() for name in info.lead_names]
        self.places = [names.index(name) for name in LEADS]
        self.filter = CausalFilter(bandpass(8, 30, info.rate), len(LEADS))
        self.limits = [int(limit * info.rate) for limit in LIMITS_S]
        self.usual, self.trials = np.zeros(len(LEADS)), 0
        self.energy, self.used = np.zeros(len(LEADS)), None  # samples; None outside of a trial

    def step(self, packet):
        signal = self.filter.step(packet.signal[:, self.places])
        reports = []
        if self.used is not None and self.used < self.limits[-1]:
            self.used += packet.n
            self.energy += (signal**2).sum(axis=0)
            if self.used in self.limits:
                power = np.log(self.energy / self.used + 1e-9)
                reports.append(1 + int(np.argmin(power - self.usual)))
            if self.used == self.limits[-1]:
                self.trials += 1
                self.usual += (power - self.usual) / self.trials
        if any(code == 200 for _, code in packet.triggers):
            self.energy, self.used = np.zeros(len(LEADS)), 0
        return reports


result = bci.evaluate(
    Mine, "synthetic:mi?subjects=1&blocks=1&trials=30&difficulty=0", "mi", progress=False
)
print(f"{result.score:.1f} {result.unit}")

# %%
# Accuracy against the data used, and the confusion of classes.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
result.plot_accuracy(ax=axes[0])
result.plot_confusion(ax=axes[1])
plt.show()
