"""Figures of running servers for Prometheus.

`exporter` has the figures, `middleware` and `listener` the two ways to them. All need the
extra `metrics`; what runs in every worker is `pasture.scoreboard`. docs/operate.md is the
user's guide.
"""
