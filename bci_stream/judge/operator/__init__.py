"""The operator of a live contest: decisions, who is here, the journal, and the commands."""
