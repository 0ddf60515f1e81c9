"""A torch module (braindecode's included) as a classifier with fit and predict; needs torch.

The module gets (windows, leads, samples) float32, standardised by the training's spread of each lead,
and returns a score for each class.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.decoder import DecoderError
from decoders.dsp import Array


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise DecoderError(
            "a torch module needs torch, which is not installed: `pip install bci-stream[torch]`"
        ) from error
    return torch


class TorchClassifier:
    """Trains a copy of a module by AdamW on the cross entropy; implements `Estimator`.

    Parameters
    ----------
    module : torch.nn.Module
        Maps (windows, leads, samples) to (windows, classes).
    epochs, batch, rate : int, int, float
        Of the training.
    seed : int
        Of the order of the batches and of dropout.
    """

    def __init__(
        self, module: Any, *, epochs: int = 40, batch: int = 32, rate: float = 1e-3, seed: int = 0
    ) -> None:
        self.module = module
        self.epochs, self.batch, self.rate, self.seed = epochs, batch, rate, seed
        self.classes_: NDArray[np.int64] | None = None
        self._scale: Array | None = None

    def fit(self, x: Array, y: Any) -> "TorchClassifier":
        """Train; x (windows, leads, samples), y (windows,)."""
        torch = _torch()
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            made = copy.deepcopy(self.module)
            self.classes_ = np.unique(y).astype(np.int64)
            self._scale = np.maximum(x.std(axis=(0, 2)), 1e-6)
            inputs = self._input(x)
            targets = torch.as_tensor(np.searchsorted(self.classes_, y), dtype=torch.long)
            outputs = made(inputs[:1]).shape[-1]
            if outputs < len(self.classes_):
                raise DecoderError(
                    f"{type(made).__name__} has {outputs} outputs, and there are "
                    f"{len(self.classes_)} classes"
                )
            optimizer = torch.optim.AdamW(made.parameters(), lr=self.rate)
            made.train()
            for _ in range(self.epochs):
                order = torch.randperm(len(inputs))
                for start in range(0, len(order), self.batch):
                    chosen = order[start : start + self.batch]
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(made(inputs[chosen]), targets[chosen])
                    loss.backward()
                    optimizer.step()
            self.module = made.eval()
        return self

    def predict_proba(self, x: Array) -> Array:
        """(windows, classes)."""
        torch = _torch()
        if self.classes_ is None:
            raise DecoderError(f"{type(self.module).__name__} is not trained")
        with torch.no_grad():
            scores = self.module.eval()(self._input(x))[:, : len(self.classes_)]
            return np.asarray(torch.softmax(scores, dim=1).double().numpy())

    def predict(self, x: Array) -> NDArray[np.int64]:
        """The class of each window."""
        best = self.predict_proba(x).argmax(axis=1)
        assert self.classes_ is not None
        return np.asarray(self.classes_[best])

    def weights(self) -> dict[str, NDArray[np.generic]]:
        """The state of the module as arrays, with classes and scale."""
        assert self.classes_ is not None
        assert self._scale is not None
        state = {f"state.{name}": value.numpy() for name, value in self.module.state_dict().items()}
        return {**state, "classes": self.classes_, "scale": self._scale}

    def with_weights(self, weights: dict[str, NDArray[np.generic]]) -> "TorchClassifier":
        """A copy with this state. Raises DecoderError if it does not fit the module."""
        torch = _torch()
        made = copy.deepcopy(self)
        state = {
            name.removeprefix("state."): torch.as_tensor(np.array(value))
            for name, value in weights.items()
            if name.startswith("state.")
        }
        try:
            made.module.load_state_dict(state)
        except RuntimeError as error:
            raise DecoderError(
                f"the model's weights do not fit {type(self.module).__name__}: {error}"
            ) from error
        made.classes_ = np.asarray(weights["classes"], dtype=np.int64)
        made._scale = np.asarray(weights["scale"], dtype=np.float64)
        return made

    def _input(self, x: Array) -> Any:
        assert self._scale is not None
        return _torch().as_tensor(x / self._scale[:, None], dtype=_torch().float32)
