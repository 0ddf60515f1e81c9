"""A season: teams upload submissions, a queue runs them in phases, and a page shows how they do."""
