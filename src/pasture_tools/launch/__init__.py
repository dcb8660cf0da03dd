"""Programs that are started, watched and reliably ended, and the ports that they listen on."""
