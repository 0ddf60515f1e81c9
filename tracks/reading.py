"""A result may be spelled in many ways; here it becomes the whole number it stands for, or None.

mi, turing, erp: an int, an integral float, a numpy number, or a string of one. Labels are read in
the same way. None means that it can't be read; no class is None, so it is a wrong answer.
"""

import re

import numpy as np

BLANKS = " \t\n\r\v\f"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def read_number(result: object) -> int | None:
    """The whole number that a result stands for; None where it can't be read."""
    if isinstance(result, str):
        text = strip(result)
        return _whole(float(text)) if _NUMBER.fullmatch(text) else None
    if isinstance(result, float | np.floating):
        return _whole(float(result))
    return read_int(result)


def read_int(result: object) -> int | None:
    """An integer, Python's or numpy's, and nothing else (a bool is none)."""
    if isinstance(result, bool) or not isinstance(result, int | np.integer):
        return None
    return int(result)


def strip(text: str) -> str:
    """Without the blanks around it; ASCII's only, as the rest of the grammar is."""
    return text.strip(BLANKS)


def _whole(number: float) -> int | None:
    return int(number) if number.is_integer() else None
