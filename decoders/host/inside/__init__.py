"""Files that are copied into the sandbox of a submission; Python 3.8 to 3.13, standard library only."""
