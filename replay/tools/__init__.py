"""The tools of `bci-replay` beside playing: inspect, prepare, record."""
