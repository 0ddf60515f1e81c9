"""`bci-replay look`: a page with the live signal of any source."""
