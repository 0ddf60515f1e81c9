"""A unit of a season: its folder, the process that does it, and the engines that start it."""
