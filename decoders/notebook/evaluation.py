"""Scored runs for notebooks: scores, a table of verdicts, plots. `bci_stream.score` reads one from a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from bci_stream.errors import BciError, LogError
from bci_stream.leaderboard.verdict_rows import Confusion, verdict_row
from bci_stream.runlog import encode, read_log, score_run
from decoders.folds import judged_together
from decoders.offline import LogEvent, OfflineRun
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.run import Run
from tracks.track import Track


@dataclass(frozen=True)
class EvaluatedPart:
    """One judged run: its events, in the order of its log, and the run that was folded from them."""

    run: Run
    events: Sequence[LogEvent]


class Evaluation:
    """The scores and verdicts of a decoder; `bci_stream.evaluate` and `bci_stream.score` return it.

    Attributes
    ----------
    name : str
        Of the decoder or the team.
    score : float
        By the rules of the track, to the last digit what the command line prints.
    unit : str
        Of the score.
    sessions : list of dict
        Subject, score, trials, right answers and refused reports of each session.
    verdicts : list of Verdict
        One for each trial.
    note : str
        How the score was made; empty for a plain run.
    """

    def __init__(self, name: str, parts: Sequence[EvaluatedPart], note: str = "") -> None:
        if not parts:
            raise BciError(f"{name}: nothing was judged: {note or 'there is no run'}")
        self.name = name
        self.note = note
        self.parts = tuple(parts)
        track = parts[0].run.track
        assert track is not None
        self._track: Track = track
        self.results: list[dict[str, Any]] = [part.run.result() for part in parts]

    @property
    def track(self) -> str:
        """The name of the track."""
        return self._track.name

    @property
    def unit(self) -> str:
        return self._track.unit

    @property
    def score(self) -> float:
        if len(self.parts) == 1:
            return float(self.results[0]["score"])
        runs = [OfflineRun(part.run, list(part.events)) for part in self.parts]
        return judged_together(runs)

    @property
    def result(self) -> dict[str, Any]:
        """What `bci-judge score --json` prints. Of several parts the first one's; see `results`."""
        return self.results[0]

    @property
    def sessions(self) -> list[dict[str, Any]]:
        return [session for result in self.results for session in result["sessions"]]

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for part in self.parts for verdict in part.run.verdicts()]

    def accuracy(self) -> float | None:
        """The share of right answers; None on a track without classes."""
        answers = sum(session["answers"] for session in self.sessions)
        return sum(session["right"] for session in self.sessions) / answers if answers else None

    def explain(self) -> list[str]:
        """How the score of each session is made up, in lines."""
        return [
            f"{session.subject}: {line}"
            for part in self.parts
            for session in part.run.sessions
            for line in self._track.explain(session.referee.verdicts())
        ]

    def table(self, answers: bool = False) -> Any:
        """The verdicts as a table.

        Parameters
        ----------
        answers : bool
            A row for each report instead of one for each trial.

        Returns
        -------
        table : pandas.DataFrame
            Subject, block, trial, label, what was reported, how it counts, the data used, and why it
            does not count where it does not.

        Raises
        ------
        BciError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise BciError(
                "a table needs pandas, which is not installed: `pip install bci-stream[notebook]`; "
                "`verdicts` has the same without it"
            ) from error
        rows = [row for each in self._parted() for row in self._rows(each, answers)]
        return pandas.DataFrame(rows)

    def _parted(self) -> list[tuple[int, Verdict]]:
        return [
            (number, verdict)
            for number, part in enumerate(self.parts)
            for verdict in part.run.verdicts()
        ]

    def _rows(self, parted: tuple[int, Verdict], answers: bool) -> list[dict[str, Any]]:
        part, verdict = parted
        place: dict[str, Any] = {"part": part} if len(self.parts) > 1 else {}
        place |= {"subject": verdict.subject, "session": verdict.session}
        place |= {"block": verdict.block, "trial": verdict.trial, "label": verdict.label}
        if answers:
            return [
                place
                | {"report": number, "result": answer.result, "class": answer.class_name}
                | {"used": answer.when, "unit": answer.unit, "right": answer.right}
                | {"reason": describe(answer.reason) if answer.reason else ""}
                for number, answer in enumerate(verdict.answers)
            ]
        row = verdict_row(verdict, tuple(self._track.classes.values()))
        shown = {"reported": row["reported"], "counts": row["mark"], "used_s": row["used_s"]}
        share = {"share": verdict.share} if verdict.share is not None else {}
        charged = {"charged_s": verdict.charged_s} if verdict.charged_s is not None else {}
        return [place | shown | share | charged | {"reason": row["reason"]}]

    def confusion(self) -> dict[str, Any] | None:
        """Counts of answers: rows `labels`, columns `columns` ("" is no class); None without classes."""
        counts = Confusion()
        for part, verdict in self._parted():
            place = (verdict.subject, 1000 * part + verdict.session, verdict.block, verdict.trial)
            counts.add(place, verdict)
        return counts.table(tuple(self._track.classes.values()))

    def plot_confusion(self, ax: Any = None) -> Any:
        """Draw the confusion matrix on matplotlib axes `ax`, or on new ones; returns the axes."""
        from decoders.notebook import plots

        return plots.plot_confusion(self.confusion(), self.track, ax)

    def plot_accuracy(self, ax: Any = None) -> Any:
        """Draw the accuracy against the data used, with 95 % intervals; returns the axes."""
        from decoders.notebook import plots

        return plots.plot_accuracy(self.name, self.verdicts, self._track, ax)

    def plot_trial(self, trial: int = 0, ax: Any = None) -> Any:
        """Draw the time line of a trial: triggers, reports, what counted.

        Parameters
        ----------
        trial : int
            Its row in `table()`.
        ax : matplotlib.axes.Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        ax : matplotlib.axes.Axes
        """
        from decoders.notebook import plots

        parted = self._parted()
        if not -len(parted) <= trial < len(parted):
            raise BciError(f"there is no trial {trial}; there are 0 to {len(parted) - 1}")
        part, verdict = parted[trial]
        return plots.plot_trial(verdict, self.parts[part].events, self._track, ax)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the run log, which `bci-judge score` reads; it has no hash chain, since no judge wrote it.

        Raises LogError if there are several parts, or the file exists or can't be written.
        """
        if len(self.parts) > 1:
            raise LogError(
                f"{path}: a cross-validation has {len(self.parts)} runs, a log one: use `results`"
            )
        try:
            with Path(path).open("xb") as file:
                file.writelines(map(encode, self.parts[0].events))
        except OSError as error:
            raise LogError(f"can't write the log {path}: {error.strerror}") from error
        return Path(path)

    def __repr__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        lines = [f"<{self.name} on {self.track}: {self.score:.4f} {self.unit}{note}>"]
        return "\n".join([*lines, *(f"  {_session_line(s, self.unit)}" for s in self.sessions)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(s['subject']))}</td><td>{_number(s['score'])}</td>"
            f"<td>{s['trials']}</td><td>{s['right']} / {s['answers']}</td>"
            f"<td>{s['refused']}</td></tr>"
            for s in self.sessions
        )
        heads = ("subject", f"score ({self.unit})", "trials", "right", "refused reports")
        head = "".join(f"<th>{escape(each)}</th>" for each in heads)
        note = f" <i>({escape(self.note)})</i>" if self.note else ""
        return (
            f"<p><b>{escape(self.name)}</b> on {escape(self.track)}: "
            f"<b>{self.score:.4f} {escape(self.unit)}</b>{note}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )


def _number(score: float | None) -> str:
    return "void" if score is None else f"{score:.4f}"


def _session_line(session: dict[str, Any], unit: str) -> str:
    right = f", {session['right']} of {session['answers']} right" if session["answers"] else ""
    return f"{session['subject']}: {_number(session['score'])} {unit}{right}"


def offline_part(outcome: OfflineRun) -> EvaluatedPart:
    """The part of an offline run; its events are as a log has them, also in memory."""
    return EvaluatedPart(outcome.run, outcome.events)


def score_log(log: str | PathLike[str]) -> Evaluation:
    """Score a run log.

    Parameters
    ----------
    log : str or path-like
        A log that `bci-judge` wrote (`.jsonl` or `.jsonl.gz`), or `Evaluation.save`.

    Returns
    -------
    evaluation : Evaluation
        Its `result` is what `bci-judge score --json` prints.

    Raises
    ------
    LogError
        If it can't be read or has no truth; the message names the line.

    Examples
    --------
    >>> import bci_stream as bci
    >>> bci.score("tests/golden/mi-1.jsonl.gz").unit
    'bits/min'
    """
    path = Path(log)
    run = score_run(path)
    team = run.team or path.name.removesuffix(".gz").removesuffix(".jsonl")
    return Evaluation(team, [EvaluatedPart(run, [event for _, event in read_log(path)])])
