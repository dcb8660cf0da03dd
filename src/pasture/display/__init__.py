"""What two or more commands share when they show something: units, pages, bars, files."""
