"""Farms and what they grow: the market's catalogue."""
