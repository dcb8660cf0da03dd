"""Python processes that start with their modules loaded: `pasture image` and `pasture-python`.

An image is the memory of a sealed process that is about to run its program, in a file.
`inside` loads and ends in it, `build` copies it, `src/stub` maps it into a process of the caller's
own, `start` has programs find it. docs/internals/image.md is the map.
"""
