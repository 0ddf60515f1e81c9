"""Decoders of the turing track: imagery, SSVEP and idle."""
