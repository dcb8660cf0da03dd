"""Output that commands share: units, pages, bars, files."""
