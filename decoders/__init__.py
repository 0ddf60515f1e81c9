"""A decoder is fed packets and gives reports; a worker runs one on the wire."""
