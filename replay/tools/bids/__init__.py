"""A recording as a run of a BIDS dataset."""
