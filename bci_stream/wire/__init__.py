"""The wire: streams, the messages on them, and the two transports (LSL, in memory) that carry both."""
