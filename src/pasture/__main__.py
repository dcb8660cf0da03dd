"""`python -m pasture`, and the command `pasture`: an interrupt while it is still being imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process."""
    try:
        from pasture.cli.main import run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = 130  # pasture.cli.main.INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
