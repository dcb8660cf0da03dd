"""`python -m demo`: fills the demonstration site and tries the policies on it.

Arguments go to `pasture try`, after those that name the site and its load.
"""

import os
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent
DATA = SITE / "var"
REPORTS = SITE.parent / "var"


def main(arguments: list[str]) -> None:
    """Does not return: `pasture try` takes the place of this process."""
    filled = subprocess.run([sys.executable, SITE / "manage.py", "fill"], check=False)
    if filled.returncode:
        sys.exit("demo: the site could not be filled; does this interpreter have the demo group?")
    REPORTS.mkdir(exist_ok=True)
    trial = [
        *(sys.executable, "-m", "pasture", "try", "meadow.wsgi:application"),
        *("--urls-file", str(DATA / "urls.txt")),
        *("--urls-file", str(DATA / "headers.txt")),
        *("--html", str(REPORTS / "demo.html")),
        *("--json", str(REPORTS / "demo.json")),
    ]
    os.chdir(SITE)
    os.execv(sys.executable, [*trial, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
