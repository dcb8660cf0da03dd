"""Fills the database with a market that has been running for a few years.

All content follows from one seed and fixed dates: with one version of Django the
same code makes the same rows, whatever the day and the interpreter. Each module
makes the rows of one topic, in bulk, and takes the source of chance from its
caller.
"""
