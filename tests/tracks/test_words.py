"""Reason codes and their words: every code that is used stands in both tables, with its parameters."""

import ast
import json
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracks.common.reasons import Reason
from tracks.common.words import CHINESE, ENGLISH, LANGUAGES, describe

ROOT = Path(__file__).parents[2]
PACKAGES = ("tracks", "bci_stream", "replay", "decoders")
REASONS = Path("tracks/common/reasons.py")


def reasons_in(path: Path) -> Iterator[ast.Call]:
    text = path.read_text(encoding="utf-8")
    if "Reason(" not in text:  # parsing every module takes a second
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Reason":
            yield node


def codes_used() -> dict[str, set[frozenset[str]]]:
    """Each code that the packages use, with the sets of parameters that it is given."""
    used: dict[str, set[frozenset[str]]] = {}
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    for path in files:
        if path.relative_to(ROOT) == REASONS:
            continue
        for call in reasons_in(path):
            place = f"{path}:{call.lineno}"
            assert isinstance(call.args[0], ast.Constant), f"{place}: the code must be a literal"
            names = [keyword.arg for keyword in call.keywords]
            assert None not in names, f"{place}: the parameters must be named"
            code = str(call.args[0].value)
            used.setdefault(code, set()).add(frozenset(name for name in names if name))
    return used


def fields(template: str) -> dict[str, str]:
    """The parameters of a template and their format specifications."""
    parsed = string.Formatter().parse(template)
    return {name: spec or "" for _, name, spec, _ in parsed if name is not None}


def test_every_code_that_is_used_has_words_in_both_languages() -> None:
    used = codes_used()
    for language, table in (("English", ENGLISH), ("Chinese", CHINESE)):
        assert set(table) == set(used), language
        for code, template in table.items():
            assert {frozenset(fields(template))} == used[code], f"{language}: {code}"


def test_a_template_is_formatted_alike_in_both_languages() -> None:
    for code in ENGLISH:
        assert fields(ENGLISH[code]) == fields(CHINESE[code]), code
        for spec in fields(ENGLISH[code]).values():
            assert spec in ("", "g", ".0f", ".1f", ".2f", ".3f"), code


def test_chinese_is_written_in_chinese() -> None:
    untranslated = {
        code for code, text in CHINESE.items() if not any("\u4e00" <= c <= "\u9fff" for c in text)
    }
    assert untranslated == {"angles", "more"}


def test_a_reason_can_hold_its_cause() -> None:
    cause = Reason("over_window", used_s=2.04, limit_s=2.0)
    reason = Reason("report_number", number=1, why=cause)
    assert describe(reason) == "report 1: at 2.04 s, limit 2.00 s"
    assert describe(reason, "zh") == "第 1 次报告：用了 2.04 秒，限 2.00 秒"
    assert reason.cause == cause
    assert cause.cause == cause


def test_several_reasons_and_lists_are_joined() -> None:
    reasons = (
        Reason("seconds_right", right=1, total=3),
        Reason("in_seconds", seconds=(1, 2), why=Reason("no_report")),
    )
    assert describe(reasons) == "1 of 3 seconds right; seconds 1, 2: no report"
    assert describe(reasons, "zh") == "3 秒中 1 秒正确；第 1、2 秒：没有报告"
    assert describe(None) == describe(()) == ""


def test_a_reason_is_json() -> None:
    reason = Reason("in_seconds", seconds=(1, 2), why=Reason("no_report"))
    assert json.loads(json.dumps(reason.to_json())) == {
        "code": "in_seconds",
        "parameters": {"seconds": [1, 2], "why": {"code": "no_report", "parameters": {}}},
    }


def test_reasons_of_one_kind_are_equal_without_the_value_that_was_reported() -> None:
    first, second = (
        Reason("report_number", number=1, why=Reason("names_no_class", result=text))
        for text in ("[1]", "None")
    )
    assert first != second
    assert first.without("result") == second.without("result")
    assert len({first.without("result"), second.without("result")}) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_value_with_braces_is_only_text(language: str) -> None:
    assert "{limit}" in describe(Reason("names_no_class", result="'{limit}'"), language)
