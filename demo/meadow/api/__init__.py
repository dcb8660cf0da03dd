"""The read-mostly JSON API over the other apps."""
