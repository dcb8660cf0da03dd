"""Faults under load: every loss has an excuse, and a sealed engine does what it does plain."""
