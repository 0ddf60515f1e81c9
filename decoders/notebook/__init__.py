"""The Python API for notebooks: `bci_stream.open`, `evaluate`, `score` and `replay`."""
