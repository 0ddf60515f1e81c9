"""
Judge a log again and explain a verdict
=======================================

The score is a pure function of the run log. A decoder whose second report comes one packet too late is run
offline, its log is saved and scored again, and each report is shown with the reason if it did not count.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import bci_stream as bci


class Late:
    """Always answers "left hand", the second time with 40 ms more data than allowed."""

    def start(self, info):
        self.used = None

    def step(self, packet):
        if any(code == 200 for _, code in packet.triggers):
            self.used = 0
            return []
        if self.used is None:
            return []
        self.used += packet.n
        return ["left"] if self.used in (2000, 3040, 3960) else []


result = bci.evaluate(Late, "synthetic:mi?subjects=1&blocks=1&trials=6", "mi", progress=False)
log = Path(tempfile.mkdtemp()) / "late.jsonl"
result.save(log)
again = bci.score(log)
assert again.score == result.score

# %%
# A row for each report, with the reason in words.

again.table(answers=True).head(6)

# %%
# What each report used, against the limits of 2, 3 and 4 s. Crosses did not count, or were wrong.

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for row, verdict in enumerate(again.verdicts):
    for answer in verdict.answers:
        right = bool(answer.right)
        axes.plot(answer.when, row, "o" if right else "x", color="C0" if right else "C3")
for limit in (2, 3, 4):
    axes.axvline(limit, color="0.7", linewidth=1)
axes.set(xlabel="data used by the report (s)", ylabel="trial", xlim=(1.5, 4.5))
plt.show()
