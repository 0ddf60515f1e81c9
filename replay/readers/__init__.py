"""A reader turns one file of some format into `Content`: lazily where the format allows it."""
