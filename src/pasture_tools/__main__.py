"""`python -m pasture`, and the command `pasture`: an interrupt while it is still being imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process."""
    try:
        import signal

        # As Ctrl-C: what a command has started and written is put away before it ends.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        from pasture_tools.cli.main import run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = 130  # pasture_tools.cli.main.INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
