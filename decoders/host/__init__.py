"""A host runs a contestant's own submission, unmodified, in a contained process of its own."""
