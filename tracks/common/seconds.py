"""The grid of seconds of a block: after its 242, every five packets complete one to decide on.

The second j of a block lies at o + j s to o + (j+1) s, and the j-th five packets after the one that
carries 242 complete it (seed 002, 3.1.3). Decided, each by its name in the contest file:

    grid_after_packet   o is the end of the packet that carries 242; else the sample of the 242
    end_packet_counts   the packet with 243 still belongs to the block
    restart_ends_block  without a 243 the block ends where `start` goes back; always at the next 242
"""

from fractions import Fraction
from math import ceil, floor
from typing import TypeAlias

from tracks.common.codes import BLOCK_END, BLOCK_START, BlockCounter
from tracks.common.events import TriggerList
from tracks.common.outages import PacketSpan
from tracks.rules import Rules

PACKETS_A_SECOND = 5

Second: TypeAlias = tuple[int, int]
"""Block, and number of the second in it."""


class SecondGrid:
    """Which second is the last one completed, and where the seconds of each block lie."""

    def __init__(self, rate: Fraction, rules: Rules) -> None:
        self.rate = rate
        self._after_packet = bool(rules["grid_after_packet"])
        self._end_packet_counts = bool(rules["end_packet_counts"])
        self._restart_ends = bool(rules["restart_ends_block"])
        self.last: Second | None = None
        self.in_block = False
        self._blocks = BlockCounter()
        self._origins: dict[int, int] = {}
        self._spans: dict[int, PacketSpan] = {}
        self._received = 0
        self._packets = 0
        self._position = 0

    @property
    def block(self) -> int:
        return self._blocks.current

    def packet(self, start: int, n: int, triggers: TriggerList) -> bool:
        """Takes a packet; whether it completed a second that can be decided on now."""
        self._received += 1
        if start < self._position and self._restart_ends:
            self.in_block = False
        self._position = start + n
        belongs = self._end_packet_counts or all(code != BLOCK_END for _, code in triggers)
        completed = self.in_block and belongs and self._grow()
        for offset, code in triggers:
            self._blocks.see(code)
            if code == BLOCK_START:
                self._begin(self._position if self._after_packet else start + offset)
                completed = False
            elif code == BLOCK_END:
                self.in_block = False
        return completed

    def began(self, block: int) -> bool:
        return block in self._origins

    def inside(self, block: int, start: int, end: int, margin_s: int) -> range:
        """The seconds of a block that lie wholly in start to end, less a margin at both ends."""
        origin = self._origins[block]
        first = ceil((start - origin) / self.rate + margin_s)
        stop = floor((end - origin) / self.rate - margin_s)
        return range(max(0, first), max(0, stop))

    def occupied(self, block: int, second: int) -> PacketSpan | None:
        """The packets of a second and of the next one, as far as they are the block's.

        None for a second of which no packet was received.
        """
        begin, end = self._spans[block]
        first = begin + PACKETS_A_SECOND * second
        return (first, min(end, first + 2 * PACKETS_A_SECOND - 1)) if first <= end else None

    def _begin(self, origin: int) -> None:
        self._origins[self.block] = origin
        self._spans[self.block] = self._received, self._received - 1
        self.in_block = True
        self.last = None
        self._packets = 0

    def _grow(self) -> bool:
        self._packets += 1
        self._spans[self.block] = self._spans[self.block][0], self._received - 1
        if self._packets % PACKETS_A_SECOND:
            return False
        self.last = self.block, self._packets // PACKETS_A_SECOND - 1
        return True
