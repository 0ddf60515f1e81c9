"""`bci-replay inspect`: what a recording is and which track it fits."""
