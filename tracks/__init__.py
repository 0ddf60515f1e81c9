"""The tracks of the contest: the facts, mask, truth, referee and score of each."""
