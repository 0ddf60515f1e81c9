"""A track is one discipline of the contest: its facts, its mask, its truth, its referee, its score."""
