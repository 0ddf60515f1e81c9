"""A code reader takes trigger codes from numbers and texts; what is no code is told once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray
from replay.devices.neuracle_heeg import code_of
from replay.devices.notes import Notes
from replay.devices.trigger_word import LARGEST_CODE, is_code

RULE = f"a whole number from 1 to {LARGEST_CODE}"


class CodeReader:
    """note: takes what the user should know."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._doubted = False
        self._texts = Notes()

    def read(self, values: FloatArray | NDArray[np.float64]) -> NDArray[np.int64]:
        """A trigger line, one value a sample: its codes, 0 where there is none."""
        codes = is_code(values)
        wrong = ~codes & (values != 0)
        if wrong.any() and not self._doubted:
            self._doubted = True
            self._note(
                f"the trigger value {values[wrong.argmax()]:g} is not {RULE}: it and others like "
                "it are passed over"
            )
        return np.where(codes, values, 0).astype(np.int64)

    def read_text(self, text: str) -> int:
        """A marker's code, 0 where it has none."""
        code = code_of(text.encode())
        if code is None:
            self._texts.add(f"the marker {text!r} is not {RULE} and was passed over")
            for note in self._texts.take():
                self._note(note)
        return code or 0
