"""The leaderboard: rows, ranks and updates of a contest, its web page, terminal view, store and report."""
