"""What the entries of a profile bought: `pasture learn --report`."""
