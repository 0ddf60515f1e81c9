"""A trigger code marks a moment of the recording; these are common to all tracks.

From table 1 of the motor imagery and Turing documents (seeds 000 and 001). Decided: they hold in
all tracks. Any other code is reserved: passed through, without effect.
"""

SESSION_START = 250
SESSION_END = 251
BLOCK_START = 242
BLOCK_END = 243
TRIAL_START = 240
TRIAL_END = 241


class BlockCounter:
    """Which block a trigger belongs to: block k begins at the k-th 242, counted from 0.

    Triggers before any 242 are block 0's.
    """

    def __init__(self) -> None:
        self._begun = 0

    def see(self, code: int) -> None:
        if code == BLOCK_START:
            self._begun += 1

    @property
    def current(self) -> int:
        return max(self._begun - 1, 0)
