"""Requests for rows, groups of them, and a look at every string."""

from pathlib import Path

urls = [f"/rows/{n}" for n in range(0, 300_000, 9973)] + [f"/towns/{n}" for n in range(10)]
Path("urls.txt").write_text("\n".join([*urls, "/longest", "/openapi.json"]) + "\n")
