"""Figures of running servers for Prometheus.

`exporter` has the figures, `middleware` and `listener` the two ways to them. All need the extra
`metrics`; `pasture.scoreboard` runs in every worker. docs/operate.md is the user's guide.
"""
