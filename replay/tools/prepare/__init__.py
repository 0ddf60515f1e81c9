"""`bci-replay prepare`: contest sets from labelled recordings."""
