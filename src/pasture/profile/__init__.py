"""What workers build for themselves after the fork: recorded once, built before it from then on.

`file` has the schema and its only reader. Runs inside of servers' processes: the standard library
only. docs/learn.md is the user's guide.
"""
