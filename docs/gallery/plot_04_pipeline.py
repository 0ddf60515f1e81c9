"""
A scikit-learn pipeline online
==============================

Any estimator with ``fit`` and ``predict`` decodes a running stream: `bci_stream.Online` puts a causal
filter, windows and the moments of the reports around it.
"""

import matplotlib.pyplot as plt
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from sklearn.pipeline import make_pipeline

import bci_stream as bci

clf = bci.Online(
    make_pipeline(Covariances("oas"), MDM()),
    band=(8, 30),
    leads=["FC3", "FC4", "C5", "C3", "C1", "Cz", "C2", "C4", "C6", "CP3", "CP4"],
    recentre=True,
)
person = {"subjects": 1, "difficulty": 0.3, "blocks": 1}
train = bci.open("synthetic:mi", track="mi", set="train", trials=15, **person)
test = bci.open("synthetic:mi", track="mi", set="test", trials=15, **person)
result = bci.evaluate(clf, test, train=train, progress=False)
print(f"{result.score:.1f} {result.unit}")

# %%
# Accuracy at each of the three reports (chance is 1/3), and which class was taken for which.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
result.plot_accuracy(ax=axes[0])
result.plot_confusion(ax=axes[1])
plt.show()
