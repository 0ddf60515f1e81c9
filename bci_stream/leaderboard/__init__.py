"""The leaderboard: how each team stands, in the terminal, on a page, in a store, in a report."""
