"""Causal signal processing that several decoders share."""
