"""What builds an image: its order, the process that is copied, what it was made of, the file."""
