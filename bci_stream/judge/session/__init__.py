"""The judge's view of one replay: its truth, its events, and the runs of its teams."""
