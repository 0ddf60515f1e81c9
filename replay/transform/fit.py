"""Fitting content to the options and to the track: leads, rate, finite samples."""

import dataclasses
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.events import Events, KnownEvents
from replay.model.options import SourceOptions, track_named
from replay.model.signal import Content, Signal
from replay.transform.leads import plan_leads
from tracks.track import Track

END_SAMPLES = 64


@dataclass(frozen=True)
class FiniteSignal:
    """Another signal; reading a piece with a value that is not finite raises SourceError."""

    signal: Signal
    name: str
    leads: tuple[Lead, ...]
    rate: float

    @property
    def n_samples(self) -> int:
        return self.signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        samples = self.signal.read(start, stop)
        # A sum is finite only if all values are, and takes no memory.
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


def fit(content: Content, options: SourceOptions) -> Content:
    """The content as it will be sent; each change of it is in its notes."""
    name = options.track or content.track
    track = track_named(name) if name and not options.as_is else None
    if track and content.masked:
        raise SourceError(
            f"{content.name} is a masked test set without labels, so {track.name} has no truth to judge "
            "by. Play the organiser's file of that name, or this one without a track"
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
    reason = "as asked" if options.resample else f"{track.name}'s rate" if track else ""
    return dataclasses.replace(
        content,
        rate=target,
        signal=signal,
        events=events,
        block_starts=starts,
        notes=(
            *content.notes,
            describe_resampling(content.rate, target, reason, signal.delay_s(content.rate)),
        ),
    )


def _moved(content: Content, up: int, down: int) -> tuple[int, ...] | None:
    if content.block_starts is None:
        return None
    starts = tuple(-(-start * up // down) for start in content.block_starts)
    if len(set(starts)) < len(starts):
        raise SourceError(
            f"{content.name} has a block shorter than one sample at the new rate; "
            "select the part to play, or keep its rate"
        )
    return starts


def _kept_in_blocks(
    content: Content, moved: Triggers, starts: tuple[int, ...], n_samples: int
) -> Triggers:
    """Keep triggers at the end of a block in it: rounding up would put them into the next one."""
    old_starts = content.block_starts or ()
    ends = (*starts[1:], n_samples)
    blocks = [bisect_right(old_starts, old) - 1 for old, _ in content.events.all()]
    return tuple(
        (min(sample, ends[block] - 1), code)
        for block, (sample, code) in zip(blocks, moved, strict=True)
    )


def _check_triggers(content: Content, track: Track | None) -> None:
    # A stim channel is not searched: that would read the whole file before the first packet.
    known = isinstance(content.events, KnownEvents) and not content.events.all()
    if track and known and content.angles is None:
        raise SourceError(
            f"{content.name} has no triggers, and {track.name} needs them: state where they are "
            "(?triggers=CHANNEL, ?events_file=FILE) and what they mean (?events=T1=11,...)"
        )


def _checked(content: Content, options: SourceOptions) -> Content:
    """The content with a check of each piece; its ends are read now, to find a file that is cut off."""
    signal = content.signal
    if signal.n_samples < 1:
        raise SourceError(f"{content.name} has no samples")
    if options.nan != "keep":
        signal = FiniteSignal(signal, content.name, content.leads, content.rate)
    for start in {0, max(signal.n_samples - END_SAMPLES, 0)}:
        signal.read(start, min(start + END_SAMPLES, signal.n_samples))
    return dataclasses.replace(content, signal=signal)
