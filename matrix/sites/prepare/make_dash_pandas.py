"""Requests for the page, what draws it, and a search."""

from pathlib import Path

urls = ["/", "/_dash-layout", "/_dash-dependencies", *(f"/search/{n}" for n in range(10, 30))]
Path("urls.txt").write_text("\n".join(urls) + "\n")
