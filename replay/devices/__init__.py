"""A device is a live source: an amplifier, a board, another stream; found, watched, found again."""
