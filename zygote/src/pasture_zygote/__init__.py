"""Processes that start with their modules loaded: `pasture zygote` and `pasture-python`.

A zygote is an image of a sealed process that stands right before its program. `builder` makes the
process, `image` copies it, `server` hands the copy out, `src/stub` maps it into a process of the
caller's own, `begin` makes a new interpreter of it. docs/internals/zygote.md is the map.
"""
