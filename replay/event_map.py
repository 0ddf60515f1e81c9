"""The event map turns what a file calls its events into a track's trigger codes.

A name that is a number, or a word and a number (`Stimulus/S  2`, `Trigger-In:51`), is that code by
itself. Any other name needs a rule; rules are written with commas between them:

    T1=11                        each T1 becomes a trigger 11
    T1=11+12@2+13@3+241@4        ... and 12, 13, 241 two, three and four seconds after it
    T0=0                         T0 is left out;  *=0 leaves out whatever has no rule of its own
    START=242,END=243            the first and the last sample of each file
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bci_stream.errors import SourceError
from bci_stream.packet import Triggers
from replay.events import MAX_CODE, Mark

START, END, OTHERS = "START", "END", "*"
_CODE_IN_NAME = re.compile(
    # A button that was pressed (`Response/R  1`) is no stimulus, and must not look like one.
    r"(?!Response)(?:[A-Za-z _-]+[:/#])?\s*(?:[A-Za-z]*\s+|S)?0*(\d{1,5})(?:\.0+)?",
    re.ASCII,
)
_RULE = re.compile(r"^(?P<name>.*\S)\s*=\s*(?P<codes>[^=]+)$", re.DOTALL)
_CODE = re.compile(r"^(?P<code>\d{1,5})(?:@(?P<after_s>\d+(?:\.\d+)?)s?)?$", re.ASCII)

Codes = tuple[tuple[int, float], ...]
"""(code, seconds after the event), one or more."""


def code_in(name: str) -> int | None:
    """The code that a name spells out by itself; None where it spells none."""
    found = _CODE_IN_NAME.fullmatch(name.strip())
    code = int(found.group(1)) if found else 0
    return code if 0 < code <= MAX_CODE else None


@dataclass(frozen=True)
class EventMap:
    """Rules from names to codes; without any, names speak for themselves."""

    rules: Mapping[str, Codes] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "EventMap":
        """Read `T1=11,T2=21+22@2`."""
        return cls(dict(_read_rule(part.strip(), text) for part in text.split(",") if part.strip()))

    @property
    def instant(self) -> bool:
        """No rule needs more than the event itself: triggers can be told while a file is read."""
        delayed = any(after_s for codes in self.rules.values() for _, after_s in codes)
        return not delayed and START not in self.rules and END not in self.rules

    def codes(self, name: str) -> Codes:
        """What one event becomes: no code, one, or several."""
        if name in self.rules:
            return self.rules[name]
        if OTHERS in self.rules:
            return self.rules[OTHERS]
        code = code_in(name)
        return ((code, 0.0),) if code else ()

    def triggers(self, marks: Iterable[Mark], rate: float, n_samples: int) -> Triggers:
        """The marks of a file as triggers, in order; what falls outside is left out."""
        marks = [Mark(0, START), *marks, Mark(n_samples - 1, END)] if n_samples else []
        # A long recording has thousands of marks, but few names.
        codes = {name: self._codes_of(name) for name in {mark.name for mark in marks}}
        found = [
            (mark.sample + round(after_s * rate), code)
            for mark in marks
            for code, after_s in codes[mark.name]
        ]
        return tuple(sorted((t for t in found if 0 <= t[0] < n_samples), key=lambda t: t[0]))

    def _codes_of(self, name: str) -> Codes:
        # START and END speak only when a rule names them; `*` is about a file's own events.
        return self.rules.get(name, ()) if name in (START, END) else self.codes(name)

    def unmapped(self, marks: Iterable[Mark]) -> dict[str, int]:
        """Names that became no trigger though no rule says so, with their counts."""
        known = self.rules.keys()
        names = Counter(m.name for m in marks if m.name not in known and not self.codes(m.name))
        return {} if OTHERS in known else dict(names)

    def unused(self, marks: Iterable[Mark]) -> list[str]:
        """Rules whose event never occurs: most often a misspelt name."""
        names = {mark.name for mark in marks} | {START, END, OTHERS}
        return [name for name in self.rules if name not in names]


def _read_rule(part: str, text: str) -> tuple[str, Codes]:
    found = _RULE.match(part)
    if not found:
        raise _bad(part, text)
    pieces = [_read_code(code.strip(), part, text) for code in found["codes"].split("+")]
    return found["name"].strip(), tuple(piece for piece in pieces if piece[0])


def _read_code(code: str, part: str, text: str) -> tuple[int, float]:
    found = _CODE.match(code)
    if not found or int(found["code"]) > MAX_CODE:
        raise _bad(part, text)
    return int(found["code"]), float(found["after_s"] or 0.0)


def _bad(part: str, text: str) -> SourceError:
    return SourceError(
        f"events {text!r}: {part!r} is not NAME=CODE with a code from 0 to {MAX_CODE} "
        "(write T1=11,T2=21, or T1=11+12@2 for a second code 2 s later)"
    )


def said_aloud(events: EventMap, marks: Sequence[Mark]) -> tuple[str, ...]:
    """What a user should hear about the events that the map could not place."""
    notes = []
    lost = events.unmapped(marks)
    if lost:
        names = ", ".join(f"{name[:40]!r} ({count})" for name, count in sorted(lost.items())[:8])
        notes.append(f"events without a code are left out: {names}; map them, e.g. NAME=11")
    unused = events.unused(marks)
    if unused:
        notes.append(f"no event is called {', '.join(map(repr, unused))}: that mapping is unused")
    return tuple(notes)
