"""A replay puts a source (a recording, a device) onto the wire, masked, at its pace."""
