"""Exact numbers: a decimal as it is written, not its nearest double, so limits hold to the sample."""

import re
from fractions import Fraction

import numpy as np

from tracks.errors import RuleError


def exact(value: object, name: str) -> Fraction:
    """The decimal as it was written (0.29 is 29/100). Raises RuleError unless it is a finite number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(f"{name} must be a number, got {value!r}")
    try:
        return Fraction(str(float(value)) if isinstance(value, float) else value)
    except (ValueError, OverflowError):
        raise RuleError(f"{name} must be a finite number, got {value!r}") from None


def exact_rate(rate: object) -> Fraction:
    """A sampling rate in Hz."""
    value = exact(rate, "rate")
    if value <= 0:
        raise RuleError(f"rate must be above 0 Hz, got {rate!r}")
    return value


BLANKS = " \t\n\r\v\f"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def read_number(result: object) -> int | None:
    """The whole number that a result represents; None if it represents none."""
    if isinstance(result, str):
        text = strip(result)
        return _whole(float(text)) if _NUMBER.fullmatch(text) else None
    if isinstance(result, float | np.floating):
        return _whole(float(result))
    return read_int(result)


def read_int(result: object) -> int | None:
    """A Python or numpy integer; None for anything else, bools too."""
    if isinstance(result, bool) or not isinstance(result, int | np.integer):
        return None
    return int(result)


def strip(text: str) -> str:
    """Remove the ASCII blanks around a text."""
    return text.strip(BLANKS)


def _whole(number: float) -> int | None:
    return int(number) if number.is_integer() else None
