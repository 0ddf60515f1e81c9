"""The raw format's trigger word: 4 bytes that are a float in some software and an integer in other.

No code from 1 to 65535 looks the same both ways: as an integer it is below 2**16, as a float its
bits are far above. So the first word that is not 0 tells which one it is, and a word that is
neither can only come from a stream that is cut at the wrong place.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError

WordKind = Literal["float", "uint"]
LARGEST_CODE = 0xFFFF


class MisalignedError(SourceError):
    """Bytes that can't be rows of the configured width: wrong channel count or byte order.

    right: how many rows before the wrong one could be read.
    """

    def __init__(self, message: str, right: int = 0) -> None:
        super().__init__(message)
        self.right = right


class TriggerWords:
    """Reads the words of one stream; `kind` is None until a word has told it (or it was forced)."""

    def __init__(self, kind: WordKind | None = None) -> None:
        self.kind = kind

    def read(self, words: NDArray[np.uint32], first_row: int) -> NDArray[np.int64]:
        """The codes, 0 for none. first_row is where the words stand, for the message."""
        codes = np.zeros(len(words), dtype=np.int64)
        set_rows = np.flatnonzero(words & 0x7FFFFFFF)  # -0.0 is no trigger either
        if not len(set_rows):
            return codes
        kind = self.kind or _kind(words[set_rows[0]])
        values = words[set_rows] if kind == "uint" else words[set_rows].view(np.float32)
        wrong = ~is_code(values)
        if kind is None or wrong.any():
            row = int(set_rows[np.argmax(wrong)])
            known = self.kind if row == set_rows[0] else kind
            raise MisalignedError(_message(words[row], first_row + row, known), row)
        self.kind = kind
        codes[set_rows] = values.astype(np.int64)
        return codes


def _kind(word: np.uint32) -> WordKind | None:
    if word <= LARGEST_CODE:
        return "uint"
    return "float" if is_code(np.array([word]).view(np.float32))[0] else None


def is_code(
    values: NDArray[np.uint32] | NDArray[np.float32] | NDArray[np.float64],
) -> NDArray[np.bool_]:
    """A trigger is a whole number from 1 to 65535."""
    inside: NDArray[np.bool_] = (values >= 1) & (values <= LARGEST_CODE)
    inside[inside] = values[inside] == np.floor(values[inside])
    return inside


def _message(word: np.uint32, row: int, kind: WordKind | None) -> str:
    as_float = float(np.array([word]).view(np.float32)[0])
    wanted = f"a {kind} code from 1 to 65535" if kind else "a code from 1 to 65535, float or uint"
    return (
        f"the amplifier's bytes are misaligned: the trigger word of sample {row} must be 0 or "
        f"{wanted}, got 0x{int(word):08X} ({as_float:g} as a float); check channels= (the number "
        "of leads that the recorder forwards, without the trigger), protocol= and trigger="
    )
