"""The state of a season: submissions, units, attempts and what the organiser did, in a database."""
