"""A scored run, for a human to read: each trial, what was reported when, what counted, why not."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tracks.run import Run
from tracks.verdict import Answer, Refusal, Verdict, brief

_SHOWN_ANSWERS = 6
"""A clip of the emotion track has a decision each second: the first few, and how many more."""


def render(run: Run) -> RenderableType:
    """The whole run: a table of its trials, what was refused, and the score."""
    result = run.result()
    unit = result["unit"]
    tables = [_session(run, _safe(s.subject), s.referee.verdicts()) for s in run.sessions]
    lines = [
        Text.assemble(
            (f"{_safe(session['subject'])}: ", "bold"),
            f"{session['score']:.4f} {unit}",
            _accuracy(session),
        )
        for session in result["sessions"]
    ]
    team = _safe(result["team"])
    total = Text(f"{team} · {result['track']} · {result['score']:.4f} {unit}", "bold")
    return Group(*tables, *_refusals(run.refusals()), *lines, *_ending(run), total)


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
            str(verdict.block),
            str(verdict.trial),
            Text(verdict.label or "-"),
            Text(_reported(verdict.answers)),
            _counts(verdict),
            Text(verdict.reason),
        )
    return table


def _reported(answers: tuple[Answer, ...]) -> str:
    made = [_answer(answer) for answer in answers if answer.when is not None]
    shown = ", ".join(made[:_SHOWN_ANSWERS])
    more = len(made) - _SHOWN_ANSWERS
    return f"{shown}, {more} more" if more > 0 else shown or "-"


def _answer(answer: Answer) -> str:
    assert answer.when is not None
    if answer.said is None and answer.result is None and answer.right is None:
        return f"{answer.when:.2f} {answer.unit}"
    what = answer.said if answer.said is not None else brief(answer.result)
    return f"{what} ({_when(answer.when, answer.unit)})"


def _when(when: float, unit: str) -> str:
    match unit:
        case "s":
            return f"{when:.2f} s"
        case "sequences":
            return f"{when:g} sequence{'s' if when > 1 else ''}"
    return f"{unit} {when:g}"


def _counts(verdict: Verdict) -> Text:
    if not verdict.scored:
        return Text("not scored", "dim")
    if verdict.share is not None:
        return Text(f"{verdict.share:.4g}")
    marks = Text(" ").join(
        Text("right", "green") if flag else Text("wrong", "red") for flag in verdict.right
    )
    return marks if verdict.charged_s is None else marks + Text(f", {verdict.charged_s:.2f} s")


def _refusals(refusals: list[Refusal]) -> list[RenderableType]:
    if not refusals:
        return []
    table = Table(title="Reports that were refused, and used up nothing", title_justify="left")
    for heading in ("subject", "after packet", "result", "why"):
        table.add_column(heading, overflow="fold")
    for refusal in refusals:
        subject, result = _safe(refusal.subject), brief(refusal.result)
        row = (subject, str(refusal.after_packet), result, refusal.reason)
        table.add_row(*(Text(cell) for cell in row))
    return [table]


def _ending(run: Run) -> list[RenderableType]:
    if run.end_reason is None:
        return [Text("no end line: scored as it stands", "yellow")]
    if run.void:
        return [Text(f"ended as {run.end_reason}: every session and the run score 0", "red")]
    return [Text(f"ended as {run.end_reason}", "dim")]


def _accuracy(session: dict[str, object]) -> str:
    return f" ({session['right']} of {session['answers']} right)" if session["answers"] else ""


def _safe(name: object) -> str:
    """A name as it stands, or spelled out where a terminal would obey it."""
    text = str(name)
    return text if text.isprintable() else repr(text)
