"""A track is one discipline of the contest: its facts, mask, truth, referee and score."""
