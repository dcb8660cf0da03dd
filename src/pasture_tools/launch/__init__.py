"""Programs that are started, watched and ended for certain, and the ports they listen on."""
