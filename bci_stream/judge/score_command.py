"""`bci-judge score`: prints a scored run: each trial, its reports, what counted, and why not."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bci_stream.runlog import score_run
from tracks.common.verdicts import Answer, Refusal, Verdict, brief
from tracks.common.words import describe
from tracks.run import Run, SessionState

_SHOWN_ANSWERS = 6
"""Answers shown of a trial; an emotion clip has one each second."""


def render(run: Run) -> RenderableType:
    """The whole run: a table of its trials, what was refused, and the score."""
    assert run.track is not None
    result = run.result()
    unit = result["unit"]
    tables = [_session(run, _safe(s.subject), s.referee.verdicts()) for s in run.sessions]
    lines = [
        line
        for state, session in zip(run.sessions, result["sessions"], strict=True)
        for line in (_score(session, unit, run.track.parts), *_how(run, state, session["score"]))
    ]
    team = _safe(result["team"])
    nothing_left = " (void: nothing is left to score)" if result.get("void") else ""
    score = f"{result['score']:.4f} {unit}{nothing_left}"
    total = Text(f"{team} · {result['track']} · {score}", "bold")
    return Group(*tables, *_refusals(run.refusals()), *lines, *_ending(run), total)


def _score(session: dict[str, Any], unit: str, parts: str) -> Text:
    name = (f"{_safe(session['subject'])}: ", "bold")
    if session["score"] is None:
        return Text.assemble(name, "void: nothing is left, so it is left out")
    score = f"{session['score']:.4f} {unit}"
    return Text.assemble(name, score, _accuracy(session), _void(session, parts))


def _how(run: Run, session: SessionState, score: float | None) -> list[Text]:
    """How the session's score is computed; empty if it is void, or the run scores 0."""
    assert run.track is not None
    skipped = run.scores_zero or score is None
    lines = [] if skipped else run.track.explain(session.referee.verdicts())
    return [Text(f"  {line}", "dim") for line in lines]


def _session(run: Run, subject: str, verdicts: Iterable[Verdict]) -> Table:
    assert run.track is not None
    title = Text(f"{run.track.title}, subject {subject}")
    table = Table(title=title, title_justify="left")
    for heading in ("block", "trial", "label"):
        table.add_column(heading)
    for heading in ("reported", "counts", "why not"):
        table.add_column(heading, overflow="fold")
    for verdict in verdicts:
        table.add_row(
            str(verdict.block + 1),
            str(verdict.trial + 1),
            Text(verdict.label or "-"),
            Text(_reported(verdict.answers)),
            _counts(verdict),
            Text(_why_not(verdict)),
        )
    return table


def _reported(answers: tuple[Answer, ...]) -> str:
    made = [_answer(answer) for answer in answers if answer.when is not None]
    shown = ", ".join(made[:_SHOWN_ANSWERS])
    more = len(made) - _SHOWN_ANSWERS
    return f"{shown}, {more} more" if more > 0 else shown or "-"


def _answer(answer: Answer) -> str:
    assert answer.when is not None
    if answer.class_name is None and answer.result is None and answer.right is None:
        return f"{answer.when:.2f} {answer.unit} of angles"
    what = answer.class_name if answer.class_name is not None else brief(answer.result)
    return f"{what} ({_when(answer.when, answer.unit)})"


def _when(when: float, unit: str) -> str:
    match unit:
        case "s":
            return f"{when:.2f} s"
        case "sequences":
            return f"{when:g} sequence{'s' if when > 1 else ''}"
    return f"{unit} {when:g}"


def _counts(verdict: Verdict) -> Text:
    if verdict.void:
        return Text("void", "yellow")
    if not verdict.scored:
        return Text("not scored", "dim")
    if verdict.share is not None:
        return Text(f"{verdict.share:.4g}")
    marks = Text(" ").join(
        Text("right", "green") if flag else Text("wrong", "red") for flag in verdict.right
    )
    return marks if verdict.charged_s is None else marks + Text(f", {verdict.charged_s:.2f} s")


def _why_not(verdict: Verdict) -> str:
    """Why the trial counts as it does, and why surplus reports do not count."""
    asked = len(verdict.right)
    beyond = verdict.answers[asked:] if asked and not verdict.void_parts else ()
    if not beyond:
        return describe(verdict.reasons)
    last = len(verdict.answers)
    which = f"report {last}" if len(beyond) == 1 else f"reports {asked + 1}-{last}"
    extra = f"{which}: {describe(beyond[0].reason)}"
    return "; ".join(filter(None, (describe(verdict.reasons), extra)))


def _refusals(refusals: list[Refusal]) -> list[RenderableType]:
    if not refusals:
        return []
    table = Table(title="Reports that were refused, and used up nothing", title_justify="left")
    for heading in ("subject", "after packet", "result", "why"):
        table.add_column(heading, overflow="fold")
    for refusal in refusals:
        subject, result = _safe(refusal.subject), brief(refusal.result)
        row = (subject, str(refusal.after_packet), result, describe(refusal.reason))
        table.add_row(*(Text(cell) for cell in row))
    return [table]


def _ending(run: Run) -> list[RenderableType]:
    if run.end_reason is None:
        return [Text("no end line: scored as it stands", "yellow")]
    if run.scores_zero:
        return [Text(f"ended as {run.end_reason}: every session and the run score 0", "red")]
    return [Text(f"ended as {run.end_reason}", "dim")]


def _accuracy(session: dict[str, object]) -> str:
    return f" ({session['right']} of {session['answers']} right)" if session["answers"] else ""


def _void(session: dict[str, Any], parts: str) -> str:
    """How many trials of the session are void, and how many of their seconds or rows."""
    counts = {"trials": session["void"], parts: session.get(f"void_{parts}", 0)}
    listed = ", ".join(
        f"{count} {name if count > 1 else name[:-1]}" for name, count in counts.items() if count
    )
    return f", void: {listed}" if listed else ""


def _safe(name: object) -> str:
    """A name, with control characters escaped."""
    text = str(name)
    return text if text.isprintable() else repr(text)


def score_log(path: Path, as_json: bool) -> None:
    """Print the score of a log; raises LogError for one that can't be read."""
    run = score_run(path)
    if as_json:
        print(json.dumps(run.result(), allow_nan=False))
        return
    from rich.console import Console

    Console().print(render(run))
