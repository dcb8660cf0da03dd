"""Python processes that start with their modules loaded: `pasture image` and `pasture-python`.

An image is the memory of a sealed process that stands right before its program, in a file.
`builder` makes the process, `image` copies it, `src/stub` maps it into a process of the caller's
own, `begin` makes a new interpreter of it. docs/internals/image.md is the map.
"""
