"""Motor imagery decoders."""
