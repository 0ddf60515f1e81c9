"""Fitting a content to what was asked and to what its track needs: leads, rate, finite samples."""

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.events import Events, KnownEvents
from replay.model.options import SourceOptions, track_named
from replay.model.signal import Content, SampleRange, Signal
from replay.transform.leads import plan_leads
from tracks.track import Track

CHECK_SAMPLES = 1 << 16
END_SAMPLES = 64


@dataclass(frozen=True)
class FiniteSignal:
    """Another signal, each piece of it checked as it is read."""

    signal: Signal
    name: str
    leads: tuple[Lead, ...]
    rate: float

    @property
    def n_samples(self) -> int:
        return self.signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        samples = self.signal.read(start, stop)
        # A sum is finite only if all of it is, and needs no array of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(samples.sum())
        if suspicious and not np.isfinite(samples).all():
            self._refuse(samples, start)
        return samples

    def _refuse(self, samples: FloatArray, start: int) -> None:
        row, column = np.argwhere(~np.isfinite(samples))[0]
        sample = start + int(row)
        raise SourceError(
            f"{self.name}: lead {self.leads[column].name} holds {samples[row, column]} at sample "
            f"{sample} ({sample / self.rate:.3f} s); ?nan=keep sends it as it is"
        )

    def check(self, suspects: Sequence[SampleRange] | None) -> None:
        """Read what may be bad, so that it is found before the start; None: all of it.

        The ends are read in any case: a file that is cut off shows it there.
        """
        ends = ((0, END_SAMPLES), (self.n_samples - END_SAMPLES, self.n_samples))
        for begin, end in ((0, self.n_samples),) if suspects is None else (*ends, *suspects):
            end = min(end, self.n_samples)
            for start in range(max(begin, 0), end, CHECK_SAMPLES):
                self.read(start, min(start + CHECK_SAMPLES, end))


def fit(content: Content, options: SourceOptions) -> Content:
    """The content as it will be sent, checked; every change of it is in its notes."""
    name = options.track or content.track
    track = track_named(name) if name and not options.as_is else None
    if track and content.masked:
        raise SourceError(
            f"{content.name} is a masked test set: no label is in it, so {track.name} has no truth to "
            "judge by. Play the organiser's file of that name, or this one without a track"
        )
    _check_triggers(content, track)
    chosen = _checked(_with_leads(content, options, track), options)
    return _resampled(chosen, options, track)


def _with_leads(content: Content, options: SourceOptions, track: Track | None) -> Content:
    plan = plan_leads(content.name, content.leads, options, track)
    return dataclasses.replace(
        content,
        leads=plan.leads,
        signal=plan.applied_to(content.signal, len(content.leads)),
        notes=(*content.notes, *plan.notes),
    )


def _resampled(content: Content, options: SourceOptions, track: Track | None) -> Content:
    target = options.resample or (float(track.rate) if track else content.rate)
    if target == content.rate:
        return content
    from replay.transform.resample import (
        ResampledEvents,
        ResampledSignal,
        describe_resampling,
        ratio,
    )

    factor = ratio(content.name, content.rate, target)
    up, down = factor.numerator, factor.denominator
    signal = ResampledSignal(content.signal, up, down)
    starts = _moved(content, up, down)
    events: Events = ResampledEvents(content.events, up, down, signal.n_samples)
    if content.block_starts and starts:
        events = KnownEvents(_kept_in_blocks(content, events.all(), starts, signal.n_samples))
    whose = "as asked" if options.resample else f"{track.name}'s rate" if track else ""
    return dataclasses.replace(
        content,
        rate=target,
        signal=signal,
        events=events,
        block_starts=starts,
        notes=(
            *content.notes,
            describe_resampling(content.rate, target, whose, signal.delay_s(content.rate)),
        ),
    )


def _moved(content: Content, up: int, down: int) -> tuple[int, ...] | None:
    if content.block_starts is None:
        return None
    starts = tuple(-(-start * up // down) for start in content.block_starts)
    if len(set(starts)) < len(starts):
        raise SourceError(
            f"{content.name} has a block that is shorter than one sample at the new rate; "
            "select what is to be played, or keep its rate"
        )
    return starts


def _kept_in_blocks(
    content: Content, moved: Triggers, starts: tuple[int, ...], n_samples: int
) -> Triggers:
    """Triggers at a block's end would be rounded up into the next block: they stay in their own."""
    old_starts = content.block_starts or ()
    ends = (*starts[1:], n_samples)
    blocks = [bisect_right(old_starts, old) - 1 for old, _ in content.events.all()]
    return tuple(
        (min(sample, ends[block] - 1), code)
        for block, (sample, code) in zip(blocks, moved, strict=True)
    )


def _check_triggers(content: Content, track: Track | None) -> None:
    # A stim channel is not searched here: that would read the whole file before the first packet.
    known = isinstance(content.events, KnownEvents) and not content.events.all()
    if track and known and content.angles is None:
        raise SourceError(
            f"{content.name} has no triggers, and {track.name} needs them: say where they are "
            "(?triggers=CHANNEL, ?events_file=FILE) and what they mean (?events=T1=11,...)"
        )


def _checked(content: Content, options: SourceOptions) -> Content:
    """All of it is looked through before the start; what stays on the disk again when it is read."""
    if options.nan == "keep":
        content.signal.read(max(content.signal.n_samples - 1, 0), content.signal.n_samples)
        return content
    finite = FiniteSignal(content.signal, content.name, content.leads, content.rate)
    finite.check(content.suspects)
    return dataclasses.replace(content, signal=finite) if content.lazy else content
