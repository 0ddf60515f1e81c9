"""What the rules of several tracks share: trials, seconds, angles, masks, truth, verdicts."""
