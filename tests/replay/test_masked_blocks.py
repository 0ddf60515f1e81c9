"""What a decoder is shown of a block does not hang on the block before it."""

import numpy as np
import pytest

from bci_stream.packet import Lead
from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.transform.masking import masked_packets
from tracks.registry import TRACKS

RATE, FIRST_SEGMENT = 250, 11


def test_imagery_that_a_blocks_end_cuts_off_opens_nothing_of_the_next_one() -> None:
    """A recording need not mark where its blocks begin and end."""
    ones = np.ones((6 * RATE, 1), np.float32)
    blocks = [
        ArrayBlock(ones, ((5 * RATE, FIRST_SEGMENT),)),
        ArrayBlock(ones, ((RATE, FIRST_SEGMENT),)),
    ]
    recording = Recording("S1", float(RATE), (Lead("C3"),), blocks)
    program = PlaybackPlan(TRACKS["mi"], (recording,), ({},), live=False)
    packets = [shown.packet for shown in masked_packets(program)]
    shown = {
        block: np.concatenate([p.samples[:, 0] for p in packets if p.block == block])
        for block in (0, 1)
    }
    assert shown[0].nonzero()[0] == pytest.approx(np.arange(5 * RATE, 6 * RATE))
    assert shown[1].nonzero()[0] == pytest.approx(np.arange(RATE, 5 * RATE))
