"""Joint angle decoder."""
