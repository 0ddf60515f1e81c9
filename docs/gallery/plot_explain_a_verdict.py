"""
Judge a log again and explain a verdict
=======================================

The score is a pure function of the run log. Here a decoder that reports a packet too late is run offline, and
the verdict on each report is shown with the time that it was charged.
"""

# %%
# A decoder that always answers "left hand", the second time one packet too late.

import matplotlib.pyplot as plt

import bci_stream as bci


class Late:
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


sessions = list(bci.open_source("synthetic:mi?subjects=1&blocks=1&trials=6").sessions())
run = bci.run_offline("mi", Late(), sessions).run
print(f"{run.result()['score']:.2f} bits/min")

# %%
# Each verdict has its answers, and a reason for those that did not count. Words come from codes.

for verdict in run.verdicts()[:2]:
    for answer in verdict.answers:
        outcome = {True: "right", False: "wrong", None: "ignored"}[answer.right]
        print(verdict.label, answer.result, f"{answer.when:.2f} s", outcome, answer.reason or "")

# %%
# The same as a picture: what each report used, against the limits of 2, 3 and 4 s.

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for row, verdict in enumerate(run.verdicts()):
    for answer in verdict.answers:
        axes.plot(
            answer.when, row, "o" if answer.right else "x", color="C0" if answer.right else "C3"
        )
for limit in (2, 3, 4):
    axes.axvline(limit, color="0.7", linewidth=1)
axes.set(xlabel="data used by the report (s)", ylabel="trial", xlim=(1.5, 4.5))
plt.show()
