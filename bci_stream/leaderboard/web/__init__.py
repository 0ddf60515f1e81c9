"""The leaderboard's web page: server, read-only API, server-sent events, static files."""
