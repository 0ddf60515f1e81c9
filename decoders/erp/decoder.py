"""The erp decoder: spells without training on the subject, and learns during the session.

Triggers and samples are processed in order and decisions made at fixed samples, so the reports do not
depend on how the stream is split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.erp.flashes import TIMES_S, FlashFeatures
from decoders.erp.spelling import Inference, Spelling
from decoders.erp.stopping import SpellerLayout, Stopping
from decoders.model import Model
from tracks.common.codes import TRIAL_END
from tracks.erp import FLASH_S, FLASHES, SEQUENCE_END, SEQUENCES, TARGETS

NAME = "erp-umm"
SEQUENCE_S = FLASH_S * len(FLASHES)
"""Time that the rules count for a sequence."""
MAX_PEOPLE = 50
TRAINED_PRIOR_ENERGY = 3.0
"""Expected squared distance of a person's template from the mean of others, in noise units."""


Flash = tuple[int, int]
"""(group, number of earlier flashes in its sequence)"""


@dataclass(frozen=True)
class ErpPerson:
    """A template (times, leads) and the names of its leads; weight: number of people."""

    leads: tuple[str, ...]
    template: Array
    weight: float = 1.0

    def template_for(self, leads: Sequence[str]) -> Array:
        """The template for these leads; 0 for an unknown lead."""
        known = dict(zip(self.leads, self.template.T, strict=True))
        unknown = np.zeros(len(self.template))
        return np.stack([known.get(name, unknown) for name in leads], axis=1)


class Speller(Protocol):
    """Infers characters from flashes: `Spelling`, or a reference."""

    def begin(self) -> None: ...
    def add(self, group: int, features: Array, position: int = 0) -> None: ...
    def infer(self, whitener: Array) -> Inference: ...
    def learned(self) -> Array | None: ...


class ErpDecoder:
    """UMM made adaptive, with Bayesian stopping.

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
        self._early = early
        self._model = model
        self._seed = seed
        self._layout = SpellerLayout.of(groups if groups is not None else _groups_of(model))
        self._max_sequences = max_sequences
        self._people = [] if model is None else [_population(model)]
        self._previous: Speller | None = None  # of the subject before

    def start(self, info: SignalInfo) -> None:
        self._keep_template()
        self._packet_samples = info.packet_samples
        self._features: FlashFeatures[Flash] = FlashFeatures(info)
        self._spelling = self._previous = self._new_spelling()
        self._stopping = Stopping(
            self._layout.membership, SEQUENCE_S, self._max_sequences, self._seed
        )
        self._block: int | None = None
        self._in_trial = False
        self._reset_trial()

    def step(self, packet: Packet) -> list[str]:
        """Codes 101-136 of characters."""
        if self._block not in (None, packet.block):
            self._features.new_block()
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

    def _keep_template(self) -> None:
        """Use the template of the previous subject in the prior of the next."""
        template = None if self._previous is None else self._previous.learned()
        if template is not None:
            shape = (len(self._features.offsets), -1)
            self._people.append(ErpPerson(self._features.lead_names, template.reshape(shape)))
            del self._people[:-MAX_PEOPLE]

    def _new_spelling(self) -> Speller:
        n = self._features.n_features
        if not self._people:
            return Spelling(self._layout, n)
        prior = np.average(
            [person.template_for(self._features.lead_names) for person in self._people],
            axis=0,
            weights=[person.weight for person in self._people],
        )
        return Spelling(self._layout, n, prior.ravel(), TRAINED_PRIOR_ENERGY)

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
        if self._deadline is None or self._deadline > self._features.seen + len(x):
            self._learn(x, flash)
            return []
        head = max(0, self._deadline - self._features.seen)
        self._learn(x[:head], flash)
        reports = self._decide(forced=False)
        self._learn(x[head:], None)
        return reports

    def _learn(self, x: NDArray[np.floating], flash: Flash | None) -> None:
        for (group, position), features in self._features.feed(x, flash):
            self._spelling.add(group, features, position)

    def _handle(self, code: int) -> list[str]:
        if code in TARGETS:
            reports = self._decide(forced=True)
            self._in_trial = True
            self._reset_trial()
            self._spelling.begin()
            return reports
        if code == SEQUENCE_END:
            self._sequence_over()
        elif code == TRIAL_END:
            reports = self._decide(forced=True)
            self._in_trial = False
            return reports
        return []

    def _flashed(self, group: int) -> None:
        here = self._features.seen
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
        self._deadline = self._last_flash + self._features.window

    def _decide(self, forced: bool) -> list[str]:
        """Report the running trial's character if it is time."""
        self._deadline = None
        if not self._in_trial or (self._reported and not forced):
            return []
        inference = self._spelling.infer(self._features.whitener())
        if self._reported:
            return []
        if not forced and not self._stops(inference):
            return []
        self._reported = True
        return [self._layout.characters[int(inference.probabilities.argmax())]]

    def _stops(self, inference: Inference) -> bool:
        if not self._early:
            return self._sequences >= self._max_sequences
        return self._stopping.stop(inference.probabilities, inference.energy, self._sequences)


def _groups_of(model: Model | None) -> list[str] | None:
    """The layout in a model's settings."""
    groups = model.settings.get("groups") if model is not None else None
    return [str(group) for group in groups] if isinstance(groups, list) else None


def _population(model: Model) -> ErpPerson:
    """The mean of the people that a model was trained on. Raises ModelError."""
    template = model.array("template")
    names = tuple(str(name) for name in model.arrays.get("leads", ()))
    if template.shape != (len(TIMES_S), len(names)):
        wanted = (len(TIMES_S), len(names))
        raise model.broken(f"its template has shape {template.shape}, not {wanted}")
    people = model.settings.get("people", 1)
    return ErpPerson(names, template, float(people) if isinstance(people, int) else 1.0)
