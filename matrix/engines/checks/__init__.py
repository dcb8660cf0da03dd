"""What must hold on real engines; run by `make test-engines`, and too slow for the suite."""
