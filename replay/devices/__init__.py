"""Live devices: amplifiers over TCP, BrainFlow boards and LSL streams, and an emulated amplifier."""
