"""Files that MNE-Python opens, read lazily."""
