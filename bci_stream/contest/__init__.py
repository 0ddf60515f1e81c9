"""A contest: who takes part, on which tracks, under which rules and limits, with which keys."""
