"""The judge: takes the events of a run, writes its log, and says what it is worth."""
