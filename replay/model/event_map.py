"""The event map: from the names of events in a file to a track's trigger codes.

A name that is a number, or a usual name of a trigger and a number (`Stimulus/S  2`, `Trigger-In:51`), is that
code without a rule. Any other name needs a rule.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from bci_stream.errors import SourceError, shorten_list
from bci_stream.packet import Triggers
from replay.model.events import Mark, code_with_text
from tracks.common.codes import MAX_CODE

_PARTS = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_RULE = re.compile(
    r"(?P<name>(?:\\.|[^\\])*(?:\\.|[^\\\s]))\s*=\s*(?P<codes>[^=]+)",
    re.DOTALL,
)
_CODE = re.compile(r"(?P<code>\d{1,5})(?:@(?P<after_s>\d+(?:\.\d+)?)s?)?", re.ASCII)
_SIGN = re.compile(r"\\[,=*\\]|.", re.DOTALL)
_RESERVED = re.compile(r"[,=*\\]")

Codes = tuple[tuple[int, float], ...]
"""(code, seconds after the event), one or more."""


def read_rules(text: str) -> dict[str, Codes]:
    """Read `T1=11,T2=21+22@2`: the names as they are written, with their codes."""
    parts = [part.strip() for part in _PARTS.findall(text)]
    return dict(_read_rule(part, text) for part in parts if part)


@cache
def matcher(written: str) -> re.Pattern[str]:
    """The pattern of a written name: `*` is any text, a character after a backslash is that character."""
    signs = _SIGN.findall(written)
    return re.compile(
        "".join(".*" if sign == "*" else re.escape(_bare(sign)) for sign in signs), re.DOTALL
    )


def plain(written: str) -> str:
    r"""A written name without its backslashes: `a\,b` is `a,b`."""
    return "".join(map(_bare, _SIGN.findall(written)))


def written(name: str) -> str:
    r"""How a name is written in a rule: `a,b` as `a\,b`."""
    return _RESERVED.sub(r"\\\g<0>", name)


def _bare(sign: str) -> str:
    return sign[-1]


def _read_rule(part: str, text: str) -> tuple[str, Codes]:
    found = _RULE.fullmatch(part)
    if not found:
        raise _bad(part, text)
    pieces = [_read_code(code.strip(), part, text) for code in found["codes"].split("+")]
    return found["name"], tuple(piece for piece in pieces if piece[0])


def _read_code(code: str, part: str, text: str) -> tuple[int, float]:
    found = _CODE.fullmatch(code)
    if not found or int(found["code"]) > MAX_CODE:
        raise _bad(part, text)
    return int(found["code"]), float(found["after_s"] or 0.0)


def _bad(part: str, text: str) -> SourceError:
    return SourceError(
        f"events {text!r}: {part!r} is not NAME=CODE with a code from 0 to {MAX_CODE} "
        "(write T1=11,T2=21, or T1=11+12@2 for a second code 2 s later; in a name \\, is a comma, "
        "\\= an equals sign, and p300*=1 takes all names that begin so)"
    )


START, END, OTHERS = "START", "END", "*"
# Names of triggers that recorders write. Other names with a number (a pressed button, `Response/R  1`; a
# comment, `Comment/see 8`; `Block 3`) are not stimuli.
_CODE_IN_NAME = re.compile(
    r"(?:(?i:stimulus|stim|trigger(?:-in)?|trig|marker|event|code|condition)\s*[:/#_=]?\s*)?"
    r"(?:S\s*)?0*(\d{1,5})(?:\.0+)?",
    re.ASCII,
)
_SHOWN_LETTERS = 40


def code_in(name: str) -> int | None:
    """The code in a name that needs no rule; None for other names."""
    found = _CODE_IN_NAME.fullmatch(name.strip())
    code = int(found.group(1)) if found else 0
    return code if 0 < code <= MAX_CODE else None


@dataclass(frozen=True)
class EventMap:
    """Rules from names to codes.

    rules: by name. patterns: by written pattern, for names without a rule of their own.
    """

    rules: Mapping[str, Codes] = field(default_factory=dict)
    patterns: Mapping[str, Codes] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "EventMap":
        """Read `T1=11,T2=21+22@2,p300*=1`."""
        read = read_rules(text)
        wild = {name for name in read if "*" in name and name != OTHERS}
        return cls(
            {plain(name): codes for name, codes in read.items() if name not in wild},
            {name: codes for name, codes in read.items() if name in wild},
        )

    @property
    def instant(self) -> bool:
        """Whether triggers can be found while a file is read: no rule has a delay, START or END."""
        every = (*self.rules.values(), *self.patterns.values())
        delayed = any(after_s for codes in every for _, after_s in codes)
        return not delayed and START not in self.rules and END not in self.rules

    def names(self, name: str) -> bool:
        """Whether a rule other than `*` applies to this name."""
        return self._rule(name) is not None

    def _rule(self, name: str) -> Codes | None:
        if name in self.rules:
            return self.rules[name]
        fitting = (codes for each, codes in self.patterns.items() if matcher(each).fullmatch(name))
        return next(fitting, None)

    def codes(self, name: str) -> Codes:
        """The codes of one event: none, one or several."""
        rule = self._rule(name)
        if rule is not None:
            return rule
        if OTHERS in self.rules:
            return self.rules[OTHERS]
        code = code_in(name)
        return ((code, 0.0),) if code else ()

    def triggers(self, marks: Iterable[Mark], rate: float, n_samples: int) -> Triggers:
        """The marks of a file as triggers, in order; those outside the file are left out."""
        marks = [Mark(0, START), *marks, Mark(n_samples - 1, END)] if n_samples else []
        # A long recording has thousands of marks, but few names.
        codes = {name: self._codes_of(name) for name in {mark.name for mark in marks}}
        found = [
            (mark.sample + round(after_s * rate), code_with_text(code, _text(mark)))
            for mark in marks
            for code, after_s in codes[mark.name]
        ]
        return tuple(sorted((t for t in found if 0 <= t[0] < n_samples), key=lambda t: t[0]))

    def _codes_of(self, name: str) -> Codes:
        # START and END need a rule of their own; `*` applies to events of the file.
        return self.rules.get(name, ()) if name in (START, END) else self.codes(name)

    def unmapped(self, marks: Iterable[Mark]) -> dict[str, int]:
        """Names without a rule that give no trigger, with their counts."""
        if OTHERS in self.rules:
            return {}
        counts = Counter(mark.name for mark in marks)
        return {n: k for n, k in counts.items() if not self.names(n) and not self.codes(n)}

    def unused(self, marks: Iterable[Mark]) -> list[str]:
        """Rules whose event never occurs; most often the name is misspelt."""
        names = {mark.name for mark in marks}
        idle = [name for name in self.rules if name not in names | {START, END, OTHERS}]
        return idle + [p for p in self.patterns if not any(map(matcher(p).fullmatch, names))]


def _text(mark: Mark) -> str:
    """What is sent as the marker of an event; START and END are none of the file's."""
    return "" if mark.name in (START, END) else mark.text or mark.name


def describe_map(events: EventMap, marks: Sequence[Mark]) -> tuple[str, ...]:
    """Notes about events without a code and rules without an event."""
    notes = []
    lost = events.unmapped(marks)
    if lost:
        notes.append(
            f"events without a code are left out: {_listed(lost)}; map them, e.g. {_rule_for(lost)}"
        )
    unused = events.unused(marks)
    if unused:
        notes.append(f"no event is called {', '.join(map(repr, unused))}: that rule is not used")
    return tuple(notes)


def _listed(counts: Mapping[str, int]) -> str:
    return shorten_list([f"{_short(name)!r} ({count})" for name, count in sorted(counts.items())])


def _rule_for(names: Iterable[str]) -> str:
    name = next((name for name in sorted(names) if name.strip()), "NAME")
    rest = "" if len(name) <= _SHOWN_LETTERS else "*"
    return f"{written(name[:_SHOWN_LETTERS])}{rest}=11"


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN_LETTERS else f"{name[:_SHOWN_LETTERS]}..."
