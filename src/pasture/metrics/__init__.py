"""Figures of running servers for Prometheus.

`board` and `recorder` run inside of workers and import the standard library alone;
`exporter` and `middleware` need the extra `metrics`. docs/metrics.md is the user's guide.
"""
