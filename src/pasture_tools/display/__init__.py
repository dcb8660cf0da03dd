"""Shared by commands that show something: units, pages, bars, files."""
