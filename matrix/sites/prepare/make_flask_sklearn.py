"""Requests for the forest and the words."""

from pathlib import Path

values = [",".join(f"{(n * k) % 10 / 10}" for k in range(12)) for n in range(20)]
urls = [f"/predict?values={value}" for value in values] + [
    f"/words/{n}" for n in range(0, 2000, 97)
]
Path("urls.txt").write_text("\n".join(urls) + "\n")
