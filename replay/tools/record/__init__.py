"""`bci-replay record`: LSL streams to an XDF file."""
