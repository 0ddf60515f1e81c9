"""Verdicts as the leaderboard shows them: plain values, short enough to read."""

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from tracks.common.reasons import Reason
from tracks.common.verdicts import Answer, Verdict
from tracks.common.words import describe

LONGEST: Final = 48
LONGEST_REASON: Final = 200
ANSWERS_SHOWN: Final = 3
REASONS_SHOWN: Final = 5

TrialPlace = tuple[str, int, int, int]
"""(subject, which of the subject's sessions, block, trial)."""


def short_text(value: object, longest: int = LONGEST) -> str:
    """A value that a team sent, as one printable line of at most `longest` characters."""
    text = (value if isinstance(value, str) else repr(value))[:1000]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def verdict_row(verdict: Verdict, classes: Collection[str]) -> dict[str, Any]:
    """A closed trial for the page, the API and the report. classes: of the track; empty if it has none."""
    reasons = shown_reasons(verdict)
    return {
        "subject": short_text(verdict.subject),
        "block": verdict.block,
        "trial": verdict.trial,
        "reported": reported(verdict),
        "truth": (verdict.label or "") if classes else "",
        "mark": mark(verdict, classes),
        "share": verdict.share,
        "used_s": used_s(verdict) if classes and not verdict.void else None,
        "reason": "; ".join(short_text(describe(reason), LONGEST_REASON) for reason in reasons),
        "reasons": [reason.to_json() for reason in reasons],
    }


def mark(verdict: Verdict, classes: Collection[str]) -> str:
    """right, wrong, partly, measured (a track without classes), void or unscored."""
    if verdict.void:
        return "void"
    if not verdict.scored:
        return "unscored"
    if not classes:
        return "measured"
    if not verdict.right:
        return "wrong" if not verdict.share else "right" if verdict.share == 1 else "partly"
    return "right" if all(verdict.right) else "partly" if any(verdict.right) else "wrong"


def reported(verdict: Verdict) -> str:
    """The answers in order; if there are many, the most frequent ones with their counts."""
    if not verdict.answers or verdict.answers[0].result is verdict.answers[0].class_name is None:
        return ""
    if len(verdict.answers) <= ANSWERS_SHOWN:
        return ", ".join(_answer_text(answer) for answer in verdict.answers)
    counts = Counter(_answer_text(answer) for answer in verdict.answers)
    return ", ".join(f"{text} ×{n}" for text, n in counts.most_common(ANSWERS_SHOWN))


def _answer_text(answer: Answer) -> str:
    if answer.class_name is not None:
        return answer.class_name
    return "–" if answer.when is None else short_text(answer.result)


def used_s(verdict: Verdict) -> float | None:
    """The data in s that the trial was charged with, or that its answers used on average."""
    if verdict.charged_s is not None:
        return float(verdict.charged_s)
    used = [float(a.when) for a in verdict.answers if a.when is not None and a.unit == "s"]
    return sum(used) / len(used) if used else None


def shown_reasons(verdict: Verdict) -> list[Reason]:
    """The reasons, each once, at most REASONS_SHOWN of them."""
    of_answers = (answer.reason for answer in verdict.answers if answer.reason is not None)
    reasons = list(dict.fromkeys(verdict.reasons or of_answers))
    left_out = [Reason("more")] if len(reasons) > REASONS_SHOWN else []
    return reasons[:REASONS_SHOWN] + left_out


class Confusion:
    """Counts how often each class was answered with each; "" stands for no readable answer."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._of_trials: dict[TrialPlace, list[tuple[str, str]]] = {}

    def add(self, trial: TrialPlace, verdict: Verdict) -> None:
        """Count a trial's answers; they replace those of an earlier verdict on the same trial."""
        self._counts.subtract(self._of_trials.pop(trial, ()))
        if not verdict.scored or (label := verdict.label) is None:
            return
        counted = [(label, a.class_name or "") for a in verdict.answers if a.right is not None]
        self._counts.update(counted)
        self._of_trials[trial] = counted

    def table(self, classes: tuple[str, ...]) -> dict[str, Any] | None:
        """Rows: the truth; columns: the answers. None while nothing was counted."""
        seen = {name for pair, n in self._counts.items() if n for name in pair if name}
        labels = [name for name in classes if name in seen]
        if not labels:
            return None
        columns = [*labels, ""]
        rows = [[self._counts[label, column] for column in columns] for label in labels]
        return {"labels": labels, "columns": columns, "counts": rows}
