"""The turing decoder: the task, among those that the robots' behaviour allows, as early as pays off.

The posterior of a trial's tasks combines the evidence for a flicker response
(`decoders.turing.ssvep`) and for imagery against idling (`decoders.turing.imagery`). It is computed
at the ends of the track's packets, and reported when it passes the threshold with the best expected
score (`StoppingRule`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, comb
from typing import TypeAlias

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.filters import CausalFilter, highpass, notch
from decoders.dsp.leads import OCCIPITAL, leads_over
from decoders.model import Model
from decoders.turing.imagery import ImageryClassifier, ImageryEvidence
from decoders.turing.imagery_training import classifier_of, train_imagery
from decoders.turing.ssvep import SsvepDetector, SsvepEvidence
from replay.model.source import Session
from tracks.turing import LIMIT_S, SSVEP_HZ, TASKS_OF_BEHAVIOUR

THRESHOLDS = np.array([0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96, 0.98, 0.99, 0.997])
BLOCK_TRIALS = (12, 16, 20, 25, 30)
"""Possible lengths of a block, 3-5 rounds of 4-6 trials; the decoder does not know which."""
NEEDED = 0.8
MEMORY_TRIALS = 40
TRUST = 0.97
"""Factor on the estimated accuracy, for caution: a missed block scores 0."""
EXPECTED_EACH = 5
EXPECTED_GROWTH = (0.4, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Growth of the log odds per second in simulated trials: the prior for a new person."""


class StoppingRule:
    """The threshold that would have been best over the past trials."""

    def __init__(self, steps: int, step_s: float, seed: int = 0) -> None:
        self._step_s = step_s
        rng = np.random.default_rng(seed)
        expected = EXPECTED_EACH * EXPECTED_GROWTH
        paths = [_expected_path(growth, step_s, steps, rng) for growth in expected]
        self._replays = [_replay(path) for path in paths]
        self.threshold = self._best()

    def learn(self, path: Array) -> None:
        """path (steps, classes): the posterior after each packet of a trial, to its end."""
        self._replays = [*self._replays, _replay(path)][-MEMORY_TRIALS:]
        self.threshold = self._best()

    def _best(self) -> float:
        steps, right = np.mean(self._replays, axis=0)
        doubt = np.sqrt(right * (1 - right) / len(self._replays))
        chances = np.array([_reaching(p) for p in np.maximum(TRUST * right - doubt, 0.0)])
        scores = right / (self._step_s * steps) * chances
        return float(THRESHOLDS[int(np.argmax(scores))])


def _expected_path(growth: float, step_s: float, steps: int, rng: np.random.Generator) -> Array:
    """Two tasks and calibrated evidence: log odds with a drift and twice that variance."""
    moves = rng.normal(growth * step_s, np.sqrt(2 * growth * step_s), steps)
    right = 1 / (1 + np.exp(-np.clip(np.cumsum(moves), -30.0, 30.0)))
    return np.column_stack([right, 1 - right])


def _replay(path: Array) -> Array:
    """(2, thresholds): number of packets until the report, and probability that it was right (the
    mean of the posteriors at that time and at the trial's end)."""
    sure = path.max(axis=1)[:, None] >= THRESHOLDS
    step = np.where(sure.any(axis=0), sure.argmax(axis=0), len(path) - 1)
    task = path[step].argmax(axis=1)
    return np.array([step + 1.0, (path[step, task] + path[-1, task]) / 2])


def _reaching(right: float) -> float:
    """Probability that a block of unknown length reaches the share of right answers it needs."""
    return float(np.mean([_at_least(ceil(NEEDED * n), n, right) for n in BLOCK_TRIALS]))


def _at_least(k: int, n: int, p: float) -> float:
    return float(sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)))


LEFT_MI, RIGHT_MI = 1, 2
TASK_CODES = range(8, 80)
HIGHPASS_HZ = 6.0
MAINS_HZ = 50.0
ENOUGH_TO_LEARN_S = 2.0
UNTRAINED = (
    "no model was given: flicker needs none, but which hand is imagined is then only guessed. Train one "
    "with `bci-decode train --track turing RECORDING... --out FILE`, then give --model FILE"
)

BeliefCallback: TypeAlias = Callable[[Sequence[int], Array], None]
"""Called at the end of each trial with its tasks and their posterior after each packet."""


@dataclass
class _Trial:
    """Position of its trigger in the block, its tasks, and their posterior after each packet."""

    begin: int
    tasks: Sequence[int]
    evidence: SsvepEvidence | None = None
    path: list[Array] = field(default_factory=list)
    reported: bool = False


class TuringDecoder:
    """For any frequencies, tasks, leads and rate; the track's own are the defaults.

    Flicker needs no training. Imagery is trained (`fit`); without a model it has little weight.
    """

    def __init__(
        self,
        *,
        model: Model | None = None,
        seed: int = 0,
        frequencies_hz: Mapping[int, float] = SSVEP_HZ,
        tasks_of_behaviour: Mapping[int, Sequence[int]] = TASKS_OF_BEHAVIOUR,
        watch: BeliefCallback | None = None,
    ) -> None:
        self._watch = watch
        self._model = model
        self.notice = UNTRAINED if model is None else ""
        self._seed = seed
        self._frequencies = dict(frequencies_hz)
        self._allowed = {behaviour: tuple(tasks) for behaviour, tasks in tasks_of_behaviour.items()}

    def start(self, info: SignalInfo) -> None:
        self._rate = info.rate
        self._packet_samples = info.packet_samples
        self._steps = int(np.ceil(LIMIT_S * info.rate / info.packet_samples)) - 1
        self._occipital = leads_over(OCCIPITAL, info.leads)
        sections = np.concatenate([highpass(HIGHPASS_HZ, info.rate, 2), notch(MAINS_HZ, info.rate)])
        self._filter = CausalFilter(sections, len(self._occipital))
        hz = list(self._frequencies.values())
        self._ssvep = SsvepDetector(hz, info.rate, len(self._occipital))
        self._imagery = ImageryEvidence(info.leads, info.rate, self._classifier(info.subject))
        self._stopping = StoppingRule(self._steps, info.packet_samples / info.rate, self._seed)
        self._trial: _Trial | None = None
        self._block: int | None = None

    def step(self, packet: Packet) -> list[int]:
        if packet.block != self._block:
            self._block = packet.block
            self._finish()
        flicker = self._filter.step(packet.signal[:, self._occipital])
        reports: list[int] = []
        for begin, end, behaviour in self._pieces(packet):
            if end > begin:
                self._ssvep.push(flicker[begin:end])
                self._imagery.push(packet.signal[begin:end])
                reports += self._evaluate(packet.start + end)
            if behaviour is not None:
                reports += self._interrupted()
                self._begin(packet.start + end, behaviour)
        return reports

    def _classifier(self, subject: str) -> ImageryClassifier | None:
        return None if self._model is None else classifier_of(self._model, subject)

    def _pieces(self, packet: Packet) -> Iterator[tuple[int, int, int | None]]:
        """(begin, end, behaviour of a trial that begins at end), split where the track's packets end
        and trials begin, so that the result does not depend on how the stream is split."""
        triggers = {at: code >> 3 for at, code in packet.triggers if code in TASK_CODES}
        grid = range(-packet.start % self._packet_samples, packet.n, self._packet_samples)
        cuts = sorted({0, packet.n, *triggers, *grid})
        for begin, end in zip([0, *cuts], cuts, strict=False):
            yield begin, end, triggers.get(end)

    def _begin(self, position: int, behaviour: int) -> None:
        self._finish()
        tasks = self._allowed.get(behaviour)
        if tasks is None:
            return
        self._trial = _Trial(position, tasks)
        self._ssvep.begin()
        self._imagery.begin()

    def _evaluate(self, position: int) -> list[int]:
        """At the end of one of the track's packets: update the posterior, and report if it is time."""
        trial = self._trial
        if trial is None or position % self._packet_samples:
            return []
        first = (trial.begin // self._packet_samples + 1) * self._packet_samples
        step = (position - first) // self._packet_samples
        if step < 1:
            return []
        trial.evidence = self._ssvep.evidence()
        trial.path.append(self._posterior(trial))
        last = step >= self._steps
        reports = self._report(trial, last)
        if last:
            self._finish()
        return reports

    def _report(self, trial: _Trial, last: bool) -> list[int]:
        posterior = trial.path[-1]
        if trial.reported or not (last or posterior.max() >= self._stopping.threshold):
            return []
        trial.reported = True
        return [int(trial.tasks[int(np.argmax(posterior))])]

    def _interrupted(self) -> list[int]:
        """The next trial begins before this one was reported: report now."""
        trial = self._trial
        return self._report(trial, last=True) if trial is not None and trial.path else []

    def _posterior(self, trial: _Trial) -> Array:
        assert trial.evidence is not None
        scores = self._imagery_scores(trial.tasks)
        odds = dict(zip(self._frequencies, trial.evidence.log_odds, strict=True))
        scores = scores + np.array([odds.get(task, 0.0) for task in trial.tasks])
        return np.asarray(np.exp(scores - np.logaddexp.reduce(scores)))

    def _imagery_scores(self, tasks: Sequence[int]) -> Array:
        """Log probabilities of the imagery evidence; watching flicker counts as idle."""
        left, right, idle = self._imagery.log_probabilities
        return np.array([{LEFT_MI: left, RIGHT_MI: right}.get(task, idle) for task in tasks])

    def _finish(self) -> None:
        """End the trial and learn from all of it, also from what came after the report."""
        trial, self._trial = self._trial, None
        if trial is None:
            return
        enough = len(trial.path) * self._packet_samples >= ENOUGH_TO_LEARN_S * self._rate
        self._ssvep.end()
        if enough and trial.evidence is not None:
            self._ssvep.learn(trial.evidence, self._flicker_prior(trial.tasks))
        if len(trial.path) == self._steps:
            self._stopping.learn(np.array(trial.path))
        if self._watch is not None:
            self._watch(trial.tasks, np.array(trial.path))
        self._imagery.end()

    def _flicker_prior(self, tasks: Sequence[int]) -> Array:
        """Prior of flicker from the tasks and the imagery: (frequencies + 1,), no flicker last."""
        by_task = dict(zip(tasks, np.exp(self._imagery_scores(tasks)), strict=True))
        flicker = np.array([by_task.pop(task, 0.0) for task in self._frequencies])
        prior = np.append(flicker, sum(by_task.values()))
        return np.asarray(prior / prior.sum())


def fit(recordings: Sequence[Session], *, seed: int, progress: Callable[[str], None]) -> Model:
    """Train the imagery part from labelled imagery recordings; flicker needs no training."""
    del seed  # deterministic
    arrays, settings = train_imagery(recordings, progress)
    return Model("turing", "turing-phase", arrays, settings)
