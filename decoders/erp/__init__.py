"""P300 speller decoders."""
