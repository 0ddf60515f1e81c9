"""
Compare decoders with intervals
===============================

Two spellers on the same recording. Their trials are paired, so the interval of the difference is that of a
bootstrap over trials; one is ahead where the interval excludes 0.
"""

import matplotlib.pyplot as plt
import numpy as np

import bci_stream as bci

URI = "synthetic:erp?subjects=1&trials=16"
results = {
    name: bci.evaluate(name, URI, "erp", progress=False) for name in ("erp-bayes", "erp-chance")
}
for name, result in results.items():
    print(f"{name}: {result.score:.1f} {result.unit}")

# %%
# Right or wrong in each trial, and the bootstrap of the difference.

right = {name: np.array([v.right[0] for v in result.verdicts]) for name, result in results.items()}
difference = right["erp-bayes"].astype(float) - right["erp-chance"].astype(float)
rng = np.random.default_rng(0)
draws = rng.choice(difference, (2000, len(difference))).mean(axis=1)
low, high = np.percentile(draws, (2.5, 97.5))
print(f"difference {difference.mean():.2f}, 95 % interval {low:.2f} to {high:.2f}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(draws, bins=30, color="#9fb3c8")
axes.axvline(0, color="0.4", linewidth=1)
axes.axvspan(low, high, color="#1d5fa8", alpha=0.15)
axes.set(xlabel="difference in accuracy", yticks=[])
plt.show()
