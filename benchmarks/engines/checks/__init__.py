"""What must hold on real engines, by `make test-engines`: too slow, and too large, for the suite."""
