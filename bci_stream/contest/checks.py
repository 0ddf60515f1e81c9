"""Checks of contest.toml before its values are used: misspelt keys, wrong types, values out of range.

Each error names the setting, its value, what is allowed and, for a misspelling, what was probably meant.
"""

import difflib
import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import inspect

from bci_stream.errors import ContestError

LONGEST_TITLE = 64
_HASHED = re.compile(r"((file|https?|s3)://[^#]+)#sha256=([0-9a-f]{64})(?:\?(.*))?")
_ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
JOINERS = "\u200c\u200d"
"""Control characters and those that change the direction of a whole line can't be shown; some scripts need
the two joiners."""


@dataclass(frozen=True, slots=True)
class HashedUrl:
    """A recording by its content: URL#sha256=DIGITS[?OPTIONS]; options: of its reader."""

    url: str
    scheme: str
    sha256: str
    options: str

    @property
    def name(self) -> str:
        """The last part of the URL's path, made safe to be a file's name: readers look at its ending."""
        last = unquote(urlsplit(self.url).path).rpartition("/")[2]
        return re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip(".")[-100:] or "recording"

    @property
    def is_archive(self) -> bool:
        return self.name.endswith(_ARCHIVES)

    @property
    def short(self) -> str:
        """For messages that teams may see: without the URL."""
        return f"the recording with SHA-256 {self.sha256[:12]}..."


def hashed_url(text: str) -> HashedUrl | None:
    """A recording that is named by URL and hash; None for a path or another URI. Raises ContestError."""
    if not re.match(r"(file|https?|s3)://", text):
        return None
    found = _HASHED.fullmatch(text)
    if found is None:
        raise ContestError(
            f"recording {text!r}: a URL needs the hash of the file, URL#sha256=DIGITS, with the 64 "
            "hexadecimal digits that `sha256sum` prints"
        )
    return HashedUrl(found[1], found[2], found[3], found[4] or "")


def suggest(given: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?`, or nothing if no known name is similar."""
    near = difflib.get_close_matches(given, list(known), 1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_keys(raw: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
    """Raise ContestError for a key that the type does not have, at any depth."""
    _check_keys(raw, inspect.type_info(kind), "")


def _check_keys(value: Any, kind: inspect.Type, where: str) -> None:
    kind = _plain(kind)
    if isinstance(kind, inspect.StructType) and isinstance(value, Mapping):
        known = {field.encode_name: field.type for field in kind.fields}
        for key, item in value.items():
            if key not in known:
                raise ContestError(_unknown_key(key, known, where))
            _check_keys(item, known[key], f"{where}{key}.")
    elif isinstance(kind, inspect.DictType) and isinstance(value, Mapping):
        for key, item in value.items():
            _check_keys(item, kind.value_type, f"{where}{key}.")
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for number, item in enumerate(value):
            _check_keys(item, kind.item_type, f"{where.removesuffix('.')}[{number}].")


def _plain(kind: inspect.Type) -> inspect.Type:
    """The type without its description; of a union with None, the other one."""
    if isinstance(kind, inspect.Metadata):
        return _plain(kind.type)
    if isinstance(kind, inspect.UnionType):
        others = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        return _plain(others[0]) if len(others) == 1 else kind
    return kind


def _unknown_key(key: str, known: Collection[str], where: str) -> str:
    about = f"[{where.removesuffix('.')}] has" if where else "there is"
    return f"{about} no setting {key!r}{suggest(key, known)} (it may be: {', '.join(known)})"


def check_finite(raw: Mapping[str, Any]) -> None:
    """Raise ContestError for `nan` and `inf`, which TOML allows."""
    for where, value in _leaves(raw, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ContestError(f"{where} = {value}: a finite number is expected")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{where}[{number}]")
    else:
        yield where, value


_PLACE = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<path>.*)`$", re.DOTALL)


def describe_invalid(error: msgspec.ValidationError, raw: Mapping[str, Any]) -> str:
    """The setting, its value and what is expected, from msgspec's message."""
    found = _PLACE.match(str(error))
    if found is None:
        return str(error)
    path, what = found["path"], found["what"].replace("`", "").replace("Expected", "expected")
    values = dict(_leaves(raw, ""))
    if path in values:
        return f"{path} = {values[path]!r}: {what}"
    return f"{path}: {what}" if path else what


def check_title(title: str, where: str) -> str:
    """A name for people to read: any script, with blanks; raises ContestError for what can't be shown."""
    shown = title.strip()
    odd = [c for c in title if unicodedata.category(c) in UNSHOWN and c not in JOINERS]
    if not shown or len(title) > LONGEST_TITLE or odd:
        why = f"; {odd[0]!a} can't be shown" if odd else ""
        raise ContestError(
            f"{where} = {title!r}: 1 to {LONGEST_TITLE} characters of any script are allowed{why}"
        )
    return shown
