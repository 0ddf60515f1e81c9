"""What a source is made of: sessions, signals, events, options and units."""
