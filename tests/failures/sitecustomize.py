"""Of a server that `PASTURE` seals: calls fail from the import on that switches pasture on."""

import os
import sys


class AtEngine:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "gunicorn.app.base" and AtEngine in sys.meta_path:
            sys.meta_path.remove(AtEngine)
            import failing

            failing.calls(*map(int, os.environ["FAILURE_OF"].split()))


if "PASTURE" in os.environ and "FAILURE_OF" in os.environ:
    sys.meta_path.insert(0, AtEngine)
