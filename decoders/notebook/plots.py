"""Plots of an evaluation on matplotlib axes: confusion, accuracy against data used, time line of a trial."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bci_stream.errors import BciError
from bci_stream.leaderboard.report.figures import STYLE, colour, fill_accuracy, fill_confusion
from bci_stream.leaderboard.report.statistics import accuracy_curve
from decoders.offline import LogEvent
from tracks.common.verdicts import Answer, Traces, Verdict
from tracks.run import Run
from tracks.track import Track

SIZE_IN = (5.2, 3.4)
COUNTS = {True: ("#0f8a63", "right"), False: ("#c43d3d", "wrong"), None: ("#8a93a2", "not counted")}
"""Colour and word of an answer, by how it counts."""
OF_SECONDS = "second of the block"
"""Label of the axis where each second has an answer of its own (emotion)."""
MOST_CODES, MARKS = 40, 100
"""With more triggers than MOST_CODES only codes from MARKS on are named: these mark trials and sequences in
all documents, and smaller ones are flashes."""


def plot_confusion(counts: dict[str, Any] | None, track: str, ax: Axes | None) -> Axes:
    """The confusion matrix. Raises BciError where no answer names a class."""
    if counts is None:
        raise BciError(f"track {track}: there are no classes to confuse, or nothing was reported")
    with mpl.rc_context(STYLE):
        axes = ax or _new_axes()
        fill_confusion(axes, counts["labels"], counts["columns"], counts["counts"])
    return axes


def plot_accuracy(name: str, verdicts: Sequence[Verdict], track: Track, ax: Axes | None) -> Axes:
    """The accuracy against the data used. Raises BciError where no answer is right or wrong."""
    points = accuracy_curve(verdicts)
    if not points:
        raise BciError(f"track {track.name}: no answer is right or wrong, so there is no accuracy")
    with mpl.rc_context(STYLE):
        axes = ax or _new_axes()
        unit = track.used_unit or points_unit(verdicts)
        fill_accuracy(axes, {name: points}, unit)
        if unit == "second":
            axes.set_xlabel(OF_SECONDS)
    return axes


def points_unit(verdicts: Sequence[Verdict]) -> str:
    """The unit in which answers count the data that they used."""
    return next((answer.unit for verdict in verdicts for answer in verdict.answers), "")


def plot_trial(verdict: Verdict, events: Sequence[LogEvent], track: Track, ax: Axes | None) -> Axes:
    """The time line of a trial: its triggers and reports, or measured and reported traces."""
    moments = find_moments(verdict, events)
    with mpl.rc_context(STYLE):
        axes = ax or _new_axes()
        if moments.traces is not None and track.traces is not None:
            _fill_traces(axes, moments.traces, track)
        else:
            _fill_answers(axes, verdict, moments, track)
        axes.set_title(_title(verdict), fontsize=9, loc="left")
    return axes


def _title(verdict: Verdict) -> str:
    place = f"{verdict.subject}, block {verdict.block}, trial {verdict.trial}"
    label = f": {verdict.label}" if verdict.label else ""
    return (place + label + (" (void)" if verdict.void else "")).replace("$", r"\$")


def _new_axes() -> Axes:
    axes: Axes = plt.subplots(figsize=SIZE_IN, layout="constrained")[1]
    return axes


@dataclass
class TrialMoments:
    """Of a trial, in seconds of data used. triggers: (s, code). reports: s of each."""

    triggers: list[tuple[float, int]] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)
    length_s: float = 0.0
    traces: Traces | None = None


def find_moments(verdict: Verdict, events: Sequence[LogEvent]) -> TrialMoments:
    """Fold the events again, and note what happened up to and with the packet that closed the trial."""
    run, found, rate, was_open = Run(), TrialMoments(), 1.0, False
    for event in events:
        given = run.feed(event)
        if event["kind"] == "session":
            rate = float(event["rate"])
        if len(run.sessions) != verdict.session + 1:
            continue
        referee = run.sessions[-1].referee
        if any(each.key == verdict.key for each in given):
            found.traces = referee.last_traces()
        running = referee.open_trial()
        is_open = running is not None and (running.block, running.trial) == verdict.key
        if event["kind"] == "report" and running is not None and is_open:
            found.reports.append(running.used_s)
        elif event["kind"] == "packet" and (is_open or was_open):
            own = running.used_s if running is not None and is_open else None
            begun_s = found.length_s if own is None else own - event["n"] / rate
            found.length_s = begun_s + event["n"] / rate
            found.triggers += [
                (begun_s + offset / rate, code) for offset, code in event["triggers"]
            ]
        was_open = is_open
    return found


def _fill_answers(axes: Axes, verdict: Verdict, moments: TrialMoments, track: Track) -> None:
    """Answers by class over the time; the label as a line."""
    made = [answer for answer in verdict.answers if answer.when is not None]
    answered = {answer.class_name for answer in made} | {verdict.label}
    rows = [name for name in track.classes.values() if name in answered]
    if any(answer.class_name is None for answer in made):
        rows.append("no class")
    if verdict.label in rows:
        axes.axhline(rows.index(verdict.label), color=colour(0), lw=6, alpha=0.2, label="label")
    times_s = _times(made, moments)
    for counts, (ink, word) in COUNTS.items():
        chosen = [k for k, answer in enumerate(made) if answer.right is counts]
        if chosen:
            y = [rows.index(made[k].class_name or "no class") for k in chosen]
            axes.plot([times_s[k] for k in chosen], y, "o", color=ink, ms=8, label=word)
    end_s = max([moments.length_s, *times_s, 0.1])
    axes.set_xlim(-0.02 * end_s, 1.04 * end_s)
    axes.set_ylim(len(rows) - 0.4, -0.9)
    axes.set_yticks(range(len(rows)), rows)
    many = len(moments.triggers) > MOST_CODES
    for at_s, code in moments.triggers:
        if many and code < MARKS:
            axes.axvline(at_s, ymax=0.04, color="#8a93a2", lw=0.7)
            continue
        axes.axvline(at_s, color="#8a93a2", lw=0.9, ls=":")
        axes.text(at_s, -0.85, f" {code}", fontsize=7, color="#5a6372", va="top")
    seconds = any(answer.unit == "second" for answer in made)
    axes.set_xlabel(OF_SECONDS if seconds else "data used (s)")
    axes.legend(fontsize=8, loc="lower left", ncols=4, bbox_to_anchor=(0, 1.06))


def _times(made: Sequence[Answer], moments: TrialMoments) -> list[float]:
    """When each answer was made, in s; answers that count sequences take the log's moments."""
    if all(answer.unit != "sequences" for answer in made) or len(moments.reports) < len(made):
        return [float(answer.when or 0.0) for answer in made]
    return moments.reports[: len(made)]


def _fill_traces(axes: Axes, traces: Traces, track: Track) -> None:
    """Measured and reported rows, one pair of lines for each column, one above the other."""
    assert track.traces is not None
    measured, reported = np.asarray(traces.measured), np.asarray(traces.reported)
    times_s = np.arange(len(measured)) / track.traces.rate
    spread = float(np.ptp(measured, axis=0).max()) or 1.0
    for column, name in enumerate(track.traces.names):
        up = 1.2 * spread * (len(track.traces.names) - 1 - column)
        middle = measured[:, column].mean()
        axes.plot(times_s, measured[:, column] - middle + up, color="#8a93a2", lw=2.2)
        axes.plot(times_s, reported[:, column] - middle + up, color=colour(0), lw=1.1)
        axes.text(-0.01, up, f"{name} ", ha="right", va="center", fontsize=8,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_yticks([])
    axes.set_xlabel("time in the trial (s); grey: measured, blue: reported")
