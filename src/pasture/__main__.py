"""`python -m pasture`, the same as the command `pasture`."""

from pasture.cli.main import main

if __name__ == "__main__":
    main()
