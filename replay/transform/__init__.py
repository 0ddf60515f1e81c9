"""What is done to a source before it is played: leads, rate, finite samples, mask."""
