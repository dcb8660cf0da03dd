"""Console scripts of others, by `python` and out of images."""
