"""`python -m pasture_zygote`: the server, as `pasture zygote start` starts it in the background."""

import os
import signal
import sys

from pasture.errors import PastureError
from pasture.trust.untrusted_text import complain
from pasture_zygote.listen import listener
from pasture_zygote.server import Server


def main() -> None:
    """Serve until stopped."""
    # Programs that it starts shall find signals as a new login does.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        Server(listener(), os.dup(2)).serve()
    except PastureError as error:
        sys.exit(complain(error))


if __name__ == "__main__":
    main()
