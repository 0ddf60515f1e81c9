"""
What lockstep and real time charge
==================================

In lockstep a report is charged with the packets that were released before it, however long the decoder
computed. In real time it is charged with what had left when it arrived, less a grace of one packet. The same
rules judge both logs; here the same report is placed between packets as each clock would.
"""

import matplotlib.pyplot as plt
import numpy as np

from tracks.run import Run

PACKETS, SAMPLES = 120, 10  # erp: 40 ms at 250 Hz
COMPUTE_S = np.arange(0, 4.01, 0.2)
GRACE_S = 0.04


def charged(report_after):
    """Seconds charged if the report stands behind this packet."""
    run = Run()
    run.feed({"kind": "run", "v": 1, "track": "erp", "team": "a", "rules": {}})
    run.feed(
        {"kind": "session", "subject": "S1", "rate": 250, "leads": 64, "packet_samples": SAMPLES}
    )
    run.feed({"kind": "truth", "blocks": [["A"]]})
    for k in range(PACKETS):
        triggers = {0: [[0, 101]]}.get(k, [])
        if k > 25 and (k - 26) % 4 == 0 and k < 112:  # a flash of a group every 160 ms
            group = (k - 26) // 4
            triggers = [[0, 200]] if group % 13 == 12 else [[0, group % 13 + 1]]
        run.feed({"kind": "packet", "start": k * SAMPLES, "n": SAMPLES, "triggers": triggers})
        if k == report_after:
            run.feed({"kind": "report", "result": "A", "elapsed_s": 0.0})
    run.feed({"kind": "end", "reason": "finished"})
    return run.verdicts()[0].charged_s


decided = 78  # the packet on which the decoder begins to compute
lockstep = [charged(decided) for _ in COMPUTE_S]
real_time = [charged(decided + int(max(0.0, s - GRACE_S) / 0.04)) for s in COMPUTE_S]

# %%
# Computing costs nothing in lockstep; in real time it costs sequences.

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.step(COMPUTE_S, lockstep, label="lockstep", where="post")
axes.step(COMPUTE_S, real_time, label="real time", where="post")
axes.set(xlabel="compute time of the decision (s)", ylabel="data charged (s)")
axes.legend()
plt.show()
