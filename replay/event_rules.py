r"""Event rules: how a user writes down what the events of a file become.

T1=11                        each T1 becomes a trigger 11
T1=11+12@2+13@3+241@4        ... and 12, 13, 241 two, three and four seconds after it
T0=0                         T0 is left out
p300*=1                      each event whose name begins so; a name's own rule goes first
1.4\,0\,10=1                 \, \= \* \\ stand for these signs in a name
*=0                          whatever has no rule of its own
START=242,END=243            the first and the last sample of each file
"""

import re
from functools import cache

from bci_stream.errors import SourceError
from replay.events import MAX_CODE

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
    """What tells the names that are meant: `*` is any text, a sign after a backslash itself."""
    signs = _SIGN.findall(written)
    return re.compile(
        "".join(".*" if sign == "*" else re.escape(_bare(sign)) for sign in signs), re.DOTALL
    )


def plain(written: str) -> str:
    r"""The name that is meant: `a\,b` is `a,b`."""
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
