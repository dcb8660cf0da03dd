"""`python -m pasture`: the command. No module imports this one."""

from __future__ import annotations

from pasture_tools.__main__ import main

if __name__ == "__main__":
    main()
