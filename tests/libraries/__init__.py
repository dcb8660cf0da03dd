"""Libraries of heavy Python, used before a seal and after it, in the parent and in its children."""
