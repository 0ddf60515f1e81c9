"""What each track does with windows: where they lie, which label they have, and when to report."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.adapters.online import WindowPlan
from decoders.adapters.windows import CausalSignal, SignalWindow, pieces_between
from decoders.decoder import DecoderError
from decoders.dsp import Array
from decoders.emotion.features import SecondCounter
from decoders.mi.trials import Windows
from tracks.common.angles import JOINTS, row_at
from tracks.common.codes import TRIAL_END
from tracks.common.numbers import exact_rate
from tracks.emotion import MARGIN_S
from tracks.erp import CLASSES as CHARACTER_OF
from tracks.erp import FLASHES, GROUPS, SEQUENCE_END, TARGETS
from tracks.mi import IMAGERY_START
from tracks.track import Track
from tracks.turing import LIMIT_S, TASKS_OF_BEHAVIOUR, behaviour_of

Truth = Mapping[str, Any]
Scores = Mapping[Any, float]
"""Log score of each class, up to a constant."""


class StreamFollower(ABC):
    """Follows one session: packets in, windows out; then scores in, reports out.

    slots: how many estimators there are. regression: whether they predict numbers, not classes.
    """

    slots: int = 1
    regression: ClassVar[bool] = False

    def __init__(self, info: SignalInfo, plan: WindowPlan, leads: Sequence[str]) -> None:
        self.info, self.plan = info, plan
        self.block, self.trial = -1, -1
        self.length = round((plan.length_s or 0) * info.rate)
        self.signal = CausalSignal(info, plan, leads, self.longest())

    def longest(self) -> int:
        """Samples of the longest window, with what follows before it is cut."""
        return self.length

    def step(self, packet: Packet) -> Iterator[SignalWindow]:
        """The windows that this packet completes, and moments at which a report may be due."""
        if packet.block != self.block:
            self.block, self.trial = packet.block, -1
            self.begin_block()
        for start, stop, code in pieces_between(packet.triggers, packet.n):
            yield from self.feed(packet, start, stop)
            if code is not None:
                yield from self.see(code)

    def begin_block(self) -> None:
        """The signal jumps here."""
        self.signal.restart()

    @abstractmethod
    def feed(self, packet: Packet, start: int, stop: int) -> Iterator[SignalWindow]:
        """Add samples start to stop of a packet."""

    def see(self, code: int) -> Iterator[SignalWindow]:
        """A trigger at the present sample."""
        del code
        return iter(())

    @abstractmethod
    def label(self, window: SignalWindow, truth: Truth, track: Track) -> Any:
        """The label of a window, for training; None for one that has none."""

    @abstractmethod
    def report(self, window: SignalWindow, scores: Any) -> list[object]:
        """The results to report after a window. scores: of its classes, or predicted numbers."""


class TrialFollower(StreamFollower):
    """Trials that a trigger begins, with a report after each window (mi, turing)."""

    def __init__(self, info: SignalInfo, plan: WindowPlan, leads: Sequence[str]) -> None:
        self.ends = self.moments(info, plan)
        self.slots = 1 if plan.length_s is not None else len(self.ends)
        if plan.length_s is not None and round(plan.length_s * info.rate) > min(self.ends):
            raise DecoderError(
                f"length_s={plan.length_s:g}: the first report is made after "
                f"{min(self.ends) / info.rate:.2f} s, so windows can't be longer"
            )
        self._begun: int | None = None
        self._tag = 0
        super().__init__(info, plan, leads)

    @abstractmethod
    def moments(self, info: SignalInfo, plan: WindowPlan) -> Sequence[int]:
        """Samples after the trigger at which windows end and reports are made."""

    @abstractmethod
    def begins(self, code: int) -> bool:
        """Whether a code begins a trial."""

    def longest(self) -> int:
        return max(max(self.ends), self.length)

    def see(self, code: int) -> Iterator[SignalWindow]:
        if self.begins(code):
            self.trial += 1
            self._begun, self._tag, self._made = self.signal.position, code, 0
        elif code == TRIAL_END:
            self._begun = None
        return iter(())

    def feed(self, packet: Packet, start: int, stop: int) -> Iterator[SignalWindow]:
        while self._begun is not None and self._made < len(self.ends):
            end = self._begun + self.ends[self._made]
            if end - self.signal.position > stop - start:
                break
            middle = start + end - self.signal.position
            self.signal.push(packet.signal[start:middle])
            start = middle
            yield self._cut(end)
            self._made += 1
        self.signal.push(packet.signal[start:stop])

    def _cut(self, end: int) -> SignalWindow:
        grown = self.ends[self._made] - round(self.plan.start_s * self.info.rate)
        length = self.length or max(grown, self.signal.step)
        length = min(length, self.ends[self._made])
        slot = 0 if self.slots == 1 else self._made
        return SignalWindow(
            slot, self.signal.window(end, length), self.block, self.trial, self._tag
        )

    def label(self, window: SignalWindow, truth: Truth, track: Track) -> Any:
        blocks = truth.get("blocks", ())
        labels = blocks[window.block] if window.block < len(blocks) else ()
        return track.read(labels[window.trial]) if window.trial < len(labels) else None


class ImageryFollower(TrialFollower):
    """mi: three reports, each as late as it may be; the filter begins with the imagery."""

    def moments(self, info: SignalInfo, plan: WindowPlan) -> Sequence[int]:
        return Windows.of(info).ends

    def begins(self, code: int) -> bool:
        return code == IMAGERY_START

    def see(self, code: int) -> Iterator[SignalWindow]:
        if self.begins(code):
            self.signal.restart()  # what was before is zeroed
        return super().see(code)

    def report(self, window: SignalWindow, scores: Scores) -> list[object]:
        return [int(max(scores, key=lambda each: scores[each]))]


class TaskFollower(TrialFollower):
    """turing: one report after `report_s`, of a task that the robots' behaviour allows."""

    def moments(self, info: SignalInfo, plan: WindowPlan) -> Sequence[int]:
        latest = int(LIMIT_S * info.rate) - info.packet_samples
        wanted = latest if plan.report_s is None else round(plan.report_s * info.rate)
        return [min(max(wanted, info.packet_samples), latest)]

    def begins(self, code: int) -> bool:
        return behaviour_of(code) is not None

    def report(self, window: SignalWindow, scores: Scores) -> list[object]:
        allowed = TASKS_OF_BEHAVIOUR[behaviour_of(window.tag) or 0]
        known = [task for task in allowed if task in scores] or list(allowed)
        return [int(max(known, key=lambda task: scores.get(task, -np.inf)))]


class FlashFollower(StreamFollower):
    """erp: a window after each flash, is it a target's?; a character after `sequences` sequences."""

    def begin_block(self) -> None:
        super().begin_block()
        self._waiting: list[tuple[int, int]] = []
        self._running = False

    def longest(self) -> int:
        return self.length + round(self.plan.start_s * self.info.rate)

    def see(self, code: int) -> Iterator[SignalWindow]:
        if code in TARGETS:
            self.trial += 1
            self._running, self._sequences, self._after = True, 0, 0
            self._odds = dict.fromkeys(GROUPS, 0.0)
        elif not self._running:
            return
        elif code in FLASHES:
            self._waiting.append((self.signal.position + self.longest(), code))
            if self._sequences >= self.plan.sequences:
                self._after += 1  # flashes of a sequence that is not waited for
                if self._after == 2:  # a third one would count as one sequence more
                    yield self._moment()
        elif code == SEQUENCE_END:
            self._sequences += 1
        elif code == TRIAL_END:
            yield self._moment()

    def _moment(self) -> SignalWindow:
        return SignalWindow(0, None, self.block, self.trial)

    def feed(self, packet: Packet, start: int, stop: int) -> Iterator[SignalWindow]:
        while self._waiting and self._waiting[0][0] - self.signal.position <= stop - start:
            end, group = self._waiting.pop(0)
            middle = start + end - self.signal.position
            self.signal.push(packet.signal[start:middle])
            start = middle
            if self._running:
                x = self.signal.window(end, self.length)
                yield SignalWindow(0, x, self.block, self.trial, group)
        self.signal.push(packet.signal[start:stop])

    def label(self, window: SignalWindow, truth: Truth, track: Track) -> Any:
        blocks = truth.get("blocks", ())
        labels = blocks[window.block] if window.block < len(blocks) else ()
        if window.x is None or window.trial >= len(labels):
            return None
        number = track.read(labels[window.trial])
        return None if number is None else int(CHARACTER_OF[number] in GROUPS[window.tag])

    def report(self, window: SignalWindow, scores: Scores) -> list[object]:
        if not self._running:
            return []
        if window.x is not None:
            self._odds[window.tag] += scores.get(1, 0.0) - scores.get(0, 0.0)
            return []
        self._running = False
        self._waiting.clear()
        return [max(CHARACTER_OF.values(), key=self._odds_of)]

    def _odds_of(self, character: str) -> float:
        return sum(odds for code, odds in self._odds.items() if character in GROUPS[code])


class SecondFollower(StreamFollower):
    """emotion: a window of each second, ending with it, and a report after it."""

    def __init__(self, info: SignalInfo, plan: WindowPlan, leads: Sequence[str]) -> None:
        super().__init__(info, plan, leads)
        self._seconds = SecondCounter(info.packet_samples)
        self._block = -1

    def longest(self) -> int:
        return max(self.length, round(self.info.rate))

    def step(self, packet: Packet) -> Iterator[SignalWindow]:
        for span in self._seconds.spans(packet):
            if span.first:
                self._block += 1
                self._begun = self.signal.position
                self.begin_block()
            self.signal.push(packet.signal[span.begin : span.end])
            if span.completes:
                have = self.signal.position - self._begun
                x = self.signal.window(self.signal.position, min(self.length, have))
                yield SignalWindow(0, self._padded(x), self._block, 0, packet.start + span.end)

    def feed(self, packet: Packet, start: int, stop: int) -> Iterator[SignalWindow]:
        return iter(())

    def _padded(self, x: Array) -> Array:
        """A block's first windows are filled up in front, if they are longer than a second."""
        missing = self.length // self.signal.step - x.shape[1]
        return np.pad(x, ((0, 0), (missing, 0)), mode="edge") if missing > 0 else x

    def label(self, window: SignalWindow, truth: Truth, track: Track) -> Any:
        rate = self.info.rate
        for clip in truth.get("clips", ()):
            inside = (
                clip["start"] + (1 + MARGIN_S) * rate <= window.tag <= clip["end"] - MARGIN_S * rate
            )
            if clip["block"] == window.block and inside:
                return int(clip["label"])
        return None

    def report(self, window: SignalWindow, scores: Scores) -> list[object]:
        return [int(max(scores, key=lambda each: scores[each]))]


class RowFollower(StreamFollower):
    """ecog: a window at each packet's end, and the packet's angles, from the last ones to the new."""

    regression = True

    def __init__(self, info: SignalInfo, plan: WindowPlan, leads: Sequence[str]) -> None:
        super().__init__(info, plan, leads)
        self._seen, self._rows = 0, 0
        self._last: Array | None = None

    def longest(self) -> int:
        return self.length + self.info.packet_samples

    def begin_block(self) -> None:
        super().begin_block()
        self._left = self.info.packet_samples
        # A block's last packet may be short: nothing is reported for it, and its rows are past.
        self._rows = row_at(self._seen, exact_rate(self.info.rate))

    def feed(self, packet: Packet, start: int, stop: int) -> Iterator[SignalWindow]:
        while stop - start >= self._left:
            self.signal.push(packet.signal[start : start + self._left])
            start, self._seen = start + self._left, self._seen + self._left
            self._left = self.info.packet_samples
            yield SignalWindow(0, self._window(), self.block, 0, self._seen)
        self.signal.push(packet.signal[start:stop])
        self._seen += stop - start
        self._left -= stop - start

    def _window(self) -> Array:
        have = min(self.length, self.signal.position)
        x = self.signal.window(self.signal.position, have)
        missing = self.length // self.signal.step - x.shape[1]
        return np.pad(x, ((0, 0), (missing, 0)), mode="edge") if missing > 0 else x

    def label(self, window: SignalWindow, truth: Truth, track: Track) -> Any:
        angles = truth.get("angles", ())
        row = row_at(window.tag, exact_rate(self.info.rate)) - 1
        return np.asarray(angles[row]) if 0 <= row < len(angles) else None

    def report(self, window: SignalWindow, scores: Array) -> list[object]:
        new = np.asarray(scores, dtype=np.float64).reshape(len(JOINTS))
        rows = row_at(window.tag, exact_rate(self.info.rate)) - self._rows
        self._rows += rows
        old = new if self._last is None else self._last
        self._last = new
        shares = np.arange(1, rows + 1)[:, None] / max(rows, 1)
        return [(old + shares * (new - old)).tolist()] if rows else []


FOLLOWERS: dict[str, type[StreamFollower]] = {
    "mi": ImageryFollower,
    "turing": TaskFollower,
    "erp": FlashFollower,
    "emotion": SecondFollower,
    "ecog": RowFollower,
}
"""By track, as `online.DEFAULT_PLANS`."""
