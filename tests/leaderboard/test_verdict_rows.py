"""Verdicts as the leaderboard shows them."""

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.verdict_rows import (
    LONGEST,
    Confusion,
    mark,
    reported,
    short_text,
    verdict_row,
)
from tracks.common.reasons import Reason
from tracks.common.verdicts import Answer, Verdict

CLASSES = ("left", "right", "feet")


def answer(name: str | None, right: bool | None = True, **more: object) -> Answer:
    values = {"result": name, "class_name": name, "when": 1.5, "unit": "s", "right": right}
    return Answer(**(values | more))  # type: ignore[arg-type]


def verdict(*answers: Answer, right: tuple[bool, ...] = (), **more: object) -> Verdict:
    values = {
        "subject": "S01", "block": 0, "trial": 2, "label": "left", "answers": answers,
        "scored": True, "right": right,
    }  # fmt: skip
    return Verdict(**(values | more))  # type: ignore[arg-type]


@given(st.one_of(st.text(), st.integers(), st.lists(st.text())))
def test_what_a_team_sends_is_shown_as_one_short_printable_line(value: object) -> None:
    text = short_text(value)
    assert len(text) <= LONGEST
    assert text.isprintable()


def test_terminal_escapes_are_not_passed_on() -> None:
    assert "\x1b" not in short_text("\x1b[2J\x07boo")


def test_a_trial_is_right_wrong_or_partly_so() -> None:
    assert mark(verdict(right=(True, True, True)), CLASSES) == "right"
    assert mark(verdict(right=(False, True, False)), CLASSES) == "partly"
    assert mark(verdict(right=(False,)), CLASSES) == "wrong"
    assert mark(verdict(right=(True,), scored=False), CLASSES) == "unscored"
    assert mark(verdict(share=55.0), ()) == "measured"


def test_used_data_is_what_was_charged_or_else_the_mean_of_the_answers() -> None:
    assert verdict_row(verdict(answer("left"), charged_s=9.0), CLASSES)["used_s"] == 9.0
    both = verdict(answer("left", when=2.0), answer("left", when=3.0))
    assert verdict_row(both, CLASSES)["used_s"] == 2.5
    assert verdict_row(verdict(answer(None, when=None)), CLASSES)["used_s"] is None


def test_each_reason_is_given_once() -> None:
    late = Reason("over_limit", used_s=2.04, limit_s=2.0)
    shown = verdict_row(verdict(answer("left", reason=late), answer("feet", reason=late)), CLASSES)
    assert shown["reason"] == "report at 2.04 s: limit 2.00 s"
    assert shown["reasons"] == [late.to_json()]


def test_only_the_first_reasons_are_shown() -> None:
    many = tuple(Reason("no_report_number", number=n) for n in range(9))
    shown = verdict_row(verdict(reasons=many), CLASSES)
    assert shown["reason"] == "no report 0; no report 1; no report 2; no report 3; no report 4; …"
    assert shown["reasons"][-1] == {"code": "more", "parameters": {}}


def test_many_answers_are_summed_up() -> None:
    many = [answer("left")] * 7 + [answer("feet")] * 2 + [answer(None, when=None, result=None)]
    assert reported(verdict(*many)) == "left ×7, feet ×2, – ×1"


def test_confusion_counts_answers_that_entered_the_score() -> None:
    confusion = Confusion()
    judged = [
        verdict(answer("left"), answer("feet", False), answer(None, False)),
        verdict(answer("feet"), label="feet"),
        verdict(answer("right", None)),
        verdict(answer("right"), scored=False),
    ]
    for trial, one in enumerate(judged):
        confusion.add(("S1", 1, 0, trial), one)
    assert confusion.table(CLASSES) == {
        "labels": ["left", "feet"],
        "columns": ["left", "feet", ""],
        "counts": [[1, 1, 1], [0, 1, 0]],
    }


def test_a_void_trial_is_marked_and_has_used_nothing() -> None:
    why = Reason("void_outage", cause="link down")
    void = verdict(answer("left", None), scored=False, void=True, reasons=(why,))
    shown = verdict_row(void, CLASSES)
    assert (shown["mark"], shown["used_s"], shown["reported"]) == ("void", None, "left")
    assert shown["reason"] == "void: outage (link down)"
    assert mark(verdict(scored=False, void=True), ()) == "void"


def test_a_later_verdict_on_a_trial_replaces_what_was_counted() -> None:
    confusion, place = Confusion(), ("S1", 1, 0, 0)
    confusion.add(place, verdict(answer("left")))
    confusion.add(("S1", 1, 0, 1), verdict(answer("feet"), label="feet"))
    confusion.add(place, verdict(answer("feet", False)))
    table = confusion.table(CLASSES)
    assert table is not None
    assert table["counts"] == [[0, 1, 0], [0, 1, 0]]
    confusion.add(place, verdict(answer("left"), scored=False))
    assert confusion.table(CLASSES) == {
        "labels": ["feet"],
        "columns": ["feet", ""],
        "counts": [[1, 0]],
    }


def test_without_answers_there_is_no_confusion_table() -> None:
    assert Confusion().table(CLASSES) is None
