"""The data of `--auto`: names of objects that workers build, for their parent to build.

`file` has the schema and its only reader, `recorder` the notes of workers, `trial` and `build` the
parent's part. Runs in servers' processes: the standard library only. docs/auto.md is the user's
guide.
"""
