"""Synthetic recordings: people who never lived, in every track's exact format, from a seed."""
