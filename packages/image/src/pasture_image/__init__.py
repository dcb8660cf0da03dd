"""Python processes that start with their modules loaded: `pasture image` and `pasture-python`.

An image is the memory of a sealed process that stands right before its program, in a file.
`inside` loads and ends in it, `build` copies it, `src/stub` maps it into a process of the caller's
own, `start` has programs find it. docs/internals/image.md is the map.
"""
