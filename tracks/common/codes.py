"""Trigger codes that all tracks share, and the count of blocks.

From table 1 of the motor imagery and Turing documents (seeds 000 and 001); emotion's (002) has them
too. Decided: they hold in all tracks (`block_codes` of ecog and erp, whose documents are silent). Any
other code is reserved: passed through, without effect.
"""

SESSION_START = 250
SESSION_END = 251
BLOCK_START = 242
BLOCK_END = 243
TRIAL_START = 240
TRIAL_END = 241

MAX_CODE = 0xFFFF
"""The largest trigger code: what 16 trigger lines can carry."""


class BlockCounter:
    """Which block a trigger belongs to: block k begins at the k-th 242, counted from 0.

    Triggers before any 242 are block 0's; so are all where a contest gives 242 and 243 no meaning.
    """

    def __init__(self, block_codes: bool = True) -> None:
        self._block_codes = block_codes
        self._begun = 0

    def see(self, code: int) -> None:
        self._begun += self._block_codes and code == BLOCK_START

    def bounds(self, code: int) -> bool:
        """Whether a block begins or ends with a code."""
        return self._block_codes and code in (BLOCK_START, BLOCK_END)

    @property
    def current(self) -> int:
        return max(self._begun - 1, 0)
