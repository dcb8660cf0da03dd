"""What `--auto` learns: names of what workers build after the fork, for their parent to build.

`file` has the schema and its only reader, `recorder` what workers note, `trial` and `build` what a
parent does with it. Runs in servers' processes: the standard library only. docs/auto.md is the
user's guide.
"""
