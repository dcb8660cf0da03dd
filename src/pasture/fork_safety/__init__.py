"""What must not cross a fork: `close` closes connections, `survey` tells what is left."""
