"""What all speller decoders share: trials, sequences, and when a report is due.

Triggers and samples are processed in order and decisions made at fixed samples, so the reports do not
depend on how the stream is split.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.erp.stopping import Inference, SpellerLayout, Stopping
from decoders.model import Model
from tracks.common.codes import TRIAL_END
from tracks.erp import FLASH_S, FLASHES, SEQUENCE_END, SEQUENCES, TARGETS

SEQUENCE_S = FLASH_S * len(FLASHES)
"""Time that the rules count for a sequence."""

Flash = tuple[int, int]
"""(group, number of earlier flashes in its sequence)"""


class SpellerDecoder(ABC):
    """Reads the triggers of a speller; a subclass reads the signal.

    groups: the layout where it is not the model's or the track's; groups[g] flash at trigger g + 1.
    max_sequences: the report is made at the latest after so many, with early=False never before.
    """

    def __init__(
        self,
        model: Model | None = None,
        seed: int = 0,
        groups: Sequence[str] | None = None,
        max_sequences: int = SEQUENCES,
        early: bool = True,
    ) -> None:
        self._model = model
        self._early = early
        self._max_sequences = max_sequences
        self._layout = SpellerLayout.of(groups if groups is not None else groups_of(model))
        self._stopping = Stopping(self._layout.membership, SEQUENCE_S, max_sequences, seed)

    def start(self, info: SignalInfo) -> None:
        self._packet_samples = info.packet_samples
        self._window = 0
        self._begin_subject(info)
        self._seen = 0
        self._block: int | None = None
        self._in_trial = False
        self._reset_trial()

    @abstractmethod
    def _begin_subject(self, info: SignalInfo) -> None:
        """Prepare for a subject; sets self._window, the samples that a response lasts."""

    @abstractmethod
    def _new_block(self) -> None:
        """The signal is interrupted."""

    @abstractmethod
    def _learn(self, x: NDArray[np.floating], flash: Flash | None) -> None:
        """Process samples, with a flash at the first of them."""

    @abstractmethod
    def _begin_trial(self) -> None:
        """A trial begins."""

    @abstractmethod
    def _infer(self) -> Inference:
        """The running trial's character."""

    def step(self, packet: Packet) -> list[str]:
        """Codes 101-136 of characters."""
        if self._block not in (None, packet.block):
            self._new_block()
        self._block = packet.block
        reports: list[str] = []
        done = 0
        flash: Flash | None = None
        for offset, code in packet.triggers:
            reports += self._feed(packet.signal[done:offset], flash)
            done = offset
            reports += self._handle(code)
            flash = self._flash_of(code)
            if flash is not None:
                self._flashed(flash[0])
        reports += self._feed(packet.signal[done:], flash)
        return reports

    def _reset_trial(self) -> None:
        self._reported = False
        self._sequences = 0
        self._flashed_groups: set[int] = set()
        self._last_flash: int | None = None
        self._shortest_gap: int | None = None
        self._deadline: int | None = None

    def _flash_of(self, code: int) -> Flash | None:
        if not self._in_trial or not 1 <= code <= len(self._layout.groups):
            return None
        return code - 1, len(self._flashed_groups)

    def _feed(self, x: NDArray[np.floating], flash: Flash | None) -> list[str]:
        """Process samples; a decision that is due among them is made at its own sample."""
        if self._deadline is None or self._deadline > self._seen + len(x):
            self._pass_on(x, flash)
            return []
        head = max(0, self._deadline - self._seen)
        self._pass_on(x[:head], flash)
        reports = self._decide(forced=False)
        self._pass_on(x[head:], None)
        return reports

    def _pass_on(self, x: NDArray[np.floating], flash: Flash | None) -> None:
        self._learn(x, flash)
        self._seen += len(x)

    def _handle(self, code: int) -> list[str]:
        if code in TARGETS:
            reports = self._decide(forced=True)
            self._in_trial = True
            self._reset_trial()
            self._begin_trial()
            return reports
        if code == SEQUENCE_END:
            self._sequence_over()
        elif code == TRIAL_END:
            reports = self._decide(forced=True)
            self._in_trial = False
            return reports
        return []

    def _flashed(self, group: int) -> None:
        here = self._seen
        if self._last_flash is not None:
            gap = here - self._last_flash
            self._shortest_gap = min(self._shortest_gap or gap, gap)
        self._last_flash = here
        self._flashed_groups.add(group)
        if self._deadline and self._shortest_gap and len(self._flashed_groups) == 2:
            # From the third flash of the next sequence on, that one counts, too: report before.
            latest = here + self._shortest_gap - self._packet_samples
            self._deadline = min(self._deadline, latest)
        if len(self._flashed_groups) == len(self._layout.groups):
            self._sequence_over()

    def _sequence_over(self) -> None:
        if not self._in_trial or not self._flashed_groups or self._last_flash is None:
            return
        self._sequences += 1
        self._flashed_groups = set()
        self._deadline = self._last_flash + self._window

    def _decide(self, forced: bool) -> list[str]:
        """Report the running trial's character if it is time."""
        self._deadline = None
        if not self._in_trial or (self._reported and not forced):
            return []
        inference = self._infer()
        if self._reported:
            return []
        if not forced and not self._stops(inference):
            return []
        self._reported = True
        return [self._layout.characters[int(inference.probabilities.argmax())]]

    def _stops(self, inference: Inference) -> bool:
        if not self._early:
            return self._sequences >= self._max_sequences
        return self._stopping.stop(inference, self._sequences)


def groups_of(model: Model | None) -> list[str] | None:
    """The layout in a model's settings."""
    groups = model.settings.get("groups") if model is not None else None
    return [str(group) for group in groups] if isinstance(groups, list) else None
